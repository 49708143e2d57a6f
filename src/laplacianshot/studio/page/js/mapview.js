// @ts-check
/** The map under a pointer, fingers or keys: pan, zoom, lasso, and what is pointed at. */

import { byId, counted, el, icon } from "./dom.js";
import { Drawing } from "./mapdraw.js";
import { showTip, tip } from "./maptip.js";
import { inside } from "./order.js";
import { ARROWS, followPointers, pixelOf } from "./plane.js";
import { store } from "./store.js";
import { about, nameOf } from "./tiles.js";
import { say } from "./toast.js";

/** @typedef {"move" | "lasso"} Mode */

const canvas = el("canvas", {
  class: "map-canvas",
  id: "map",
  tabIndex: 0,
  role: "application",
  "aria-label": "Map of all items. Arrow keys go from item to item, space selects, plus and minus zoom, zero shows all.",
});
export const drawing = new Drawing(canvas);
const message = el("div", { class: "map-empty" });
const key = el("div", { class: "map-key", "aria-hidden": "true" });
/** @type {Mode} */
let mode = "move";

export function buildMap() {
  const tool = (
    /** @type {Mode} */ name,
    /** @type {"hand" | "lasso"} */ sign,
    /** @type {string} */ text,
    /** @type {string} */ title,
  ) =>
    el(
      "button",
      {
        type: "button",
        "data-mode": name,
        "aria-pressed": String(name === mode),
        title,
        onclick: () => setMode(name),
      },
      icon(sign),
      el("span", {}, text),
    );
  const coloring = (/** @type {"class" | "confidence"} */ name, /** @type {string} */ text) =>
    el(
      "button",
      {
        type: "button",
        "data-coloring": name,
        "aria-pressed": String(name === "class"),
        onclick: () => setColoring(name),
      },
      text,
    );
  const button = (
    /** @type {"plus" | "minus" | "fit"} */ sign,
    /** @type {string} */ text,
    /** @type {() => void} */ act,
  ) => el("button", { class: "bare", type: "button", "aria-label": text, title: text, onclick: act }, icon(sign));
  byId("map-view").append(
    el(
      "div",
      { class: "map-bar" },
      el(
        "div",
        { class: "group", role: "group", "aria-label": "What dragging does" },
        tool("move", "hand", "Move", "Drag to move the map"),
        tool("lasso", "lasso", "Lasso", "Drag around items to select them (or hold Shift and drag)"),
      ),
      el(
        "div",
        { class: "group", role: "group", "aria-label": "Colors show" },
        coloring("class", "Class"),
        coloring("confidence", "Confidence"),
      ),
      el(
        "div",
        { class: "right" },
        button("minus", "Zoom out", () => zoom(1 / 1.5)),
        button("plus", "Zoom in", () => zoom(1.5)),
        button("fit", "Show all", showAll),
      ),
    ),
    el("div", { class: "map-frame" }, canvas, tip, message, key),
  );
  key.append(
    el("span", { class: "of-confidence", hidden: true }, "0%", el("i", { class: "ramp" }), "100%"),
    el("span", {}, el("i", { class: "ring" }), "given"),
    el("span", {}, el("i", { class: "wanted" }), "to label next"),
    el("span", {}, el("i", { class: "cross" }, "\u00d7"), "disputed"),
  );
  followPointers(canvas, {
    press: pressed,
    hover: ([x, y]) => pointAt(nearest(x, y, 16)),
    pinch: (factor, [x, y]) => zoom(factor, x, y),
    drag: dragged,
    release: released,
  });
  canvas.addEventListener("pointerleave", () => pointAt(-1));
  canvas.addEventListener("dblclick", (event) => zoom(2, ...pixelOf(event, canvas)));
  canvas.addEventListener("wheel", wheeled, { passive: false });
  new ResizeObserver(() => {
    drawing.width = canvas.clientWidth;
    drawing.height = canvas.clientHeight;
    drawing.redraw();
  }).observe(canvas);
  store.on(["places"], () => store.places && drawing.place(store.places));
  store.on(["columns"], () => drawing.relabeled());
  store.on(["filter", "selection", "focus", "theme", "queue", "view"], () => drawing.redraw());
  store.on(["state", "places"], showMessage);
  store.on(["texts", "columns"], () => drawing.hover >= 0 && pointAt(drawing.hover));
}

function showMessage() {
  const ready = store.places !== null;
  message.hidden = ready;
  key.hidden = !ready;
  if (!ready)
    message.replaceChildren(
      icon("map"),
      el("p", {}, "The map appears as soon as enough items have vectors. Similar items are close together."),
    );
}

/** @param {Mode} name */
function setMode(name) {
  mode = name;
  canvas.classList.toggle("lasso", mode === "lasso");
  document
    .querySelectorAll("[data-mode]")
    .forEach((button) =>
      button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.mode === mode)),
    );
}

