// @ts-check
/**
 * While something is pressed or dragged, news waits. A list that is made anew under the hand takes away what the hand is
 * on, and the click or the drop with it.
 */

let pressed = false;
let dragging = false;
/** @type {(() => void)[]} */
let waiting = [];

/** Wait until nothing is pressed or dragged: hardly ever longer than a click takes. @returns {Promise<void>} */
export const handFree = () => (pressed || dragging ? new Promise((free) => waiting.push(free)) : Promise.resolve());

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
// The browser has taken the press over: for a scroll, or for a drag, which was told of before.
addEventListener("pointercancel", release, true);
addEventListener("dragstart", () => (dragging = true), true);
addEventListener("dragend", drop, true);
addEventListener("keydown", ({ key, target }) => key === " " && target instanceof HTMLButtonElement && press(), true);
addEventListener("keyup", release, true);
// A release that nobody told of: outside the window, or in another one.
addEventListener("pointermove", ({ buttons }) => buttons === 0 && (pressed || dragging) && drop(), true);
addEventListener("blur", drop);
