// @ts-check
/** The colour of a class on the paper that is shown now. */

import { store } from "./store.js";

const GREY = { light: "#9aa3ad", dark: "#6d7885" };
const system = matchMedia("(prefers-color-scheme: dark)");

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : system.matches;
}

/** @param {number | null} id */
export function colourOf(id) {
  const known = store.classOf(id) ?? GREY;
  return isDark() ? known.dark : known.light;
}

/**
 * Give an element the colour of a class, as the property --class.
 *
 * @template {HTMLElement} T
 * @param {T} node
 * @param {number | null} id
 * @returns {T}
 */
export function paint(node, id) {
  node.style.setProperty("--class", colourOf(id));
  return node;
}

/** @typedef {"system" | "light" | "dark"} Theme */

/** @returns {Theme} */
export const theme = () => /** @type {Theme} */ (document.documentElement.dataset.theme ?? "system");

/** @param {Theme} chosen */
export function setTheme(chosen) {
  if (chosen === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = chosen;
  try {
    localStorage.setItem("studio-theme", chosen);
  } catch {
    // Then it holds for this page only.
  }
  store.changed("theme");
}

system.addEventListener("change", () => store.changed("theme"));
