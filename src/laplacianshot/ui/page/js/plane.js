// @ts-check
/**
 * What every map of items shares: positions, zoom, pointers, and how items are marked.
 *
 * The studio imports this module. A report contains it as text, so it imports nothing itself.
 */

/** @typedef {{ x: number, y: number, zoom: number }} Look  the center of the view, and how far it is zoomed in */
/** @typedef {[number, number]} Point */

/** Pixels between the outermost items and the edge. */
const EDGE = 26;
const CIRCLE = 2 * Math.PI;

export class Plane {
  /** @type {Float32Array} */
  xs = new Float32Array(0);
  /** @type {Float32Array} */
  ys = new Float32Array(0);
  /** @type {Look} */
  look = { x: 0, y: 0, zoom: 1 };
  /** Half the width and height of the area that contains all items. */
  reach = { x: 1, y: 1 };
  /** Size of the canvas in pixels. */
  width = 0;
  height = 0;

  /** Set the positions x, y of all items, NaN where an item has none. @param {Float32Array} places */
  place(places) {
    const n = places.length / 2;
    this.xs = new Float32Array(n);
    this.ys = new Float32Array(n);
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < n; i++) {
      const [x, y] = [places[2 * i], -places[2 * i + 1]];
      this.xs[i] = x;
      this.ys[i] = y;
      // NaN fails every comparison.
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
      this.reach = { x: Math.max(1e-3, (right - left) / 2), y: Math.max(1e-3, (bottom - top) / 2) };
    }
  }

  /** Pixels per unit of the map. */
  scale() {
    return (
      Math.max(1, Math.min((this.width / 2 - EDGE) / this.reach.x, (this.height / 2 - EDGE) / this.reach.y)) *
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

  /** Convert pixels to the map's own units. @param {number} x @param {number} y @returns {[number, number]} */
  within(x, y) {
    const scale = this.scale();
    return [(x - this.width / 2) / scale + this.look.x, (y - this.height / 2) / scale + this.look.y];
  }

  /**
   * The item nearest to a pixel, -1 if none is within reach.
   *
   * @param {number} x
   * @param {number} y
   * @param {number} reach
   * @param {(item: number) => boolean} allowed
   */
  nearest(x, y, reach, allowed) {
    const [mx, my] = this.within(x, y);
    let best = -1;
    let least = (reach / this.scale()) ** 2;
    for (let i = 0; i < this.xs.length; i++) {
      const square = (this.xs[i] - mx) ** 2 + (this.ys[i] - my) ** 2;
      if (square < least && allowed(i)) [best, least] = [i, square];
    }
    return best;
  }

  /**
   * The nearest item in a direction, -1 if there is none.
   *
   * @param {number} from
   * @param {number} dx
   * @param {number} dy
   * @param {(item: number) => boolean} [allowed]
   */
  ahead(from, dx, dy, allowed = () => true) {
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < this.xs.length; i++) {
      const [x, y] = [this.xs[i] - this.xs[from], this.ys[i] - this.ys[from]];
      const along = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      if (along > 0 && aside <= along && along + 2 * aside < least && allowed(i)) [best, least] = [i, along + 2 * aside];
    }
    return best;
  }

  /** Whether an item is on the canvas. @param {number} i */
  inSight(i) {
    const [x, y] = [this.left(i), this.top(i)];
    return x >= 0 && x <= this.width && y >= 0 && y <= this.height;
  }
  /**
   * Zoom by a factor; the map stays in place under the pixel x, y.
   *
   * @param {number} factor
   * @param {number} x
   * @param {number} y
   * @param {Point} limits
   */
  zoom(factor, x, y, limits) {
    const before = this.within(x, y);
    this.look.zoom = Math.max(limits[0], Math.min(limits[1], this.look.zoom * factor));
    const after = this.within(x, y);
    this.look.x += before[0] - after[0];
    this.look.y += before[1] - after[1];
  }

  /** Move the map by pixels. @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.look.x -= dx / this.scale();
    this.look.y -= dy / this.scale();
  }

  /** Put a tooltip beside an item, within the canvas. @param {HTMLElement} tip @param {number} i */
  putBeside(tip, i) {
    const [x, y, w, h] = [this.left(i), this.top(i), tip.offsetWidth, tip.offsetHeight];
    const beside = x + 16 + w > this.width ? x - w - 16 : x + 16;
    tip.style.left = `${Math.max(4, Math.min(this.width - w - 4, beside))}px`;
    tip.style.top = `${Math.max(4, Math.min(this.height - h - 4, y - h / 2))}px`;
  }
}

