from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from PIL import Image

from laplacianshot.cli.app import run
from laplacianshot.training import Checkpoint, TrainConfig, config_names
from tests.training.drawings import read_bundle, same_runs, tiny, write_bundle


@pytest.fixture(scope="module")
def drawings(tmp_path_factory) -> Path:
    """A folder with a bundle and a config, in which an apostrophe and a space have to be quoted."""
    folder = tmp_path_factory.mktemp("somebody's drawings")
    write_bundle(folder / "cub84.npz")
    (folder / "tiny.toml").write_text(tiny().to_toml())
    return folder


def command(drawings: Path, output: Path, *more: str) -> list[str]:
    return ["train", str(drawings / "tiny.toml"), "--data", str(drawings), "-o", str(output), *more]


def failed(capsys, code: int, arguments: list[str]) -> str:
    """The one line that a command leaves with."""
    assert run(arguments) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_run_is_reported_in_a_table_and_leaves_its_files(drawings, tmp_path, capsys):
    output = tmp_path / "out"
    assert run(command(drawings, output)) == 0
    out, err = capsys.readouterr()
    assert "conv4 on cub84" in out
    assert "3 epochs in" in out
    assert f"Next: laplacianshot extract {output} --data {shlex.quote(str(drawings))} -o {output / 'features'}" in out
    # Where there is no terminal, one line per epoch.
    assert [line.split()[:2] for line in err.splitlines()] == [["epoch", f"{n}/3"] for n in (1, 2, 3)]
    assert "(best)" in err
    with Image.open(output / "curves.png") as picture:
        picture.load()
    assert TrainConfig.from_toml(output / "config.toml") == tiny()


def test_json_is_one_strict_document(drawings, tmp_path, capsys):
    assert run(command(drawings, tmp_path / "out", "--json", "--set", "epochs=1")) == 0
    document = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert document["best_epoch"] == 1
    assert document["history"][0]["validation"] == document["best_validation"]
    assert document["config"]["epochs"] == 1
    assert Checkpoint.read(Path(document["best"])).config.epochs == 1


def test_what_the_next_command_makes_can_be_evaluated(drawings, tmp_path, capsys):
    output = tmp_path / "out"
    assert run(command(drawings, output, "--json")) == 0
    following = shlex.split(json.loads(capsys.readouterr().out)["next"])
    assert run(following[1:]) == 0
    arguments = ["--way", "3", "--query", "5", "--tasks", "20", "--methods", "simpleshot-l2"]
    assert run(["evaluate", str(output / "features"), *arguments]) == 0


def test_the_config_is_printed_with_all_defaults(capsys):
    assert run(["train", "mini-wrn", "--print-config", "--set", "precision=bfloat16", "--set", "milestones=[0.3]"]) == 0
    out, err = capsys.readouterr()
    assert TrainConfig.from_mapping(tomllib.loads(out)) == TrainConfig(
        dataset="mini", network="wrn28_10", epochs=120, precision="bfloat16", milestones=(0.3,)
    )
    assert err == ""


def test_all_configs_are_listed_with_the_data_they_need(capsys):
    assert run(["train", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in config_names())
    assert "cub84.npz" in out
    assert run(["train", "--list", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [entry["config"] for entry in document["configs"]] == list(config_names())


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "give a CONFIG"),
        (["cub-conv4"], "give --data DIR and -o OUT"),
        (["cub-con4"], "did you mean cub-conv4?"),
        (["cub-conv4", "--set", "epochs"], "write NAME=VALUE"),
        (["cub-conv4", "--set", "epoch=3"], "did you mean epochs?"),
        (["cub-conv4", "--set", "epochs=many"], "epochs = 'many': must be a whole number."),
        (["cub-conv4", "--data", "/no/such/folder", "-o", "{tmp}/out"], "/no/such/folder: file or folder not found"),
        (["cub-conv4", "--data", "{tmp}", "-o", "{tmp}/out"], "there is no cub84.npz"),
        (["cub-conv4", "--data", "{tmp}", "-o", "{tmp}/no/out"], "make it first"),
        (["cub-conv4", "--set", "dataset=cub85", "--data", "{tmp}", "-o", "{tmp}/out"], "did you mean cub84?"),
    ],
)
def test_bad_input_is_one_line_and_code_2(arguments, named, tmp_path, capsys):
    line = failed(capsys, 2, ["train", *(argument.replace("{tmp}", str(tmp_path)) for argument in arguments)])
    assert named in line


