// @ts-check
/** The bar of what is selected: label it, accept it, take its label away. */

import { accept, clearLabels, labelAs, labelAsNew } from "./actions.js";
import { paint } from "./color.js";
import { byId, count, el, icon, words } from "./dom.js";
import { isKept, ORIGIN } from "./order.js";
import { pickClass } from "./picker.js";
import { store } from "./store.js";

const CHIPS = 9;

export function buildSelection() {
  store.on(["selection", "state", "theme", "view", "columns"], show);
}

/** Label what is selected, or else the item under the cursor. @param {number} id */
export async function labelSelection(id) {
  const chosen = store.selection.size;
  if ((await labelAs(store.aim, id)) && chosen) store.select([]);
}

/** Choose the class by typing. */
export function typeForSelection() {
  const items = store.aim;
  if (!items.length) return;
  const done = (/** @type {unknown} */ good) => good && store.select([]);
  const anchor = byId("selection").hidden ? byId("classes-title") : byId("selection");
  pickClass(anchor, {
    label: `Label ${items.length} items as`,
    pick: (id) => labelAs(items, id).then(done),
    make: (name) => labelAsNew(items, name).then(done),
  });
}

function show() {
  const bar = byId("selection");
  const items = [...store.selection];
  bar.hidden = !items.length || store.view === "classes";
  if (bar.hidden) return;
  const predicted = items.some((i) => store.columns.origins[i] === ORIGIN.predicted);
  const given = items.some((i) => isKept(store.columns.origins[i]));
  const clear = () => store.select([]);
  const chips = store.classes.slice(0, CHIPS).map((known, place) =>
    paint(
      el(
        "button",
        {
          class: "chip",
          type: "button",
          "data-class": known.id,
          onclick: () => labelSelection(known.id),
          title: `Label as ${known.name}`,
        },
        el("kbd", {}, place + 1),
        el("i", { class: "dot" }),
        words(known.name),
      ),
      known.id,
    ),
  );
  bar.replaceChildren(
    el("b", {}, `${count(items.length)} selected`),
    el(
      "div",
      { class: "classes" },
      ...chips,
      el(
        "button",
        { class: "chip", type: "button", onclick: typeForSelection },
        icon("plus"),
        store.classes.length > CHIPS ? "Other\u2026" : "New\u2026",
      ),
    ),
    el("span", { class: "gap" }),
    el(
      "button",
      {
        class: "button",
        type: "button",
        disabled: !predicted,
        onclick: () => accept(items).then((good) => good && clear()),
        title: "Accept the predicted labels (a)",
      },
      icon("check"),
      "Accept",
    ),
    el(
      "button",
      {
        class: "bare",
        type: "button",
        disabled: !given,
        onclick: () => clearLabels(items).then((good) => good && clear()),
        title: "Remove the labels (Delete)",
        "aria-label": "Remove the labels",
      },
      icon("minus"),
    ),
    el(
      "button",
      {
        class: "bare",
        type: "button",
        onclick: clear,
        "aria-label": "Clear the selection",
        title: "Clear the selection (Escape)",
      },
      icon("close"),
    ),
  );
}
