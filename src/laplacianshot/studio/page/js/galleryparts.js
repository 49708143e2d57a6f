// @ts-check
/** What stands around the items of the gallery: the summary over them, headings of groups, and words where there are none. */

import { paint } from "./color.js";
import { count, counted, el, percent, words } from "./dom.js";
import { clearSearch } from "./filters.js";
import { tally } from "./order.js";
import { EVERYTHING, store } from "./store.js";

export const summary = el("span", { id: "summary" });

/** What is shown, in words, with a way back to everything. @param {number} total */
export function showSummary(total) {
  const { filter } = store;
  const narrowed =
    filter.pick !== "all" || filter.only !== null || filter.low > 0 || filter.high < 1 || filter.found !== null;
  const name = store.classOf(filter.only)?.name;
  const what = {
    all: "",
    given: "labeled by people",
    accepted: "accepted",
    predicted: "predicted",
    unlabeled: "unlabeled",
    disputed: "disputed by their neighbors",
    novel: "that fit no class",
    unsure: "with low confidence",
  }[filter.pick];
  summary.replaceChildren(
    el("span", {}, el("b", {}, count(total)), ` ${store.noun(total)} ${what}`, ...(name ? [" of ", words(name)] : [])),
    ...(narrowed ? [el("button", { class: "link", type: "button", onclick: showAll }, "Show everything")] : []),
  );
  return total ? null : nothing(narrowed);
}

function showAll() {
  clearSearch();
  store.show({ ...EVERYTHING });
}

/** @param {boolean} narrowed */
function nothing(narrowed) {
  const reasons = {
    disputed: [
      "No label is disputed",
      "Items whose neighbors suggest another class than the given label are shown here.",
    ],
    novel: [
      "Every item fits a class",
      "Items that fit no class are shown here once two classes have labels.",
    ],
    unsure: ["No label has low confidence", "Predicted labels with a confidence below 60% are shown here."],
    given: ["No labels given yet", "Label items in the Label view, or drag them onto a class."],
  };
  const [title, text] =
    reasons[/** @type {keyof typeof reasons} */ (store.filter.pick)] ??
    (narrowed
      ? ["Nothing matches", "Change the filters, or show everything."]
      : ["Nothing here yet", "Items appear as soon as they are read."]);
  return el(
    "div",
    { class: "nothing" },
    el("b", {}, title),
    el("p", {}, text),
    narrowed && el("button", { class: "button", type: "button", onclick: showAll }, "Show everything"),
  );
}

/** The heading of a group of items. @param {import("./grid.js").Block} block */
export function heading(block) {
  const known = store.classOf(block.id);
  const mine = tally(store.columns).classes.get(block.id ?? -1);
  const parts = [counted(block.items.length, "item")];
  if (mine?.given) parts.push(`${count(mine.given)} given`);
  if (mine?.predicted) parts.push(`mean confidence ${percent(mine.sum / mine.predicted)}`);
  const all = el(
    "button",
    { class: "link", type: "button", onclick: () => store.select(block.items, block.items[0]) },
    "Select all",
  );
  const line = el(
    "div",
    { class: "group-head" },
    el("h3", {}, el("i", { class: "dot" }), known ? words(known.name) : "Unlabeled"),
    el("span", { class: "quiet" }, parts.join(" \u00b7 ")),
    all,
  );
  // As high as its group, so that the line stays in sight while any of the group is.
  const head = el("div", { class: "group", role: "presentation" }, line);
  head.style.top = `${block.top}px`;
  head.style.height = `${block.height}px`;
  return paint(head, block.id);
}