def test_settings_that_do_not_suit_the_pictures_are_one_line(drawings, tmp_path, capsys):
    line = failed(capsys, 2, command(drawings, tmp_path / "out", "--set", "validation_query=50"))
    assert "validation_split = 'val'" in line
    line = failed(capsys, 2, command(drawings, tmp_path / "out", "--set", "device=nonsense"))
    assert "nonsense" in line


def test_a_folder_with_a_run_needs_resume(drawings, tmp_path, capsys):
    arguments = command(drawings, tmp_path / "out", "--set", "epochs=1")
    assert run(arguments) == 0
    capsys.readouterr()
    assert "Use --resume to continue it" in failed(capsys, 2, arguments)
    assert run([*arguments, "--resume"]) == 0
    capsys.readouterr()
    line = failed(capsys, 2, [*arguments, "--resume", "--set", "seed=5"])
    assert "holds a run with seed = 0, and this one has 5" in line


def test_a_loss_that_is_not_finite_is_one_line(drawings, tmp_path, capsys):
    line = failed(capsys, 2, command(drawings, tmp_path / "out", "--set", "learning_rate=1e30"))
    assert "no longer finite in epoch 1; lower learning_rate" in line


def test_a_picture_that_cannot_be_read_is_named_and_stops_or_is_left_out(tmp_path, capsys):
    pictures = read_bundle(write_bundle(tmp_path / "drawings.npz"))
    for i, name in enumerate(pictures.names):
        folder = tmp_path / "data" / pictures.split[i] / pictures.class_names[pictures.labels[i]]
        folder.mkdir(parents=True, exist_ok=True)
        pictures.read(i).save(folder / f"{name.rpartition('#')[2]}.png")
    broken = tmp_path / "data" / "base" / "square 1" / "12.png"
    broken.write_bytes(broken.read_bytes()[:50])
    (tmp_path / "tiny.toml").write_text(tiny(dataset="folder", epochs=1).to_toml())
    arguments = ["train", str(tmp_path / "tiny.toml"), "--data", str(tmp_path / "data"), "-o", str(tmp_path / "out")]
    assert "12.png" in failed(capsys, 2, arguments)
    assert run([*arguments, "--on-error", "skip", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "note: left out: " in err
    assert [fault["name"] for fault in json.loads(out)["skipped"]] == ["base/square 1/12.png"]


@pytest.fixture
def started(drawings, tmp_path):
    """A long run in a process of its own, with its first epoch behind it."""
    arguments = command(drawings, tmp_path / "out", "--set", "epochs=60", "--set", "validate_every=60")
    process = subprocess.Popen(
        [sys.executable, "-m", "laplacianshot", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    with process:
        assert process.stderr.readline().startswith("epoch  1/60"), process.stderr.read()
        yield process, tmp_path / "out"
        process.kill()


def test_ctrl_c_writes_a_checkpoint_and_says_how_to_go_on(started, capsys):
    process, output = started
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 130
    line = err.splitlines()[-1]
    assert line.startswith("interrupted: ")
    assert "Traceback" not in err
    state = Checkpoint.read(output / "last.safetensors").state
    assert f"{state.epoch} of 60 epochs and {state.step} steps of the next are in {output}" in line
    again = shlex.split(line.partition("continue with: ")[2])
    assert again[-1] == "--resume"
    assert run(again[1:]) == 0
    assert "60 epochs in" in capsys.readouterr().out


def test_a_second_run_in_the_same_folder_is_refused_and_sigterm_is_code_143(started, drawings, capsys):
    process, output = started
    line = failed(capsys, 2, command(drawings, output, "--resume"))
    assert f"process {process.pid} on " in line
    process.terminate()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 143
    assert "continue with: laplacianshot train" in err


def test_the_number_of_workers_given_at_the_shell_changes_no_bit(drawings, tmp_path):
    for workers in (0, 2):
        assert run(command(drawings, tmp_path / str(workers), "--set", f"workers={workers}")) == 0
    assert same_runs(tmp_path / "0", tmp_path / "2")
