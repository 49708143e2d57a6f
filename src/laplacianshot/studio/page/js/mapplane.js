// @ts-check
/** Places of the items: in the map's own measure, and on the screen. */

/** @typedef {{ x: number, y: number, zoom: number }} Look  what is in the middle, and how near */

/** Pixels between the outermost items and the edge. */
const EDGE = 26;

export class Plane {
  /** @type {Float32Array} */
  xs = new Float32Array(0);
  /** @type {Float32Array} */
  ys = new Float32Array(0);
  /** @type {Look} */
  look = { x: 0, y: 0, zoom: 1 };
  /** Half the width and height of all places. */
  reach = { x: 1, y: 1 };
  /** Of the screen, in pixels. */
  width = 0;
  height = 0;

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
      this.reach = { x: Math.max(1e-3, (right - left) / 2), y: Math.max(1e-3, (bottom - top) / 2) };
    }
  }

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

  /** A place on the screen in the map's own measure. @param {number} x @param {number} y @returns {[number, number]} */
  within(x, y) {
    const scale = this.scale();
    return [(x - this.width / 2) / scale + this.look.x, (y - this.height / 2) / scale + this.look.y];
  }

  /**
   * The item nearest to a place on the screen, -1 if none is within reach.
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
   */
  ahead(from, dx, dy) {
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < this.xs.length; i++) {
      const [x, y] = [this.xs[i] - this.xs[from], this.ys[i] - this.ys[from]];
      const along = x * dx + y * dy;
      const aside = Math.abs(x * dy - y * dx);
      if (along > 0 && aside <= along && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    }
    return best;
  }

  /** @param {number} i */
  inSight(i) {
    const [x, y] = [this.left(i), this.top(i)];
    return x >= 0 && x <= this.width && y >= 0 && y <= this.height;
  }
}