/** The arrow keys as directions. @type {Record<string, Point | undefined>} */
export const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/** Where on an element an event is, in pixels. @param {MouseEvent} event @param {Element} element @returns {Point} */
export function pixelOf(event, element) {
  const box = element.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/**
 * @typedef {object} PointerHandlers
 * @property {(event: PointerEvent, at: Point, fingers: number) => void} [press]
 * @property {(at: Point) => void} hover  a mouse moves and no button is pressed
 * @property {(at: Point, before: Point) => boolean} drag  whether the next drag starts here
 * @property {(factor: number, at: Point) => void} pinch
 * @property {(event: PointerEvent, at: Point, dragged: boolean) => void} release
 */

/** Call handlers for what a mouse, a pen or fingers do. @param {HTMLElement} element @param {PointerHandlers} on */
export function followPointers(element, on) {
  /** @type {Map<number, Point>} */
  const fingers = new Map();
  let dragged = false;
  const spread = () => {
    const [a, b] = [...fingers.values()];
    return Math.hypot(a[0] - b[0], a[1] - b[1]);
  };
  element.addEventListener("pointerdown", (event) => {
    if (event.button > 0) return;
    const at = pixelOf(event, element);
    fingers.set(event.pointerId, at);
    element.setPointerCapture(event.pointerId);
    dragged = false;
    on.press?.(event, at, fingers.size);
  });
  element.addEventListener("pointermove", (event) => {
    const at = pixelOf(event, element);
    const before = fingers.get(event.pointerId);
    if (!before) return on.hover(at);
    if (fingers.size === 2) {
      const old = spread();
      fingers.set(event.pointerId, at);
      return on.pinch(spread() / Math.max(1, old), at);
    }
    if (!dragged && Math.hypot(at[0] - before[0], at[1] - before[1]) < 4) return;
    dragged = true;
    if (on.drag(at, before)) fingers.set(event.pointerId, at);
  });
  const released = (/** @type {PointerEvent} */ event) => {
    if (fingers.delete(event.pointerId)) on.release(event, pixelOf(event, element), dragged);
  };
  element.addEventListener("pointerup", released);
  element.addEventListener("pointercancel", released);
}

/** Colors of confidence, from low (orange) over gray to high (blue). @param {boolean} dark @param {number} steps */
export function confidenceColors(dark, steps) {
  const ends = dark
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
  return Array.from({ length: steps }, (_, step) => {
    const at = (2 * step) / (steps - 1);
    const [from, to, share] = at < 1 ? [ends[0], ends[1], at] : [ends[1], ends[2], at - 1];
    return `rgb(${from.map((v, k) => Math.round(v + share * (to[k] - v)))})`;
  });
}

/** Fit the bitmap of a canvas to its size on the screen, and clear it. @param {CanvasRenderingContext2D} context @param {number} width @param {number} height */
export function clearCanvas(context, width, height) {
  const { canvas } = context;
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
}

/**
 * @typedef {object} Pen  draws the marks of items
 * @property {(i: number, size: number, fill: string, ink: string) => void} given  a disc with a dark edge
 * @property {(i: number, size: number, color: string, line: number, paper: string) => void} ring
 * @property {(i: number, size: number, color: string) => void} cross
 */

/** @param {CanvasRenderingContext2D} context @param {Plane} plane @returns {Pen} */
export function penOf(context, plane) {
  const circle = (/** @type {number} */ i, /** @type {number} */ size) => {
    context.beginPath();
    context.arc(plane.left(i), plane.top(i), size, 0, CIRCLE);
  };
  const stroke = (/** @type {string} */ color, /** @type {number} */ line) => {
    context.lineWidth = line;
    context.strokeStyle = color;
    context.stroke();
  };
  return {
    given(i, size, fill, ink) {
      circle(i, size);
      context.fillStyle = fill;
      context.fill();
      stroke(ink, 1.5);
    },
    ring(i, size, color, line, paper) {
      circle(i, size);
      stroke(paper, line + 2.5);
      stroke(color, line);
    },
    cross(i, size, color) {
      const [x, y] = [plane.left(i), plane.top(i)];
      context.beginPath();
      context.moveTo(x - size, y - size);
      context.lineTo(x + size, y + size);
      context.moveTo(x - size, y + size);
      context.lineTo(x + size, y - size);
      stroke(color, 2);
    },
  };
}
