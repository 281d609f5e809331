// The page: one view at a time, chosen by the part of the address after "#".

import { $, Problem, bar, card, count, fill, get, getBlob, make, nameOf, percent, picture, post, setToken } from "./widgets.js";
import { showMap } from "./map.js";

const VIEWS = ["search", "confusions", "labels", "map"];
const PARTS = { neighbors: "neighbours", class_mean: "class mean", prior: "smoothing" };
const NEEDED = { confusions: "review", labels: "review", map: "map" };
const PAGE = 50, POLL = 1500;
let model = null, asked = null, timer = 0, suspectCount = PAGE;

const can = (what) => !(model && what in model.refused);

function tell(text, isError = false) {
  $("status").textContent = text;
  $("status").classList.toggle("error", isError);
}

// Do something that may fail, which is then told; whether it succeeded.
async function attempt(work, doing = "") {
  tell(doing);
  try {
    await work();
    if ($("status").textContent === doing) tell("");
    return true;
  } catch (error) {
    if (error instanceof Problem && error.status === 401) showToken();
    else tell(error.message, true);
    return false;
  }
}

function showToken() {
  for (const view of VIEWS) $(view).hidden = true;
  $("token").hidden = false;
  $("token-field").focus();
  tell("");
}

async function loadModel() {
  model = await get("/v1/model");
  $("token").hidden = true;
  const kind = model.n_classes ? ` in ${count(model.n_classes)} classes` : "";
  const stored = model.pictures ? `${count(model.rows)} images${kind}` : `${count(model.rows)} rows of ${count(model.columns)} numbers${kind}`;
  $("facts").textContent = can("search") ? `Search by what “similar” has been learned to mean: ${stored}`
    : `Adapts queries of ${count(model.columns)} numbers`;
  document.querySelector("#browse summary").textContent = model.pictures ? "Browse the images" : "Browse the rows";
  for (const [view, needed] of Object.entries(NEEDED)) document.querySelector(`nav [data-view=${view}]`).hidden = !can(needed);
  $("ask").hidden = !can("search");
  $("row-form").hidden = !can("ask_rows");
  $("browse").hidden = !can("rows");
  $("label-line").hidden = $("map-line-label").hidden = !model.n_classes;
  fill($("classes"), ...(model.classes ?? []).map((label) => make("option", { value: String(label) })));
  fill($("n"), ...[6, 12, 24, 48].filter((n) => n <= model.most || n === 6)
    .map((n) => make("option", { selected: n === 12 }, String(Math.min(n, model.most)))));
  $("drop").hidden = !model.images;
  $("row").max = model.rows - 1;
  $("vector-label").textContent = `${count(model.columns)} numbers, with commas or spaces between`;
  fill($("legend"), ...Object.entries(PARTS).map(([name, text]) => make("span", {}, make("i", { className: name }), text)));
}

// A new model may have taken the place of the one that the page knows.
async function checked(answer) {
  if (answer.model !== model.model) {
    await loadModel();
    tell("A new model has been put in place.");
  }
  return answer;
}

// ---- search

async function ask(question, { title, image = null, row = null }) {
  const mine = asked = { question, title, image, row };
  const label = $("label").value.trim();
  const search = { ...question, n: Number($("n").value), ...(label && { label }) };
  const [found, decision] = await Promise.all([
    post("/v1/search", search), can("classify") ? post("/v1/classify", { ...question, votes: true }) : null,
  ]);
  await checked(found);
  if (asked !== mine) return; // something else has been asked since
  showQuery(title, image, row, decision?.queries[0]);
  showHits(found.queries[0], decision?.queries[0], row);
}

function showQuery(title, image, row, decision) {
  const known = row && decision?.classes[0];
  const lines = row && "label" in row ? [make("b", {}, String(row.label)), make("br"), title] : [make("b", {}, title)];
  if (decision?.unknown && !row) lines.push(make("br"), "resembles no stored row");
  fill($("asked"), ...(image ? [image] : []), make("figcaption", {}, ...lines));
  $("query").hidden = false;
  $("decision").hidden = !decision;
  if (!decision) return;
  fill($("predicted"), ...decision.classes.map((one) => {
    const parts = Object.fromEntries(Object.keys(PARTS).map((name) => [name, one[name]]));
    const detail = Object.entries(PARTS).map(([name, text]) => `${text} ${percent(one[name])}`).join(", ");
    return make("li", { title: detail }, make("b", {}, String(one.label)), bar(parts, "parts"),
      make("span", { className: "percent" }, percent(one.probability), make("span", { className: "quiet" }, ` (${detail})`)));
  }));
  $("predicted-title").textContent = known && String(row.label) !== String(known.label)
    ? "Predicted classes, by its neighbours alone: not its own" : "Predicted classes";
}

