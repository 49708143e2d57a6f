// Before anything is drawn: light or dark, as it was chosen last time or as the system is. A plain script, so that
// nothing flashes.
"use strict";
{
  const root = document.documentElement;
  let chosen = null;
  try {
    chosen = localStorage.getItem("studio-theme");
  } catch {
    // A browser that keeps nothing follows the system.
  }
  root.dataset.choice = chosen === "light" || chosen === "dark" ? chosen : "system";
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = root.dataset.choice === "system" ? (dark ? "dark" : "light") : root.dataset.choice;
}
