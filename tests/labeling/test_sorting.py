from __future__ import annotations

import functools
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.sorting import LOG_NAME, folder_names, sort_pictures, undo_sorting
from laplacianshot.labeling.sources import open_source
from tests.labeling.files import ODD_NAMES, picture, pictures, result_of

WAYS = ["copy", "link"]

# a.png three times: they get numbers in one class folder.
NAMES = ("a.png", "b.png", "c.png", "one/a.png", "two/a.png", "two/d.png")
LABELS = ["x", "y", "", "x", "x", "y"]


def sort(result, source, folder, how, **options):
    labels = {name: label for name, label in zip(result.ids, result.labels, strict=True) if label}
    return sort_pictures(source, labels, folder, how, **options)


def opened(folder):
    return open_source(folder)


@pytest.fixture
def photos(tmp_path):
    return opened(pictures(tmp_path / "photos", *NAMES))


@pytest.fixture
def result(photos):
    return result_of(photos.ids, LABELS)


def tree(root):
    """All files below a folder, with their content or the text of the link, and all folders; logs left out."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = str(path.readlink())
        elif path.is_dir():
            found[name] = "folder"
        elif path.name != LOG_NAME:
            found[name] = path.read_bytes()
    return found


def sorted_into(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if path.name != LOG_NAME)


@pytest.mark.parametrize("how", WAYS)
def test_pictures_come_into_class_folders_and_none_is_overwritten(tmp_path, photos, result, how):
    before = tree(tmp_path / "photos")
    done = sort(result, photos, tmp_path / "out", how)
    assert sorted_into(tmp_path / "out") == ["x/a-2.png", "x/a-3.png", "x/a.png", "y/b.png", "y/d.png"]
    contents = {(tmp_path / "out" / name).read_bytes() for name in sorted_into(tmp_path / "out")}
    assert contents == {before[name] for name, label in zip(photos.ids, LABELS, strict=True) if label}
    assert (done.n_done, done.n_present, done.skipped) == (5, 0, ())
    assert done.log == tmp_path / "out" / LOG_NAME
    assert tree(tmp_path / "photos") == before


@pytest.mark.parametrize("how", WAYS)
def test_undo_restores_everything(tmp_path, photos, result, how):
    before = tree(tmp_path)
    log = sort(result, photos, tmp_path / "deep" / "out", how).log
    times = {path: path.stat().st_mtime_ns for path in (tmp_path / "deep").rglob("*.png")}
    assert undo_sorting(log).n_done == 5
    assert tree(tmp_path) == before
    assert all(photos.file(i).stat().st_mtime_ns in times.values() for i in (0, 1, 3, 4, 5))


@pytest.mark.parametrize("how", WAYS)
def test_folders_and_files_that_were_there_stay(tmp_path, photos, result, how):
    pictures(tmp_path / "out", "y/b.png", "x/a.png", "z/e.png")
    picture(tmp_path / "out" / "y" / "b.png", seed=99)
    before = tree(tmp_path)
    log = sort(result, photos, tmp_path / "out", how).log
    assert {name: content for name, content in tree(tmp_path).items() if name in before and "out" in name} == {
        name: content for name, content in before.items() if "out" in name
    }
    assert (tmp_path / "out" / "y" / "b-2.png").exists()
    undo_sorting(log)
    assert tree(tmp_path) == before


@pytest.mark.parametrize("how", WAYS)
def test_a_second_run_does_nothing(tmp_path, photos, result, how):
    sort(result, photos, tmp_path / "out", how)
    after = tree(tmp_path)
    log = (tmp_path / "out" / LOG_NAME).read_bytes()
    again = sort(result, photos, tmp_path / "out", how)
    assert (again.n_done, again.n_present, again.skipped) == (0, 5, ())
    assert tree(tmp_path) == after
    assert (tmp_path / "out" / LOG_NAME).read_bytes() == log


@pytest.mark.parametrize("how", WAYS)
def test_undo_takes_back_all_runs(tmp_path, photos, result, how):
    before = tree(tmp_path)
    sort(result_of(photos.ids, ["x", "", "", "", "y", ""]), photos, tmp_path / "out", how)
    rest = opened(tmp_path / "photos")
    done = sort(result_of(rest.ids, ["z"] * len(rest)), rest, tmp_path / "out", how)
    assert done.n_done == 6
    undo_sorting(done.log)
    assert tree(tmp_path) == before
    with pytest.raises(LabelingError, match="log of sorted pictures not found"):
        undo_sorting(done.log)


def test_odd_names_and_classes_come_back(tmp_path):
    source = opened(pictures(tmp_path / "photos", *ODD_NAMES))
    before = tree(tmp_path)
    labels = ["a/b", "..", "two\nlines", "CON", *["🐦"] * (len(ODD_NAMES) - 4)]
    done = sort(result_of(source.ids, labels), source, tmp_path / "out", "copy")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(
        ["a_b", "_", "two_lines", "CON_", "🐦", LOG_NAME]
    )
    assert len(opened(tmp_path / "out")) == len(source)
    undo_sorting(done.log)
    assert tree(tmp_path) == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_second_run_compares_each_picture_with_one_copy_even_if_all_have_one_name(tmp_path):
    for i in range(300):
        (tmp_path / "photos" / str(i)).mkdir(parents=True)
        (tmp_path / "photos" / str(i) / "a.png").write_bytes(b"%d" % i)
    source = opened(tmp_path / "photos")
    result = result_of(source.ids, ["x"] * 300)
    assert sort(result, source, tmp_path / "out", "copy").n_done == 300

    def again():
        opens = []
        sys.addaudithook(lambda event, arguments: opens.append(event) if event == "open" else None)
        assert sort(result, source, tmp_path / "out", "copy").n_present == 300
        assert len(opens) < 2 * 300 + 20

    assert exit_code(forked(again)) == 0


def test_without_its_log_copies_are_known_by_their_content(tmp_path, photos, result):
    sort(result, photos, tmp_path / "out", "copy").log.unlink()
    assert sort(result, photos, tmp_path / "out", "copy").n_present == 5


def test_names_that_differ_in_case_alone_get_numbers_on_every_system(tmp_path):
    source = opened(pictures(tmp_path / "photos", "1/a.png", "2/A.png"))
    sort(result_of(source.ids, ["x", "x"]), source, tmp_path / "out", "copy")
    assert sorted_into(tmp_path / "out") == ["x/A-2.png", "x/a.png"]


def test_a_name_of_full_length_gets_a_number_too(tmp_path):
    name = "é" * 125 + ".png"
    source = opened(pictures(tmp_path / "photos", f"1/{name}", f"2/{name}"))
    sort(result_of(source.ids, ["x", "x"]), source, tmp_path / "out", "copy")
    assert len(sorted_into(tmp_path / "out")) == 2


def test_without_any_label_nothing_is_made(tmp_path, photos):
    done = sort(result_of(photos.ids, [""] * 6), photos, tmp_path / "deep" / "out", "copy")
    assert (done.n_done, done.n_present, done.skipped) == (0, 0, ())
    assert not (tmp_path / "deep").exists()


@pytest.mark.parametrize("how", ["copy", "link"])
def test_copies_among_the_pictures_are_refused(tmp_path, photos, result, how):
    (tmp_path / "alias").symlink_to(tmp_path / "photos")
    before = tree(tmp_path)
    for folder in ("photos", "photos/sorted", "alias"):
        with pytest.raises(LabelingError, match=r"is inside the pictures of .*choose a folder elsewhere"):
            sort(result, photos, tmp_path / folder, how)
    assert tree(tmp_path) == before


# Links among the pictures


def test_pictures_that_are_links_are_followed_by_copies(tmp_path):
    picture(tmp_path / "elsewhere" / "real.png")
    folder = pictures(tmp_path / "photos", "a.png")
    (folder / "sub").mkdir()
    (folder / "sub" / "l.png").symlink_to("../../elsewhere/real.png")
    source = opened(folder)
    before = tree(tmp_path)
    result = result_of(source.ids, ["x", "y"])
    for how in WAYS:
        done = sort(result, source, tmp_path / "out", how)
        target = tmp_path / "out" / "y" / "l.png"
        assert target.is_symlink() == (how != "copy")
        assert target.read_bytes() == (tmp_path / "elsewhere" / "real.png").read_bytes()
        undo_sorting(done.log)
        assert tree(tmp_path) == before


# What is in the way


@pytest.mark.parametrize("kind", ["texts", "vectors"])
def test_only_pictures_can_be_sorted(tmp_path, kind):
    (tmp_path / "t.csv").write_text("text\na\nb\n")
    np.save(tmp_path / "v.npy", np.eye(2))
    source = open_source(tmp_path / ("t.csv" if kind == "texts" else "v.npy"))
    with pytest.raises(LabelingError, match=f"only pictures can be sorted into folders, and these are {kind}"):
        sort(result_of(source.ids, ["x", "y"]), source, tmp_path / "out", "copy")


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path, photos, result):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(LabelingError, match="is a file; name a folder"):
        sort(result, photos, tmp_path / "out", "copy")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").write_text("a file")
    with pytest.raises(LabelingError, match="x is a file, and a class needs a folder of this name"):
        sort(result, photos, tmp_path / "other", "copy")
    assert sorted(path.name for path in (tmp_path / "other").iterdir()) == ["x"]


def test_another_way_is_an_error(tmp_path, photos, result):
    with pytest.raises(LabelingError, match="by copy or link, not by 'move'"):
        sort(result, photos, tmp_path / "out", "move")


@pytest.mark.parametrize("how", WAYS)
def test_a_picture_that_is_gone_is_left_out_and_reported(tmp_path, photos, result, how):
    (tmp_path / "photos" / "b.png").unlink()
    done = sort(result, photos, tmp_path / "out", how)
    assert (done.n_done, [(one.id, one.reason) for one in done.skipped]) == (
        4,
        [("b.png", "No such file or directory")],
    )


def test_a_name_that_is_taken_meanwhile_is_not_overwritten(tmp_path, photos, result):
    before = tree(tmp_path / "photos")

    def meddle(done, total):
        if done == 1:
            (tmp_path / "out" / "y" / "b.png").write_text("mine")

    done = sort(result, photos, tmp_path / "out", "copy", progress=meddle)
    assert (tmp_path / "out" / "y" / "b.png").read_text() == "mine"
    assert (tmp_path / "out" / "y" / "b-2.png").read_bytes() == before["b.png"]
    assert undo_sorting(done.log).skipped == ()
    assert tree(tmp_path / "photos") == before
    assert sorted_into(tmp_path / "out") == ["y/b.png"]


def test_progress_is_reported(tmp_path, photos, result):
    reported = []
    log = sort(result, photos, tmp_path / "out", "copy", progress=lambda *step: reported.append(step)).log
    undo_sorting(log, progress=lambda *step: reported.append(step))
    assert reported == [(i, 5) for i in range(1, 6)] * 2


# What cannot be undone


def test_a_copy_that_was_changed_is_left_and_the_log_stays(tmp_path, photos, result):
    log = sort(result, photos, tmp_path / "out", "copy").log
    (tmp_path / "out" / "y" / "b.png").write_text("retouched")
    undone = undo_sorting(log)
    assert undone.n_done == 4
    assert [(one.id, one.reason) for one in undone.skipped] == [("b.png", f"{tmp_path}/out/y/b.png was changed")]
    assert (tmp_path / "out" / "y" / "b.png").read_text() == "retouched"
    (tmp_path / "out" / "y" / "b.png").unlink()
    assert undo_sorting(log).skipped == ()
    assert not (tmp_path / "out").exists()


def test_what_was_undone_before_is_not_ours_any_more(tmp_path, photos, result):
    log = sort(result, photos, tmp_path / "out", "copy").log
    (tmp_path / "out" / "y" / "b.png").write_text("retouched")
    undo_sorting(log)
    shutil.copy2(tmp_path / "photos" / "two" / "d.png", tmp_path / "out" / "y" / "d.png")
    assert [one.id for one in undo_sorting(log).skipped] == ["b.png"]
    assert sorted_into(tmp_path / "out") == ["y/b.png", "y/d.png"]


def test_a_link_that_is_another_file_now_is_left(tmp_path, photos, result):
    log = sort(result, photos, tmp_path / "out", "link").log
    (tmp_path / "out" / "y" / "b.png").unlink()
    (tmp_path / "out" / "y" / "b.png").write_text("another")
    assert [one.id for one in undo_sorting(log).skipped] == ["b.png"]


@pytest.mark.parametrize("content", ["hello", "{}\n", '{"event": "unheard of"}\n'])
def test_a_file_that_is_not_a_log_is_an_error(tmp_path, content):
    (tmp_path / "log.jsonl").write_text(content)
    before = tree(tmp_path)
    if content.startswith('{"event'):
        assert undo_sorting(tmp_path / "log.jsonl").n_done == 0
    else:
        with pytest.raises(LabelingError, match="is not a log of sorting pictures"):
            undo_sorting(tmp_path / "log.jsonl")
        assert tree(tmp_path) == before
    with pytest.raises(LabelingError, match="log of sorted pictures not found"):
        undo_sorting(tmp_path / "gone.jsonl")


def test_a_log_of_a_newer_version_is_an_error(tmp_path, photos, result):
    log = sort(result, photos, tmp_path / "out", "copy").log
    log.write_text(log.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(LabelingError, match="written by a newer laplacianshot"):
        undo_sorting(log)


# The log


def test_the_whole_plan_is_in_the_log_before_the_first_picture_is_touched(tmp_path, photos, result):
    stop_after_the_first(result, photos, tmp_path / "out", "copy")
    events = [json.loads(line) for line in (tmp_path / "out" / LOG_NAME).read_text().splitlines() if line]
    planned = [event["id"] for event in events if event["event"] == "picture"]
    assert planned == [name for name, label in zip(photos.ids, LABELS, strict=True) if label]
    assert events[-2:] == [{"event": "planned"}, {"event": "begin", "step": 0}]


@pytest.mark.parametrize("how", WAYS)
def test_a_run_that_was_stopped_takes_no_file_of_the_user_for_its_own(tmp_path, photos, result, how):
    stop_after_the_first(result, photos, tmp_path / "out", how)
    mine = tmp_path / "out" / "y" / "b.png"
    if how == "copy":
        shutil.copy2(tmp_path / "photos" / "b.png", mine)
    else:
        mine.symlink_to(tmp_path / "photos" / "b.png")
    assert sort(result, photos, tmp_path / "out", how).n_present == 2
    assert undo_sorting(tmp_path / "out").n_done == 4
    assert sorted_into(tmp_path / "out") == ["y/b.png"]


def test_a_name_that_was_taken_before_a_run_was_stopped_is_not_taken_for_its_own(tmp_path, photos, result):
    mine = tmp_path / "out" / "y" / "b.png"

    def stop(done, total):
        if done == 1:
            shutil.copy2(tmp_path / "photos" / "b.png", mine)
        if done == 2:
            raise Stop

    with pytest.raises(Stop):
        sort(result, photos, tmp_path / "out", "copy", progress=stop)
    assert sorted_into(tmp_path / "out") == ["x/a.png", "y/b-2.png", "y/b.png"]
    undo_sorting(tmp_path / "out")
    assert sorted_into(tmp_path / "out") == ["y/b.png"]


def test_files_of_the_user_that_look_partial_stay(tmp_path, photos, result):
    names = (".partial-picture", ".partial-mine", ".partial-0-0", ".partial-.png")
    for name in names:
        (tmp_path / "out" / "x").mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / "x" / name).write_text("mine")
    before = tree(tmp_path)
    stop_after_the_first(result, photos, tmp_path / "out", "copy")
    sort(result, photos, tmp_path / "out", "copy")
    undo_sorting(tmp_path / "out")
    assert tree(tmp_path) == before


class Stop(Exception):
    pass


def stop_after_the_first(result, photos, folder, how):
    def stop(done, total):
        raise Stop

    with pytest.raises(Stop):
        sort(result, photos, folder, how, progress=stop)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_two_runs_with_one_log_do_not_mix(tmp_path, photos, result):
    codes = []

    def second_run(done, total):
        if done == 1:
            codes.append(exit_code(forked(lambda: refused(tmp_path / "out" / LOG_NAME))))

    def refused(log):
        with pytest.raises(LabelingError, match="another run is sorting pictures with this log"):
            undo_sorting(log)

    assert sort(result, photos, tmp_path / "out", "copy", progress=second_run).n_done == 5
    assert codes == [0]


def forked(work):
    """Do some work in a process of its own, which leaves with code 0 if it comes to its end; gives its number."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return child


