// @ts-check
/** The studio's page: builds its parts, then listens to the server. */

import { buildDesk } from "./desk.js";
import { byId } from "./dom.js";
import { buildFilters } from "./filters.js";
import { buildGallery, setTileSize } from "./gallery.js";
import { buildHistory } from "./history.js";
import { buildKeys } from "./keys.js";
import { buildLabelView } from "./labelview.js";
import { buildMap } from "./mapview.js";
import { buildSelection } from "./selection.js";
import { buildSide } from "./side.js";
import { store } from "./store.js";
import { connect } from "./sync.js";
import { buildTools } from "./tools.js";

/** @typedef {import("./store.js").View} View */

const tabs = /** @type {HTMLElement[]} */ ([...byId("views").children]);

function showView() {
  document.body.dataset.view = store.view;
  byId("label-view").hidden = store.view !== "label";
  byId("gallery-view").hidden = store.view !== "gallery";
  // What fills the window is the main part of the page.
  byId("map-view").setAttribute("role", store.view === "map" ? "main" : "region");
  byId("side").setAttribute("role", store.view === "classes" ? "main" : "complementary");
  for (const tab of tabs) {
    const on = tab.dataset.view === store.view;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
  }
}

// First, so that the others find their places shown.
store.on(["view"], showView);
for (const tab of tabs) tab.addEventListener("click", () => store.look(/** @type {View} */ (tab.dataset.view)));
byId("views").addEventListener("keydown", (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  if (!step) return;
  const seen = tabs.filter((tab) => tab.offsetParent);
  const now = seen.findIndex((tab) => tab.dataset.view === store.view);
  const next = seen[(now + step + seen.length) % seen.length];
  store.look(/** @type {View} */ (next.dataset.view));
  next.focus();
});
// A window that grows wide has no tab for the classes.
matchMedia("(min-width: 47.01rem)").addEventListener(
  "change",
  (wide) => wide.matches && store.view === "classes" && store.look("label"),
);

buildTools();
buildSide();
buildDesk();
buildLabelView();
buildGallery(buildFilters(setTileSize));
buildMap();
buildSelection();
buildHistory();
buildKeys();
connect();
