// @ts-check
/** What can be done with a class: rename, merge, delete. Each can be undone. */

import { deleteClass, mergeClass, quoted, renameClass, several } from "./actions.js";
import { asked, confirmed, menu } from "./dialogs.js";
import { el } from "./dom.js";
import { pickClass } from "./picker.js";
import { store } from "./store.js";

/** @param {number} id */
export async function rename(id) {
  const known = store.classOf(id);
  if (!known) return;
  const name = await asked("Rename class", "New name", known.name, "Rename");
  if (name && name !== known.name) await renameClass(id, name);
}

/** @param {number} id */
async function remove(id) {
  const known = store.classOf(id);
  if (!known) return;
  const loss = known.given
    ? `${several(known.given)} will lose the label that a person gave. You can undo this.`
    : "No label given by a person will be lost.";
  if (await confirmed(`Delete ${quoted(known.name)}?`, [el("p", {}, loss)], { yes: "Delete class", danger: true }))
    await deleteClass(id);
}

/** @param {HTMLElement} anchor @param {number} id */
export function openClassMenu(anchor, id) {
  const known = store.classOf(id);
  if (!known) return;
  const merge = () =>
    // The menu closes first, then its place is taken.
    setTimeout(
      () =>
        pickClass(anchor, {
          label: `Merge ${known.name} into`,
          without: id,
          pick: (into) => mergeClass(id, into),
        }),
      20,
    );
  menu(anchor, `Class ${known.name}`, [
    el("button", { type: "button", onclick: () => rename(id) }, "Rename\u2026"),
    el("button", { type: "button", disabled: store.classes.length < 2, onclick: merge }, "Merge into\u2026"),
    el("hr"),
    el("button", { type: "button", class: "danger", onclick: () => remove(id) }, "Delete\u2026"),
  ]);
}