def exit_code(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def other_disk(tmp_path):
    """A folder on another disk than the tests' own."""
    for place in (Path("/dev/shm"), Path.home(), Path.cwd()):
        if place.is_dir() and os.access(place, os.W_OK) and place.stat().st_dev != tmp_path.stat().st_dev:
            return Path(tempfile.mkdtemp(dir=place, prefix="laplacianshot-test-"))
    return pytest.skip("needs a second disk")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and limits")
@pytest.mark.parametrize("limit", [300, 50_000], ids=["in the plan", "in a picture"])
def test_on_a_full_disk_nothing_is_lost_and_the_run_goes_on_later(tmp_path, limit):
    folder = pictures(tmp_path / "photos", "a.png", "b.png")
    (folder / "large.png").write_bytes(bytes(100_000))
    source = opened(folder)
    result = result_of(source.ids, ["x", "y", "y"])
    before = tree(tmp_path)

    def full():
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(OSError, match="large"):
            sort(result, source, tmp_path / "out", "copy")

    assert exit_code(forked(full)) == 0
    assert sorted_into(tmp_path / "out") == ([] if limit == 300 else ["x/a.png", "y/b.png"])
    log = sort(result, source, tmp_path / "out", "copy").log
    assert sorted_into(tmp_path / "out") == ["x/a.png", "y/b.png", "y/large.png"]
    assert undo_sorting(log).skipped == ()
    assert tree(tmp_path) == before


# Kills

ACTS = {"os.link", "os.remove", "os.symlink", "os.mkdir", "os.rename", "os.rmdir", "open", "shutil.copyfile",
        "shutil.copystat"}  # fmt: skip


def killed_before(number, work):
    """Do some work in a process that dies, without any clean-up, before its n-th act on files; False if it lived."""

    def mortal():
        seen = [0]

        def die(event, arguments):
            seen[0] += event in ACTS
            if seen[0] == number:
                os._exit(9)

        sys.addaudithook(die)
        work()

    code = exit_code(forked(mortal))
    assert code in (0, 9)
    return code == 9


def files(root):
    return {name: what for name, what in tree(root).items() if what != "folder"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("then", ["finished", "undone"])
@pytest.mark.parametrize("how", WAYS)
def test_killed_before_any_act_the_work_can_be(tmp_path, how, then):
    number, died = 0, True
    while died:
        number += 1
        here = tmp_path / str(number)
        for place in ("a.png", "b.png", "sub/a.png"):
            (here / "photos" / place).parent.mkdir(parents=True, exist_ok=True)
            (here / "photos" / place).write_bytes(place.encode())
        source = opened(here / "photos")
        result = result_of(source.ids, ["x", "", "x"])
        before = files(here)
        out = here / "out"
        run = functools.partial(sort, result, source, out, how)
        died = killed_before(number, run)
        if then == "finished":
            run()
            assert {(out / "x" / name).read_bytes() for name in ("a.png", "a-2.png")} == {b"a.png", b"sub/a.png"}
            assert len(sorted_into(out)) == 2
            assert not list(out.rglob(".partial*"))
            assert {path.read_bytes() for path in (here / "photos").glob("*.png")} == {b"a.png", b"b.png"}
        if (out / LOG_NAME).exists():
            # An undoing that is killed as well is taken up again.
            killed_before(number % 7 + 1, functools.partial(undo_sorting, out))
            if (out / LOG_NAME).exists():
                assert undo_sorting(out).skipped == ()
        assert files(here) == before
    assert number > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("how", WAYS)
def test_killed_again_and_again_no_picture_is_lost(tmp_path, how):
    for i in range(200):
        (tmp_path / "photos" / str(i)).mkdir(parents=True)
        (tmp_path / "photos" / str(i) / "a.png").write_bytes(b"picture %d" % i)
    source = opened(tmp_path / "photos")
    result = result_of(source.ids, ["x", "y"] * 100)
    before = tree(tmp_path)
    out = tmp_path / "out"
    run = functools.partial(sort, result, source, out, how)
    for number in np.random.default_rng(0).integers(10, 300, size=4).tolist():
        killed_before(number, run)
        contents = {path.read_bytes() for path in tmp_path.rglob("a*.png")}
        assert contents == {b"picture %d" % i for i in range(200)}
    run()
    assert {path.read_bytes() for path in out.rglob("a*.png")} == contents
    assert len(sorted_into(out)) == 200
    undo_sorting(out)
    assert tree(tmp_path) == before


# Logs of version 0.1


def moved_by_0_1(result, source, folder, how="move"):
    """Move pictures and write the log of it, as ``--apply move`` of version 0.1 did."""
    lines = [{"event": "plan", "version": 1, "how": how, "token": "00"}, {"event": "folder", "path": str(folder)}]
    for name, label in zip(result.ids, result.labels, strict=True):
        if label:
            origin, target = source.path / name, folder / label / name.replace("/", "-")
            status = origin.stat()
            if not target.parent.exists():
                lines.append({"event": "folder", "path": str(target.parent)})
                target.parent.mkdir(parents=True)
            line = {"event": "picture", "id": name, "from": str(origin), "to": str(target), "size": status.st_size}
            lines.append(line | {"mtime_ns": status.st_mtime_ns})
            if how == "move":
                shutil.move(origin, target)
            else:
                shutil.copy2(origin, target)
    log = folder / LOG_NAME
    log.write_text("".join(f"\n{json.dumps(line)}\n" for line in [*lines, {"event": "planned"}, {"event": "done"}]))
    return log


@pytest.mark.parametrize("how", ["move", "copy"])
def test_what_version_0_1_sorted_is_undone(tmp_path, photos, result, how):
    before = tree(tmp_path)
    moved_by_0_1(result, photos, tmp_path / "out", how)
    assert undo_sorting(tmp_path / "out").n_done == 5
    assert tree(tmp_path) == before


def test_what_version_0_1_moved_to_another_disk_comes_back(tmp_path, photos, result):
    before = tree(tmp_path)
    elsewhere = other_disk(tmp_path)
    try:
        moved_by_0_1(result, photos, elsewhere / "out")
        undo_sorting(elsewhere / "out")
        assert tree(tmp_path) == before
        assert list(elsewhere.iterdir()) == []
    finally:
        shutil.rmtree(elsewhere)


def test_a_moved_picture_whose_old_place_is_taken_is_left(tmp_path, photos, result):
    log = moved_by_0_1(result, photos, tmp_path / "out")
    moved = (tmp_path / "out" / "y" / "b.png").read_bytes()
    (tmp_path / "photos" / "b.png").write_text("another")
    undone = undo_sorting(log)
    assert [(one.id, one.reason) for one in undone.skipped] == [
        ("b.png", f"another file is at {tmp_path}/photos/b.png")
    ]
    assert (tmp_path / "photos" / "b.png").read_text() == "another"
    assert (tmp_path / "out" / "y" / "b.png").read_bytes() == moved


def test_moved_pictures_that_were_changed_go_back_changed_and_lost_ones_are_reported(tmp_path, photos, result):
    log = moved_by_0_1(result, photos, tmp_path / "out")
    (tmp_path / "out" / "y" / "b.png").write_text("retouched")
    (tmp_path / "out" / "y" / "two-d.png").unlink()
    shutil.rmtree(tmp_path / "photos" / "two")
    undone = undo_sorting(log)
    assert [one.id for one in undone.skipped] == ["two/d.png"]
    assert (tmp_path / "photos" / "b.png").read_text() == "retouched"
    assert (tmp_path / "photos" / "two" / "a.png").exists()


def test_a_picture_that_a_killed_move_left_under_both_names_keeps_its_old_one(tmp_path, photos, result):
    before = tree(tmp_path)
    moved_by_0_1(result, photos, tmp_path / "out")
    os.link(tmp_path / "out" / "y" / "b.png", tmp_path / "photos" / "b.png")
    shutil.copy2(tmp_path / "out" / "x" / "a.png", tmp_path / "photos" / "a.png")
    assert undo_sorting(tmp_path / "out").skipped == ()
    assert tree(tmp_path) == before


# Names of class folders


def test_plain_names_stay_as_they_are():
    names = ["cat", "Black-footed Albatross", "001.Gull", "süß", "чайка", "🐦", "a.b", "-rf"]
    assert folder_names(names) == {name: name for name in names}


def test_what_systems_do_not_take_is_replaced():
    expected = {
        "a/b": "a_b",
        "a\\b": "a_b-2",
        "../etc": "_._etc",
        ".": "_",
        "..": "_-2",
        ".hidden": "_hidden",
        "two\nlines": "two_lines",
        'what?*:<>|"': "what_______",
        "ends. ": "ends",
        "CON": "CON_",
        "nul.txt": "_nul.txt",
        "\u202eevil": "_evil",
    }
    assert folder_names(expected) == expected


def test_names_that_differ_in_case_alone_get_a_number():
    assert folder_names(["Cat", "cat", "CAT"]) == {"Cat": "Cat", "cat": "cat-2", "CAT": "CAT-3"}


def test_a_class_called_unlabeled_is_not_taken_for_unlabeled_pictures():
    assert folder_names(["Unlabeled"]) == {"Unlabeled": "Unlabeled-2"}


def test_long_names_are_cut_and_stay_apart():
    names = folder_names(["é" * 300, "é" * 301])
    assert len(set(names.values())) == 2
    assert all(len(name.encode()) <= 200 for name in names.values())


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sets(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), max_size=8))
def test_every_class_gets_a_folder_of_its_own_that_can_be_made(tmp_path_factory, labels):
    root = tmp_path_factory.mktemp("classes")
    names = folder_names(sorted(labels))
    assert len({name.casefold() for name in names.values()}) == len(labels)
    for name in names.values():
        (root / name).mkdir()
        assert os.path.dirname(os.path.realpath(root / name)) == os.path.realpath(root)  # noqa: PTH120
        assert not name.startswith(".")
