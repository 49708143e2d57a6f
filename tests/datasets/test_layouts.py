from __future__ import annotations

import io
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from laplacianshot.datasets.layouts import find_folders, find_inat, find_species, split_of_class
from laplacianshot.datasets.pictures import CorruptPicture, open_pictures
from tests.datasets.made_up import pixels


@pytest.fixture
def touch(tmp_path, draw):
    """Make many pictures fast: copies of one."""
    draw(tmp_path / "one.png", width=2, height=2)

    def make(*paths):
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tmp_path / "one.png", path)

    return make


@pytest.fixture
def data(tmp_path):
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


# Class folders


def found(data):
    listing = find_folders(data)
    names = (listing.class_names[label] for label in listing.labels)
    return list(zip(listing.names.tolist(), names, listing.split.tolist(), strict=True))


def test_a_folder_is_a_class(data, touch):
    touch(data / "b" / "0.png", data / "a" / "1.JPG", data / "a" / "0.jpeg")
    assert found(data) == [("a/0.jpeg", "a", "all"), ("a/1.JPG", "a", "all"), ("b/0.png", "b", "all")]


def test_a_class_holds_all_that_is_below_it_and_a_group_is_part_of_its_name(data, touch):
    touch(data / "dogs" / "0.png", data / "dogs" / "puppies" / "0.png", data / "Greek" / "alpha" / "0.png")
    assert found(data) == [
        ("Greek/alpha/0.png", "Greek/alpha", "all"),
        ("dogs/0.png", "dogs", "all"),
        ("dogs/puppies/0.png", "dogs", "all"),
    ]


@pytest.mark.parametrize(
    ("name", "split"),
    [("base", "base"), ("Train", "base"), ("val", "val"), ("validation", "val"), ("novel", "novel"), ("test", "novel")],
)
def test_folders_with_names_of_splits_are_splits(data, touch, name, split):
    touch(data / name / "a" / "0.png")
    assert found(data) == [(f"{name}/a/0.png", "a", split)]


def test_a_class_may_be_called_test(data, touch):
    touch(data / "exam" / "0.png", data / "test" / "0.png")
    assert found(data) == [("exam/0.png", "exam", "all"), ("test/0.png", "test", "all")]


def test_splits_beside_a_class_are_an_error(data, touch):
    touch(data / "train" / "a" / "0.png", data / "test" / "b" / "0.png", data / "c" / "0.png")
    with pytest.raises(ValueError, match="test, train look like splits, but 'c' beside them is none"):
        find_folders(data)


def test_a_class_in_two_splits_is_one_class(data, touch):
    touch(data / "train" / "a" / "0.png", data / "test" / "a" / "0.png")
    assert find_folders(data).class_names == ("a",)


def test_a_picture_outside_the_class_folders_is_an_error(data, touch):
    touch(data / "a" / "0.png", data / "0.png")
    with pytest.raises(ValueError, match=r"'0\.png' is in no class folder"):
        find_folders(data)
    (data / "0.png").unlink()
    touch(data / "train" / "0.png", data / "train" / "a" / "0.png")
    (data / "a" / "0.png").unlink()
    with pytest.raises(ValueError, match=r"'train/0\.png' is in no class folder"):
        find_folders(data)


def test_files_that_are_no_pictures_and_hidden_ones_are_left_alone(data, touch):
    touch(data / "a" / "0.png", data / "a" / ".1.png", data / ".git" / "0.png", data / "__MACOSX" / "0.png")
    (data / "README.txt").write_text("read me")
    (data / "a" / "Thumbs.db").write_bytes(b"x")
    (data / "empty").mkdir()
    assert found(data) == [("a/0.png", "a", "all")]


def test_a_link_to_a_folder_above_ends(data, touch):
    touch(data / "a" / "0.png")
    (data / "a" / "loop").symlink_to(data, target_is_directory=True)
    assert [name for name, *_ in found(data)] == ["a/0.png"]


