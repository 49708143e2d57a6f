"""What is read before shards are labeled; tests/ray/test_cluster.py labels some."""

from __future__ import annotations

import numpy as np
import pytest

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.ray.label_shards import _given, is_sharded, label_shards


@pytest.mark.parametrize("name", ["s3://bucket/set", "gs://bucket/rows.npy", "set/part-*.npy"])
def test_urls_and_patterns_name_shards(name):
    assert is_sharded(name)


def test_a_folder_of_arrays_holds_shards_and_no_other_does(tmp_path):
    assert not is_sharded(str(tmp_path))
    (tmp_path / "photo.png").write_bytes(b"")
    assert not is_sharded(str(tmp_path))
    np.save(tmp_path / "part.npy", np.eye(2))
    assert is_sharded(str(tmp_path))
    assert not is_sharded(str(tmp_path / "part.npy"))


@pytest.mark.parametrize("name", ["all.csv", "all.JSONL", "all.parquet", "all.parquet/", "s3://bucket/all.parquet"])
def test_an_output_that_is_named_as_a_file_is_refused(tmp_path, name):
    with pytest.raises(LabelingError, match=rf"^{name}: the output of shards is a folder of Parquet files; .*\.$"):
        label_shards(tmp_path, {0: "a", 1: "b"}, name)


def test_an_output_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "all").touch()
    with pytest.raises(
        LabelingError, match=r"all: the output of shards is a folder of Parquet files, and this is a file"
    ):
        label_shards(tmp_path, {0: "a", 1: "b"}, tmp_path / "all")


def test_ids_must_be_row_numbers(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label\n0,a\nphoto.png,b\n")
    with pytest.raises(LabelingError, match=r"ids of shards are row numbers from 0, and 'photo.png' are not"):
        label_shards(tmp_path, tmp_path / "labels.csv", tmp_path / "out")


def test_predictions_of_ours_do_not_count(tmp_path):
    (tmp_path / "labels.csv").write_text("id,label,origin\n0,a,given\n1,b,predicted\n2,b,\n")
    with pytest.warns(UserWarning, match="1 of its 3 labels are predictions of laplacianshot"):
        rows, labels = _given(tmp_path / "labels.csv")
    assert (rows.tolist(), labels) == ([0, 2], ["a", "b"])


def test_a_file_of_labels_must_be_there(tmp_path):
    with pytest.raises(LabelingError, match="file of labels not found"):
        label_shards(tmp_path, tmp_path / "labels.csv", tmp_path / "out")
