from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings

import numpy as np
import pytest
from PIL import Image

from laplacianshot.datasets.decoding import CorruptPicture
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sources import PictureFolders, open_source
from tests.datasets.made_up import png_of_size
from tests.labeling.files import ODD_NAMES, picture, pictures, written


def test_pictures_are_found_in_all_folders_and_sorted_by_path(tmp_path):
    source = open_source(pictures(tmp_path, "b/1.png", "b/deep/er/0.png", "a/2.png", "a-1.png"))
    assert source.ids == ("a-1.png", "a/2.png", "b/1.png", "b/deep/er/0.png")
    assert (source.kind, len(source), source.vectors) == ("pictures", 4, None)
    assert repr(source) == f"PictureSource({str(tmp_path)!r}, 4 pictures)"


@pytest.mark.parametrize("ending", ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "JPG", "Png", "TIFF"])
def test_every_ending_counts_in_any_case(tmp_path, ending):
    source = open_source(picture(tmp_path / f"a.{ending}").parent)
    assert source.ids == (f"a.{ending}",)
    assert source.load(0).size == (6, 5)


def test_what_is_hidden_or_no_picture_is_left_out(tmp_path):
    pictures(tmp_path, "a.png", ".b.png", ".git/c.png", "__MACOSX/d.png")
    written(tmp_path / "notes.txt", "no picture")
    written(tmp_path / "Thumbs.db", "no picture")
    os.mkfifo(tmp_path / "pipe.png")
    assert open_source(tmp_path).ids == ("a.png",)


def test_odd_names_are_names_like_any_other(tmp_path):
    source = open_source(pictures(tmp_path, *ODD_NAMES))
    assert source.ids == tuple(sorted(ODD_NAMES))
    assert all(source.load(i).size == (6, 5) for i in range(len(source)))
    assert all(source.file(i) == source.preview(i) == tmp_path / source.ids[i] for i in range(len(source)))


@pytest.mark.skipif(sys.platform == "darwin", reason="this system takes only UTF-8 in names")
def test_a_name_that_is_not_text_is_skipped_and_reported(tmp_path):
    pictures(tmp_path, "a.png")
    shutil.copy(tmp_path / "a.png", os.fsencode(tmp_path) + b"/b\xff.png")
    source = open_source(tmp_path)
    assert source.ids == ("a.png",)
    assert [(skipped.id, skipped.reason) for skipped in source.skipped] == [
        ("b\\xff.png", "its name is not UTF-8; rename it")
    ]


def test_links_in_a_loop_come_to_an_end_and_real_folders_keep_their_name(tmp_path):
    pictures(tmp_path, "b/0.png", "c/1.png")
    (tmp_path / "a").symlink_to(tmp_path / "b", target_is_directory=True)
    (tmp_path / "b" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "c" / "across").symlink_to(tmp_path / "b", target_is_directory=True)
    (tmp_path / "self.png").symlink_to(tmp_path / "self.png")
    assert open_source(tmp_path).ids == ("b/0.png", "c/1.png", "self.png")


def test_a_linked_folder_from_elsewhere_is_read_once(tmp_path):
    pictures(tmp_path / "elsewhere", "0.png")
    (tmp_path / "source").mkdir()
    for name in ("x", "y"):
        (tmp_path / "source" / name).symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    assert open_source(tmp_path / "source").ids == ("x/0.png",)


def test_many_folders_that_link_to_each_other_take_no_time(tmp_path):
    for i in range(12):
        pictures(tmp_path, f"{i:02}/0.png")
        for j in range(12):
            (tmp_path / f"{i:02}" / f"to{j}").symlink_to(tmp_path / f"{j:02}", target_is_directory=True)
    assert len(open_source(tmp_path)) == 12


def test_an_empty_folder_is_an_error_that_says_what_pictures_are(tmp_path):
    (tmp_path / "deeper").mkdir()
    with pytest.raises(LabelingError, match=r"no pictures in this folder; pictures end in bmp, gif, jpeg"):
        open_source(tmp_path)