def test_a_linked_class_folder_is_read(tmp_path, data, touch):
    touch(tmp_path / "elsewhere" / "0.png")
    (data / "a").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert found(data) == [("a/0.png", "a", "all")]


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path, touch):
    touch(tmp_path / "0.png")
    with pytest.raises(ValueError, match=r"0\.png is not a folder"):
        find_folders(tmp_path / "0.png")


# CSV splits


def write_csv(path, rows, header=("filename", "label"), encoding="utf-8", newline="\n"):
    lines = [",".join(header), *(",".join(row) for row in rows)]
    path.write_bytes((newline.join(lines) + newline).encode(encoding))


@pytest.fixture
def listed(data, touch):
    for split, name in (("train", "n01"), ("val", "n02"), ("test", "n03")):
        touch(data / "images" / f"{name}_0.jpg", data / "images" / f"{name}_1.jpg")
        write_csv(data / f"{split}.csv", [(f"{name}_0.jpg", name), (f"{name}_1.jpg", name)])
    return data


def test_csv_files_list_the_pictures_of_a_split(listed):
    pictures = open_pictures("csv-splits", listed)
    assert pictures.class_names == ("n01", "n02", "n03")
    assert pictures.splits == {"base": 2, "val": 2, "novel": 2}
    assert pictures.names[0] == "images/n01_0.jpg"
    assert pictures.read(5).size == (2, 2)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_columns_may_be_in_any_order_beside_others(listed, encoding, newline):
    rows = [("7", "n01", "n01_0.jpg"), ("8", '"a, b"', "n01_1.jpg")]
    write_csv(listed / "train.csv", rows, ("id", "label", "filename"), encoding, newline)
    pictures = open_pictures("csv-splits", listed)
    assert pictures.class_names == ("a, b", "n01", "n02", "n03")
    assert pictures.names[:2].tolist() == ["images/n01_0.jpg", "images/n01_1.jpg"]


def test_pictures_may_lie_beside_the_lists_and_in_folders(data, touch):
    touch(data / "n01" / "0.jpg")
    write_csv(data / "train.csv", [("n01/0.jpg", "n01")])
    assert open_pictures("csv-splits", data).names.tolist() == ["n01/0.jpg"]


def test_a_listed_picture_that_is_missing_is_reported_by_name(listed):
    (listed / "images" / "n02_1.jpg").unlink()
    with pytest.raises(CorruptPicture, match=r"'images/n02_1\.jpg' cannot be read: file not found"):
        open_pictures("csv-splits", listed)
    assert len(open_pictures("csv-splits", listed, on_error="skip")) == 5


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        ([("a.jpg", "n01")], ("file", "label"), r"must have the columns filename and label, it has file, label"),
        ([], ("filename", "label"), r"train\.csv lists no pictures"),
        ([("a.jpg", "")], ("filename", "label"), r"train\.csv, line 2: the filename or the label is missing"),
        ([("a.jpg",)], ("filename", "label"), r"line 2: the filename or the label is missing"),
        ([("../a.jpg", "n01")], ("filename", "label"), r"line 2: '\.\./a\.jpg' is outside the pictures' folder"),
        ([("/etc/a.jpg", "n01")], ("filename", "label"), r"is outside the pictures' folder"),
        ([("a.jpg", "n01"), ("a.jpg", "n02")], ("filename", "label"), r"'a\.jpg' is listed twice"),
    ],
)
def test_a_bad_list_is_an_error_that_says_where(listed, rows, header, message):
    write_csv(listed / "train.csv", rows, header)
    with pytest.raises(ValueError, match=message):
        open_pictures("csv-splits", listed)


def test_a_list_in_another_encoding_is_an_error(listed):
    write_csv(listed / "train.csv", [("n01_0.jpg", "Möwe")], encoding="latin-1")
    with pytest.raises(ValueError, match=r"train\.csv cannot be read .* save it as CSV in UTF-8"):
        open_pictures("csv-splits", listed)


