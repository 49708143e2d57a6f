// @ts-check
/** The map of a label report: draws the data of #map-data, and shows the item under the pointer. */

import { ARROWS, Plane, clearCanvas, confidenceColors, followPointers, penOf, pixelOf } from "../../ui/page/js/plane.js";

/**
 * @typedef {object} MapData
 * @property {string} places  x and y of each item, uint16
 * @property {string} codes  column of each item's class, int32, -1 for no label
 * @property {string} confidence  in 200 steps, uint8
 * @property {string} origins  uint8
 * @property {[number, number][]} disputes  item and the class that its neighbors prefer
 * @property {number[]} suggested  items, the most useful first
 * @property {string[]} classes
 * @property {string[]} light  a color per class, and one for no label
 * @property {string[]} dark
 * @property {string[]} texts
 * @property {{ src: string, columns: number, cell: number, items: number[], sizes: number[] }} [sheet]
 */

const $ = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** @type {MapData} */
const data = JSON.parse($("map-data").textContent ?? "");
const bytes = (/** @type {string} */ text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
const grid = new Uint16Array(bytes(data.places).buffer);
const codes = new Int32Array(bytes(data.codes).buffer);
const confidence = bytes(data.confidence);
const origins = bytes(data.origins);
const n = codes.length;
const GIVEN = 1;
const REJECTED = 2;
const STEPS = 16;
/** @type {[number, number]} */
const ZOOM = [1, 60];
const rank = new Map(data.suggested.map((item, place) => [item, place + 1]));
const disputes = new Map(data.disputes);
/** @type {Map<number, number>} */
const pictures = new Map();
/** @type {HTMLImageElement | null} */
let sheet = null;
if (data.sheet) {
  data.sheet.items.forEach((item, place) => pictures.set(item, place));
  sheet = new Image();
  sheet.src = data.sheet.src;
}
// Items of one color in a row, those without a label first, so that they are at the bottom.
const order = Int32Array.from(codes.keys()).sort((a, b) => codes[a] - codes[b] || a - b);

const canvas = /** @type {HTMLCanvasElement} */ ($("map-canvas"));
const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
const tip = $("map-tip");
const darkMode = matchMedia("(prefers-color-scheme: dark)");
const plane = new Plane();
plane.place(Float32Array.from(grid, (value) => value / 32767.5 - 1));
const pen = penOf(context, plane);
/** The only class that is shown. @type {number | null} */
let only = null;
let selected = -1;
let byConfidence = false;
let waiting = false;

const visible = (/** @type {number} */ i) => only === null || codes[i] === only;

function radius() {
  const crowd = Math.max(1.4, Math.min(4.5, 110 / Math.sqrt(n + 400)));
  return crowd * Math.max(0.7, Math.min(1, plane.width / 800)) * Math.min(2.2, Math.sqrt(plane.look.zoom));
}

function draw() {
  waiting = false;
  const { width, height } = plane;
  clearCanvas(context, width, height);
  const style = getComputedStyle(canvas);
  const css = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
  const [ink, paper, accent, bad] = [css("--ink"), css("--paper"), css("--accent"), css("--bad")];
  const colors = darkMode.matches ? data.dark : data.light;
  const steps = confidenceColors(darkMode.matches, STEPS);
  const gray = colors[colors.length - 1];
  const r = radius();
  const color = (/** @type {number} */ i) => {
    if (!byConfidence) return codes[i] < 0 ? gray : colors[codes[i]];
    if (origins[i] === GIVEN || codes[i] < 0) return gray;
    return steps[Math.min(STEPS - 1, Math.floor((confidence[i] / 200) * STEPS))];
  };
  const seen = (/** @type {number} */ i) =>
    plane.left(i) > -9 && plane.left(i) < width + 9 && plane.top(i) > -9 && plane.top(i) < height + 9;
  const square = n > 30000 && r < 2.2;
  // The only class that is shown is drawn second, so that it is on top.
  for (const front of only === null ? [true] : [false, true]) {
    context.globalAlpha = front ? (n > 5000 ? 0.75 : 0.85) : 0.12;
    for (const i of order) {
      if (visible(i) !== front || !seen(i)) continue;
      const now = color(i);
      if (context.fillStyle !== now) context.fillStyle = now;
      if (square) context.fillRect(plane.left(i) - r, plane.top(i) - r, 2 * r, 2 * r);
      else {
        context.beginPath();
        context.arc(plane.left(i), plane.top(i), r, 0, 7);
        context.fill();
      }
    }
  }
  context.globalAlpha = 1;
  for (const i of order) if (origins[i] === GIVEN && visible(i) && seen(i)) pen.given(i, r + 1.6, color(i), ink);
  for (const i of disputes.keys()) if (visible(i) && seen(i)) pen.cross(i, r + 3.5, bad);
  for (const i of rank.keys()) if (visible(i) && seen(i)) pen.ring(i, r + 4, accent, 2, paper);
  if (selected >= 0) pen.ring(selected, r + 5, ink, 2.5, paper);
}

function redraw() {
  if (!waiting) requestAnimationFrame(draw);
  waiting = true;
}

// A name that runs from right to left must not move the text around it.
const className = (/** @type {number} */ code) => `\u2068${data.classes[code]}\u2069`;

/** @param {number} i */
function describe(i) {
  const name = codes[i] < 0 ? "" : className(codes[i]);
  // In 200 steps: only certainty is 100%, and only impossibility is 0%.
  const percent = confidence[i] === 199 ? ">99%" : confidence[i] === 1 ? "<1%" : `${Math.round(confidence[i] / 2)}%`;
  const parts = [];
  if (origins[i] === REJECTED) parts.push("fits no class");
  else if (!name) parts.push("no label");
  else parts.push(origins[i] === GIVEN ? `${name} · given` : `${name} · ${percent}`);
  const other = disputes.get(i);
  if (other !== undefined) parts.push(`neighbors suggest ${className(other)}`);
  if (rank.has(i)) parts.push(`to label next: ${rank.get(i)}`);
  return parts.join(" · ");
}

/** @param {number} i @param {boolean} [spoken] */
function select(i, spoken = false) {
  selected = i;
  redraw();
  tip.hidden = i < 0;
  if (i < 0) return;
  showPicture(i);
  /** @type {HTMLElement} */ (tip.querySelector(".map-text")).textContent = data.texts[i];
  /** @type {HTMLElement} */ (tip.querySelector(".map-label")).textContent = describe(i);
  if (spoken) $("map-said").textContent = `${data.texts[i]}: ${describe(i)}`;
  plane.putBeside(tip, i);
}

/** @param {number} i */
function showPicture(i) {
  const picture = /** @type {HTMLCanvasElement} */ (tip.firstElementChild);
  const place = pictures.get(i);
  picture.hidden = place === undefined;
  if (place === undefined || !data.sheet || !sheet) return;
  const { cell, columns, sizes } = data.sheet;
  const [w, h] = [sizes[2 * place], sizes[2 * place + 1]];
  const shown = 96 / Math.max(w, h);
  const all = sheet;
  [picture.width, picture.height] = [w, h];
  picture.style.width = `${w * shown}px`;
  picture.style.height = `${h * shown}px`;
  picture.style.imageRendering = cell < 48 ? "pixelated" : "auto";
  const [left, top] = [(place % columns) * cell, Math.floor(place / columns) * cell];
  const paint = () => picture.getContext("2d")?.drawImage(all, left, top, w, h, 0, 0, w, h);
  if (all.complete) paint();
  else all.addEventListener("load", () => selected === i && paint(), { once: true });
}

/** Have the selected item opened. */
function lookCloser() {
  if (selected >= 0) document.dispatchEvent(new CustomEvent("look", { detail: selected }));
}

/** Go to the nearest item in a direction. @param {number} dx @param {number} dy */
function step(dx, dy) {
  const { width, height } = plane;
  const next =
    selected < 0 ? plane.nearest(width / 2, height / 2, Infinity, visible) : plane.ahead(selected, dx, dy, visible);
  if (next < 0) return;
  if (!plane.inSight(next)) [plane.look.x, plane.look.y] = [plane.xs[next], plane.ys[next]];
  select(next, true);
}

/** @param {number} factor @param {number} [x] @param {number} [y] */
function zoom(factor, x = plane.width / 2, y = plane.height / 2) {
  plane.zoom(factor, x, y, ZOOM);
  if (plane.look.zoom === 1) [plane.look.x, plane.look.y] = [0, 0];
  // While everything is visible one finger scrolls the page; zoomed in, it moves the map.
  canvas.style.touchAction = plane.look.zoom > 1 ? "none" : "pan-y";
  select(selected);
}

function showAll() {
  plane.look.zoom = 1;
  zoom(1);
}

const classButtons = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("#map-view [data-class]"));
const classList = /** @type {HTMLSelectElement | null} */ (document.getElementById("map-class"));