def test_a_folder_of_vectors_is_an_error_that_says_how_they_are_labeled(tmp_path):
    for name in ("part-0.npy", "part-1.npy", "part-2.parquet", "notes.txt"):
        (tmp_path / name).touch()
    (tmp_path / "deeper.npy").mkdir()
    with pytest.raises(LabelingError, match=r"no pictures and 3 files of vectors; name one .* --engine ray"):
        open_source(tmp_path)
    pictures(tmp_path, "0.png")
    assert open_source(tmp_path).ids == ("0.png",)


def test_a_missing_folder_is_an_error_that_says_what_to_give(tmp_path):
    with pytest.raises(LabelingError, match=r"gone: file or folder not found; give a folder of pictures"):
        open_source(tmp_path / "gone")


@pytest.mark.parametrize("path", ["s3://bucket/vectors", "gs://bucket/x.npy", "shards/part-*.parquet"])
def test_the_error_for_a_url_or_a_pattern_says_how_to_read_it(path):
    with pytest.raises(LabelingError, match=r"shards of vectors, with --engine ray"):
        open_source(path)


def test_a_name_that_no_system_takes_is_an_error():
    for name in ("x" * 5000, "zero\0byte"):
        with pytest.raises(LabelingError, match="give a folder of pictures"):
            open_source(name)


def test_columns_of_pictures_are_an_error(tmp_path):
    with pytest.raises(LabelingError, match="text column 'words': pictures have no columns"):
        open_source(pictures(tmp_path, "a.png"), text_column="words")


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_read_is_an_error(tmp_path):
    pictures(tmp_path, "a.png", "locked/b.png")
    (tmp_path / "locked").chmod(0)
    try:
        with pytest.raises(LabelingError, match="locked cannot be read"):
            open_source(tmp_path)
    finally:
        (tmp_path / "locked").chmod(0o755)


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
@pytest.mark.parametrize("content", [b"", b"<html>", png_of_size(60_000, 60_000)], ids=["empty", "text", "huge"])
def test_a_broken_picture_is_listed_and_cannot_be_loaded(tmp_path, content):
    pictures(tmp_path, "good.png")
    (tmp_path / "bad.jpg").write_bytes(content)
    source = open_source(tmp_path)
    assert source.ids == ("bad.jpg", "good.png")
    with pytest.raises(CorruptPicture, match=r"'bad\.jpg' cannot be read: \S"):
        source.load(0)
    assert source.load(1).size == (6, 5)


def test_a_truncated_picture_cannot_be_loaded(tmp_path):
    path = picture(tmp_path / "a.png")
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(CorruptPicture):
        open_source(tmp_path).load(0)


def test_a_picture_that_is_gone_or_a_dead_link_is_reported_when_it_is_asked_for(tmp_path):
    pictures(tmp_path, "a.png", "b.png")
    (tmp_path / "dead.png").symlink_to(tmp_path / "nowhere.png")
    source = open_source(tmp_path)
    (tmp_path / "b.png").unlink()
    for i in (1, 2):
        with pytest.raises(CorruptPicture, match="file not found"):
            source.load(i)
        with pytest.raises(CorruptPicture):
            source.content_hash(i)