def test_a_picture_in_two_splits_is_an_error(listed):
    write_csv(listed / "test.csv", [("n01_0.jpg", "n01")])
    with pytest.raises(ValueError, match=r"'n01_0\.jpg' is listed twice, the first time in train\.csv"):
        open_pictures("csv-splits", listed)


def test_lists_without_their_pictures_say_what_is_expected(listed):
    shutil.rmtree(listed / "images")
    with pytest.raises(FileNotFoundError, match=r"none of the listed pictures is there\. Expected: DATA/train\.csv"):
        open_pictures("csv-splits", listed)


def make_splits(data, touch, counts):
    start = 0
    for split, count in counts.items():
        names = [f"n{number:04d}" for number in range(start, start + count)]
        start += count
        touch(*(data / "images" / f"{name}.jpg" for name in names))
        write_csv(data / f"{split}.csv", [(f"{name}.jpg", name) for name in names])


def test_mini_has_64_16_and_20_classes(data, touch):
    make_splits(data, touch, {"train": 64, "val": 16, "test": 20})
    pictures = open_pictures("mini", data)
    assert pictures.splits == {"base": 64, "val": 16, "novel": 20}
    write_csv(data / "test.csv", [("n0000.jpg", "n0000")])
    (data / "val.csv").unlink()
    with pytest.raises(ValueError, match=r"listed twice"):
        open_pictures("mini", data)
    write_csv(data / "test.csv", [("n0099.jpg", "n0099")])
    with pytest.raises(ValueError, match=r"'mini' has 64 base, 16 val, 20 novel classes, .* 64 base, 0 val, 1 novel"):
        open_pictures("mini", data)


def test_a_class_in_two_splits_of_mini_is_an_error(data, touch):
    make_splits(data, touch, {"train": 64, "val": 16, "test": 20})
    touch(data / "images" / "again.jpg")
    with (data / "test.csv").open("a") as table:
        table.write("again.jpg,n0000\n")
    (data / "images" / "n0099.jpg").unlink()
    lines = (data / "test.csv").read_text().splitlines()
    (data / "test.csv").write_text("\n".join(line for line in lines if "n0099" not in line) + "\n")
    with pytest.raises(ValueError, match="a class occurs in two splits"):
        open_pictures("mini", data)


def test_tiered_has_351_97_and_160_classes_in_lists_or_folders(tmp_path, data, touch):
    counts = {"train": 351, "val": 97, "test": 160}
    make_splits(data, touch, counts)
    listed = open_pictures("tiered", data)
    assert listed.splits == {"base": 351, "val": 97, "novel": 160}
    start = 0
    for split, count in counts.items():
        names = [f"n{number:04d}" for number in range(start, start + count)]
        start += count
        touch(*(tmp_path / "folders" / split / name / "0.jpg" for name in names))
    in_folders = open_pictures("tiered", tmp_path / "folders")
    assert in_folders.class_names == listed.class_names
    assert in_folders.splits == {"novel": 160, "base": 351, "val": 97}


# CUB


@pytest.fixture
def cub(data, touch):
    """Two hundred classes of one picture in CUB's own layout."""
    names = [f"{number + 1:03d}.Bird" for number in range(200)]
    touch(*(data / "images" / name / "a bird.jpg" for name in names))
    (data / "images.txt").write_text("".join(f"{i + 1} {name}/a bird.jpg\n" for i, name in enumerate(names)))
    (data / "image_class_labels.txt").write_text("".join(f"{i + 1} {i + 1}\n" for i in range(200)))
    (data / "classes.txt").write_text("".join(f"{i + 1} {name}\n" for i, name in enumerate(names)))
    return data


def test_cub_is_split_by_class_number_into_100_50_and_50(cub):
    pictures = open_pictures("cub", cub)
    assert pictures.splits == {"base": 100, "val": 50, "novel": 50}
    assert pictures.class_names[1] == "002.Bird"
    assert pictures.split[:8].tolist() == ["base", "val", "base", "novel"] * 2
    assert pictures.names[0] == "images/001.Bird/a bird.jpg"