function showHits(found, decision, row) {
  const voters = decision?.votes ?? [];
  const votes = new Map(voters.map((voter) => [voter.row, voter.share]));
  const most = Math.max(1e-9, ...votes.values());
  const mark = (hit) => (row && "label" in row ? String(hit.label) === String(row.label) : null);
  const score = (hit, ...more) => make("span", { className: "score" }, make("span", {}, hit.similarity.toFixed(3)), ...more);
  const draw = (hits, vote) => hits.map((hit) => {
    const share = vote ? votes.get(hit.row) : undefined;
    const lines = share === undefined ? [score(hit), ...(decision ? [make("span", { className: "vote" })] : [])] // as high as the others
      : [score(hit, make("span", {}, `vote ${percent(share)}`)), bar({ neighbors: share }, "vote", most)];
    return card(hit, model, { mark: mark(hit), lines });
  });
  fill($("raw"), ...(found.raw ? draw(found.raw, false) : [make("li", { className: "note" }, model.no_raw ?? "")]));
  fill($("learned"), ...draw(found.learned, true));
  const voted = voters.filter((voter) => voter.share > 0).length;
  if (decision) $("learned-note").textContent = `${count(voted)} neighbours vote; green: how much`;
  $("found").hidden = false;
  $("found-note").hidden = !(row && "label" in row);
}

async function searchRow(number) {
  const row = await checked(await get(`/v1/rows/${number}`));
  $("row").value = number;
  await ask({ rows: [number] }, { title: nameOf(row), row, image: model.pictures ? picture(number, model.model) : null });
}

// Stored rows in their order, of the chosen class or of all.
async function browse(more = false) {
  if (!$("browse").open) return;
  const label = $("label").value.trim(), list = $("rows");
  const offset = more ? list.childElementCount : 0;
  const answer = await checked(await get(`/v1/rows?offset=${offset}&limit=${PAGE}${label ? `&label=${encodeURIComponent(label)}` : ""}`));
  const cards = answer.rows.map((row) => card(row, model));
  if (more) list.append(...cards);
  else fill(list, ...cards);
  $("rows-more").hidden = list.childElementCount >= answer.total;
}

async function searchFile(file) {
  const data = await new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(new Error("The file cannot be read."));
    reader.readAsDataURL(file);
  });
  const image = make("img", { alt: "", src: URL.createObjectURL(file) });
  image.addEventListener("error", () => image.remove());
  if (location.hash) history.pushState(null, "", location.pathname);
  show();
  await ask({ images: [data] }, { title: file.name, image });
}

function parseVector(text) {
  const numbers = text.replace(/[[\]()]/g, " ").split(/[\s,;]+/).filter(Boolean).map(Number);
  const wrong = numbers.findIndex((number) => !Number.isFinite(number));
  if (wrong >= 0) throw new Error(`Number ${wrong + 1} is none.`);
  if (numbers.length !== model.columns) throw new Error(`There are ${count(numbers.length)} numbers; ${count(model.columns)} are needed.`);
  return numbers;
}

// ---- confusions and likely wrong labels

function showReview(answer) {
  const note = answer.relearned
    ? "Each row is judged by a model that was learned again without it, as a new row would be."
    : "Each stored row is asked for the others, its own vote left out. The similarity was learned from "
      + "these rows, so that new rows will be confused more often.";
  for (const place of document.querySelectorAll(".review-note")) place.textContent = note;
  const text = answer.state === "failed" ? `This failed: ${answer.error}`
    : `${count(answer.examined)} of ${count(answer.rows)} rows examined, ${count(answer.wrong)} taken for another class`;
  for (const place of document.querySelectorAll(".review-text")) place.textContent = text;
  for (const place of document.querySelectorAll(".review-progress")) {
    place.value = answer.done;
    place.hidden = answer.state !== "running";
  }
  if (answer.state === "running") timer = setTimeout(() => attempt(show), POLL);
}

const pairHash = (pair) => `#confusions/${encodeURIComponent(pair.label)}/${encodeURIComponent(pair.predicted)}`;

async function showConfusions(label, predicted) {
  const answer = await checked(await get("/v1/confusions?limit=200"));
  showReview(answer);
  fill($("pairs"), ...answer.pairs.map((pair) => {
    const chosen = String(pair.label) === label && String(pair.predicted) === predicted;
    return make("li", {}, make("a", { href: pairHash(pair), "aria-current": chosen ? "true" : null },
      `${pair.label} taken for ${pair.predicted}`, make("span", {}, String(pair.count))));
  }));
  if (label === undefined) {
    fill($("pair-rows"));
    $("pair-title").textContent = answer.pairs.length ? "Choose a confusion to see its rows"
      : answer.state === "done" ? "No row is taken for another class." : "";
    return;
  }
  const rows = await get(`/v1/confusions/rows?label=${encodeURIComponent(label)}&predicted=${encodeURIComponent(predicted)}&limit=100`);
  $("pair-title").textContent = `${label} taken for ${predicted}`;
  fill($("pair-rows"), ...rows.suspects.map((one) => suspectCard(one)));
}

function suspectCard(one) {
  return card(one, model, { lines: [
    make("span", { className: "score" }, make("span", {}, "own class"), make("span", {}, percent(one.own_probability))),
    make("span", { className: "score" }, make("b", {}, `→ ${one.predicted}`), make("span", {}, percent(one.probability))),
  ] });
}

