// @ts-check
/** Draws the map on a canvas: items as discs of their class, paler where unsure; given ones ringed, disputed ones crossed. */

import { colourOf, isDark } from "./colour.js";
import { FLAG, ORIGIN } from "./order.js";
import { store } from "./store.js";

/** @typedef {{ x: number, y: number, zoom: number }} Look  centre in the map's own measure */
/** @typedef {"class" | "sure"} Colouring */

const PALE = [0.28, 0.5, 0.8];
const STEPS = 14;
/** Milliseconds in which a new label spreads over the map, and from how many items on it does not. */
const SPREAD = 520;
const TOO_MANY = 30_000;
const NAMES = 40;

/** Unsure to sure: from orange over grey to blue. */
function ramp() {
  const ends = isDark()
    ? [
        [255, 154, 102],
        [96, 105, 115],
        [88, 180, 236],
      ]
    : [
        [213, 94, 0],
        [200, 205, 211],
        [0, 114, 178],
      ];
  return Array.from({ length: STEPS }, (_, step) => {
    const at = (2 * step) / (STEPS - 1);
    const [from, to, share] = at < 1 ? [ends[0], ends[1], at] : [ends[1], ends[2], at - 1];
    return `rgb(${from.map((v, k) => Math.round(v + share * (to[k] - v)))})`;
  });
}

