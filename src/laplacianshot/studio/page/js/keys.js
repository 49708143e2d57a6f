// @ts-check
/** Keys that work wherever nothing is being typed. */

import { accept, clearLabels, redo, undo } from "./actions.js";
import { confirm, decide, lookCloser, previous, skip } from "./desk.js";
import { byId } from "./dom.js";
import { toSearch } from "./filters.js";
import { galleryKey, nextAfter, shownItems } from "./gallery.js";
import { typeClass } from "./labelview.js";
import { mapKey } from "./mapview.js";
import { labelSelection, typeForSelection } from "./selection.js";
import { store } from "./store.js";
import { openKeys } from "./tools.js";

export function buildKeys() {
  document.addEventListener("keydown", pressed);
  // A button that was pressed by a pointer gives the keys back: space and arrows are for the items.
  document.addEventListener("click", (event) => {
    const button = /** @type {Element} */ (event.target).closest("#label-view button, #views button, .map-bar button");
    if (event.detail > 0 && button instanceof HTMLElement) button.blur();
  });
}

/** @param {EventTarget | null} target */
function typing(target) {
  if (!(target instanceof HTMLElement)) return false;
  if (target instanceof HTMLInputElement) return !["checkbox", "radio", "range", "button"].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement || target.isContentEditable;
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (event.defaultPrevented || document.querySelector("dialog[open], .menu")) return;
  if (typing(event.target)) {
    if (event.key === "Escape") /** @type {HTMLElement} */ (event.target).blur();
    return;
  }
  if (event.altKey) return;
  const used = event.ctrlKey || event.metaKey ? withControl(event) : plain(event);
  if (used) event.preventDefault();
}

/** @param {KeyboardEvent} event */
function withControl(event) {
  const key = event.key.toLowerCase();
  if (key === "z") event.shiftKey ? redo() : undo();
  else if (key === "y") redo();
  else if (key === "a" && store.view === "gallery") store.select(shownItems());
  else return false;
  return true;
}

/** @param {KeyboardEvent} event */
function plain(event) {
  const onMap = document.activeElement === byId("map");
  // A button in focus is pressed by space and Enter, as everywhere.
  const onButton =
    document.activeElement instanceof HTMLButtonElement || document.activeElement instanceof HTMLAnchorElement;
  if (onButton && (event.key === " " || event.key === "Enter")) return false;
  if (document.activeElement instanceof HTMLInputElement && event.key.startsWith("Arrow")) return false;
  if (document.activeElement?.getAttribute("role") === "tab" && event.key.startsWith("Arrow")) return false;
  if (/^[1-9]$/.test(event.key)) return numbered(Number(event.key));
  if (onMap || store.view === "map") {
    if (mapKey(event)) return true;
  } else if (store.view === "gallery" && galleryKey(event)) return true;
  else if (store.view === "label" && deskKey(event)) return true;
  return named(event);
}

/** @param {KeyboardEvent} event */
function deskKey(event) {
  if (event.key === " ") confirm();
  else if (event.key === "ArrowRight") skip();
  else if (event.key === "ArrowLeft") previous();
  else return false;
  return true;
}

/** @param {number} place */
function numbered(place) {
  const known = store.classes[place - 1];
  if (!known) return false;
  const items = store.aim;
  // What is selected, in whichever view, comes before what lies on the desk.
  if (store.view === "label" && !store.selection.size) decide(known.id);
  else if (items.length) {
    nextAfter(items);
    labelSelection(known.id);
  } else return false;
  return true;
}

/** @param {KeyboardEvent} event */
function named(event) {
  const clear = (/** @type {unknown} */ good) => good && store.select([]);
  switch (event.key) {
    case "l":
      store.look("label");
      break;
    case "g":
      store.look("gallery");
      break;
    case "m":
      store.look("map");
      break;
    case "c":
      store.view === "label" && !store.selection.size ? typeClass() : typeForSelection();
      break;
    case "n":
      if (matchMedia("(max-width: 47rem)").matches) store.look("classes");
      setTimeout(() => byId("new-class").focus());
      break;
    case "/":
      store.look("gallery");
      setTimeout(toSearch);
      break;
    case "?":
      openKeys();
      break;
    case "a":
      if (store.view === "label" && !store.selection.size) confirm();
      else accept(store.aim).then(clear);
      break;
    case "Enter":
      if (store.view === "label" || store.focus < 0) return false;
      lookCloser(store.focus);
      break;
    case "Delete":
    case "Backspace":
      if (!store.aim.length) return false;
      clearLabels(store.aim).then(clear);
      break;
    case "Escape":
      if (store.selection.size) store.select([]);
      else if (store.filter.only !== null) store.show({ only: null });
      else return false;
      break;
    default:
      return false;
  }
  return true;
}
