// @ts-check
/** The color of a class on the paper that is shown now. */

import { store } from "./store.js";

const GRAY = { light: "#9aa3ad", dark: "#6d7885" };
const system = matchMedia("(prefers-color-scheme: dark)");

const { dataset } = document.documentElement;

export const isDark = () => dataset.theme === "dark";

/** @param {number | null} id */
export function colorOf(id) {
  const known = store.classOf(id) ?? GRAY;
  return isDark() ? known.dark : known.light;
}

/**
 * Give an element the color of a class, as the property --class.
 *
 * @template {HTMLElement} T
 * @param {T} node
 * @param {number | null} id
 * @returns {T}
 */
export function paint(node, id) {
  node.style.setProperty("--class", colorOf(id));
  return node;
}

/** @typedef {"system" | "light" | "dark"} Theme */

/** What was chosen. @returns {Theme} */
export const theme = () => /** @type {Theme} */ (dataset.choice ?? "system");

/** @param {Theme} chosen */
export function setTheme(chosen) {
  dataset.choice = chosen;
  try {
    localStorage.setItem("studio-theme", chosen);
  } catch {
    // Then it holds for this page only.
  }
  follow();
}

/** Show what was chosen, or else what the system has. */
function follow() {
  const chosen = theme();
  dataset.theme = chosen === "system" ? (system.matches ? "dark" : "light") : chosen;
  store.changed("theme");
}

system.addEventListener("change", follow);