def test_cub_may_be_given_by_the_folder_that_holds_it(tmp_path, cub):
    cub.rename(tmp_path / "CUB_200_2011")
    assert len(open_pictures("cub", tmp_path)) == 200


def test_a_picture_of_cub_without_a_class_is_an_error(cub):
    (cub / "image_class_labels.txt").write_text("1 1\n")
    with pytest.raises(ValueError, match=r"picture 2 of images\.txt has no class there"):
        open_pictures("cub", cub)
    (cub / "image_class_labels.txt").write_text("1 1\n1 2\n")
    with pytest.raises(ValueError, match=r"image_class_labels\.txt, line 2: expected a number of its own"):
        open_pictures("cub", cub)


def test_the_rule_for_cub_is_that_of_the_shared_bundle(shared):
    with np.load(shared("data/cub/cub84.npz"), allow_pickle=False) as bundle:
        expected = [split_of_class(int(label)) for label in bundle["labels"]]
        assert bundle["split"].tolist() == expected


# iNat


@pytest.fixture
def species(data, touch):
    """Ten species of 1 to 10 pictures; each picture has two boxes."""
    images, boxes = [], []
    for number in range(10):
        for _ in range(number + 1):
            picture = len(images)
            path = f"train_val_images/Aves/Avis {number}/{picture:03d}.jpg"
            images.append({"id": picture, "file_name": path})
            boxes += [{"id": 2 * picture + i, "image_id": picture, "category_id": 10 - number} for i in range(2)]
            touch(data / path)
    categories = [{"id": 10 - number, "name": f"Avis {number}", "supercategory": "Aves"} for number in range(10)]
    content = {"images": images, "annotations": boxes, "categories": categories}
    (data / "train_2017_bboxes.json").write_text(json.dumps(content))
    return data


def test_species_with_too_few_or_too_many_pictures_are_left_out(species):
    listing = find_species(species, 3, 9)
    assert np.bincount(listing.labels).tolist() == [9, 8, 7, 6, 5, 4, 3]
    assert listing.class_names[0] == "0002 Avis 8"


def test_every_fifth_species_is_novel_unless_a_list_says_otherwise(species):
    listing = find_species(species, 1, 10)
    assert np.unique(listing.labels[listing.split == "novel"]).tolist() == [4, 9]
    (species / "novel_classes.txt").write_text("2\nAvis 0\n\n")
    listing = find_species(species, 1, 10)
    assert np.unique(listing.labels[listing.split == "novel"]).tolist() == [1, 9]
    (species / "novel_classes.txt").write_text("Avis 99\n")
    with pytest.raises(ValueError, match=r"novel_classes\.txt: 'Avis 99' is neither the id nor the name"):
        find_species(species, 1, 10)


def test_inat_wants_908_and_227_classes(species):
    with pytest.raises(ValueError, match="'inat' has 908 base, 227 novel classes, these files have 0 base, 0 novel"):
        open_pictures("inat", species)


def test_every_fifth_of_1135_species_gives_908_and_227_classes(data):
    """The numbers of the benchmark, from annotations alone."""
    species = range(1, 1136)
    images = [{"id": 50 * s + i, "file_name": f"{s}/{i}.jpg"} for s in species for i in range(50)]
    boxes = [{"image_id": 50 * s + i, "category_id": s} for s in species for i in range(50)]
    categories = [{"id": s, "name": str(s)} for s in species]
    (data / "train_2017_bboxes.json").write_text(
        json.dumps({"images": images, "annotations": boxes, "categories": categories})
    )
    listing = find_inat(data)
    assert len(np.unique(listing.labels[listing.split == "base"])) == 908


def test_a_file_that_is_no_annotation_is_an_error(data):
    for content in ("[]", "{}", "not json", '{"categories": [], "images": [], "annotations": [{"image_id": 1}]}'):
        (data / "train_2017_bboxes.json").write_text(content)
        with pytest.raises(ValueError, match="is not an annotation file of iNaturalist"):
            find_species(data, 1, 10)


