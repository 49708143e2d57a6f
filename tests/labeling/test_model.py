"""A model to take away: the same answers as the fit, before and after its file, from all that may be given to it."""

from __future__ import annotations

import contextlib
import io
import json
import stat
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from laplacianshot import LabelModel, LaplacianShot, label, label_source
from laplacianshot.labeling.classifier import CORE_ROWS, CoreSearch
from laplacianshot.labeling.errors import LabelingError
from tests.labeling.drawings import CLASSES, draw, draw_folder, first_of_each


def groups(n=240, n_classes=4, dim=16, seed=0, noise=0.4):
    rng = np.random.default_rng(seed)
    truth = np.arange(n) % n_classes
    centers = np.random.default_rng(99).standard_normal((n_classes, dim))
    return (centers[truth] + noise * rng.standard_normal((n, dim))).astype(np.float32), truth


@pytest.fixture(scope="module", params=[16, 200], ids=["few columns", "many columns"])
def fitted(request):
    X, truth = groups(dim=request.param)
    y = np.where(np.arange(len(X)) < 12, truth, -1)
    return X, y, truth, label(X, y).model


@pytest.fixture(scope="module")
def new(fitted):
    return groups(60, dim=fitted[0].shape[1], seed=1)


def test_assignments_of_all_rows_are_those_of_the_estimator(fitted, new):
    X, y, _, model = fitted
    expected = LaplacianShot().fit(X, y).predict_proba(new[0])
    np.testing.assert_array_equal(model.classifier.assignments(new[0]), expected)


def test_new_rows_get_the_right_labels_in_both_forms(fitted, new):
    X, truth = new
    model = fitted[3]
    assert np.mean(model.predict(X) == truth) > 0.95
    assert np.mean(model.compact().predict(X) == truth) > 0.95
    assert model.predict(X).dtype == np.int64


def test_probabilities_sum_to_one_and_the_largest_is_that_of_the_label(fitted, new):
    model = fitted[3].compact()
    P = model.predict_proba(new[0])
    np.testing.assert_allclose(P.sum(axis=1), 1, atol=1e-6)
    assert (P.argmax(axis=1) == model.classifier.assignments(new[0]).argmax(axis=1)).all()


def test_a_new_row_is_calibrated_as_the_fitted_row_it_equals(fitted):
    X, y, _, model = fitted
    unlabeled = np.flatnonzero(y < 0)
    result = label(X, y)
    mine, theirs = model.predict_proba(X[unlabeled]).max(axis=1), result.confidence[unlabeled]
    # The row votes for itself when it comes again.
    assert np.abs(mine - theirs).max() < 0.1


@pytest.mark.parametrize("rows", ["core", "all"])
def test_a_file_gives_back_the_model_to_the_last_bit(fitted, new, rows, tmp_path):
    model = fitted[3] if rows == "all" else fitted[3].compact()
    model.save(tmp_path / "m.lshot", rows=rows)
    back = LabelModel.load(tmp_path / "m.lshot")
    np.testing.assert_array_equal(back.predict_proba(new[0]), model.predict_proba(new[0]))
    np.testing.assert_array_equal(back.novelty(new[0]), model.novelty(new[0]))
    assert back.classes == model.classes
    assert back.facts["labels"] == 12
    assert back.classifier.is_compact == (rows == "core")
    back.save(tmp_path / "again.lshot", rows=rows)
    assert (tmp_path / "again.lshot").read_bytes() == (tmp_path / "m.lshot").read_bytes()


def test_a_file_is_its_owners_alone_and_holds_json_and_safetensors_only(fitted, tmp_path):
    fitted[3].save(tmp_path / "m.lshot")
    assert stat.S_IMODE((tmp_path / "m.lshot").stat().st_mode) == 0o600
    with zipfile.ZipFile(tmp_path / "m.lshot") as archive:
        assert archive.namelist() == ["model.json", "arrays.safetensors"]
        facts = json.loads(archive.read("model.json"))
    assert facts["format"] == "laplacianshot model"
    assert facts["facts"]["laplacianshot"]


