// @ts-check
/** What was done, the newest first; a click goes back to any point. */

import { redo, undo } from "./actions.js";
import { api } from "./api.js";
import { el, icon, words } from "./dom.js";
import { handFree } from "./hand.js";
import { store } from "./store.js";

/** @typedef {import("./types.js").Action} Action */

const list = el("ol", {});
const drawer = el(
  "dialog",
  { class: "drawer", "aria-label": "History" },
  el(
    "header",
    {},
    el("h2", {}, "History"),
    el("form", { method: "dialog" }, el("button", { class: "bare", "aria-label": "Close the history" }, icon("close"))),
  ),
  list,
);

export function buildHistory() {
  document.body.append(drawer);
  drawer.addEventListener("click", (event) => event.target === drawer && drawer.close());
  store.on(["state"], () => drawer.open && show());
}

export function openHistory() {
  drawer.showModal();
  show();
}

async function show() {
  const reply = await api.history().catch(() => null);
  await handFree();
  if (!reply) return;
  const done = reply.actions.filter((action) => action.kind !== "undo" && action.kind !== "redo");
  // Undone ones lie on top, in the order in which they would be done again.
  list.replaceChildren(...done.map((action, place) => line(action, place, done)));
  if (!done.length)
    list.append(
      el(
        "li",
        {},
        el(
          "p",
          { class: "quiet" },
          "Nothing has been done yet. Every label, class and import is listed here and can be undone.",
        ),
      ),
    );
}

/** @param {Action} action @param {number} place @param {Action[]} all */
function line(action, place, all) {
  const newer = all.slice(0, place + 1).filter((one) => !one.undone).length;
  const older = all.slice(place).filter((one) => one.undone).length;
  const when = new Date(action.at);
  const button = action.undone
    ? el("button", { class: "link", type: "button", onclick: () => redo(older) }, older > 1 ? "Redo to here" : "Redo")
    : el(
        "button",
        { class: "link", type: "button", onclick: () => undo(newer) },
        newer > 1 ? "Undo back to here" : "Undo",
      );
  return el(
    "li",
    { class: action.undone ? "undone" : "" },
    words(action.summary),
    el("time", { dateTime: action.at }, when.toLocaleString("en", { dateStyle: "medium", timeStyle: "short" })),
    button,
  );
}