def jpegs(n):
    """Encoded pictures in one buffer, as ``cub84.npz`` holds them."""
    parts = []
    for i in range(n):
        buffer = io.BytesIO()
        Image.fromarray(pixels(i)).save(buffer, "JPEG", quality=90)
        parts.append(np.frombuffer(buffer.getvalue(), dtype=np.uint8))
    offsets = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return {"jpeg_bytes": np.concatenate(parts), "offsets": offsets}


LABELS = {"labels": np.array([0, 0, 1, 1], dtype=np.int16), "class_names": np.array(["a", "b"])}
SPLIT = {"split": np.array(["base", "base", "test", "test"])}


@pytest.fixture
def bundle(tmp_path):
    def write(name="cub84.npz", **arrays):
        np.savez(tmp_path / name, **arrays)
        return tmp_path

    return write


def test_jpeg_bytes_are_cut_at_the_offsets(bundle):
    arrays = jpegs(4)
    pictures = open_pictures("cub84", bundle(**arrays, **LABELS, **SPLIT))
    assert pictures.names.tolist() == [f"cub84.npz#{i}" for i in range(4)]
    assert pictures.splits == {"base": 2, "novel": 2}
    encoded = arrays["jpeg_bytes"][arrays["offsets"][2] : arrays["offsets"][3]].tobytes()
    expected = np.asarray(Image.open(io.BytesIO(encoded)))
    np.testing.assert_array_equal(np.asarray(pictures.read(2)), expected)
    np.testing.assert_array_equal(np.asarray(pictures.select("novel").decoded(0)), expected)


@pytest.mark.parametrize("shape", [(4, 5, 6), (4, 5, 6, 3)])
def test_arrays_of_pixels_are_pictures(bundle, shape):
    images = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pictures = open_pictures("cifarfs", bundle("cifarfs_images.npz", images=images, **LABELS, **SPLIT))
    assert pictures.read(0).mode == ("L" if len(shape) == 3 else "RGB")
    np.testing.assert_array_equal(np.asarray(pictures.read(3)), images[3])


def test_a_bundle_is_found_in_a_folder_below_or_given_itself(tmp_path, bundle):
    folder = bundle(images=np.zeros((4, 2, 2), dtype=np.uint8), **LABELS)
    assert len(open_pictures("cub84", folder / "cub84.npz")) == 4
    assert open_pictures("cub84", folder).splits == {"all": 4}
    below = folder / "cub"
    below.mkdir()
    (folder / "cub84.npz").rename(below / "cub84.npz")
    assert len(open_pictures("cub84", folder)) == 4


def test_omniglot_holds_out_whole_alphabets_of_the_background_for_validation(bundle):
    names = np.array([f"{letter}/character{i:02d}" for letter in "ABCDEFGHIJKLMNOP" for i in range(2)])
    evaluation = np.array([name[0] in "NOP" for name in names])
    folder = bundle(
        "omniglot28.npz",
        images=np.zeros((64, 2, 2), dtype=np.uint8),
        labels=np.repeat(np.arange(32), 2),
        class_names=names,
        evaluation=np.repeat(evaluation, 2),
    )
    pictures = open_pictures("omniglot28", folder)
    alphabets = {
        split: sorted({pictures.class_names[c][0] for c in pictures.labels[pictures.rows(split)]})
        for split in pictures.splits
    }
    assert alphabets == {"base": list("ABCDEGHIJKM"), "val": list("FL"), "novel": list("NOP")}


def test_the_content_key_is_that_of_the_bytes(bundle):
    images = np.zeros((4, 2, 2), dtype=np.uint8)
    key = open_pictures("cub84", bundle(images=images, **LABELS)).content_key()
    assert open_pictures("cub84", bundle(images=images, **LABELS)).content_key() == key
    images[3, 1, 1] = 1
    assert open_pictures("cub84", bundle(images=images, **LABELS)).content_key() != key


