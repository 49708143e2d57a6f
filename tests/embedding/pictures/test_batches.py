from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from laplacianshot.datasets.pictures import CorruptPicture
from laplacianshot.embedding.pictures import EvalView, TrainView, batches

VIEW = TrainView(size=16)
SIZES = [(20 + i, 30 - i) for i in range(11)]


def as_lists(loader):
    return [(batch.images.numpy().tobytes(), batch.labels.tolist(), batch.rows.tolist()) for batch in loader]


ORDER = [3, 10, 0, 7, 1, 9, 2, 8, 6, 5, 4]


def test_each_picture_comes_once_in_order_with_its_label_and_row(folder):
    pictures = folder(SIZES)
    made = list(batches(pictures, ORDER, VIEW, 4, seed=1))
    assert [len(batch.rows) for batch in made] == [4, 4, 3]
    assert np.concatenate([batch.rows for batch in made]).tolist() == ORDER
    for batch in made:
        assert batch.images.shape == (len(batch.rows), 3, 16, 16)
        assert batch.labels.dtype == torch.int64
        np.testing.assert_array_equal(batch.labels, pictures.labels[batch.rows])
        assert torch.equal(batch.images, VIEW(pictures, batch.rows, seed=1, epoch=0))


@pytest.mark.parametrize("workers", [1, 2, 5])
@pytest.mark.parametrize("view", [VIEW, EvalView(resize=18, crop=16)], ids=["train", "eval"])
def test_any_number_of_workers_gives_the_same_batches(folder, workers, view):
    pictures = folder(SIZES)
    alone = as_lists(batches(pictures, ORDER, view, 2, workers=0, seed=3, epoch=2))
    assert as_lists(batches(pictures, ORDER, view, 2, workers=workers, seed=3, epoch=2)) == alone


def test_a_picture_is_seen_the_same_in_batches_of_any_size(folder):
    pictures = folder(SIZES)

    def by_row(size):
        made = batches(pictures, ORDER, VIEW, size, seed=3, epoch=2)
        return {int(row): image for batch in made for row, image in zip(batch.rows, batch.images, strict=True)}

    small, large = by_row(2), by_row(11)
    assert all(torch.equal(small[row], large[row]) for row in range(11))


def test_rows_may_be_any_selection(folder):
    made = as_lists(batches(folder(SIZES), [7, 2, 9], VIEW, 2))
    assert [rows for _, _, rows in made] == [[7, 2], [9]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_run_that_starts_later_sees_what_is_left(folder, workers):
    pictures = folder(SIZES)
    options = {"seed": 1, "epoch": 3, "workers": workers}
    whole = as_lists(batches(pictures, ORDER, VIEW, 3, **options))
    for start in (0, 2, 4, 9):
        assert as_lists(batches(pictures, ORDER, VIEW, 3, start=start, **options)) == whole[start:]


def test_batches_left_out_at_the_start_are_not_decoded(tmp_path, folder):
    pictures = folder(SIZES)
    (tmp_path / "pictures" / "a" / "000.png").unlink()
    with pytest.raises(CorruptPicture):
        list(batches(pictures, range(11), VIEW, 3))
    assert len(list(batches(pictures, range(11), VIEW, 3, start=1))) == 3


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_an_unreadable_picture_stops_the_run_and_is_named(tmp_path, folder, workers):
    pictures = folder(SIZES)
    (tmp_path / "pictures" / "b" / "005.png").write_bytes(b"changed since")
    with pytest.raises(CorruptPicture, match=r"'b/005\.png' cannot be read"):
        list(batches(pictures, range(11), VIEW, 2, workers=workers))
    assert not loader_threads()


def loader_threads():
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("pictures")]


def test_no_thread_outlives_a_loop_that_is_left_early(folder):
    pictures = folder(SIZES)
    loader = batches(pictures, range(11), VIEW, 1, workers=2)
    next(loader)
    assert loader_threads()
    loader.close()
    assert not loader_threads()
    list(batches(pictures, range(11), VIEW, 4, workers=2))
    assert not loader_threads()


def test_decoded_pictures_stay_in_memory_from_epoch_to_epoch(tmp_path, folder):
    pictures = folder(SIZES)
    first = as_lists(batches(pictures, range(11), VIEW, 4, workers=2))
    for path in (tmp_path / "pictures").rglob("*.png"):
        path.unlink()
    assert as_lists(batches(pictures, range(11), VIEW, 4)) == first


def test_without_memory_for_them_pictures_are_decoded_each_time(tmp_path, folder, monkeypatch):
    pictures = folder(SIZES)
    kept = as_lists(batches(pictures, range(11), VIEW, 4))
    monkeypatch.setattr("laplacianshot.datasets.pictures._MAX_BYTES", 0)
    again = folder(SIZES)
    assert as_lists(batches(again, range(11), VIEW, 4)) == kept
    (tmp_path / "pictures" / "a" / "000.png").unlink()
    with pytest.raises(CorruptPicture):
        next(batches(again, range(11), VIEW, 4))


def test_no_rows_give_no_batches(folder):
    assert list(batches(folder(SIZES), [], VIEW, 4)) == []
