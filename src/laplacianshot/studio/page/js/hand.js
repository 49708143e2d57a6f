// @ts-check
/**
 * While something is pressed or dragged, news waits. Redrawing a list under the pointer would remove the element that the
 * pointer is on, and the click or drop would be lost.
 */

let pressed = false;
let dragging = false;
/** @type {(() => void)[]} */
let waiting = [];

/** Wait until nothing is pressed or dragged, which rarely takes longer than a click. @returns {Promise<void>} */
export const handFree = () => (pressed || dragging ? new Promise((free) => waiting.push(free)) : Promise.resolve());

/** Whether news has arrived and waits. */
export const isNewsWaiting = () => waiting.length > 0;

function press() {
  pressed = true;
}

function release() {
  pressed = false;
  // The click that a release makes comes first.
  setTimeout(() => {
    if (pressed || dragging) return;
    const all = waiting;
    waiting = [];
    for (const free of all) free();
  });
}

function drop() {
  dragging = false;
  release();
}

addEventListener("pointerdown", press, true);
addEventListener("pointerup", release, true);
// The browser takes over the press to scroll, or for a drag, whose own event came before.
addEventListener("pointercancel", release, true);
addEventListener("dragstart", () => (dragging = true), true);
addEventListener("dragend", drop, true);
addEventListener("keydown", ({ key, target }) => key === " " && target instanceof HTMLButtonElement && press(), true);
addEventListener("keyup", release, true);
// A release without an event: outside the window, or in another one.
addEventListener("pointermove", ({ buttons }) => buttons === 0 && (pressed || dragging) && drop(), true);
addEventListener("blur", drop);
