// @ts-check
/** Choose a class by typing its name; a name that is not there can be made. */

import { paint } from "./color.js";
import { popup } from "./dialogs.js";
import { el, icon, words } from "./dom.js";
import { store } from "./store.js";

const MOST = 60;
let serial = 0;

/**
 * @param {HTMLElement} anchor
 * @param {{ label: string, without?: number, pick: (id: number) => void, make?: (name: string) => void }} options
 */
export function pickClass(anchor, { label, without, pick, make }) {
  const mark = `picker-${++serial}`;
  const list = el("div", { role: "listbox", id: mark, "aria-label": label });
  const input = el("input", {
    type: "text",
    class: "picker-input",
    placeholder: make ? "Class name, existing or new" : "Class name",
    "aria-label": label,
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": mark,
    autocomplete: "off",
    spellcheck: false,
    maxLength: 200,
    dir: "auto",
  });
  const box = el("div", { class: "menu picker" }, input, list);
  /** @type {{ node: HTMLElement, act: () => void }[]} */
  let entries = [];
  let at = 0;
  const close = popup(anchor, box);
  const choose = (/** @type {number} */ place) => {
    const entry = entries[place];
    if (!entry) return;
    close();
    entry.act();
  };
  const point = () => {
    entries.forEach(({ node }, place) => node.setAttribute("aria-selected", String(place === at)));
    entries[at]?.node.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", entries[at]?.node.id ?? "");
  };
  const show = () => {
    const typed = input.value.trim();
    const wanted = typed.toLocaleLowerCase();
    const found = store.classes
      .filter((one) => one.id !== without && one.name.toLocaleLowerCase().includes(wanted))
      .slice(0, MOST);
    // A name that begins so comes before one that holds it.
    found.sort(
      (a, b) =>
        Number(b.name.toLocaleLowerCase().startsWith(wanted)) - Number(a.name.toLocaleLowerCase().startsWith(wanted)),
    );
    entries = found.map((one) => ({
      node: paint(
        el("button", { type: "button", role: "option", tabIndex: -1 }, el("i", { class: "dot" }), words(one.name)),
        one.id,
      ),
      act: () => pick(one.id),
    }));
    if (make && typed && !store.classes.some((one) => one.name === typed))
      entries.push({
        node: el(
          "button",
          { type: "button", role: "option", tabIndex: -1 },
          icon("plus"),
          el("span", {}, "New class ", words(typed)),
        ),
        act: () => make(typed),
      });
    entries.forEach(({ node }, place) => {
      node.id = `${mark}-${place}`;
      node.addEventListener("click", () => choose(place));
    });
    at = 0;
    list.replaceChildren(...entries.map(({ node }) => node));
    if (!entries.length)
      list.append(el("p", { class: "quiet empty" }, make ? "Type a name to add a class." : "No class with this name."));
    point();
  };
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && entries.length) at = (at + step + entries.length) % entries.length;
    else if (event.key === "Enter") choose(at);
    else return;
    event.preventDefault();
    point();
  });
  show();
  input.focus();
}