async function showSuspects() {
  const label = $("suspect-label").value.trim();
  const suffix = label ? `&label=${encodeURIComponent(label)}` : "";
  const pages = [];
  for (let offset = 0; offset < suspectCount; offset += 200) {
    pages.push(await get(`/v1/suspects?offset=${offset}&limit=${Math.min(200, suspectCount - offset)}${suffix}`));
  }
  const answer = await checked(pages[0]);
  showReview(answer);
  fill($("suspects"), ...pages.flatMap((page) => page.suspects).map((one) => suspectCard(one)));
  $("more").hidden = answer.total <= suspectCount;
  $("no-suspects").textContent = label ? `The neighbours of all rows of ${label} agree with it.` : "The neighbours of all rows agree with their labels.";
  $("no-suspects").hidden = answer.total > 0 || answer.state !== "done";
}

async function exportSuspects() {
  const link = make("a", { href: URL.createObjectURL(await getBlob("/v1/suspects.csv")), download: "likely-wrong-labels.csv" });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// ---- map

async function drawMap() {
  const answer = await checked(await get("/v1/map"));
  $("map-line").hidden = answer.state !== "running";
  $("map-progress").value = answer.done;
  document.querySelector("#map-line span").textContent = answer.places ? "UMAP is being computed …" : "being drawn …";
  const sample = answer.rows && answer.rows.length < answer.total ? `${count(answer.rows.length)} of ${count(answer.total)} rows` : "All rows";
  $("map-note").textContent = answer.state === "failed" ? `This failed: ${answer.error}`
    : `${sample} in two dimensions (${answer.method})${model.n_classes ? ", coloured by class" : ""}. Click a row, or move with the arrow keys and press Enter.`;
  if (answer.state === "running") timer = setTimeout(() => attempt(drawMap), POLL);
  if (answer.places) showMap(answer, model, asked?.row?.row);
}

// ---- views

async function show() {
  clearTimeout(timer);
  const [head, ...rest] = location.hash.slice(1).split("/");
  const view = VIEWS.includes(head) ? head : "search";
  for (const name of VIEWS) $(name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = { search: "nearkin", confusions: "Confusions · nearkin", labels: "Likely wrong labels · nearkin", map: "Map · nearkin" }[view];
  if (!can("search")) tell(model.refused.search);
  if (head.startsWith("row=")) await searchRow(Number(head.slice(4)));
  if (view in NEEDED && !can(NEEDED[view])) throw new Error(model.refused[NEEDED[view]]);
  if (view === "confusions") await showConfusions(...rest.map(decodeURIComponent));
  if (view === "labels") await showSuspects();
  if (view === "map") await drawMap();
}

async function followHash() {
  if (location.hash === "#main") return;
  const isSearch = location.hash.startsWith("#row=");
  if (await attempt(show, isSearch ? "Searching …" : "") && isSearch) {
    scrollTo({ top: 0 });
    tell(`Most similar rows of ${asked.title}`);
  }
}

const again = () => asked && attempt(() => ask(asked.question, asked), "Searching …");

addEventListener("hashchange", followHash);
$("row-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const hash = `#row=${Number($("row").value)}`;
  if (location.hash === hash) followHash();
  else location.hash = hash;
});
$("random").addEventListener("click", () => { location.hash = `#row=${Math.floor(Math.random() * model.rows)}`; });
$("label").addEventListener("change", async () => { await again(); if ($("browse").open) attempt(browse); });
$("browse").addEventListener("toggle", () => attempt(browse));
$("rows").addEventListener("click", (event) => { // what is found comes below
  if (!event.target.closest("a")) return;
  $("browse").open = false;
  document.querySelector("#browse summary").focus();
});
$("rows-more").addEventListener("click", () => attempt(() => browse(true)));
$("n").addEventListener("change", again);
$("vector-form").addEventListener("submit", (event) => {
  event.preventDefault();
  attempt(async () => ask({ vectors: [parseVector($("vector").value)] }, { title: "pasted vector" }), "Searching …");
});
$("file").addEventListener("change", () => {
  const [file] = $("file").files;
  if (file) attempt(() => searchFile(file), "Searching …");
});
for (const kind of ["dragover", "dragleave", "drop"]) {
  addEventListener(kind, (event) => {
    event.preventDefault();
    $("drop").classList.toggle("over", kind === "dragover");
    const file = kind === "drop" && event.dataTransfer?.files[0];
    if (file && model?.images) attempt(() => searchFile(file), "Searching …");
  });
}
$("suspect-label").addEventListener("change", () => { suspectCount = PAGE; attempt(showSuspects); });
$("more").addEventListener("click", () => { suspectCount += PAGE; attempt(showSuspects); });
$("export").addEventListener("click", () => attempt(exportSuspects));
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken($("token-field").value.trim());
  start();
});

function start() {
  return attempt(async () => {
    await loadModel();
    if (location.hash) await followHash();
    else {
      await show();
      if (can("ask_rows")) await searchRow(0);
    }
  });
}
start();