def test_the_core_of_a_large_set_has_given_rows_and_rows_of_every_class():
    X, truth = groups(CORE_ROWS + 2000, n_classes=3, dim=8)
    # One class is rare.
    keep = np.concatenate([np.flatnonzero(truth < 2), np.flatnonzero(truth == 2)[:40]])
    X, truth = X[keep], truth[keep]
    X, truth = np.concatenate([X, X + 0.01]), np.concatenate([truth, truth])
    y = np.full(len(X), -1)
    for c in range(3):
        y[np.flatnonzero(truth == c)[:5]] = c
    full = label(X, y).model.classifier
    core = full.core()
    assert len(core) == CORE_ROWS == len(np.unique(core))
    assert np.isin(np.arange(15), core).all()  # given rows come first
    classes = np.asarray(full.rule.assignments[core].argmax(axis=1))
    assert np.bincount(classes)[2] >= 70  # nearly all of the rare class


def test_with_few_columns_the_nearest_core_rows_are_the_nearest_rows():
    rows = np.random.default_rng(0).standard_normal((50, 8)).astype(np.float32)
    queries = np.random.default_rng(1).standard_normal((20, 8)).astype(np.float32)
    distances = ((queries[:, None] - rows) ** 2).sum(axis=2)
    np.testing.assert_array_equal(CoreSearch.of_rows(rows)(queries, 3), np.argsort(distances, axis=1)[:, :3])


def test_directions_keep_distances_of_rows_that_lie_in_few_of_them():
    rng = np.random.default_rng(0)
    rows = (rng.standard_normal((300, 10)) @ rng.standard_normal((10, 400))).astype(np.float32)
    search = CoreSearch.of_rows(rows)
    assert search.rows.dtype == np.int8
    near, distances = search.distances(search.projected(rows[:5] + 0.0), 2)
    np.testing.assert_array_equal(near[:, 0], np.arange(5))
    exact = np.linalg.norm(rows[:5] - rows[near[:, 1]], axis=1)
    np.testing.assert_allclose(distances[:, 1], exact, rtol=0.02)


def test_rows_unlike_any_fitted_one_are_novel(fitted, new):
    model = fitted[3].compact()
    # Another place than any class.
    far = np.random.default_rng(5).standard_normal((30, new[0].shape[1])).astype(np.float32) * 2 - 3
    usual, odd = model.novelty(new[0]), model.novelty(far)
    assert np.all((usual >= 0) & (usual <= 1))
    assert np.median(odd) > 0.95 > np.median(usual)


@pytest.mark.parametrize(
    ("items", "named"),
    [
        (np.zeros((3, 5)), "5 columns"),
        (np.full((2, 16), np.nan), "finite"),
        (np.zeros(16), "shape"),
        (["text"], "features"),
    ],
)
def test_vectors_that_do_not_fit_are_refused_in_one_line(items, named):
    X, truth = groups()
    model = label(X, np.where(np.arange(len(X)) < 12, truth, -1)).model
    with pytest.raises(LabelingError, match=named) as caught:
        model.predict(items)
    assert "\n" not in str(caught.value)


# Files that must not be believed.


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    X, truth = groups()
    path = tmp_path_factory.mktemp("model") / "m.lshot"
    label(X, np.where(np.arange(len(X)) < 12, truth, -1)).model.save(path)
    return path


def refused(path: Path, *named: str) -> None:
    with pytest.raises(LabelingError) as caught:
        LabelModel.load(path)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    assert any(word in message for word in named), message


