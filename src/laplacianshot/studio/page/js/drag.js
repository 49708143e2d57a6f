// @ts-check
/** Items that are being dragged, from any view onto a class. */

import { count, el } from "./dom.js";
import { store } from "./store.js";

/** @type {number[]} */
let items = [];

export const dragged = () => items;

/**
 * Let an element be dragged as its item, with the whole selection if it is part of it.
 *
 * @param {HTMLElement} node
 * @param {() => number} item
 */
export function draggable(node, item) {
  node.draggable = true;
  node.addEventListener("dragstart", (event) => {
    const mine = item();
    items = store.selection.has(mine) ? [...store.selection] : [mine];
    document.body.classList.add("dragging");
    if (!event.dataTransfer) return;
    event.dataTransfer.effectAllowed = "copy";
    event.dataTransfer.setData("text/plain", `${items.length} items`);
    if (items.length > 1) {
      const badge = el("div", { class: "drag-badge" }, `${count(items.length)} ${store.noun(items.length)}`);
      document.body.append(badge);
      event.dataTransfer.setDragImage(badge, 12, 12);
      setTimeout(() => badge.remove());
    }
  });
  node.addEventListener("dragend", () => {
    items = [];
    document.body.classList.remove("dragging");
  });
}
