from __future__ import annotations

import errno
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from numba import njit
from typer.testing import CliRunner

import laplacianshot
from laplacianshot import cli
from laplacianshot.cli import app as application
from laplacianshot.cli import terminal
from laplacianshot.cli.app import app, run


def test_version_prints_the_version(capsys):
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"laplacianshot {laplacianshot.__version__}\n"


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["demo", "--help"]])
def test_help_is_given(arguments):
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0
    assert "Usage" in result.output


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["nope"], "nope"), (["--bogus"], "--bogus"), (["demo", "--bogus"], "--bogus"), (["demo", "extra"], "extra")],
)
def test_a_slip_of_the_keyboard_is_one_line_and_code_2(arguments, named, refused):
    refused(arguments, named)


def test_no_command_at_all_shows_the_help(capsys):
    run([])
    out, err = capsys.readouterr()
    assert "demo" in out + err
    assert "Traceback" not in err


def test_missing_packages_are_one_line_that_names_the_extra(monkeypatch, capsys):
    monkeypatch.setattr(cli, "find_spec", lambda name: None if name in ("typer", "rich") else object())
    with pytest.raises(SystemExit) as left:
        cli.main([])
    assert left.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert err.startswith("error: the command needs typer, rich; install the extra cli: ")
    assert 'pip install "laplacianshot[cli]"' in err


def test_ctrl_c_outside_a_command_is_code_130(monkeypatch, capsys):
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(application, "app", interrupt)
    assert run([]) == 130
    assert capsys.readouterr().err == "error: interrupted.\n"


@pytest.mark.parametrize("module", ["typer", "numpy", "sklearn"])
def test_ctrl_c_while_a_module_is_loaded_is_said(module, environment, tmp_path):
    program = (
        "import os, signal, sys\n"
        "from laplacianshot.cli import main\n"
        "def at(event, arguments):\n"
        f"    if event == 'import' and arguments[0] == {module!r}: os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(at)\n"
        "main(['demo'])"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode in (130, -signal.SIGINT)
    assert done.stderr.endswith("error: interrupted.\n")
    assert "Traceback" not in done.stderr


def test_a_fault_of_ours_is_one_line_that_calls_it_a_bug_and_a_private_log_file(monkeypatch, tmp_path, capsys):
    def fail(**_: object) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(application, "app", fail)
    monkeypatch.setenv("LAPLACIANSHOT_CACHE", str(tmp_path))
    assert run([]) == 1
    (log,) = (tmp_path / "bugs").iterdir()
    err = capsys.readouterr().err
    assert err.startswith("error: this is a bug in laplacianshot ")
    assert err.count("\n") == 1
    assert "ZeroDivisionError: by nothing" in err
    assert str(log) in err
    assert "Traceback" in log.read_text()
    assert log.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), 1, "error: No space left on device.\n"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a\nb"), 2, "error: 'a\\nb': File name too long.\n"),
        (MemoryError(), 1, "error: out of memory.\n"),
        (RuntimeError("can't start new thread"), 1, "error: the system allows no further thread"),
    ],
)
def test_what_the_system_refuses_is_one_line(error, code, line, monkeypatch, capsys):
    def fail(**_: object) -> None:
        raise error

    monkeypatch.setattr(application, "app", fail)
    assert run([]) == code
    assert capsys.readouterr().err.startswith(line)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize(("redirection", "code"), [(">/dev/full", 1), (">&-", 0), (">&- 2>&-", 0)])
def test_an_output_that_is_closed_or_full_leaves_no_traceback(redirection, code, environment):
    command = f"{shlex.quote(sys.executable)} -m laplacianshot demo --help {redirection}"
    done = subprocess.run(["/bin/sh", "-c", command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == code
    assert done.stderr == ("error: No space left on device.\n" if code else "")


def test_help_and_version_do_not_wait_for_the_heavy_packages():
    code = (
        "import sys; from laplacianshot.cli import main\n"
        "try: main(['--version'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('sklearn', 'numba', 'matplotlib.pyplot')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=300)


def test_a_reader_that_leaves_early_gets_no_traceback():
    command = [sys.executable, "-c", "from laplacianshot.cli import main; main(['demo', '--help'])"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        _, err = process.communicate(timeout=300)
    assert b"Traceback" not in err


def test_outside_a_terminal_compilation_is_said_when_it_begins_and_once(capsys):
    seen = []

    def first(x):
        return x + 1

    def second(x):
        return x + 2

    with terminal.progress_shown() as watch:
        watch("Labels")
        for function in (first, second):
            njit(function)(1)
            seen.append(capsys.readouterr().err)
    assert seen == ["Compiling for this machine, which is needed once and takes up to a minute\n", ""]