def rewritten(file: Path, path: Path, change=None, arrays=None, method=zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(file) as archive:
        facts, content = json.loads(archive.read("model.json")), archive.read("arrays.safetensors")
    if change is not None:
        change(facts)
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("model.json", json.dumps(facts))
        archive.writestr("arrays.safetensors", content if arrays is None else arrays)
    return path


def test_every_way_to_cut_a_file_off_is_refused(file, tmp_path):
    content = file.read_bytes()
    for size in (0, 1, 30, 100, len(content) // 2, len(content) - 1):
        (tmp_path / "cut.lshot").write_bytes(content[:size])
        refused(tmp_path / "cut.lshot", "damaged")


def test_a_changed_byte_is_found_or_changes_nothing(file, tmp_path):
    content = bytearray(file.read_bytes())
    rng = np.random.default_rng(0)
    reference = LabelModel.load(file)
    X = groups(20, seed=3)[0]
    for place in rng.integers(0, len(content), 60):
        changed = content.copy()
        changed[place] ^= 0x55
        (tmp_path / "odd.lshot").write_bytes(changed)
        with contextlib.suppress(LabelingError):
            # Dates and other things that zip files hold besides may change.
            found = LabelModel.load(tmp_path / "odd.lshot")
            np.testing.assert_array_equal(found.predict_proba(X), reference.predict_proba(X))


def test_a_newer_version_is_refused_by_name(file, tmp_path):
    refused(rewritten(file, tmp_path / "m.lshot", lambda facts: facts.update(version=2)), "update laplacianshot")


def test_arrays_with_another_digest_are_refused(file, tmp_path):
    refused(rewritten(file, tmp_path / "m.lshot", arrays=b"\0" * 100), "digest")


def test_a_compressed_member_is_refused_before_it_is_unpacked(file, tmp_path):
    bomb = rewritten(file, tmp_path / "m.lshot", arrays=bytes(200_000_000), method=zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 1_000_000
    refused(bomb, "compressed")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kind", "sounds"),
        ("transform", "eval"),
        ("form", "other"),
        ("classes", ["a"]),
        ("classes", ["a", "a", "b", "c"]),
        ("classes", [["a"], "b", "c", "d"]),
        ("encoder", {"name": "x"}),
        ("rule", {"lam": "1", "tau": 1.0, "n_neighbors": 3}),
        ("rule", {"lam": 1.0, "tau": float("nan"), "n_neighbors": 3}),
        ("rule", {"lam": 1.0, "tau": 1.0, "n_neighbors": -3}),
        ("confidence", {}),
        ("version", "1"),
        ("core", None),
    ],
)
def test_facts_that_cannot_be_are_refused(file, tmp_path, name, value):
    refused(rewritten(file, tmp_path / "m.lshot", lambda facts: facts.update({name: value})), "damaged", "load it with")


def test_arrays_of_a_wrong_shape_are_refused(file, tmp_path):
    import hashlib

    from safetensors.numpy import load, save

    with zipfile.ZipFile(file) as archive:
        arrays = load(archive.read("arrays.safetensors"))
    for name in arrays:
        odd = dict(arrays)
        odd[name] = odd[name][:-1] if odd[name].ndim == 1 else odd[name][:, :-1]
        content = save({key: np.ascontiguousarray(array) for key, array in odd.items()})
        change = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        made = rewritten(
            file, tmp_path / "m.lshot", lambda facts, change=change: facts.update(arrays=change), arrays=content
        )
        if name == "core.limits":
            continue  # any number of quantiles will do
        refused(made, "damaged")


@pytest.mark.parametrize("what", ["missing", "a folder", "a text", "another zip", "a pickle"])
def test_what_is_no_model_is_refused(what, tmp_path):
    path = tmp_path / "m.lshot"
    if what == "a folder":
        path.mkdir()
    elif what == "a text":
        path.write_text("label,1\n")
    elif what == "another zip":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "a")
    elif what == "a pickle":
        path.write_bytes(b"\x80\x04cos\nsystem\n.")
    refused(path, "not found", "cannot be read", "not a model", "damaged")


def test_a_model_is_written_whole_or_not_at_all(fitted, tmp_path, monkeypatch):
    path = tmp_path / "m.lshot"
    path.write_bytes(b"before")

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        fitted[3].save(path)
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_does_not_exist_and_a_wrong_choice_of_rows_are_named(fitted, tmp_path):
    with pytest.raises(LabelingError, match="no folder"):
        fitted[3].save(tmp_path / "none" / "m.lshot")
    with pytest.raises(LabelingError, match="'core' or 'all'"):
        fitted[3].save(tmp_path / "m.lshot", rows="some")


# Pictures and texts, with the real encoders.


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("photos")
    truth = draw_folder(folder)
    return folder, label_source(folder, first_of_each(truth, 2), cache=False).model


