// @ts-check
/** Where each item of the gallery stands. Pure: sizes in, places out, so that only what is seen has to be made. */

/** @typedef {import("./order.js").Group} Group */

/**
 * @typedef {{ id: number | null, items: Int32Array, top: number, first: number, height: number }} Block
 *   top: of its heading; first: rank of its first item among all; height: with heading
 */

export const HEAD = 44;
const GAP = 10;

export class Grid {
  /** @type {Block[]} */
  blocks = [];
  /** @type {Map<number, number>}  item to its rank among all that are shown */
  #rank = new Map();
  height = 0;
  total = 0;

  /**
   * @param {Group[]} groups
   * @param {{ width: number, least: number, rowHeight: number | null, headed: boolean }} size
   *   least: width of a cell at least; rowHeight: of a cell, or null for squares with a caption
   */
  constructor(groups, { width, least, rowHeight, headed }) {
    this.columns = Math.max(1, Math.floor((width + GAP) / (least + GAP)));
    this.cellWidth = (width - GAP * (this.columns - 1)) / this.columns;
    this.cellHeight = rowHeight ?? this.cellWidth + 24;
    this.head = headed ? HEAD : 0;
    this.pitch = this.cellHeight + (rowHeight === null ? 4 : 6);
    for (const { id, items } of groups) {
      const rows = Math.ceil(items.length / this.columns);
      const height = this.head + (headed ? 8 : 0) + rows * this.pitch + (headed ? 16 : 0);
      this.blocks.push({ id, items, top: this.height, first: this.total, height });
      this.height += height;
      this.total += items.length;
    }
  }

  /** @param {Block} block @param {number} k  place in the block */
  place(block, k) {
    const top = block.top + this.head + (this.head ? 8 : 0) + Math.floor(k / this.columns) * this.pitch;
    return { left: (k % this.columns) * (this.cellWidth + GAP), top };
  }

  /** The item of this rank. @param {number} rank */
  at(rank) {
    const block = this.#blockOf(rank);
    return block ? block.items[rank - block.first] : -1;
  }

  /** @param {number} rank */
  #blockOf(rank) {
    let [low, high] = [0, this.blocks.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const block = this.blocks[middle];
      if (rank < block.first) high = middle - 1;
      else if (rank >= block.first + block.items.length) low = middle + 1;
      else return block;
    }
    return null;
  }

  /** Rank of an item, -1 if it is not shown. @param {number} item */
  rank(item) {
    // Made when it is first asked for: scrolling alone never needs it.
    if (!this.#rank.size)
      for (const { items, first } of this.blocks) items.forEach((i, k) => this.#rank.set(i, first + k));
    return this.#rank.get(item) ?? -1;
  }

  /** Top and bottom of an item. @param {number} rank */
  span(rank) {
    const block = this.#blockOf(rank);
    if (!block) return null;
    const { top } = this.place(block, rank - block.first);
    return { top, bottom: top + this.cellHeight };
  }

  /**
   * What lies between two heights.
   *
   * @param {number} from
   * @param {number} to
   * @returns {Generator<{ block: Block, start: number, end: number }>}  places start to end (not included) of each block
   */
  *between(from, to) {
    for (const block of this.blocks) {
      if (block.top > to || block.top + block.height < from) continue;
      const inner = block.top + this.head + (this.head ? 8 : 0);
      const firstRow = Math.max(0, Math.floor((from - inner) / this.pitch));
      const lastRow = Math.floor((to - inner) / this.pitch);
      const end = Math.min(block.items.length, (lastRow + 1) * this.columns);
      yield { block, start: Math.min(firstRow * this.columns, end), end: Math.max(0, end) };
    }
  }

  /** The item above or below, in the same column, over the headings. @param {number} rank @param {1 | -1} step */
  vertical(rank, step) {
    const block = this.#blockOf(rank);
    if (!block) return rank;
    const k = rank - block.first;
    const column = k % this.columns;
    const target = k + step * this.columns;
    if (target >= 0 && target < block.items.length) return rank + step * this.columns;
    if (step > 0 && Math.floor(k / this.columns) < Math.floor((block.items.length - 1) / this.columns))
      return block.first + block.items.length - 1;
    const other = this.blocks[this.blocks.indexOf(block) + step];
    if (!other) return rank;
    if (step > 0) return other.first + Math.min(column, other.items.length - 1);
    const lastRow = Math.floor((other.items.length - 1) / this.columns) * this.columns;
    return other.first + Math.min(lastRow + column, other.items.length - 1);
  }
}
