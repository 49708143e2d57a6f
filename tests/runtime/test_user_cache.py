"""Where vectors are kept."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from laplacianshot.runtime.user_cache import user_cache, usual_cache


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
