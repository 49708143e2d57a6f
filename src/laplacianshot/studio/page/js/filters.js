// @ts-check
/** The bar over the gallery: search, class, origin, confidence, order and size. */

import { api } from "./api.js";
import { el, icon } from "./dom.js";
import { store } from "./store.js";

/** @typedef {import("./order.js").Pick} Pick */
/** @typedef {import("./order.js").Sorting} Sorting */

const search = el("input", {
  type: "search",
  id: "search",
  placeholder: "Search",
  "aria-label": "Search in names and texts",
  autocomplete: "off",
  spellcheck: false,
  dir: "auto",
});
const only = el("select", { id: "only", "aria-label": "Class" });
const pick = choice("pick", "Origin", [
  ["all", "All origins"],
  ["given", "Given"],
  ["accepted", "Accepted"],
  ["predicted", "Predicted"],
  ["unlabeled", "Unlabeled"],
  ["disputed", "Disputed"],
  ["novel", "Fits no class"],
  ["unsure", "Low confidence"],
]);
const low = choice("low", "Confidence at least", [
  ["0", "0%"],
  ...[30, 50, 60, 70, 80, 90, 95, 99].map((n) => [String(n / 100), `${n}%`]),
]);
const high = choice("high", "Confidence at most", [
  ...[30, 50, 60, 70, 80, 90, 95, 99].map((n) => [String(n / 100), `${n}%`]),
  ["1", "100%"],
]);
const sort = choice("sort", "Order", [
  ["sure", "Highest confidence first"],
  ["unsure", "Lowest confidence first"],
  ["novel", "Most unusual first"],
  ["source", "Source order"],
]);
const grouped = el("input", { type: "checkbox", id: "grouped", checked: true });
const size = el("input", {
  type: "range",
  class: "size",
  min: "56",
  max: "220",
  value: "84",
  "aria-label": "Size of the items",
  title: "Size",
});

/** @param {string} id @param {string} label @param {string[][]} entries */
function choice(id, label, entries) {
  return el("select", { id, "aria-label": label }, ...entries.map(([value, text]) => el("option", { value }, text)));
}

/** @param {(size: number) => void} resize */
export function buildFilters(resize) {
  size.addEventListener("input", () => resize(Number(size.value)));
  let timer = 0;
  search.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(find, 180);
  });
  only.addEventListener("change", () => store.show({ only: only.value === "" ? null : Number(only.value) }));
  pick.addEventListener("change", () => store.show({ pick: /** @type {Pick} */ (pick.value) }));
  low.addEventListener("change", () => store.show({ low: Number(low.value) }));
  high.addEventListener("change", () => store.show({ high: Number(high.value) }));
  sort.addEventListener("change", () => store.show({ sort: /** @type {Sorting} */ (sort.value) }));
  grouped.addEventListener("change", () => store.show({ grouped: grouped.checked }));
  store.on(["state", "filter"], show);
  return el(
    "div",
    { class: "filters", role: "search", "aria-label": "Filters" },
    el("div", { class: "search" }, icon("search"), search),
    only,
    pick,
    el("span", { class: "range" }, low, "to", high),
  );
}

/** Order, groups and size, beside the number of items. */
export const arrangement = el(
  "div",
  { class: "arrange" },
  sort,
  el("label", { class: "range" }, grouped, "group by class"),
  size,
);

function show() {
  const { filter, classes } = store;
  const options = [["", "All classes"], ...classes.map((known) => [String(known.id), known.name]), ["-1", "No class"]];
  if (
    only.options.length !== options.length ||
    options.some(([value, text], k) => only.options[k].value !== value || only.options[k].text !== text)
  )
    only.replaceChildren(...options.map(([value, text]) => el("option", { value }, text)));
  only.value = filter.only === null ? "" : String(filter.only);
  pick.value = filter.pick;
  low.value = String(filter.low);
  high.value = String(filter.high);
  sort.value = filter.sort;
  grouped.checked = filter.grouped;
}

let turn = 0;

async function find() {
  const mine = ++turn;
  const text = search.value.trim();
  store.search = text;
  if (!text) return store.show({ found: null });
  const reply = await api.indices(new URLSearchParams({ search: text }).toString()).catch(() => null);
  if (!reply || mine !== turn) return;
  const found = new Uint8Array(store.columns.n);
  for (const i of reply.indices) found[i] = 1;
  store.show({ found });
}

export function clearSearch() {
  turn++;
  search.value = store.search = "";
}

export const toSearch = () => search.focus();