/** @param {"class" | "confidence"} name */
function setColoring(name) {
  drawing.coloring = name;
  /** @type {HTMLElement} */ (key.querySelector(".of-confidence")).hidden = name !== "confidence";
  document
    .querySelectorAll("[data-coloring]")
    .forEach((button) =>
      button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.coloring === name)),
    );
  drawing.redraw();
}

/** @param {number} factor @param {number} [x] @param {number} [y] */
function zoom(factor, x = drawing.width / 2, y = drawing.height / 2) {
  drawing.zoom(factor, x, y, [0.8, 80]);
  pointAt(-1);
  drawing.redraw();
}

function showAll() {
  drawing.look = { x: 0, y: 0, zoom: 1 };
  drawing.redraw();
}

/** @param {WheelEvent} event */
function wheeled(event) {
  event.preventDefault();
  // A wheel counts in lines or pixels; a turn of one notch zooms alike.
  const lines = event.deltaMode === 1 ? 24 : 1;
  zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0018)), ...pixelOf(event, canvas));
}

let drawingLasso = false;

/** @param {PointerEvent} event @param {[number, number]} at @param {number} fingers */
function pressed(event, at, fingers) {
  drawingLasso = fingers === 1 && (mode === "lasso" || event.shiftKey);
  drawing.lasso = drawingLasso ? [at] : [];
}

/** @param {[number, number]} at @param {[number, number]} before */
function dragged(at, before) {
  pointAt(-1);
  if (drawingLasso) drawing.lasso.push(at);
  else {
    canvas.classList.add("grabbing");
    drawing.pan(at[0] - before[0], at[1] - before[1]);
  }
  drawing.redraw();
  return !drawingLasso;
}

/** @param {PointerEvent} event @param {[number, number]} at @param {boolean} wasDragged */
function released(event, at, wasDragged) {
  canvas.classList.remove("grabbing");
  const adding = event.ctrlKey || event.metaKey;
  if (drawingLasso && wasDragged) {
    const found = inside(
      drawing.xs,
      drawing.ys,
      drawing.lasso.map(([x, y]) => drawing.within(x, y)),
    );
    const shown =
      store.filter.only === null ? found : found.filter((i) => store.columns.classes[i] === store.filter.only);
    store.select(adding ? [...store.selection, ...shown] : shown);
    say(`${counted(store.selection.size, "item")} selected`);
  } else if (!wasDragged && event.type === "pointerup") {
    const item = nearest(...at, 18);
    if (item < 0) store.select([]);
    else if (adding || event.shiftKey) toggle(item);
    else store.select([item], item);
  }
  drawing.lasso = [];
  drawingLasso = false;
  drawing.redraw();
}

/** @param {number} item */
function toggle(item) {
  const chosen = new Set(store.selection);
  if (!chosen.delete(item)) chosen.add(item);
  store.select(chosen, item);
}

/** @param {number} x @param {number} y @param {number} reach */
const nearest = (x, y, reach) =>
  drawing.nearest(x, y, reach, (i) => store.filter.only === null || store.columns.classes[i] === store.filter.only);

/** @param {number} i */
function pointAt(i) {
  if (i < 0 && drawing.hover < 0) return;
  drawing.hover = i;
  canvas.classList.toggle("over", i >= 0);
  drawing.redraw();
  if (i < 0) tip.hidden = true;
  else showTip(i, drawing);
}

/**
 * Keys of the map. Whether one was used.
 *
 * @param {KeyboardEvent} event
 */
export function mapKey(event) {
  const arrow = ARROWS[event.key];
  if (arrow) step(arrow[0], arrow[1], event.shiftKey);
  else if (event.key === "+" || event.key === "=") zoom(1.5);
  else if (event.key === "-") zoom(1 / 1.5);
  else if (event.key === "0") showAll();
  else if (event.key === " " && store.focus >= 0) toggle(store.focus);
  else return false;
  return true;
}

/** To the nearest item in a direction. @param {number} dx @param {number} dy @param {boolean} adding */
function step(dx, dy, adding) {
  const from = store.focus;
  const nowhere = from < 0 || Number.isNaN(drawing.xs[from]);
  const next = nowhere ? nearest(drawing.width / 2, drawing.height / 2, Infinity) : drawing.ahead(from, dx, dy);
  if (next < 0) return;
  if (adding) store.select([...store.selection, next], next);
  store.focus = next;
  store.changed("focus");
  if (!drawing.inSight(next)) [drawing.look.x, drawing.look.y] = [drawing.xs[next], drawing.ys[next]];
  pointAt(next);
  say(`${nameOf(next)}: ${about(next)}`);
}