export class Drawing {
  /** @type {Float32Array} */
  xs = new Float32Array(0);
  /** @type {Float32Array} */
  ys = new Float32Array(0);
  /** @type {Look} */
  look = { x: 0, y: 0, zoom: 1 };
  /** @type {Colouring} */
  colouring = "class";
  /** @type {[number, number][]}  on the screen */
  lasso = [];
  hover = -1;
  width = 0;
  height = 0;
  #reach = { x: 1, y: 1 };
  #waiting = false;
  /** @type {Int32Array}  classes as they were drawn last */
  #shown = new Int32Array(0);
  /** @type {{ old: Int32Array, delay: Float32Array, start: number } | null} */
  #wave = null;
  /** @type {{ id: number, x: number, y: number }[]} */
  #names = [];

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  }

  /** @param {Float32Array} places */
  place(places) {
    const n = places.length / 2;
    this.xs = new Float32Array(n);
    this.ys = new Float32Array(n);
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const [x, y] = [places[2 * i], -places[2 * i + 1]];
      this.xs[i] = x;
      this.ys[i] = y;
      // NaN, where an item has no place yet, fails every comparison.
      if (x < left) left = x;
      if (x > right) right = x;
      if (y < top) top = y;
      if (y > bottom) bottom = y;
    }
    if (left <= right) {
      for (let i = 0; i < n; i++) {
        this.xs[i] -= (left + right) / 2;
        this.ys[i] -= (top + bottom) / 2;
      }
      this.#reach = { x: Math.max(1e-3, (right - left) / 2), y: Math.max(1e-3, (bottom - top) / 2) };
    }
    this.#nameClasses();
    this.redraw();
  }

  scale() {
    return (
      Math.max(1, Math.min((this.width / 2 - 26) / this.#reach.x, (this.height / 2 - 26) / this.#reach.y)) *
      this.look.zoom
    );
  }

  /** @param {number} i */
  left(i) {
    return this.width / 2 + (this.xs[i] - this.look.x) * this.scale();
  }

  /** @param {number} i */
  top(i) {
    return this.height / 2 + (this.ys[i] - this.look.y) * this.scale();
  }

  /** A place on the screen in the map's own measure. @param {number} x @param {number} y @returns {[number, number]} */
  within(x, y) {
    const scale = this.scale();
    return [(x - this.width / 2) / scale + this.look.x, (y - this.height / 2) / scale + this.look.y];
  }

  /** The labels have changed: colours spread from what was labelled. */
  relabelled() {
    const now = store.columns.classes;
    const { xs, ys } = this;
    const n = xs.length;
    const old = this.#shown;
    this.#shown = now.slice();
    this.#nameClasses();
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if (old.length !== n || n > TOO_MANY || still || now.length !== n) return this.redraw();
    let changed = 0;
    const sources = [];
    for (let i = 0; i < n; i++) {
      if (old[i] === now[i]) continue;
      changed++;
      if (store.columns.origins[i] === ORIGIN.given && sources.length < 40) sources.push(i);
    }
    if (!changed) return this.redraw();
    // Without a new label in sight colours spread from the item that was looked at last.
    if (!sources.length && store.focus >= 0) sources.push(store.focus);
    const delay = new Float32Array(n);
    let far = 1e-6;
    for (let i = 0; i < n; i++) {
      if (old[i] === now[i]) continue;
      let least = sources.length ? Infinity : 0;
      for (const s of sources) least = Math.min(least, Math.hypot(xs[i] - xs[s], ys[i] - ys[s]) || 0);
      delay[i] = least;
      if (least > far) far = least;
    }
    for (let i = 0; i < n; i++) delay[i] = (delay[i] / far) * SPREAD;
    this.#wave = { old: this.#wave ? this.#halfway() : old, delay, start: performance.now() };
    this.redraw();
  }

  /** Classes as they are seen at this moment of a spread. */
  #halfway() {
    const wave = this.#wave;
    if (!wave) return this.#shown;
    const passed = performance.now() - wave.start;
    return wave.old.map((id, i) => (passed >= wave.delay[i] ? store.columns.classes[i] : id));
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
    const ratio = window.devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { columns } = store;
    if (!this.xs.length || columns.n !== this.xs.length || !width) return;
    const style = getComputedStyle(canvas);
    const css = (/** @type {string} */ name) => style.getPropertyValue(name).trim();
    this.#points(this.radius());
    this.#marks(this.radius(), css);
    if (this.colouring === "class") this.#writeNames(css);
    if (this.lasso.length > 1) this.#drawLasso(css("--accent"));
    if (this.#wave && performance.now() - this.#wave.start < SPREAD + 200) this.redraw();
    else this.#wave = null;
  }

  /** All discs, one fill for each colour. @param {number} r */
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
        else if (since < 200) size = r * (1 + 0.9 * (1 - since / 200));
      }
      const sure = columns.confidence[i];
      const dim = filter.only !== null && id !== filter.only;
      const level = dim
        ? 3
        : this.colouring === "sure"
          ? Math.min(STEPS - 1, Math.floor((sure || 0) * STEPS))
          : id < 0
            ? 1
            : sure >= 0.8
              ? 2
              : sure >= 0.5
                ? 1
                : 0;
      const key =
        this.colouring === "sure"
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
    const steps = this.colouring === "sure" ? ramp() : [];
    // What has no label lies below.
    for (const [key, path] of [...paths].sort(([a], [b]) => a - b)) {
      if (this.colouring === "sure") {
        const level = key >= 99 ? key - 100 : key;
        context.globalAlpha = key >= 99 ? 0.1 : 0.85;
        context.fillStyle = level < 0 ? colourOf(-1) : steps[level];
      } else {
        const id = Math.floor(key / 4);
        const level = key - 4 * id;
        context.globalAlpha = level === 3 ? 0.1 : id < 0 ? 0.5 : PALE[level];
        context.fillStyle = colourOf(id);
      }
      context.fill(path);
    }
    context.globalAlpha = 1;
  }

  /** @param {number} r @param {(name: string) => string} css */
  #marks(r, css) {
    const { context } = this;
    const { columns, filter } = store;
    const [ink, paper, accent, bad] = [css("--ink"), css("--paper"), css("--accent"), css("--bad")];
    const seen = (/** @type {number} */ i) =>
      this.left(i) > -9 && this.left(i) < this.width + 9 && this.top(i) > -9 && this.top(i) < this.height + 9;
    const ring = (
      /** @type {number} */ i,
      /** @type {number} */ size,
      /** @type {string} */ colour,
      /** @type {number} */ line,
    ) => {
      context.beginPath();
      context.arc(this.left(i), this.top(i), size, 0, 6.2832);
      context.lineWidth = line + 2.5;
      context.strokeStyle = paper;
      context.stroke();
      context.lineWidth = line;
      context.strokeStyle = colour;
      context.stroke();
    };
    let given = 0;
    for (let i = 0; i < columns.n; i++) if (columns.origins[i] === ORIGIN.given) given++;
    // Rings around thousands of accepted labels would hide the map.
    const small = given > 400;
    for (let i = 0; i < columns.n; i++) {
      const disputed = columns.flags[i] & FLAG.disputed;
      if (
        (columns.origins[i] !== ORIGIN.given && !disputed) ||
        (filter.only !== null && columns.classes[i] !== filter.only) ||
        !seen(i)
      )
        continue;
      if (!small) {
        context.beginPath();
        context.arc(this.left(i), this.top(i), r + 1.6, 0, 6.2832);
        context.fillStyle = colourOf(columns.classes[i]);
        context.fill();
        context.lineWidth = 1.5;
        context.strokeStyle = ink;
        context.stroke();
      }
      if (disputed) this.#cross(i, r + 3.5, bad);
    }
    if (store.view !== "gallery")
      for (const i of store.queue.slice(0, 24))
        if (columns.origins[i] !== ORIGIN.given && seen(i)) ring(i, r + 2.5, accent, 1.4);
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
      if (i >= 0 && i < columns.n && seen(i)) ring(i, r + 5, ink, 2.5);
  }

  /** @param {number} i @param {number} d @param {string} colour */
  #cross(i, d, colour) {
    const [x, y, { context }] = [this.left(i), this.top(i), this];
    context.lineWidth = 2;
    context.strokeStyle = colour;
    context.beginPath();
    context.moveTo(x - d, y - d);
    context.lineTo(x + d, y + d);
    context.moveTo(x - d, y + d);
    context.lineTo(x + d, y - d);
    context.stroke();
  }

  /** A name stands where its class is densest. */
  #nameClasses() {
    const { xs, ys } = this;
    const { columns } = store;
    this.#names = [];
    if (columns.n !== xs.length || store.classes.length > NAMES) return;
    const side = 22;
    /** @type {Map<number, { cells: Float32Array, x: Float32Array, y: Float32Array }>} */
    const found = new Map();
    const cell = (/** @type {number} */ v, /** @type {number} */ reach) =>
      Math.min(side - 1, Math.max(0, Math.floor(((v / reach + 1) / 2) * side)));
    for (let i = 0; i < xs.length; i++) {
      const id = columns.classes[i];
      if (id < 0 || Number.isNaN(xs[i])) continue;
      let mine = found.get(id);
      if (!mine)
        found.set(
          id,
          (mine = {
            cells: new Float32Array(side * side),
            x: new Float32Array(side * side),
            y: new Float32Array(side * side),
          }),
        );
      const k = cell(xs[i], this.#reach.x) + side * cell(ys[i], this.#reach.y);
      mine.cells[k]++;
      mine.x[k] += xs[i];
      mine.y[k] += ys[i];
    }
    for (const [id, { cells, x, y }] of found) {
      let [best, most] = [-1, 0];
      for (let k = 0; k < cells.length; k++) {
        let around = 0;
        for (const step of [-side - 1, -side, -side + 1, -1, 0, 1, side - 1, side, side + 1])
          around += (cells[k + step] ?? 0) * (step ? 1 : 2);
        if (cells[k] && around > most) [best, most] = [k, around];
      }
      if (best >= 0) this.#names.push({ id, x: x[best] / cells[best], y: y[best] / cells[best] });
    }
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

  /** @param {string} colour */
  #drawLasso(colour) {
    const { context } = this;
    context.beginPath();
    this.lasso.forEach(([x, y], k) => (k ? context.lineTo(x, y) : context.moveTo(x, y)));
    context.closePath();
    context.globalAlpha = 0.12;
    context.fillStyle = colour;
    context.fill();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.setLineDash([6, 4]);
    context.strokeStyle = colour;
    context.stroke();
    context.setLineDash([]);
  }
}
