// @ts-check
/** Short messages: seen for a moment, and said by a screen reader. */

import { byId, el, icon } from "./dom.js";

const SECONDS = 5;
/** So many faults are shown at a time; of what went well only the last. */
const MOST = 3;

/** Have a screen reader say this. @param {string} text */
export function say(text) {
  byId("said").textContent = text;
}

/**
 * Show a message for some seconds.
 *
 * @param {string} text
 * @param {{ bad?: boolean, button?: string, act?: () => void }} [options]
 */
export function toast(text, { bad = false, button, act } = {}) {
  const close = () => note.remove();
  const note = el(
    "div",
    { class: bad ? "toast bad" : "toast", role: bad ? "alert" : undefined },
    bad && icon("alert"),
    el("p", { dir: "auto" }, text),
    button && el("button", { class: "link", type: "button", onclick: () => (close(), act?.()) }, button),
    el("button", { class: "bare", type: "button", "aria-label": "Close this message", onclick: close }, icon("close")),
  );
  const all = byId("toasts");
  if (!bad) all.querySelectorAll(".toast:not(.bad)").forEach((old) => old.remove());
  all.append(note);
  while (all.children.length > MOST) all.firstElementChild?.remove();
  if (!bad) say(text);
  let left = SECONDS * (bad ? 2 : 1);
  // Time stands still while someone is reading it.
  const clock = setInterval(() => {
    if (!note.isConnected) clearInterval(clock);
    else if (!note.matches(":hover, :focus-within") && --left <= 0) close();
  }, 1000);
}
