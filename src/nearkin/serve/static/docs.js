// The OpenAPI description as a page, without a script from elsewhere.

import { $, fill, get, make } from "./widgets.js";

const last = (reference) => reference.split("/").pop();

function typeOf(schema) {
  if (schema.$ref) return last(schema.$ref);
  if (schema.anyOf) return schema.anyOf.map(typeOf).filter((name) => name !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  return schema.type === "array" ? `list of ${typeOf(schema.items ?? {})}` : schema.type ?? "any";
}

function table(rows) {
  return make("table", {}, ...rows.map(([name, type, text]) => make("tr", {},
    make("th", { scope: "row" }, name), make("td", {}, type), make("td", {}, text ?? ""))));
}

function operation(api, method, path, details) {
  const body = details.requestBody?.content["application/json"]?.schema;
  const schema = body && api.components.schemas[last(body.$ref)];
  const fields = schema ? Object.entries(schema.properties).map(([name, value]) => [name, typeOf(value), value.description]) : [];
  const given = (details.parameters ?? []).map((one) => [one.name, typeOf(one.schema), one.description]);
  return make("section", {}, make("h2", {}, `${method.toUpperCase()} ${path}`),
    make("p", { className: "note" }, details.description ?? details.summary ?? ""), table([...fields, ...given]));
}

get("/openapi.json").then((api) => {
  $("origin").textContent = location.origin;
  fill($("operations"), ...Object.entries(api.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, details]) => operation(api, method, path, details))));
}, (error) => { $("status").textContent = error.message; });
