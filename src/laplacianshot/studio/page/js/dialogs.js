// @ts-check
/** Questions and menus: one at a time, closed by Escape, focus given back to where it was. */

import { el } from "./dom.js";

/**
 * Ask in a dialog. The answer is what the pressed button carries; null when it was closed.
 *
 * @param {string} title
 * @param {(Node | string)[]} content
 * @param {{ yes: string, danger?: boolean, wide?: boolean }} options
 * @returns {Promise<boolean>}
 */
export function confirmed(title, content, { yes, danger = false, wide = false }) {
  return new Promise((answer) => {
    const go = el("button", { class: danger ? "button danger" : "primary", value: "yes" }, yes);
    const dialog = el(
      "dialog",
      { "aria-label": title, class: wide ? "wide" : "" },
      el("h2", { dir: "auto" }, title),
      el(
        "form",
        { method: "dialog" },
        ...content,
        el(
          "div",
          { class: "row" },
          el("button", { class: "button", value: "", type: "button", onclick: () => dialog.close("") }, "Cancel"),
          go,
        ),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/**
 * Ask for a line of text.
 *
 * @param {string} title
 * @param {string} label
 * @param {string} value
 * @param {string} yes
 * @returns {Promise<string | null>}
 */
export async function asked(title, label, value, yes) {
  const input = el("input", {
    type: "text",
    value,
    maxLength: 200,
    required: true,
    dir: "auto",
    autocomplete: "off",
    spellcheck: false,
  });
  queueMicrotask(() => input.select());
  const agreed = await confirmed(
    title,
    [el("label", { class: "field" }, el("span", { class: "quiet" }, label), input)],
    { yes },
  );
  return agreed && input.value.trim() ? input.value.trim() : null;
}

/**
 * A dialog to read, with a button to close it.
 *
 * @param {string} title
 * @param {...Node} content
 */
export function shown(title, ...content) {
  const dialog = el(
    "dialog",
    { "aria-label": title },
    el("h2", {}, title),
    ...content,
    el("form", { method: "dialog" }, el("div", { class: "row" }, el("button", { class: "button" }, "Close"))),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** @type {(() => void) | null} */
let closeMenu = null;

/**
 * Open a box at a button; it closes by Escape, by a click elsewhere, or by the function that comes back.
 *
 * @param {HTMLElement} anchor
 * @param {HTMLElement} box
 * @returns {() => void}
 */
export function popup(anchor, box) {
  closeMenu?.();
  const back = /** @type {HTMLElement | null} */ (document.activeElement);
  const close = () => {
    if (closeMenu !== close) return;
    closeMenu = null;
    const inside = box.contains(document.activeElement);
    box.remove();
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", elsewhere, true);
    document.removeEventListener("keydown", escape, true);
    if (inside) (back?.isConnected ? back : anchor).focus();
  };
  const elsewhere = (/** @type {Event} */ event) => {
    const target = /** @type {Node} */ (event.target);
    if (!box.contains(target) && !anchor.contains(target)) close();
  };
  const escape = (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape") return;
    event.preventDefault();
    event.stopPropagation();
    close();
  };
  closeMenu = close;
  anchor.setAttribute("aria-expanded", "true");
  document.body.append(box);
  const at = anchor.getBoundingClientRect();
  const [w, h] = [box.offsetWidth, box.offsetHeight];
  const below = at.bottom + 6 + h <= innerHeight || at.top < h + 12;
  box.style.left = `${Math.max(8, Math.min(innerWidth - w - 8, at.right - w > 8 && at.left + w > innerWidth - 8 ? at.right - w : at.left))}px`;
  box.style.top = `${Math.max(8, below ? Math.min(at.bottom + 6, innerHeight - h - 8) : at.top - h - 6)}px`;
  document.addEventListener("pointerdown", elsewhere, true);
  document.addEventListener("keydown", escape, true);
  return close;
}

/**
 * A menu of buttons and links at a button. Arrows go up and down.
 *
 * @param {HTMLElement} anchor
 * @param {string} label
 * @param {(HTMLElement | null)[]} entries
 */
export function menu(anchor, label, entries) {
  if (anchor.getAttribute("aria-expanded") === "true") return closeMenu?.();
  const box = el("div", { class: "menu", role: "menu", "aria-label": label }, ...entries);
  const choices = /** @type {HTMLElement[]} */ ([...box.querySelectorAll("button, a")]);
  choices.forEach((choice) => choice.setAttribute("role", "menuitem"));
  const close = popup(anchor, box);
  choices.forEach((choice) => choice.addEventListener("click", () => setTimeout(close)));
  box.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const now = choices.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    choices[(now + step + choices.length) % choices.length].focus();
  });
  choices[0]?.focus();
}
