// Before anything is drawn: the theme that was chosen last time. A plain script, so that nothing flashes.
"use strict";
try {
  const chosen = localStorage.getItem("studio-theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
} catch {
  // A browser that keeps nothing follows the system.
}
