from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laplacianshot.studio.view import NO_CLASS, ORIGINS, Catalog, Query, View, groups

IDS = ["b/Zoo.png", "a/ape.png", "c/ÄPFEL.png", "d.png", "e f.png", "10", "9", "x<y>"]
TEXTS = ["An ape", "", "apples, red", "Red ape", "nothing", "x", "y", "red"]


def view_of(rng: np.random.Generator, n: int = len(IDS), revision: int = 0) -> View:
    origins = rng.integers(0, len(ORIGINS), n).astype(np.uint8)
    confidence = rng.choice([0.1, 0.5, 0.5, 0.9, np.nan], n).astype(np.float32)
    return View(
        revision,
        rng.choice([NO_CLASS, 1, 2, 5], n).astype(np.int32),
        origins,
        confidence,
        rng.choice([NO_CLASS, 1], n).astype(np.int32),
        rng.random(n).astype(np.float32),
        rng.random(n) < 0.5,
        rng.permutation(n).astype(np.int32),
    )


queries = st.builds(
    Query,
    classes=st.lists(st.sampled_from([NO_CLASS, 1, 2, 3]), max_size=2).map(tuple),
    origins=st.lists(st.sampled_from(ORIGINS), max_size=2).map(tuple),
    min_confidence=st.sampled_from([None, 0.0, 0.5]),
    max_confidence=st.sampled_from([None, 0.5, 1.0]),
    search=st.sampled_from(["", "ape", "red ape", "ÄPFEL", "äpfel", "<", "zz"]),
    only=st.sampled_from([None, "suggested", "disputed", "novel"]),
    sort=st.sampled_from(["index", "confidence", "-confidence", "novelty", "-novelty", "suggestion", "id", "-id"]),
)


def passes(view: View, query: Query, i: int) -> bool:
    """The meaning of a query, one item at a time."""
    words = (IDS[i] + "\n" + TEXTS[i]).casefold()
    low = -1 if query.min_confidence is None else query.min_confidence
    high = 2 if query.max_confidence is None else query.max_confidence
    bounded = query.min_confidence is not None or query.max_confidence is not None
    return (
        (not query.classes or view.classes[i] in query.classes)
        and (not query.origins or ORIGINS[view.origins[i]] in query.origins)
        and (not bounded or low <= view.confidence[i] <= high)
        and (query.only != "suggested" or view.suggestions[i] > 0)
        and (query.only != "disputed" or view.disputes[i] >= 0)
        and (query.only != "novel" or bool(view.novel[i]))
        and all(word in words for word in query.search.casefold().split())
    )


def key(view: View, sort: str, i: int) -> tuple[object, ...]:
    if sort.endswith("id"):
        value: object = IDS[i]
    elif sort == "suggestion":
        value = view.suggestions[i] or 10**9
    elif sort == "index":
        value = i
    else:
        number = float((view.confidence if sort.endswith("confidence") else view.novelty)[i])
        return (np.isnan(number), 0 if np.isnan(number) else (-number if sort.startswith("-") else number), i)
    return (value, i)


@settings(max_examples=200)
@given(queries, st.integers(0, 20))
def test_a_query_gives_the_items_that_pass_in_its_order_ties_by_index(query, seed):
    view = view_of(np.random.default_rng(seed))
    expected = [i for i in range(len(IDS)) if passes(view, query, i)]
    expected.sort(key=lambda i: key(view, query.sort, i), reverse=query.sort == "-id")
    assert Catalog(IDS, TEXTS).select(view, query).tolist() == expected


@given(queries, st.integers(0, 20))
def test_groups_part_the_items_of_a_query(query, seed):
    view = view_of(np.random.default_rng(seed))
    rows = Catalog(IDS, TEXTS).select(view, query)
    found = groups(view, rows, [1, 2, 5])
    assert sum(group.total for group in found) == len(rows)
    class_ids = [NO_CLASS if group.class_id is None else group.class_id for group in found]
    assert class_ids == [c for c in (1, 2, 5, NO_CLASS) if c in view.classes[rows]]
    for group, class_id in zip(found, class_ids, strict=True):
        members = rows[view.classes[rows] == class_id]
        known = view.confidence[members][~np.isnan(view.confidence[members])]
        assert group.total == len(members)
        assert group.given == sum(ORIGINS[o] == "given" for o in view.origins[members])
        assert group.confidence is None if not len(known) else group.confidence == pytest.approx(known.mean())


def test_an_answer_belongs_to_its_revision():
    catalog = Catalog(IDS, TEXTS)
    first, second = (view_of(np.random.default_rng(seed), revision=seed) for seed in (1, 2))
    query = Query(classes=(1,))
    assert catalog.select(first, query).tolist() == np.flatnonzero(first.classes == 1).tolist()
    assert catalog.select(second, query).tolist() == np.flatnonzero(second.classes == 1).tolist()


def test_counts_add_up_to_all_items():
    view = view_of(np.random.default_rng(3), 500)
    counts = view.counts()
    assert sum(counts[origin] for origin in ORIGINS) == 500
    assert sum(view.by_class(3).values()) == counts["given"]
