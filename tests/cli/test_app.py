from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

import laplacianshot
from laplacianshot import cli
from laplacianshot.cli import app as application
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


def test_a_fault_of_ours_is_not_hidden(monkeypatch):
    def fail(**_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(application, "app", fail)
    with pytest.raises(ZeroDivisionError):
        run([])


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
