// Rows as points on two canvases, one a similarity; a row chosen on one is shown on both.

import { $, fill, make, nameOf, get, picture } from "./widgets.js";

const TITLES = { raw: "Raw cosine", learned: "Learned similarity" };
const STEP = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
const NAMED = 24; // of more classes, the colours are no longer told apart
let data = null, model = null, chosen = 0, shown = "", canvases = {};

const isDark = () => matchMedia("(prefers-color-scheme: dark)").matches;
// Hues a golden angle apart: neighbouring classes differ.
const colour = (label) => `hsl(${(label * 137.508) % 360} 62% ${isDark() ? 62 : 42}%)`;

export function showMap(answer, known, row) {
  const again = data && data.model === answer.model && data.method === answer.method && $("maps").childElementCount;
  data = answer;
  model = known;
  const place = data.rows.indexOf(row);
  if (place >= 0) chosen = place;
  if (!again) build();
  legend();
  draw();
  describe();
}

function build() {
  canvases = {};
  fill($("maps"), ...Object.keys(data.places).map((name) => {
    const canvas = make("canvas", { tabIndex: 0 });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `Map by ${TITLES[name]}: arrow keys move between rows, Enter searches`);
    canvas.addEventListener("pointermove", (event) => choose(nearestTo(name, canvas, event)));
    canvas.addEventListener("click", (event) => { choose(nearestTo(name, canvas, event)); pick(); });
    canvas.addEventListener("keydown", (event) => onKey(name, event));
    canvases[name] = canvas;
    return make("div", {}, make("h3", {}, TITLES[name]), canvas);
  }));
}

// The classes by colour; one that is pressed is shown alone.
function legend() {
  const known = Object.entries(data.names).filter(([, label]) => label !== null);
  fill($("map-legend"), ...(known.length > NAMED ? [] : known).map(([place, label]) => {
    const swatch = make("i", {});
    swatch.style.background = colour(Number(place));
    const button = make("button", { type: "button", "aria-pressed": String(String(label) === shown) }, swatch, String(label));
    button.addEventListener("click", () => {
      $("map-label").value = shown === String(label) ? "" : String(label);
      filter();
      document.querySelector(`#map-legend button:nth-child(${known.findIndex(([p]) => p === place) + 1})`).focus();
    });
    return button;
  }));
}

function filter() {
  shown = $("map-label").value.trim();
  if (!data) return;
  legend();
  draw();
}

const visible = (i) => !shown || String(data.names[data.labels[i]]) === shown;

function nearestTo(name, canvas, event) {
  const box = canvas.getBoundingClientRect(), pad = 0.04;
  const x = ((event.clientX - box.left) / box.width - pad) / (1 - 2 * pad);
  const y = 1 - ((event.clientY - box.top) / box.height - pad) / (1 - 2 * pad);
  return best((px, py) => (px - x) ** 2 + (py - y) ** 2, data.places[name]);
}

function best(cost, places) {
  let found = chosen, least = Infinity;
  places.forEach(([x, y], i) => {
    const value = visible(i) ? cost(x, y, i) : Infinity;
    if (value < least) [found, least] = [i, value];
  });
  return found;
}

function onKey(name, event) {
  if (event.key === "Enter") { pick(); return; }
  const step = STEP[event.key];
  if (!step) return;
  event.preventDefault();
  const places = data.places[name], [cx, cy] = places[chosen];
  choose(best((x, y, i) => {
    const along = (x - cx) * step[0] + (y - cy) * step[1];
    const across = Math.abs((x - cx) * step[1]) + Math.abs((y - cy) * step[0]);
    return i === chosen || along <= 0 ? Infinity : along + 2 * across;
  }, places));
}

function choose(place) {
  if (place === chosen) return;
  chosen = place;
  draw();
  describe();
}

const pick = () => { location.hash = `#row=${data.rows[chosen]}`; };

let latest = 0;
async function describe() {
  const number = data.rows[chosen], turn = ++latest;
  await new Promise((resolve) => setTimeout(resolve, 60)); // the pointer moves on
  if (turn !== latest) return;
  const row = await get(`/v1/rows/${number}`).catch(() => null);
  if (!row || turn !== latest) return;
  fill($("map-row"), ...(model.pictures ? [picture(number, model.model)] : []),
    make("span", {}, ...("label" in row ? [make("b", {}, String(row.label)), make("br")] : []), make("a", { href: `#row=${number}` }, nameOf(row))));
}

function draw() {
  for (const [name, canvas] of Object.entries(canvases)) drawOne(canvas, data.places[name]);
}

function drawOne(canvas, places) {
  const side = Math.round(canvas.clientWidth * devicePixelRatio);
  if (!side) return;
  if (canvas.width !== side) canvas.width = canvas.height = side;
  const context = canvas.getContext("2d"), pad = side * 0.04, span = side - 2 * pad;
  const at = ([x, y]) => [pad + x * span, side - pad - y * span];
  context.clearRect(0, 0, side, side);
  const radius = devicePixelRatio * (places.length > 1500 ? 2.4 : 3.6);
  places.forEach((place, i) => {
    const [x, y] = at(place);
    context.globalAlpha = visible(i) ? 0.8 : 0.08;
    context.fillStyle = colour(data.labels[i]);
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  });
  const [x, y] = at(places[chosen]);
  context.globalAlpha = 1;
  context.lineWidth = 2.5 * devicePixelRatio;
  context.strokeStyle = isDark() ? "#fff" : "#000";
  context.beginPath();
  context.arc(x, y, radius * 2.6, 0, 7);
  context.stroke();
}

addEventListener("resize", () => data && draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", filter);
$("map-label").addEventListener("change", filter);
