// @ts-check
/** Elements made in script. Text only ever becomes a text node: a name can hold any sign and stays a name. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element with properties, `data-*`, `aria-*` and other attributes, listeners (`onclick`) and children.
 *
 * @template {keyof HTMLElementTagNameMap} T
 * @param {T} tag
 * @param {Record<string, any>} [given]
 * @param {...(Node | string | number | null | undefined | false)} children
 * @returns {HTMLElementTagNameMap[T]}
 */
export function el(tag, given = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && !name.includes("-") && name !== "list" && name !== "role") {
      // @ts-ignore a property of this element, by its name
      node[name] = value;
    } else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...present(children));
  return node;
}

/** @param {any[]} children */
const present = (children) =>
  children
    .filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (typeof child === "number" ? String(child) : child));

/**
 * A name or a text of the user, kept apart from what stands around it when it runs from right to left.
 *
 * @param {string} text
 * @param {string} [className]
 */
export const words = (text, className = "") => el("bdi", { class: className }, text);

/** @param {string} id @returns {HTMLElement} */
export function byId(id) {
  const node = document.getElementById(id);
  if (!node) throw new Error(`the page has no #${id}`);
  return node;
}

/** Strokes of each icon in a square of 20. */
const ICONS = {
  undo: "M7 4 3 8l4 4M3 8h8a5 5 0 0 1 0 10H8",
  redo: "M13 4l4 4-4 4M17 8H9a5 5 0 0 0 0 10h3",
  history: "M3.5 10a6.5 6.5 0 1 1 2 4.7M3 5v4.2h4.2M10 6.5V10l2.6 1.8",
  down: "M10 3v10m-4-4 4 4 4-4M4 17h12",
  up: "M10 14V4M6 8l4-4 4 4M4 17h12",
  sun: "M10 6.6a3.4 3.4 0 1 0 0 6.8 3.4 3.4 0 0 0 0-6.8M10 1.8v1.8m0 12.8v1.8M1.8 10h1.8m12.8 0h1.8M4.2 4.2l1.3 1.3m9 9 1.3 1.3m0-11.6-1.3 1.3m-9 9-1.3 1.3",
  moon: "M16.5 12A7 7 0 0 1 8 3.5a7 7 0 1 0 8.5 8.5",
  auto: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14M10 3v14M10 6.5h3.6M10 10h4.6M10 13.5h3.6",
  keys: "M2.5 6h15v8.5h-15zM5.5 9h.01M8.5 9h.01M11.5 9h.01M14.5 9h.01M6.5 11.8h7",
  more: "M5 10h.01M10 10h.01M15 10h.01",
  close: "M5 5l10 10M15 5 5 15",
  check: "M4 10.5 8.2 15 16 5.5",
  plus: "M10 4v12M4 10h12",
  minus: "M4 10h12",
  fit: "M3.5 7.5v-4h4M12.5 3.5h4v4M16.5 12.5v4h-4M7.5 16.5h-4v-4",
  lasso: "M10 3.5c4 0 7 2 7 4.7s-3 4.7-7 4.7-7-2-7-4.7 3-4.7 7-4.7M6.5 12.4c-1.6.5-1.6 2.6.2 2.8 1.9.2 1.6 2.3-.4 2.3",
  hand: "M6 11V5.4a1.2 1.2 0 0 1 2.4 0V9m0 0V4.2a1.2 1.2 0 0 1 2.4 0V9m0-3.8a1.2 1.2 0 0 1 2.4 0V10m0-2.6a1.2 1.2 0 0 1 2.4 0v4.8c0 3-1.8 5.3-5 5.3-2.6 0-3.7-1-5-3.3L3.8 10.7c-.5-1.2 1-2 1.8-1z",
  search: "M9 3.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M13 13l4 4",
  pin: "M7 3h6l-1 5 3 3H5l3-3zM10 11v6",
  left: "M12.5 4 6.5 10l6 6",
  right: "M7.5 4l6 6-6 6",
  alert: "M10 3 1.8 17h16.4zM10 8v4M10 14.5h.01",
  map: "M5 5h.01M14.5 4h.01M11 8.5h.01M4 14h.01M8.5 16h.01M15.5 13.5h.01M7.5 10.5h.01M13 16.5h.01M16.5 9h.01",
};

/**
 * A small picture beside words; never the only name of anything.
 *
 * @param {keyof typeof ICONS} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("class", `icon icon-${name}`);
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", ICONS[name]);
  svg.append(path);
  return svg;
}

/** @param {Node} node @param {...(Node | string)} children */
export function fill(node, ...children) {
  /** @type {Element} */ (node).replaceChildren(...children);
}

/** @param {number} value */
export const count = (value) => value.toLocaleString("en");

/** One item, two items. @param {number} value @param {string} one @param {string} [many] */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/** A share as people say it; never 100% of what is not certain, nor 0% of what is possible. @param {number} share */
export function percent(share) {
  if (!Number.isFinite(share)) return "";
  if (share >= 0.995 && share < 1) return ">99%";
  if (share > 0 && share < 0.005) return "<1%";
  return `${Math.round(share * 100)}%`;
}
