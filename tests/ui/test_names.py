from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from laplacianshot.ui.names import in_order, line, passage, short_path

# Halves of characters too: file names can hold them.
ANY = st.text(st.characters(), max_size=300) | st.text("ab\n\ud800\x00 ", max_size=300)


@given(ANY, st.integers(1, 100))
def test_a_name_is_one_printable_line_of_bounded_length(text, most):
    shown = line(text, most)
    assert len(shown) <= most
    assert len(shown.splitlines()) <= 1 or set("\x85\u2028\u2029") & set(text)
    assert not any(ord(c) < 32 or ord(c) == 127 for c in shown)
    shown.encode("utf-8")
    if len(text) <= most and text.isprintable():
        assert shown == text


@given(ANY, st.integers(2, 100))
def test_a_passage_is_the_beginning_of_a_text(text, most):
    shown = passage(text, most)
    assert len(shown) <= most
    assert "\n" not in shown
    shown.encode("utf-8")
    if text.isprintable():
        whole = " ".join(text.split())
        assert shown == whole or (shown.endswith("…") and whole.startswith(shown[:-1]))


def test_the_middle_of_a_long_name_is_left_out():
    assert line("photographs/of/birds/heron_0001.jpg", 20) == "photographs…0001.jpg"


@pytest.mark.parametrize(
    ("most", "shown"),
    [
        (40, "photographs/of/birds/heron_0001.jpg"),
        (34, "photographs/…/birds/heron_0001.jpg"),
        (30, "photographs/…/heron_0001.jpg"),
        (20, "photographs…0001.jpg"),
    ],
)
def test_of_a_long_path_the_folders_in_the_middle_are_left_out_first(most, shown):
    assert short_path("photographs/of/birds/heron_0001.jpg", most) == shown


@given(ANY, st.integers(1, 100))
def test_a_path_is_one_printable_line_of_bounded_length(text, most):
    shown = short_path(text, most)
    assert len(shown) <= most
    assert not any(ord(c) < 32 or ord(c) == 127 for c in shown)
    shown.encode("utf-8")


@pytest.mark.parametrize("length", [10_000, 1_000_000])
def test_a_book_is_cut_as_well_as_a_sentence(length):
    text = "word " * length
    assert passage(text, 20) == "word word word word…"
    assert line(text, 21).startswith("word word")


@given(st.text("abÄ -", max_size=5), st.integers(0, 10**9), st.integers(0, 10**9), ANY)
def test_numbers_in_names_are_ordered_by_their_size(before, one, other, after):
    names = [f"{before}{number}x{after}" for number in (one, other)]
    assert (in_order(names[0]) < in_order(names[1])) == (one < other)