def test_the_content_counts_and_not_the_ending(tmp_path):
    Image.fromarray(np.zeros((4, 4, 3), dtype=np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "really.jpg")
    assert open_source(tmp_path).load(0).size == (4, 4)


def test_equal_contents_have_equal_hashes_wherever_they_lie(tmp_path):
    pictures(tmp_path, "a.png", "b.png")
    (tmp_path / "sub").mkdir()
    shutil.copy(tmp_path / "a.png", tmp_path / "sub" / "c.jpg")
    source = open_source(tmp_path)
    a, b, c = (source.content_hash(i) for i in range(3))
    assert (a == c, a == b, len(a)) == (True, False, 16)


# Labels of folders


def given(path, **options):
    source = open_source(path, **options)
    return dict(zip(source.ids, source.given, strict=True))


def test_folders_become_classes_only_when_it_is_said(tmp_path):
    """The folders of an archive; 0.1 made three classes of them, as there are loose pictures beside them."""
    pictures(tmp_path, "0.png", "2023/1.png", "2024/2.png", "misc/3.png")
    assert set(given(tmp_path).values()) == {None}
    assert set(given(tmp_path, classes_from_folders=False).values()) == {None}
    labels = {"0.png": None, "2023/1.png": "2023", "2024/2.png": "2024", "misc/3.png": "misc"}
    assert given(tmp_path, classes_from_folders=True) == labels


@pytest.mark.parametrize(
    "names",
    [
        ("0.png", "cat/1.png", "cat/tabby/2.png", "dog/3.png"),
        ("cat/1.png", "dog/3.png"),
        ("2023/1.png", "2024/2.png", "misc/3.png"),
        ("2023/1.png", "2024/2.png", "unlabeled/3.png"),
        ("2023/1.png", "misc/2.png", "unlabeled/3.png"),
        ("0.png", "cat/1.png", "dog/2.png", "unlabeled/3.png"),
    ],
)
def test_folders_are_paths_unless_it_is_said(tmp_path, names):
    pictures(tmp_path, *names)
    assert set(given(tmp_path).values()) == {None}


def test_a_class_is_a_top_folder_with_all_that_is_below_it(tmp_path):
    pictures(tmp_path, "0.png", "cat/1.png", "cat/tabby/2.png", "Unlabeled/cat/3.png")
    labels = {"0.png": None, "Unlabeled/cat/3.png": None, "cat/1.png": "cat", "cat/tabby/2.png": "cat"}
    assert given(tmp_path, classes_from_folders=True) == labels


@pytest.mark.parametrize("name", ["unlabeled", "unlabelled", "_unlabeled", "Unlabeled"])
def test_class_folders_beside_a_folder_of_unlabeled_pictures_are_labels_and_a_warning_says_so(tmp_path, name):
    pictures(tmp_path, f"{name}/0.png", f"{name}/cat/1.png", "cat/2.png", "cat/3.png", "7/4.png")
    with pytest.warns(UserWarning, match=r"FOLDERS ARE READ AS CLASSES: cat \(2\), 7 \(1\)\..*=False"):
        found = given(tmp_path)
    assert found == {
        f"{name}/0.png": None,
        f"{name}/cat/1.png": None,
        "cat/2.png": "cat",
        "cat/3.png": "cat",
        "7/4.png": "7",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert given(tmp_path, classes_from_folders=True) == found
        assert set(given(tmp_path, classes_from_folders=False).values()) == {None}


@pytest.mark.parametrize(
    ("names", "may_be", "likely"),
    [
        (("cat/1.png", "dog/2.png"), True, False),
        (("cat/1.png", "dog/2.png", "unlabeled/3.png"), True, True),
        (("cat/1.png", "unlabeled/3.png"), True, True),
        (("cat/1.png", "dog/2.png", "0.png"), False, False),
        (("cat/1.png",), False, False),
        (("2023/1.png", "2024-05/2.png"), False, False),
        (("2023/1.png", "misc/2.png"), True, False),
        (("2023/1.png", "misc/2.png", "unlabeled/3.png"), True, False),
        (("0.png", "1.png"), False, False),
    ],
)
def test_which_folders_may_be_classes(tmp_path, names, may_be, likely):
    pictures(tmp_path, *names)
    found = PictureFolders.of(tmp_path)
    assert (found.may_be_classes, found.look_like_classes) == (may_be, likely)


def test_many_folders_are_named_in_short_and_harmlessly(tmp_path):
    found = PictureFolders(tmp_path, {f"class {i}": 10 - i for i in range(8)} | {"two\nlines": 99}, 0, 0)
    assert str(found).startswith("'two\\nlines' (99), class 0 (10), ")
    assert str(found).endswith("class 4 (6) and 3 more")


def test_finding_pictures_imports_neither_pillow_nor_torch(tmp_path):
    pictures(tmp_path, "a.png")
    code = (
        "import sys; from laplacianshot.labeling.sources import PictureFolders, open_source; "
        f"open_source({str(tmp_path)!r}); print(sorted({{'PIL', 'torch'}} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
