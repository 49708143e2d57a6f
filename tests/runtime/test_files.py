from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from laplacianshot.runtime.files import (
    LOCK_NAME,
    FolderInUse,
    FolderLock,
    make_private,
    open_input,
    put_file,
    read_input,
    user_cache,
    usual_cache,
)

HOLD = """
import signal, sys
from pathlib import Path
from laplacianshot.runtime.files import FolderLock
with FolderLock(Path(sys.argv[1]), holder="the studio"):
    print("held", flush=True)
    signal.pause()
"""


@pytest.fixture
def holder(tmp_path):
    """A process that holds the folder."""
    command = [sys.executable, "-c", HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path, holder):
    told = rf"the studio \(process {holder.pid} on .*\) is writing there; wait for its end or choose another folder\.$"
    with pytest.raises(FolderInUse, match=told), FolderLock(tmp_path):
        pass


def test_whoever_comes_second_says_what_to_do(tmp_path, holder):
    with pytest.raises(FolderInUse, match=r"writing there; look elsewhere\.$"):
        FolderLock(tmp_path, advice="look elsewhere").acquire()


def test_a_killed_process_leaves_its_folder_to_the_next(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert "process" in (tmp_path / LOCK_NAME).read_text()
    with FolderLock(tmp_path):
        assert f"process {os.getpid()} " in (tmp_path / LOCK_NAME).read_text()


def test_a_process_is_refused_its_own_folder_too(tmp_path):
    (tmp_path / "here").mkdir()
    with (
        FolderLock(tmp_path / "here"),
        pytest.raises(FolderInUse, match="another run of this process is writing there"),
        FolderLock(tmp_path / "here" / ".." / "here"),
    ):
        pass


def test_a_folder_is_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError), FolderLock(tmp_path):
        _ = 1 / 0
    with FolderLock(tmp_path):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_does_not_hold_its_parents_folder(tmp_path):
    """A worker that outlives a killed run must not keep the next one out."""
    with FolderLock(tmp_path):
        child = os.fork()
        if child == 0:
            signal.pause()
    try:
        check = HOLD.replace("signal.pause()", "pass")
        subprocess.run([sys.executable, "-c", check, str(tmp_path)], check=True, timeout=300, capture_output=True)
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@pytest.mark.parametrize("kind", ["pipe", "device", "link to a pipe"])
def test_only_regular_files_are_opened_and_nothing_waits(kind, tmp_path):
    path = Path("/dev/zero")
    if kind != "device":
        path = tmp_path / "pipe"
        os.mkfifo(path)
    if kind == "link to a pipe":
        (tmp_path / "link").symlink_to(path)
        path = tmp_path / "link"
    with pytest.raises(OSError, match="not a regular file"):
        open_input(path)
    with pytest.raises(OSError, match="not a regular file"):
        read_input(path)


def test_a_file_of_the_user_is_read_up_to_a_limit(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    assert read_input(tmp_path / "link", 5) == b"12345"
    with pytest.raises(OSError, match="5 B, more than the 4 B allowed"):
        read_input(tmp_path / "file", 4)
    with pytest.raises(IsADirectoryError):
        read_input(tmp_path)


def test_an_output_follows_links_and_refuses_what_is_not_a_file(tmp_path):
    (tmp_path / "there").mkdir()
    link = tmp_path / "link.csv"
    link.symlink_to("there/real.csv")
    put_file(link, lambda file: file.write(b"new"))
    assert link.is_symlink()
    assert (tmp_path / "there" / "real.csv").read_bytes() == b"new"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="not a regular file"):
        put_file(tmp_path / "pipe", lambda file: file.write(b"new"))
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        put_file(tmp_path / "loop", lambda file: file.write(b"new"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "loop", "pipe", "there"]


def test_private_files_and_folders_are_their_owners_alone_and_existing_files_keep_their_permissions(tmp_path):
    before = os.umask(0o022)
    try:
        for name, private in (("own", True), ("shared", False)):
            put_file(tmp_path / name, lambda file: file.write(b"1"), private=private)
        make_private(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    modes = {name: stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("own", "shared", "a/b")}
    assert modes == {"own": 0o600, "shared": 0o644, "a/b": 0o700}
    (tmp_path / "own").chmod(0o640)
    put_file(tmp_path / "own", lambda file: file.write(b"2"), private=True)
    assert stat.S_IMODE((tmp_path / "own").stat().st_mode) == 0o640


def test_the_variable_comes_first(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "mine"))
    assert user_cache() == (tmp_path / "mine", "")
    assert (tmp_path / "mine").is_dir()


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="other systems have folders of their own")
def test_else_it_is_in_the_users_folder_for_caches(tmp_path, monkeypatch):
    monkeypatch.delenv("LAPLACIANSHOT_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert usual_cache() == tmp_path / "xdg" / "laplacianshot"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert usual_cache() == tmp_path / ".cache" / "laplacianshot"


def test_a_folder_that_cannot_be_written_is_replaced_with_a_note(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, note = user_cache()
    assert folder.parent == tmp_path
    assert str(tmp_path / "file" / "cache") in note
    assert str(folder) in note
    assert "\n" not in note
    assert user_cache()[0] == folder


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs POSIX")
def test_a_temporary_folder_that_is_taken_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / f"laplacianshot-{os.getuid()}").write_text("not a folder")
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, note = user_cache()
    assert Path(folder).is_dir()
    assert note
