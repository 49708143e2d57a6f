// @ts-check
/** Draws the map: a disc per item in the color of its class, paler at low confidence; rings and crosses mark items. */

import { colorOf, isDark } from "./color.js";
import { densest } from "./mapnames.js";
import { GROWS, lasts, spread } from "./mapwave.js";
import { FLAG, ORIGIN } from "./order.js";
import { Plane, clearCanvas, confidenceColors, penOf } from "./plane.js";
import { store } from "./store.js";

/** @typedef {"class" | "confidence"} Coloring */

const PALE = [0.28, 0.5, 0.8];
const STEPS = 14;

export class Drawing extends Plane {
  /** @type {Coloring} */
  coloring = "class";
  /** @type {[number, number][]}  on the screen */
  lasso = [];
  hover = -1;
  #waiting = false;
  /** @type {Int32Array}  classes as they were drawn last */
  #shown = new Int32Array(0);
  /** @type {import("./mapwave.js").Wave | null} */
  #wave = null;
  /** @type {{ id: number, x: number, y: number }[]} */
  #names = [];

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    super();
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  }

  /** @param {Float32Array} places */
  place(places) {
    super.place(places);
    this.#nameClasses();
    this.redraw();
  }

  /** The labels have changed: colors spread from what was labeled. */
  relabeled() {
    const now = store.columns.classes;
    this.#wave = spread(this.#wave, this.#shown, now, this.xs, this.ys);
    this.#shown = now.slice();
    this.#nameClasses();
    this.redraw();
  }

  #nameClasses() {
    this.#names = densest(this.xs, this.ys, this.reach);
  }

  redraw() {
    if (!this.#waiting) requestAnimationFrame(() => this.#draw());
    this.#waiting = true;
  }

  radius() {
    const crowd = Math.max(1.3, Math.min(5, 120 / Math.sqrt(this.xs.length + 300)));
    return crowd * Math.max(0.75, Math.min(1.15, this.width / 700)) * Math.min(3, Math.sqrt(this.look.zoom));
  }

  #draw() {
    this.#waiting = false;
    const { canvas, context, width, height } = this;
    clearCanvas(context, width, height);
    const { columns } = store;
    if (!this.xs.length || columns.n !== this.xs.length || !width) return;
    const style = getComputedStyle(canvas);
    const css = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    this.#points(this.radius());
    this.#marks(this.radius(), css);
    if (this.coloring === "class") this.#writeNames(css);
    if (this.lasso.length > 1) this.#drawLasso(css("--accent"));
    if (this.#wave && lasts(this.#wave)) this.redraw();
    else this.#wave = null;
  }

  /** All discs, one fill for each color. @param {number} r */
  #points(r) {
    const { context, width, height, xs, ys } = this;
    const { columns, filter } = store;
    const scale = this.scale();
    const [ox, oy] = [width / 2 - this.look.x * scale, height / 2 - this.look.y * scale];
    const passed = this.#wave ? performance.now() - this.#wave.start : 0;
    /** @type {Map<number, Path2D>}  by class and how pale */
    const paths = new Map();
    const square = xs.length > 20_000 && r < 2.4;
    for (let i = 0; i < xs.length; i++) {
      const [x, y] = [xs[i] * scale + ox, ys[i] * scale + oy];
      if (!(x > -9 && x < width + 9 && y > -9 && y < height + 9)) continue;
      let id = columns.classes[i];
      let size = r;
      if (this.#wave && this.#wave.old[i] !== id) {
        const since = passed - this.#wave.delay[i];
        if (since < 0) id = this.#wave.old[i];
        else if (since < GROWS) size = r * (1 + 0.9 * (1 - since / GROWS));
      }
      const confidence = columns.confidence[i];
      const dim = filter.only !== null && id !== filter.only;
      const level = dim
        ? 3
        : this.coloring === "confidence"
          ? Math.min(STEPS - 1, Math.floor((confidence || 0) * STEPS))
          : id < 0
            ? 1
            : confidence >= 0.8
              ? 2
              : confidence >= 0.5
                ? 1
                : 0;
      const key =
        this.coloring === "confidence"
          ? (id < 0 || columns.origins[i] === ORIGIN.given ? -1 : level) + (dim ? 100 : 0)
          : id * 4 + level;
      let path = paths.get(key);
      if (!path) paths.set(key, (path = new Path2D()));
      if (square) path.rect(x - size, y - size, 2 * size, 2 * size);
      else {
        path.moveTo(x + size, y);
        path.arc(x, y, size, 0, 6.2832);
      }
    }
    const steps = this.coloring === "confidence" ? confidenceColors(isDark(), STEPS) : [];
    // What has no label lies below.
    for (const [key, path] of [...paths].sort(([a], [b]) => a - b)) {
      if (this.coloring === "confidence") {
        const level = key >= 99 ? key - 100 : key;
        context.globalAlpha = key >= 99 ? 0.1 : 0.85;
        context.fillStyle = level < 0 ? colorOf(-1) : steps[level];
      } else {
        const id = Math.floor(key / 4);
        const level = key - 4 * id;
        context.globalAlpha = level === 3 ? 0.1 : id < 0 ? 0.5 : PALE[level];
        context.fillStyle = colorOf(id);
      }
      context.fill(path);
    }
    context.globalAlpha = 1;
  }

  /** @param {number} r @param {(name: string) => string} css */
  #marks(r, css) {
    const { context } = this;
    const pen = penOf(context, this);
    const { columns, filter } = store;
    const [ink, paper, accent, bad] = [css("--ink"), css("--paper"), css("--accent"), css("--bad")];
    const seen = (/** @type {number} */ i) =>
      this.left(i) > -9 && this.left(i) < this.width + 9 && this.top(i) > -9 && this.top(i) < this.height + 9;
    let given = 0;
    for (let i = 0; i < columns.n; i++) if (columns.origins[i] === ORIGIN.given) given++;
    // Rings around thousands of labels would hide the map.
    const small = given > 400;
    for (let i = 0; i < columns.n; i++) {
      const disputed = columns.flags[i] & FLAG.disputed;
      if (
        (columns.origins[i] !== ORIGIN.given && !disputed) ||
        (filter.only !== null && columns.classes[i] !== filter.only) ||
        !seen(i)
      )
        continue;
      if (!small && columns.origins[i] === ORIGIN.given) pen.given(i, r + 1.6, colorOf(columns.classes[i]), ink);
      if (disputed) pen.cross(i, r + 3.5, bad);
    }
    if (store.view !== "gallery")
      for (const i of store.queue.slice(0, 24))
        if (columns.origins[i] !== ORIGIN.given && seen(i)) pen.ring(i, r + 2.5, accent, 1.4, paper);
    if (store.selection.size) {
      const path = new Path2D();
      for (const i of store.selection) {
        if (!seen(i)) continue;
        path.moveTo(this.left(i) + r + 1.5, this.top(i));
        path.arc(this.left(i), this.top(i), r + 1.5, 0, 6.2832);
      }
      context.lineWidth = 1.8;
      context.strokeStyle = accent;
      context.stroke(path);
    }
    for (const i of new Set([store.focus, this.hover]))
      if (i >= 0 && i < columns.n && seen(i)) pen.ring(i, r + 5, ink, 2.5, paper);
  }

  /** @param {(name: string) => string} css */
  #writeNames(css) {
    const { context } = this;
    const scale = this.scale();
    const size = Math.max(11, Math.min(15, this.width / 45));
    context.font = `650 ${size}px ${getComputedStyle(document.body).fontFamily}`;
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineJoin = "round";
    for (const { id, x, y } of this.#names) {
      const known = store.classOf(id);
      if (!known || (store.filter.only !== null && store.filter.only !== id)) continue;
      const name = known.name.length > 18 ? `${[...known.name].slice(0, 17).join("")}\u2026` : known.name;
      const half = context.measureText(name).width / 2 + 4;
      const left = Math.max(half, Math.min(this.width - half, (x - this.look.x) * scale + this.width / 2));
      const top = (y - this.look.y) * scale + this.height / 2;
      context.lineWidth = 4;
      context.strokeStyle = css("--paper");
      context.globalAlpha = 0.85;
      context.strokeText(name, left, top);
      context.globalAlpha = 1;
      context.fillStyle = css("--ink");
      context.fillText(name, left, top);
    }
  }

  /** @param {string} color */
  #drawLasso(color) {
    const { context } = this;
    context.beginPath();
    this.lasso.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = color;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.strokeStyle = color;
    context.stroke();
    context.setLineDash([]);
  }
}
