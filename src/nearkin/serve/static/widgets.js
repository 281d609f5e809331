// Elements and requests. Text from the service is only ever set as text, never as HTML.

export const $ = (id) => document.getElementById(id);

export function make(tag, options = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined || value === null || value === false) continue;
    if (name in element && typeof element[name] !== "function") element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export const fill = (element, ...children) => element.replaceChildren(...children);
export const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %"
  : `${share >= 0.9995 || share === 0 ? Math.round(share * 100) : (share * 100).toFixed(1)} %`);
export const count = (n) => n.toLocaleString("en");

const KEY = "nearkin-token";
let token = sessionStorage.getItem(KEY);
export function setToken(value) {
  token = value;
  sessionStorage.setItem(KEY, value);
}

export class Problem extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const headers = { ...(token && { Authorization: `Bearer ${token}` }), ...options.headers };
  let response;
  try {
    response = await fetch(path, { ...options, headers });
  } catch {
    throw new Problem(0, "The service does not answer.");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => ({}));
  throw new Problem(response.status, body.error?.message ?? `The service answered ${response.status}.`);
}

export const get = async (path) => (await ask(path)).json();
export const getBlob = async (path) => (await ask(path)).blob();
export const post = async (path, body) => (await ask(path, {
  method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" },
})).json();

// A token cannot travel with <img src>, so that pictures are fetched where there is one.
export function picture(row, version, alt = "") {
  const path = `/v1/rows/${row}/picture?model=${version}`;
  const image = make("img", { alt, loading: "lazy", decoding: "async" });
  image.addEventListener("error", () => image.replaceWith(make("span", { className: "blank" })));
  if (!token) image.src = path;
  else {
    getBlob(path).then((blob) => {
      image.src = URL.createObjectURL(blob);
      image.addEventListener("load", () => URL.revokeObjectURL(image.src), { once: true });
    }, () => image.replaceWith(make("span", { className: "blank" })));
  }
  return image;
}

// A name that may wrap after the signs that part it.
const breakable = (text) => text.split(/(?<=[/_-])|(?=\.)/).flatMap((part) => [part, make("wbr")]).slice(0, -1);

// The file alone, where its folder is the class.
const shortName = (row) => {
  const name = nameOf(row), folder = `${row.label}/`;
  return name.startsWith(folder) ? name.slice(folder.length) : name;
};

export const nameOf = (row) => row.name ?? (row.id === undefined || row.id === null ? `row ${row.row}` : `${row.id}`);

// A stored row as a card that searches on from it.
export function card(row, model, { mark = null, lines = [] } = {}) {
  const href = "ask_rows" in model.refused ? null : `#row=${row.row}`;
  const link = make("a", { href, className: mark === null ? "" : mark ? "right" : "wrong" });
  if (model.pictures) link.append(picture(row.row, model.model));
  const sign = mark === null ? null
    : make("span", { className: "mark", title: mark ? "same class" : "another class" }, mark ? "✓" : "✗",
      make("span", { className: "quiet" }, mark ? " same class" : " another class"));
  link.append(make("span", { className: "text" }, sign, "label" in row ? make("b", {}, ...breakable(String(row.label))) : null,
    make("span", { className: "name", title: nameOf(row) }, ...breakable(shortName(row))), ...lines));
  return make("li", {}, link);
}

export function bar(parts, className = "bar", most = 1) {
  const element = make("span", { className: `bar ${className}` });
  for (const [name, share] of Object.entries(parts)) {
    const piece = make("i", { className: name });
    piece.style.width = `${Math.max(0, Math.min(100, (100 * share) / most))}%`;
    element.append(piece);
  }
  return element;
}