/** @param {number | null} code */
function showOnly(code) {
  only = code;
  for (const button of classButtons)
    button.setAttribute("aria-pressed", String(Number(button.dataset.class) === code));
  if (classList) classList.value = code === null || code < 0 ? "" : String(code);
  select(-1);
}

followPointers(canvas, {
  hover: ([x, y]) => select(plane.nearest(x, y, 18, visible)),
  pinch: (factor, [x, y]) => zoom(factor, x, y),
  drag: (at, before) => {
    if (plane.look.zoom === 1) return false;
    plane.pan(at[0] - before[0], at[1] - before[1]);
    select(-1);
    return true;
  },
  release: (event, at, dragged) => {
    if (dragged || event.type !== "pointerup") return;
    select(plane.nearest(...at, 24, visible), true);
    // A finger has to point first.
    if (event.pointerType === "mouse") lookCloser();
  },
});
canvas.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && select(-1));
canvas.addEventListener("dblclick", (event) => zoom(2, ...pixelOf(event, canvas)));
canvas.addEventListener(
  "wheel",
  (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY * 0.005), ...pixelOf(event, canvas));
  },
  { passive: false },
);
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const arrow = ARROWS[event.key];
  if (arrow) step(...arrow);
  else if (event.key === "+" || event.key === "=") zoom(1.5);
  else if (event.key === "-") zoom(1 / 1.5);
  else if (event.key === "0") showAll();
  else if (event.key === "Enter") lookCloser();
  else if (event.key !== "Escape") return;
  else if (selected >= 0) select(-1);
  else showOnly(null);
  event.preventDefault();
});
canvas.addEventListener("blur", () => select(-1));
$("map-in").addEventListener("click", () => zoom(1.5));
$("map-out").addEventListener("click", () => zoom(1 / 1.5));
$("map-all").addEventListener("click", showAll);
for (const button of classButtons) {
  const code = Number(button.dataset.class);
  button.addEventListener("click", () => showOnly(only === code ? null : code));
}
classList?.addEventListener("change", () => showOnly(classList.value === "" ? null : Number(classList.value)));
for (const radio of /** @type {NodeListOf<HTMLInputElement>} */ (document.querySelectorAll('[name="map-color"]')))
  radio.addEventListener("change", () => {
    byConfidence = radio.value === "confidence";
    redraw();
  });
darkMode.addEventListener("change", redraw);
new ResizeObserver(() => {
  plane.width = canvas.clientWidth;
  plane.height = canvas.clientHeight;
  select(-1);
}).observe(canvas);
zoom(1);
