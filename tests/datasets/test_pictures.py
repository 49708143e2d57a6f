from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from laplacianshot.datasets.pictures import DATASETS, CorruptPicture, open_pictures


@pytest.fixture
def birds(tmp_path, draw):
    """Three classes in three splits, two pictures each."""
    for c, (split, name) in enumerate((("train", "wren"), ("val", "auk"), ("test", "tern"))):
        for number in range(2):
            draw(tmp_path / split / name / f"{number}.png", seed=2 * c + number)
    return tmp_path


def test_pictures_come_with_class_split_and_name(birds):
    pictures = open_pictures("folder", birds)
    assert pictures.class_names == ("auk", "tern", "wren")
    assert pictures.names.tolist() == [
        "test/tern/0.png", "test/tern/1.png", "train/wren/0.png", "train/wren/1.png", "val/auk/0.png", "val/auk/1.png",
    ]  # fmt: skip
    assert pictures.labels.tolist() == [1, 1, 2, 2, 0, 0]
    assert pictures.split.tolist() == ["novel", "novel", "base", "base", "val", "val"]
    assert pictures.splits == {"novel": 2, "base": 2, "val": 2}
    assert pictures.n_classes == 3
    assert repr(pictures) == "Pictures(6 pictures, 3 classes, splits novel 2, base 2, val 2)"


def test_a_picture_is_read_as_it_was_drawn(tmp_path, draw):
    drawn = draw(tmp_path / "a" / "0.png", seed=5)
    pictures = open_pictures("folder", tmp_path)
    np.testing.assert_array_equal(np.asarray(pictures.read(0)), drawn)
    np.testing.assert_array_equal(np.asarray(pictures.decoded(0)), drawn)


def test_a_selection_numbers_its_own_classes_from_zero(birds):
    pictures = open_pictures("folder", birds)
    base = pictures.select("base")
    assert base.class_names == ("wren",)
    assert base.labels.tolist() == [0, 0]
    np.testing.assert_array_equal(pictures.rows("base"), [2, 3])
    np.testing.assert_array_equal(np.asarray(base.read(1)), np.asarray(pictures.read(3)))


def test_a_split_that_is_not_there_is_an_error_that_lists_those_that_are(birds):
    with pytest.raises(ValueError, match=r"split='tset' is not in the pictures; their splits are novel, base, val"):
        open_pictures("folder", birds).rows("tset")


def test_rows_may_be_split_anew(birds):
    pictures = open_pictures("folder", birds).with_split(["a", "a", "a", "b", "b", "b"])
    assert pictures.splits == {"a": 3, "b": 3}
    with pytest.raises(ValueError, match="one name for each of the 6 pictures"):
        pictures.with_split(["a"])


def test_arrays_cannot_be_changed_by_accident(birds):
    pictures = open_pictures("folder", birds)
    for array in (pictures.labels, pictures.names, pictures.split):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


SPOILT = ["empty", "text", "truncated", "huge", "gone", "damaged inside"]


@pytest.mark.parametrize("how", SPOILT)
def test_an_unreadable_picture_is_skipped_and_listed_if_asked(birds, spoil, how):
    spoilt = birds / "train" / "wren" / "1.png"
    if how == "gone":
        # A link that leads nowhere is listed and cannot be read.
        spoil(spoilt, how)
        spoilt.symlink_to(birds / "nowhere.png")
    else:
        spoil(spoilt, how)
    pictures = open_pictures("folder", birds, on_error="skip")
    assert [error.name for error in pictures.skipped] == ["train/wren/1.png"]
    assert "train/wren/1.png" not in pictures.names
    assert len(pictures) == 5
    assert repr(pictures).endswith("1 skipped)")
    for i in range(5):
        pictures.read(i)


@pytest.mark.parametrize("how", [how for how in SPOILT if how not in ("gone", "damaged inside")])
def test_an_unreadable_picture_is_fatal_if_asked(birds, spoil, how):
    spoil(birds / "train" / "wren" / "1.png", how)
    with pytest.raises(CorruptPicture, match=r"'train/wren/1\.png' cannot be read"):
        open_pictures("folder", birds, on_error="raise")


def test_what_a_quick_check_misses_is_found_at_reading_or_by_a_whole_check(birds, spoil):
    spoil(birds / "train" / "wren" / "1.png", "damaged inside")
    pictures = open_pictures("folder", birds)
    with pytest.raises(CorruptPicture, match="wren/1"):
        pictures.read(3)
    with pytest.raises(CorruptPicture, match="wren/1"):
        open_pictures("folder", birds, check="whole")


def test_a_class_without_a_readable_picture_is_left_out(birds, spoil):
    for number in range(2):
        spoil(birds / "val" / "auk" / f"{number}.png", "empty")
    pictures = open_pictures("folder", birds, on_error="skip")
    assert pictures.class_names == ("tern", "wren")
    assert pictures.labels.tolist() == [0, 0, 1, 1]


