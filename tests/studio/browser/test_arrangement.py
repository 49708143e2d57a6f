"""The arithmetic of the page on a hundred thousand items, run by Chromium itself: order, groups, places, lassos."""

from __future__ import annotations

import numpy as np

# Items as the server packs them: every seventh has no label, every fiftieth of the others was labeled by a person.
MADE_UP = """
  const n = 100_000;
  const columns = {
    n,
    classes: Int32Array.from({ length: n }, (_, i) => (i % 7 ? 1 + ((i * 31) % 20) : -1)),
    confidence: Float32Array.from({ length: n }, (_, i) => (i % 7 ? ((i * 7919) % 1000) / 1000 : NaN)),
    origins: Uint8Array.from({ length: n }, (_, i) => (i % 7 ? (i % 50 ? 2 : 3) : 1)),
    flags: new Uint8Array(n),
  };
  const order = Array.from({ length: 20 }, (_, k) => 20 - k);
  const everything = { pick: "all", only: null, low: 0, high: 1, found: null, sort: "sure", grouped: true };
"""


def run(page, modules, script):
    imports = "\n".join(f'const {{ {names} }} = await import("/page/js/{name}");' for name, names in modules.items())
    return page.evaluate(f"async () => {{ {imports} {MADE_UP} {script} }}")


def test_groups_follow_the_classes_and_the_surest_come_first(demo, visit):
    page = visit.open(demo.address)
    groups = run(
        page,
        {"order.js": "arrange"},
        """return arrange(columns, everything, order, new Map()).map(({ id, items }) => ({
          id, items: [...items], sure: [...items].map((i) => columns.confidence[i] + 2 * (columns.origins[i] === 3)),
        }));""",
    )
    assert [group["id"] for group in groups] == [*range(20, 0, -1), -1]
    assert sorted(item for group in groups for item in group["items"]) == list(range(100_000))
    for group in groups[:-1]:
        assert np.all(np.diff(group["sure"]) <= 0)
    # Of equals, and of what has no label, the first in the source comes first.
    assert groups[-1]["items"] == list(range(0, 100_000, 7))


def test_filters_keep_what_they_name(demo, visit):
    page = visit.open(demo.address)
    kept = run(
        page,
        {"order.js": "arrange, tally"},
        """const plain = { ...everything, grouped: false, sort: "source" };
           const keep = (part) =>
             arrange(columns, { ...plain, ...part }, order, new Map()).flatMap(({ items }) => [...items]);
           return {
             given: keep({ pick: "given" }), unlabeled: keep({ pick: "unlabeled" }), one: keep({ only: 5 }),
             sure: keep({ low: 0.9 }), unsure: tally(columns).unsure,
             both: keep({ pick: "predicted", low: 0.9 }),
           };""",
    )
    items = np.arange(100_000)
    labeled = items % 7 != 0
    confidence = np.float32((items * 7919) % 1000 / 1000)
    given = labeled & (items % 50 == 0)
    assert kept["given"] == items[given].tolist()
    assert kept["unlabeled"] == items[~labeled].tolist()
    assert kept["one"] == items[labeled & (1 + (items * 31) % 20 == 5)].tolist()
    assert kept["sure"] == items[labeled & (confidence >= np.float64(0.9))].tolist()
    assert kept["both"] == items[labeled & ~given & (confidence >= np.float64(0.9))].tolist()
    assert kept["unsure"] == np.count_nonzero(labeled & ~given & (confidence < np.float64(0.6)))


def test_only_what_is_in_sight_is_placed_and_every_item_has_one_place(demo, visit):
    page = visit.open(demo.address)
    found = run(
        page,
        {"order.js": "arrange", "grid.js": "Grid"},
        """const groups = arrange(columns, everything, order, new Map());
           const grid = new Grid(groups, { width: 690, least: 84, rowHeight: null, headed: true });
           const inSight = [];
           for (let top = 0; top < grid.height; top += 7919) {
             let placed = 0;
             for (const { block, start, end } of grid.between(top, top + 900)) {
               for (let k = start; k < end; k++) {
                 const y = grid.place(block, k).top;
                 if (y + grid.cellHeight >= top && y <= top + 900) placed++;
                 else if (y + grid.pitch < top || y > top + 900 + grid.pitch) placed += 1e6;
               }
             }
             inSight.push(placed);
           }
           let wrong = 0;
           for (let rank = 0; rank < grid.total; rank++) if (grid.rank(grid.at(rank)) !== rank) wrong++;
           let rank = 0;
           const steps = (way) => {
             for (let n = 0; ; n++) {
               const next = grid.vertical(rank, way);
               if (next === rank) return n;
               rank = next;
             }
           };
           const rows = groups.reduce((sum, { items }) => sum + Math.ceil(items.length / grid.columns), 0);
           const [down, up] = [steps(1), steps(-1)];
           return { inSight, wrong, total: grid.total, columns: grid.columns, rows, down, up };""",
    )
    assert found["total"] == 100_000
    assert found["wrong"] == 0
    # A window of 900 pixels holds at most ten rows.
    assert 0 < max(found["inSight"]) <= 10 * found["columns"]
    # The arrow down goes through every row once, and the arrow up goes back.
    assert found["down"] == found["up"] == found["rows"] - 1


def test_a_lasso_encloses_what_is_inside_and_nothing_else(demo, visit):
    page = visit.open(demo.address)
    found = run(
        page,
        {"order.js": "inside"},
        """const side = 101;
           const xs = Float32Array.from({ length: side * side }, (_, i) => (i % side) / 100);
           const ys = Float32Array.from({ length: side * side }, (_, i) => Math.floor(i / side) / 100);
           xs[0] = ys[0] = NaN;
           const [a, b, c] = [0.095, 0.505, 0.905];
           const frame = [[a, a], [c, a], [c, c], [b, c], [b, b], [a, b]];
           return { corner: inside(xs, ys, frame).length, line: inside(xs, ys, frame.slice(0, 2)).length };""",
    )
    # An L: 81 by 81 points without the quarter of 41 by 40 at one corner.
    assert found == {"corner": 81 * 81 - 41 * 40, "line": 0}
