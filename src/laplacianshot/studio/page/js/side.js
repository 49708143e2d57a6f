// @ts-check
/** The side: how far it is, the classes, what to look through, and accepting many at a time. */

import { buildAcceptBox } from "./acceptbox.js";
import { addClass, freeOfFolders, labelAs } from "./actions.js";
import { openClassMenu, rename } from "./classmenu.js";
import { paint } from "./color.js";
import { byId, count, counted, el, icon, words } from "./dom.js";
import { dragged } from "./drag.js";
import { buildFigures } from "./figures.js";
import { askNames } from "./names.js";
import { tally } from "./order.js";
import { EVERYTHING, store } from "./store.js";

/** @typedef {import("./order.js").Pick} Pick */

/** @type {[Pick, string, string][]} */
const LOOKS = [
  ["all", "Everything", ""],
  ["unsure", "Low confidence", "predicted labels below 60%"],
  ["disputed", "Disputed", "given and accepted labels that the neighbors dispute"],
  ["novel", "Fits no class", "items unlike every class"],
  ["given", "Labeled by people", ""],
  ["accepted", "Accepted", "predicted labels that were accepted unseen"],
];

const list = el("ul", { class: "class-list" });
const input = el("input", {
  type: "text",
  id: "new-class",
  placeholder: "New class",
  "aria-label": "Name of the new class",
  maxLength: 200,
  autocomplete: "off",
  spellcheck: false,
  dir: "auto",
});
const form = el(
  "form",
  { class: "add-class" },
  input,
  el("button", { class: "button", "aria-label": "Add this class", title: "Add this class (n)" }, icon("plus")),
);
const folders = el("p", { class: "quiet", id: "folder-labels", hidden: true });
const looks = el("section", { class: "looks", "aria-label": "Browse" });

export function buildSide() {
  byId("side").append(
    buildFigures(),
    el(
      "section",
      { class: "class-section", "aria-labelledby": "classes-title" },
      el("h2", { id: "classes-title" }, "Classes"),
      list,
      form,
      folders,
      el("button", { class: "bare list-of-names", type: "button", onclick: askNames }, "Paste a list\u2026"),
    ),
    looks,
    buildAcceptBox(),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const name = input.value.trim();
    if (!name) return input.focus();
    if (await addClass(name)) input.value = "";
    input.focus();
  });
  store.on(["state", "columns", "filter", "theme"], showClasses);
  store.on(["state", "columns", "filter", "view"], showLooks);
  store.on(["state"], showFolders);
}

/** @type {Map<number, number>} */
const before = new Map();

function showClasses() {
  const totals = tally(store.columns).classes;
  const active = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.keep : undefined;
  list.replaceChildren(
    ...store.classes.map((known, place) => {
      const mine = totals.get(known.id) ?? { given: 0, predicted: 0 };
      const chosen = store.filter.only === known.id;
      const name = el(
        "button",
        {
          class: "name",
          type: "button",
          "aria-pressed": String(chosen),
          "data-keep": `name-${known.id}`,
          title: "Show only this class (F2: rename)",
        },
        place < 9
          ? el("kbd", { "aria-label": `key ${place + 1}` }, place + 1)
          : el("kbd", { class: "unkeyed", "aria-hidden": "true" }, "\u00b7"),
        el("i", { class: "swatch" }),
        words(known.name),
        el(
          "span",
          { class: "count", title: `${counted(mine.given, "given label")}, ${mine.predicted} predicted` },
          count(mine.given + mine.predicted),
        ),
      );
      const more = el(
        "button",
        {
          class: "bare",
          type: "button",
          "aria-label": `Rename, merge or delete ${known.name}`,
          "aria-haspopup": "menu",
          "data-keep": `more-${known.id}`,
        },
        icon("more"),
      );
      const row = paint(
        el("li", { class: chosen ? "class-row chosen" : "class-row", "data-class": known.id }, name, more),
        known.id,
      );
      name.addEventListener("click", () => toggle(known.id));
      name.addEventListener("keydown", (event) => event.key === "F2" && rename(known.id));
      more.addEventListener("click", () => openClassMenu(more, known.id));
      dropTarget(row, known.id);
      if ((before.get(known.id) ?? mine.given) < mine.given) row.classList.add("flash");
      before.set(known.id, mine.given);
      return row;
    }),
  );
  if (!store.classes.length)
    list.append(
      el(
        "li",
        { class: "quiet hint" },
        "No classes yet. Add one for each kind of item; its number is the key that labels with it.",
      ),
    );
  if (active) /** @type {HTMLElement | null} */ (list.querySelector(`[data-keep="${active}"]`))?.focus();
}

/** Labels that are names of folders, and the way to be rid of them: folders are often not classes. */
function showFolders() {
  const n = store.state?.folder_labels ?? 0;
  folders.hidden = !n;
  if (!n) return;
  folders.replaceChildren(
    `${counted(n, "label")} came from the names of folders. `,
    el("button", { class: "link", type: "button", id: "free-of-folders", onclick: freeOfFolders }, "Remove them"),
  );
}

/** @param {number} id */
function toggle(id) {
  const alone = store.filter.only === id;
  store.show({ only: alone ? null : id });
  if (!alone && store.view !== "map") store.look("gallery");
}

/** @param {HTMLElement} row @param {number} id */
function dropTarget(row, id) {
  row.addEventListener("dragover", (event) => {
    if (!dragged().length) return;
    event.preventDefault();
    row.classList.add("over");
  });
  row.addEventListener("dragleave", (event) => {
    if (!row.contains(/** @type {Node | null} */ (event.relatedTarget))) row.classList.remove("over");
  });
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    const items = dragged();
    labelAs(items, id).then((done) => done && store.select([]));
  });
}

function showLooks() {
  const { state } = store;
  if (!state) return;
  const numbers = {
    all: state.source.total,
    unsure: tally(store.columns).unsure,
    disputed: state.counts.disputed,
    novel: state.counts.novel,
    given: state.counts.given,
    accepted: state.counts.accepted,
  };
  const active = document.activeElement instanceof HTMLElement ? document.activeElement.dataset.pick : undefined;
  looks.replaceChildren(
    el("h2", {}, "Browse"),
    ...LOOKS.map(([pick, name, title]) => {
      const n = numbers[/** @type {keyof typeof numbers} */ (pick)];
      const on =
        store.view === "gallery" && store.filter.pick === pick && (pick !== "all" || store.filter.only === null);
      const act = () => {
        store.show({
          ...EVERYTHING,
          found: store.filter.found,
          pick,
          grouped: pick === "all" || pick === "given",
          sort: pick === "unsure" || pick === "novel" ? pick : "sure",
        });
        store.look("gallery");
      };
      return el(
        "button",
        { type: "button", title, "aria-pressed": String(on), "data-pick": pick, onclick: act },
        name,
        el("span", { class: pick === "disputed" && n ? "count some" : "count" }, count(n)),
      );
    }),
  );
  if (active) /** @type {HTMLElement | null} */ (looks.querySelector(`[data-pick="${active}"]`))?.focus();
}