def test_a_damaged_picture_of_a_bundle_is_reported_by_its_number(bundle):
    arrays = jpegs(4)
    arrays["jpeg_bytes"] = arrays["jpeg_bytes"].copy()
    arrays["jpeg_bytes"][arrays["offsets"][1] : arrays["offsets"][1] + 40] = 0
    folder = bundle(**arrays, **LABELS)
    with pytest.raises(CorruptPicture, match=r"'cub84\.npz#1' cannot be read"):
        open_pictures("cub84", folder)
    pictures = open_pictures("cub84", folder, on_error="skip")
    assert pictures.names.tolist() == ["cub84.npz#0", "cub84.npz#2", "cub84.npz#3"]


IMAGES = np.zeros((4, 2, 2), dtype=np.uint8)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"images": IMAGES}, "has no array 'labels'"),
        ({**LABELS}, "has neither images nor jpeg_bytes with offsets"),
        ({**LABELS, "images": IMAGES[:3]}, r"images must be uint8 \(4, H, W\)"),
        ({**LABELS, "images": IMAGES.astype(float)}, r"got float64"),
        ({**LABELS, "images": np.zeros((4, 2, 2, 4), dtype=np.uint8)}, r"or \(4, H, W, 3\), got"),
        ({**LABELS, "images": IMAGES, "labels": np.array([0, 1, 2, 0])}, "labels go from 0 to 2, and there are 2"),
        ({**LABELS, "images": IMAGES, "labels": np.array([0, -1, 1, 0])}, "labels go from -1 to 1"),
        ({**LABELS, "images": IMAGES, "labels": np.zeros(4)}, "labels must be one integer per picture"),
        ({**LABELS, "images": IMAGES, "split": np.array(["base"])}, "must have one entry for each of 4 pictures"),
        ({**LABELS, "jpeg_bytes": np.zeros(9, np.uint8), "offsets": np.arange(4)}, "offsets must be 5 integers"),
        ({**LABELS, "jpeg_bytes": np.zeros(9, np.uint8), "offsets": np.arange(5)[::-1]}, "offsets must ascend"),
        ({**LABELS, "jpeg_bytes": np.zeros(3, np.uint8), "offsets": np.arange(5)}, "at most the 3 bytes"),
        ({**LABELS, "jpeg_bytes": np.zeros(9), "offsets": np.arange(5)}, "jpeg_bytes must be uint8"),
        ({**LABELS, "images": IMAGES, "class_names": np.array(["a", None])}, "is an array of Python objects"),
    ],
)
def test_a_bundle_with_bad_arrays_is_an_error_that_says_which(bundle, arrays, message):
    folder = bundle(**arrays)
    with pytest.raises(ValueError, match=message):
        open_pictures("cub84", folder)


def test_a_file_that_is_no_bundle_is_an_error(tmp_path):
    for content in (b"", b"text", b"PK\x03\x04 broken"):
        (tmp_path / "cub84.npz").write_bytes(content)
        with pytest.raises(ValueError, match=r"cub84\.npz is not an \.npz file, or is truncated"):
            open_pictures("cub84", tmp_path)
    np.save(tmp_path / "one.npy", np.zeros(3))
    with pytest.raises(ValueError, match="holds a single array"):
        open_pictures("cub84", tmp_path / "one.npy")


@pytest.mark.parametrize(
    ("name", "path", "splits", "classes"),
    [
        ("cub84", "data/cub", {"base": 5885, "val": 2950, "novel": 2953}, (100, 50, 50)),
        ("omniglot28", "data/omniglot", {"base": 16120, "val": 3160, "novel": 13180}, (806, 158, 659)),
        ("cifarfs", "data/cifar_fs", {"base": 12800, "val": 3200, "novel": 4000}, (64, 16, 20)),
    ],
)
def test_the_shared_bundles_are_read(shared, name, path, splits, classes):
    pictures = open_pictures(name, shared(path))
    assert pictures.splits == splits
    assert tuple(pictures.select(split).n_classes for split in ("base", "val", "novel")) == classes
    pictures.read(len(pictures) - 1)