def test_a_set_without_a_readable_picture_is_an_error(tmp_path, draw, spoil):
    draw(tmp_path / "a" / "0.png")
    spoil(tmp_path / "a" / "0.png", "text")
    with pytest.raises(ValueError, match=r"none of the 1 pictures can be read; the first: picture 'a/0\.png'"):
        open_pictures("folder", tmp_path, on_error="skip")


STRANGE = ["with space.png", 'it\'s "quoted".png', "two\nlines.png", "🐦.png", "ünï.png", "tab\t.png", "-rf.png"]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows forbids such names")
def test_names_may_hold_anything_that_a_file_system_allows(tmp_path, draw, spoil):
    for seed, name in enumerate(STRANGE):
        draw(tmp_path / "a class\n🐦" / name, seed=seed)
    pictures = open_pictures("folder", tmp_path)
    assert pictures.class_names == ("a class\n🐦",)
    assert sorted(name.split("/")[1] for name in pictures.names) == sorted(STRANGE)
    for i in range(len(pictures)):
        pictures.read(i)
    spoil(tmp_path / "a class\n🐦" / "two\nlines.png", "empty")
    with pytest.raises(CorruptPicture) as caught:
        open_pictures("folder", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere names must be valid Unicode")
def test_names_need_not_be_valid_unicode(tmp_path, draw):
    draw(tmp_path / "a" / "0.png")
    os.rename(tmp_path / "a" / "0.png", bytes(tmp_path / "a") + b"/\xff.png")  # noqa: PTH104 - a name of bytes
    pictures = open_pictures("folder", tmp_path)
    assert pictures.read(0).size == (12, 10)
    assert len(pictures.content_key()) == 64


def test_the_content_key_stays_while_nothing_changes_wherever_the_files_lie(birds, tmp_path_factory):
    key = open_pictures("folder", birds).content_key()
    assert open_pictures("folder", birds).content_key() == key
    elsewhere = birds.rename(tmp_path_factory.mktemp("moved") / "there")
    assert open_pictures("folder", elsewhere).content_key() == key


def test_the_content_key_tells_of_every_change(birds, draw):
    def key():
        return open_pictures("folder", birds).content_key()

    keys = [key()]
    os.utime(birds / "val" / "auk" / "0.png", ns=(1, 1))
    keys.append(key())
    (birds / "val" / "auk").rename(birds / "val" / "awk")
    keys.append(key())
    (birds / "val" / "awk").rename(birds / "train" / "awk")
    keys.append(key())
    draw(birds / "val" / "owl" / "0.png")
    keys.append(key())
    pictures = open_pictures("folder", birds)
    keys += [pictures.select(split).content_key() for split in ("base", "val", "novel")]
    keys.append(pictures.with_split(["all"] * len(pictures)).content_key())
    assert len(set(keys)) == len(keys)


def test_decoded_pictures_are_kept_as_far_as_they_fit(tmp_path, draw, monkeypatch):
    for number in range(4):
        draw(tmp_path / "a" / f"{number}.png", seed=number)
    # 12 x 10 pixels of four bytes each: two pictures and a half.
    monkeypatch.setattr("laplacianshot.datasets.pictures._MAX_BYTES", 1200)
    pictures = open_pictures("folder", tmp_path)
    first = [pictures.decoded(i) for i in range(4)]
    for path in (tmp_path / "a").iterdir():
        path.unlink()
    kept = [pictures.decoded(0), pictures.decoded(1)]
    assert [np.asarray(a).tolist() for a in kept] == [np.asarray(a).tolist() for a in first[:2]]
    for i in (2, 3):
        with pytest.raises(CorruptPicture, match="file not found"):
            pictures.decoded(i)


def test_selections_share_the_pictures_that_are_kept(birds):
    pictures = open_pictures("folder", birds)
    for i in range(6):
        pictures.decoded(i)
    for path in birds.rglob("*.png"):
        path.unlink()
    assert pictures.select("novel").decoded(1).size == (12, 10)


def test_every_data_set_says_what_it_expects(tmp_path):
    assert set(DATASETS) == {
        "folder", "csv-splits", "mini", "tiered", "cub", "inat", "cub84", "omniglot28", "cifarfs",
    }  # fmt: skip
    for name, description in DATASETS.items():
        assert "DATA/" in description
        with pytest.raises((FileNotFoundError, ValueError)) as caught:
            open_pictures(name, tmp_path)
        assert description in str(caught.value)
        assert str(tmp_path) in str(caught.value)
        with pytest.raises(FileNotFoundError, match="file or folder not found") as caught:
            open_pictures(name, tmp_path / "nowhere")
        assert description in str(caught.value)


def test_unknown_settings_are_refused(birds):
    with pytest.raises(ValueError, match="dataset='imagenet' is not known; there are folder, csv-splits"):
        open_pictures("imagenet", birds)
    with pytest.raises(ValueError, match="on_error must be 'skip' or 'raise'"):
        open_pictures("folder", birds, on_error="ignore")
    with pytest.raises(ValueError, match="check must be 'quick' or 'whole'"):
        open_pictures("folder", birds, check="none")


def test_pillow_is_loaded_only_when_a_picture_is():
    look = "import sys, laplacianshot.datasets.pictures; print(sorted({'PIL', 'torch'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
