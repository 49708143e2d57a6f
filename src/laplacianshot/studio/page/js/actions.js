// @ts-check
/** What a person does. Each is shown at once, sent, and said to be done when the server has it on its disk. */

import { api, Failure } from "./api.js";
import { count } from "./dom.js";
import { isKept, ORIGIN } from "./order.js";
import { store } from "./store.js";
import { learn, refresh } from "./sync.js";
import { toast } from "./toast.js";

/** @typedef {import("./api.js").Done} Done */

/** A name in a sentence, apart from what is around it. @param {string} name */
export const quoted = (name) => `\u201c\u2068${name}\u2069\u201d`;

/** @param {number} n */
export const several = (n) => `${count(n)} ${store.noun(n)}`;

/**
 * Do it and tell; a failure is told too, and what was foreseen is taken back.
 *
 * @param {() => Promise<Done>} work
 * @param {(done: Done) => string} told
 * @param {{ undoable?: boolean, foreseen?: number[] }} [options]  items whose labels are shown already
 * @returns {Promise<Done | null>}
 */
async function perform(work, told, { undoable = true, foreseen = [] } = {}) {
  try {
    const done = await work();
    store.settleForeseen(foreseen, done.state.version);
    await learn(done.state);
    const text = told(done);
    if (text) toast(text, undoable ? { button: "Undo", act: () => undo() } : {});
    return done;
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    store.settleForeseen(foreseen, null);
    toast(failure.message, { bad: true });
    refresh();
    return null;
  }
}

/** @param {number[]} items @param {number} id */
export function labelAs(items, id) {
  if (!items.length) return Promise.resolve(null);
  const name = store.classOf(id)?.name ?? "";
  store.foresee(items, () => id);
  return perform(
    () => api.label(items, { class: id }),
    () => `${several(items.length)} labeled ${quoted(name)}.`,
    { foreseen: items },
  );
}

/** Label with a class that is made if it is not there. @param {number[]} items @param {string} name */
export async function labelAsNew(items, name) {
  const known = classNamed(store.classes, name);
  if (known) return labelAs(items, known.id);
  if (!items.length) return addClass(name);
  const done = await perform(
    () => api.label(items, { name }),
    () => `${several(items.length)} labeled ${quoted(name)}, a new class.`,
  );
  const made = done && classNamed(done.state.classes, name);
  if (made) {
    store.foresee(items, () => made.id);
    store.settleForeseen(items, done.state.version);
  }
  return done;
}

/** @param {import("./types.js").ClassInfo[]} classes @param {string} name */
const classNamed = (classes, name) => classes.find((one) => one.name === name.trim().normalize("NFC"));

/** @param {number[]} items */
export function clearLabels(items) {
  const given = items.filter((i) => isKept(store.columns.origins[i]));
  if (!given.length) {
    toast("Only labels that were given or accepted can be removed.");
    return Promise.resolve(null);
  }
  store.foresee(given, () => -1);
  return perform(
    () => api.label(given, { class: null }),
    () => `Label removed from ${several(given.length)}.`,
    { foreseen: given },
  );
}

/** @param {number[]} items */
export function accept(items) {
  const alone = items.length === 1;
  const predicted = items.filter(
    (i) => store.columns.origins[i] === ORIGIN.predicted || (alone && store.columns.origins[i] === ORIGIN.accepted),
  );
  if (!predicted.length) {
    toast("There is no predicted label to accept.");
    return Promise.resolve(null);
  }
  // Whoever accepts one item has looked at it, so its label counts as given; several are accepted unseen.
  store.foresee(predicted, (i) => store.columns.classes[i], predicted.length === 1 ? ORIGIN.given : ORIGIN.accepted);
  return perform(
    () => api.accept({ items: predicted }),
    () => (predicted.length === 1 ? "Label confirmed." : `${several(predicted.length)}: labels accepted.`),
    { foreseen: predicted },
  );
}

/** @param {number} least @param {number | null} only */
export const acceptAbove = (least, only) =>
  perform(
    () => api.accept(only === null ? { min_confidence: least } : { min_confidence: least, class: only }),
    (done) => `Accepted: ${done.action.summary}.`,
  );

/** @param {string} name */
export const addClass = (name) =>
  perform(
    () => api.addClass(name),
    () => `Class ${quoted(name)} added.`,
  );

/** Classes as they are typed or pasted. @param {string} text */
export const nameClasses = (text) =>
  perform(
    () => api.nameClasses(text),
    (done) =>
      done.state.names.counted > 1
        ? `${count(done.state.classes.length)} classes. Everything is labeled by their names.`
        : `${count(done.state.classes.length)} classes.`,
  );

/** @param {number} id @param {string} name */
export const renameClass = (id, name) =>
  perform(
    () => api.renameClass(id, name),
    () => `Renamed to ${quoted(name)}.`,
  );

/** @param {number} id @param {number} into */
export const mergeClass = (id, into) =>
  perform(
    () => api.mergeClass(id, into),
    () => `Merged into ${quoted(store.classOf(into)?.name ?? "")}.`,
  );

/** @param {number} id */
export const deleteClass = (id) => {
  const name = store.classOf(id)?.name ?? "";
  return perform(
    () => api.deleteClass(id),
    () => `Class ${quoted(name)} deleted.`,
  );
};

/** Remove all labels that are names of folders. */
export const freeOfFolders = () =>
  perform(
    () => api.freeOfFolders(),
    (done) => `${done.action.summary}.`,
  );

/** @param {number} [steps] */
export function undo(steps = 1) {
  const what = store.state?.undo?.summary;
  if (!what) return Promise.resolve(toast("There is nothing to undo."));
  return perform(
    () => api.undo(steps),
    () => (steps === 1 ? `Undone: ${what}` : `${count(steps)} steps undone.`),
    { undoable: false },
  ).then((done) => done && store.changed("undone"));
}

/** @param {number} [steps] */
export function redo(steps = 1) {
  const what = store.state?.redo?.summary;
  if (!what) return Promise.resolve(toast("There is nothing to redo."));
  return perform(
    () => api.redo(steps),
    () => (steps === 1 ? `Redone: ${what}` : `${count(steps)} steps redone.`),
    { undoable: false },
  );
}

/** @param {File} file @param {boolean} replace */
export const importLabels = (file, replace) =>
  perform(
    () => api.importLabels(file, replace),
    (done) => {
      const kept = done.kept ? ` ${several(done.kept)} kept their current label.` : "";
      return `${count(done.imported ?? 0)} labels imported.${kept}`;
    },
  );
