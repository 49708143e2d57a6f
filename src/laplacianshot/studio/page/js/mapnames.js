// @ts-check
/** Where the names of classes stand on the map: where each is densest. */

import { store } from "./store.js";

/** Cells along a side, over which items are counted; with more classes than this none is named. */
const SIDE = 22;
const NAMES = 40;

/**
 * The middle of the fullest cell of each class, full together with its neighbors.
 *
 * @param {Float32Array} xs
 * @param {Float32Array} ys
 * @param {{ x: number, y: number }} reach  half the width and height of the map
 * @returns {{ id: number, x: number, y: number }[]}
 */
export function densest(xs, ys, reach) {
  const { columns } = store;
  if (columns.n !== xs.length || store.classes.length > NAMES) return [];
  /** @type {Map<number, { n: Float32Array, x: Float32Array, y: Float32Array }>} */
  const counted = new Map();
  for (let i = 0; i < xs.length; i++) {
    const id = columns.classes[i];
    if (id < 0 || Number.isNaN(xs[i])) continue;
    let cells = counted.get(id);
    if (!cells) counted.set(id, (cells = empty()));
    const k = along(xs[i], reach.x) + SIDE * along(ys[i], reach.y);
    cells.n[k]++;
    cells.x[k] += xs[i];
    cells.y[k] += ys[i];
  }
  return [...counted].map(([id, { n, x, y }]) => {
    const k = fullest(n);
    return { id, x: x[k] / n[k], y: y[k] / n[k] };
  });
}

const empty = () => {
  const [n, x, y] = [0, 1, 2].map(() => new Float32Array(SIDE * SIDE));
  return { n, x, y };
};

/** @param {number} value @param {number} reach */
const along = (value, reach) => Math.min(SIDE - 1, Math.max(0, Math.floor(((value / reach + 1) / 2) * SIDE)));

/** @param {Float32Array} cells */
function fullest(cells) {
  let [best, most] = [0, -1];
  for (let k = 0; k < cells.length; k++) {
    if (!cells[k]) continue;
    let around = 2 * cells[k];
    for (const row of [-SIDE, 0, SIDE]) for (const column of [-1, 0, 1]) around += cells[k + row + column] ?? 0;
    if (around > most) [best, most] = [k, around];
  }
  return best;
}
