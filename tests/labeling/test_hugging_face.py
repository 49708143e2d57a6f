from __future__ import annotations

import datasets
import numpy as np
import pytest
from PIL import Image as Pictures

from laplacianshot import label_source
from laplacianshot.cli.app import run
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.exports import export_dataset
from laplacianshot.labeling.outputs import columns_of_result
from laplacianshot.labeling.sources import open_source
from tests.labeling.drawings import CLASSES, draw, draw_folder
from tests.labeling.files import result_of


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    """Nothing is loaded from a hub, and nothing stays in the user's cache."""
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "hf-cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)


def texts(n=6):
    labels = datasets.ClassLabel(names=["refund", "card"])
    features = datasets.Features(
        {"text": datasets.Value("string"), "customer": datasets.Value("int32"), "label": labels}
    )
    rows = {"text": [f"text {i}" for i in range(n)], "customer": list(range(n)), "label": [0, 1] + [-1] * (n - 2)}
    return datasets.Dataset.from_dict(rows, features=features)


def drawings(per_class=4):
    rows = [(draw(kind, seed), kind if seed == 0 else -1) for seed in range(per_class) for kind in range(3)]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=list(CLASSES))})
    return datasets.Dataset.from_dict({"image": [r[0] for r in rows], "label": [r[1] for r in rows]}, features=features)


def saved(data, folder):
    data.save_to_disk(folder)
    return f"hf-dataset:{folder}"


def parquet_folder(data, folder):
    folder.mkdir()
    data.to_parquet(folder / "train.parquet")
    return f"hf-dataset:{folder}"


def parquet_file(data, folder):
    data.to_parquet(folder.with_suffix(".parquet"))
    return f"hf-dataset:{folder.with_suffix('.parquet')}"


@pytest.mark.parametrize("kept", [saved, parquet_folder, parquet_file, lambda data, folder: data])
def test_texts_have_the_names_of_their_labels_and_keep_their_columns(tmp_path, kept):
    source = open_source(kept(texts(), tmp_path / "data"))
    assert source.kind == "texts"
    assert source.texts == tuple(f"text {i}" for i in range(6))
    assert source.given == ("refund", "card", None, None, None, None)
    assert source.whole_ids
    assert source.columns["customer"].to_pylist() == list(range(6))


@pytest.mark.parametrize("kept", [saved, parquet_folder, lambda data, folder: data])
def test_pictures_are_labeled(tmp_path, kept):
    result = label_source(kept(drawings(), tmp_path / "data"), cache=tmp_path / "cache")
    assert result.labels == CLASSES * 4
    assert result.source.load(0).size == (64, 64)
    # The second run encodes nothing.
    again = label_source(kept(drawings(), tmp_path / "again"), cache=tmp_path / "cache")
    assert again.settings["cached"] == 12


def test_pictures_may_be_files_beside_the_data(tmp_path):
    draw_folder(tmp_path / "photos", per_class=1)
    files = sorted(str(path) for path in (tmp_path / "photos").rglob("*.png"))
    data = datasets.Dataset.from_dict({"image": files}).cast_column("image", datasets.Image())
    source = open_source(data)
    assert source.load(0).size == Pictures.open(files[0]).size
    assert len({source.content_hash(i) for i in range(3)}) == 3


def test_a_picture_that_is_not_there_is_left_out_with_a_reason(tmp_path):
    rows = {"image": [draw(0, 1), None, draw(1, 1)], "label": ["ball", None, "box"]}
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("string")})
    result = label_source(datasets.Dataset.from_dict(rows, features=features), cache=False)
    assert [(one.id, one.reason) for one in result.skipped] == [("1", "there is no picture")]


def test_vectors_are_a_column_of_lists():
    rows = np.eye(4, 3, dtype=np.float32)
    source = open_source(datasets.Dataset.from_dict({"embedding": rows.tolist(), "note": list("abcd")}))
    assert source.kind == "vectors"
    np.testing.assert_array_equal(source.vectors, rows)
    assert list(source.columns) == ["note"]


def test_a_text_column_comes_before_pictures():
    data = drawings(1).add_column("caption", ["one", "two", "three"])
    assert open_source(data, text_column="caption").texts == ("one", "two", "three")


