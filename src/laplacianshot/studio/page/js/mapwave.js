// @ts-check
/** How new labels spread over the map: items change their color the later, the farther they are from what was labeled. */

import { ORIGIN } from "./order.js";
import { store } from "./store.js";

/** @typedef {{ old: Int32Array, now: Int32Array, delay: Float32Array, start: number }} Wave  delay in milliseconds */

/** Milliseconds until the farthest item changes, and in which each is larger than it was. */
const SPREAD = 520;
export const GROWS = 200;
/** More items than this change at once. */
const TOO_MANY = 30_000;
/** So many of the new labels are looked at. */
const SOURCES = 40;

/** @param {Wave} wave */
export const lasts = (wave) => performance.now() - wave.start < SPREAD + GROWS;

/**
 * The wave from old classes to new ones; null where nothing is to be seen moving.
 *
 * @param {Wave | null} running  one that is not over yet
 * @param {Int32Array} old
 * @param {Int32Array} now
 * @param {Float32Array} xs
 * @param {Float32Array} ys
 * @returns {Wave | null}
 */
export function spread(running, old, now, xs, ys) {
  const n = xs.length;
  if (old.length !== n || now.length !== n || n > TOO_MANY) return null;
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return null;
  const changed = [];
  for (let i = 0; i < n; i++) if (old[i] !== now[i]) changed.push(i);
  if (!changed.length) return running && lasts(running) ? running : null;
  const sources = changed.filter((i) => store.columns.origins[i] === ORIGIN.given).slice(0, SOURCES);
  // Without a new label in sight colors spread from the item that was looked at last.
  if (!sources.length && store.focus >= 0) sources.push(store.focus);
  const delay = new Float32Array(n);
  let far = 1e-6;
  for (const i of changed) {
    let least = sources.length ? Infinity : 0;
    for (const s of sources) least = Math.min(least, Math.hypot(xs[i] - xs[s], ys[i] - ys[s]) || 0);
    delay[i] = least;
    far = Math.max(far, least);
  }
  for (const i of changed) delay[i] *= SPREAD / far;
  return { old: running ? halfway(running) : old, now: now.slice(), delay, start: performance.now() };
}

/** Classes as they are seen at this moment. @param {Wave} wave */
function halfway(wave) {
  const passed = performance.now() - wave.start;
  return wave.now.map((id, i) => (passed >= wave.delay[i] ? id : wave.old[i]));
}