def test_a_picture_is_the_same_as_path_bytes_pixels_and_object(photos, tmp_path):
    _, model = photos
    picture = draw(2, 77)
    picture.save(tmp_path / "new.png")
    content = (tmp_path / "new.png").read_bytes()
    opened = Image.open(io.BytesIO(content))
    items = [tmp_path / "new.png", str(tmp_path / "new.png"), content, bytearray(content), opened, np.asarray(picture)]
    P = model.predict_proba(items)
    assert model.predict(items).tolist() == [CLASSES[2]] * len(items)
    np.testing.assert_array_equal(P, P[:1].repeat(len(items), axis=0))
    vectors = model.vectors(items[:1])
    np.testing.assert_array_equal(model.predict_proba(vectors), P[:1])


def test_a_picture_that_lies_on_its_side_is_set_upright(photos, tmp_path):
    _, model = photos
    picture, exif = draw(2, 5, size=96), Image.Exif()
    exif[0x0112] = 6
    picture.transpose(Image.Transpose.ROTATE_90).save(tmp_path / "side.png", exif=exif)
    picture.save(tmp_path / "up.png")
    content = (tmp_path / "side.png").read_bytes()
    found = model.vectors([tmp_path / "side.png", content, Image.open(io.BytesIO(content)), tmp_path / "up.png"])
    np.testing.assert_array_equal(found, found[-1:].repeat(4, axis=0))


@pytest.mark.parametrize(
    ("items", "named"),
    [
        ("new.jpg", "list"),
        (b"bytes", "list"),
        ([], "empty"),
        ([1], "int"),
        ([np.zeros((3, 3, 3))], "ndarray"),
        (["missing.jpg"], "items[0]"),
        ([b"not a picture"], "items[0]"),
        (["a\0b"], "items[0]"),
        ([draw(0, 1), b""], "items[1]"),
    ],
)
def test_items_that_are_no_pictures_are_named(photos, items, named):
    with pytest.raises(LabelingError) as caught:
        photos[1].predict(items)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_file_of_a_model_of_pictures_names_its_encoder_and_refuses_another(photos, tmp_path, monkeypatch):
    _, model = photos
    model.save(tmp_path / "m.lshot")
    back = LabelModel.load(tmp_path / "m.lshot")
    assert back.encoder.name == "efficientnet-lite0"
    assert len(back.encoder.weights) == 64
    assert back.predict([draw(1, 50)]).tolist() == [CLASSES[1]]
    path = rewritten(
        tmp_path / "m.lshot", tmp_path / "other.lshot", lambda facts: facts["encoder"].update(key="0" * 64, weights="0")
    )
    with pytest.raises(ValueError, match="other weights") as caught:
        LabelModel.load(path).predict([draw(1, 50)])
    assert "\n" not in str(caught.value)


def test_texts_are_strings_and_nothing_else(tmp_path):
    table = tmp_path / "t.csv"
    lines = [
        "text,label",
        "I lost my card,card",
        "my card is gone,",
        "the card was stolen,",
        "send money home,transfer",
    ]
    table.write_text("\n".join([*lines, "the transfer is late,", "where is my transfer,"]))
    model = label_source(table, cache=False).model
    model.save(tmp_path / "t.lshot")
    back = LabelModel.load(tmp_path / "t.lshot")
    assert back.predict(["someone took my card", "my transfer has not arrived"]).tolist() == ["card", "transfer"]
    assert back.predict(np.array(["my card", "a transfer"])).tolist() == ["card", "transfer"]
    with pytest.raises(LabelingError, match="bytes"):
        back.predict([b"my card"])


def test_a_model_of_vectors_has_no_encoder(fitted, tmp_path):
    with pytest.raises(LabelingError, match="no encoder"):
        _ = fitted[3].opened


def test_onnx_gives_the_probabilities_of_the_compact_form(fitted, new, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    model = fitted[3]
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, {"vectors": new[0]})[0]
    np.testing.assert_allclose(found, model.compact().predict_proba(new[0]), atol=1e-4)
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == [0, 1, 2, 3]


@pytest.mark.parametrize("transform", ["none", "l2", "cl2", "power", "standard"])
def test_onnx_has_every_transform(transform, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, truth = groups(dim=150)
    X = np.abs(X) if transform == "power" else X
    X[5] = 0  # a row without direction
    model = label(X, np.where(np.arange(len(X)) < 12, truth, -1), transform=transform).model
    model.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    found = session.run(None, {"vectors": X})[0]
    np.testing.assert_allclose(found, model.compact().predict_proba(X), atol=1e-4)