def test_rows_that_were_chosen_and_shuffled_stay_so():
    data = texts().select([4, 1, 3])
    assert open_source(data).texts == ("text 4", "text 1", "text 3")
    assert open_source(drawings().select([5, 0])).given == (None, "ball")


def test_a_split_is_chosen_by_name(tmp_path):
    where = saved(datasets.DatasetDict({"train": texts(), "test": texts(2)}), tmp_path / "data")
    assert len(open_source(f"{where}@test")) == 2
    with pytest.raises(
        LabelingError, match=r"which of its splits .* not clear; write hf-dataset:.*data@SPLIT with one"
    ):
        open_source(where)
    with pytest.raises(LabelingError, match="there is no split 'val'"):
        open_source(f"{where}@val")
    alone = saved(texts(), tmp_path / "alone")
    with pytest.raises(LabelingError, match="has no splits; leave @train out"):
        open_source(f"{alone}@train")


@pytest.mark.parametrize("name", ["", "somebody/does-not-exist", "no-such-folder,config@train"])
def test_what_cannot_be_loaded_is_an_error_of_one_line(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LabelingError, match="hf-dataset:") as caught:
        open_source(f"hf-dataset:{name}")
    assert "\n" not in str(caught.value)


# The other way: labels as a data set.


def test_labels_come_back_as_a_data_set_of_pictures(tmp_path):
    truth = draw_folder(tmp_path / "photos", per_class=2)
    source = open_source(tmp_path / "photos", labels_file=True)
    labels = [truth[name] for name in source.ids[:-1]] + [""]
    result = result_of(source.ids, labels, source=source, rows=np.arange(len(source)))
    (tmp_path / "out").mkdir()
    export_dataset(result, source, tmp_path / "out" / "README.md")
    data = datasets.load_dataset(str(tmp_path / "out"), cache_dir=str(tmp_path / "c"))["train"]
    assert isinstance(data.features["label"], datasets.ClassLabel)
    assert [data.features["label"].int2str(code) if code >= 0 else "" for code in data["label"]] == labels
    assert isinstance(data.features["image"], datasets.Image)
    with Pictures.open(source.file(0)) as picture:
        assert data[0]["image"].tobytes() == picture.tobytes()
    assert data["origin"][0] == "given"
    assert data["confidence"][-1] == pytest.approx(result.confidence[-1], abs=1e-6)
    # And it is a source again.
    assert open_source(f"hf-dataset:{tmp_path / 'out'}").kind == "pictures"


def test_texts_and_vectors_come_back_with_their_columns(tmp_path):
    held = {
        "texts": open_source(texts()),
        "list": open_source(["one", "two"]),
        "vectors": open_source(np.eye(3, 4)),
    }
    for name, source in held.items():
        n = len(source)
        result = result_of(source.ids, ["x", "y", *["x"] * (n - 2)], source=source, rows=np.arange(n))
        if source.kind == "vectors":
            result = result_of(source.ids, result.labels, source=source, rows=np.arange(n), vectors=source.vectors)
        (tmp_path / name).mkdir()
        export_dataset(result, source, tmp_path / name / "README.md")
        data = datasets.load_dataset(str(tmp_path / name), cache_dir=str(tmp_path / "c"))["train"]
        assert data["id"][:] == list(range(n))
        expected = columns_of_result(result)
        assert set(expected) - {"written"} <= set(data.column_names)
        if name == "vectors":
            np.testing.assert_array_equal(data["vector"][:], np.eye(3, 4))
        elif name == "list":
            assert data["text"][:] == ["one", "two"]


def test_the_shell_labels_a_data_set_and_writes_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    drawings().save_to_disk("shapes")
    assert run(["label", "hf-dataset:shapes", "-o", "out.csv", "--export", "hf-dataset", "--no-cache"]) == 0
    printed = capsys.readouterr().out
    assert "datasets.load_dataset(" in printed
    data = datasets.load_dataset("out.hf-dataset", cache_dir=str(tmp_path / "c"))["train"]
    assert data.features["label"].int2str(data["label"][:]) == list(CLASSES) * 4
