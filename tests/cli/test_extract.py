from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from laplacianshot import FeatureSet
from laplacianshot.cli.app import run
from laplacianshot.cli.extract import LAYOUTS
from laplacianshot.datasets.feature_store import FeatureStore
from laplacianshot.datasets.pictures import DATASETS
from laplacianshot.embedding import build_network
from laplacianshot.training import Checkpoint, TrainConfig
from laplacianshot.training.state import TrainState

CLASSES = {"base": ("ant", "bee"), "val": ("cat",), "novel": ("dog", "elk", "fox")}
N = 36


def write_checkpoint(path: Path, seed: int = 0) -> None:
    """A Conv4 of 16 pixels with weights that nobody trained, in a file as train writes it."""
    torch.manual_seed(seed)
    network = build_network("conv4", 2, image_size=16)
    config = TrainConfig(dataset="folder", network="conv4", image_size=16, resize=20)
    tensors = {f"model.{name}": tensor for name, tensor in network.state_dict().items()}
    Checkpoint(config, ("ant", "bee"), "0" * 64, TrainState(), tensors).write(path)


@pytest.fixture(scope="module")
def originals(tmp_path_factory) -> Path:
    """A run of train, and pictures of six classes in three splits."""
    root = tmp_path_factory.mktemp("extract")
    rng = np.random.default_rng(0)
    (root / "a run").mkdir()
    write_checkpoint(root / "a run" / "best.safetensors")
    for split, names in CLASSES.items():
        for name in names:
            (root / "birds" / split / name).mkdir(parents=True)
            for number in range(N // 6):
                pixels = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(root / "birds" / split / name / f"{number}.png")
    return root


@pytest.fixture
def place(originals, tmp_path, monkeypatch) -> Path:
    """A folder of one's own with these, from where the command is called."""
    shutil.copytree(originals, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


COMMAND = ["extract", "a run/best.safetensors", "--data", "birds", "-o", "store"]


def break_picture(path: Path) -> None:
    """Damage in the middle, which a look at the beginning and the end does not find."""
    content = bytearray(path.read_bytes())
    content[60:400] = bytes(340)
    path.write_bytes(content)


def test_a_store_is_made_and_its_splits_are_printed(place, capsys):
    assert run(COMMAND) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "conv4 on folder: vectors of 64 numbers, float32" in out
    for split, vectors, classes in [("base", 12, 2), ("val", 6, 1), ("novel", 18, 3), ("all", 36, 6)]:
        assert re.search(rf"{split} +{vectors} +{classes}\n", out)
    assert re.search(r"Store: .*store\n36 pictures in \d+ s, [\d,]+ per second\.", out)
    assert repr(FeatureSet.load("store")) == "FeatureSet(36 rows x 64, 6 classes, splits base 12, novel 18, val 6)"


def test_the_vectors_are_those_of_the_network(place, capsys):
    assert run([*COMMAND, "--dtype", "float16", "--batch-size", "5", "--workers", "0", "--threads", "1"]) == 0
    from laplacianshot.datasets.pictures import open_pictures
    from laplacianshot.embedding.pictures import EvalView

    network = Checkpoint.read(place / "a run" / "best.safetensors").network()
    pictures = open_pictures("folder", place / "birds")
    with torch.inference_mode():
        expected = network(EvalView(resize=20, crop=16)(pictures, range(N)))[0].numpy()
    store = FeatureStore.open("store")
    assert store.dtype == "float16"
    np.testing.assert_allclose(store.features, expected, rtol=2e-3, atol=1e-3)


def test_a_folder_of_train_stands_for_its_best_checkpoint(place, capsys):
    assert run(["extract", "a run", *COMMAND[2:]]) == 0
    assert run(COMMAND) == 0
    assert "It was complete already: nothing was computed." in capsys.readouterr().out


def test_evaluate_takes_a_store_for_a_feature_file(place, capsys):
    assert run(COMMAND) == 0
    arguments = ["evaluate", "store", "--way", "2", "--query", "2", "--tasks", "5", "--methods", "simpleshot-cl2"]
    assert run([*arguments, "--json"]) == 0
    assert '"simpleshot-cl2"' in capsys.readouterr().out


def test_json_is_one_document_with_everything(place, capsys):
    assert run([*COMMAND, "--json", "--export", "all.npz"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert err == ""
    store = FeatureStore.open("store")
    assert found["key"]["digest"] == store.key.digest
    assert found["key"]["view"].startswith("EvalView(resize=20, crop=16, channels=3")
    assert found["splits"]["novel"] == {"rows": 18, "classes": 3}
    assert (found["rows"], found["dim"], found["dtype"]) == (36, 64, "float32")
    assert (found["found"], found["encoded"], found["skipped"], found["export"]) == (0, 36, [], "all.npz")


@pytest.mark.parametrize("name", ["all of it.npz", "all.parquet"])
def test_an_export_is_written_beside_the_store(place, capsys, name):
    assert run([*COMMAND, "--export", name]) == 0
    assert re.search(rf"Written: .*{re.escape(name)}", capsys.readouterr().out)
    if name.endswith("npz"):
        np.testing.assert_array_equal(FeatureSet.load(name).features, FeatureSet.load("store").features)
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        assert parquet.read_table(name).num_rows == N


def test_a_broken_picture_stops_the_command_and_is_named(place, refused):
    break_picture(place / "birds" / "val" / "cat" / "3.png")
    refused(COMMAND, "picture 'val/cat/3.png' cannot be read")


def test_broken_pictures_are_left_out_and_listed_where_this_is_asked_for(place, capsys):
    break_picture(place / "birds" / "val" / "cat" / "3.png")
    (place / "birds" / "novel" / "dog" / "1.png").write_bytes(b"")
    assert run([*COMMAND, "--on-error", "skip"]) == 0
    out = capsys.readouterr().out
    assert "Left out, as they cannot be read: 2\n" in out
    assert "'novel/dog/1.png': the file is empty" in out
    assert "'val/cat/3.png': " in out
    assert run([*COMMAND, "--on-error", "skip", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [fault["name"] for fault in found["skipped"]] == ["novel/dog/1.png", "val/cat/3.png"]
    assert (found["rows"], found["encoded"]) == (34, 0)


def test_a_stale_store_is_refused_and_replaced_only_on_demand(place, refused, capsys):
    assert run(COMMAND) == 0
    capsys.readouterr()
    write_checkpoint(place / "a run" / "best.safetensors", seed=1)
    refused(COMMAND, "was made with other weights; choose another folder, or overwrite it")
    Image.new("RGB", (20, 20)).save(place / "birds" / "val" / "cat" / "3.png")
    refused(COMMAND, "was made with other weights and other data")
    refused([*COMMAND, "--dtype", "float16"], "was made with other weights and other data")
    assert run([*COMMAND, "--overwrite"]) == 0
    capsys.readouterr()
    refused([*COMMAND, "--dtype", "float16"], "was made with dtype float32, not float16")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({1: "nothing.safetensors"}, "nothing.safetensors: cannot be read (No such file or directory)"),
        ({1: "birds/val/cat/0.png"}, "is not a complete safetensors file"),
        ({3: "nowhere"}, "nowhere: file or folder not found. folder: your own pictures in class folders"),
        ({3: "a run"}, "there are no pictures in its folders"),
        ({5: "nowhere/store"}, "--output nowhere/store: there is no folder"),
        ({5: "a run/best.json"}, "--output a run/best.json: this is a file; name a folder"),
        ({5: "birds"}, "birds holds other files, such as 'base'"),
        ({6: ["--dataset", "cub85"]}, "--dataset cub85: there is no data set 'cub85'; did you mean cub84?"),
        ({6: ["--dtype", "float64"]}, "--dtype"),
        ({6: ["--export", "all.csv"]}, "--export all.csv: the name must end in .npz, .parquet"),
        ({6: ["--device", "abacus"]}, "--device abacus: "),
        ({6: ["--batch-size", "0"]}, "--batch-size"),
    ],
)
def test_bad_input_is_one_line_and_code_2(place, refused, change, named):
    command: list[str] = list(COMMAND)
    for position, value in change.items():
        command[position : position + 1] = [value] if isinstance(value, str) else value
    refused(command, named)
    assert not (place / "store" / "manifest.json").exists()


def test_the_help_names_every_data_set():
    assert LAYOUTS.split(", ") == list(DATASETS)


# Real processes: the command as a shell runs it. They wait before the third batch until they are stopped.
PROGRAM = """
import json, pathlib, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from laplacianshot.embedding import encoding, extraction
encoding.SAVE_SECONDS = 0
original = extraction._Extraction._encode

def encode(self, prepared):
    if prepared[0][0] == 16:
        while json.loads(pathlib.Path("store/manifest.json").read_text())["items"] < 16:
            time.sleep(0.01)
        print("sixteen", file=sys.stderr, flush=True)
        interrupted.wait()
        raise RuntimeError("stopped")
    return original(self, prepared)

# An interrupted command waits for the batch under way.
interrupted = threading.Event()
shutdown = ThreadPoolExecutor.shutdown

def end(self, *arguments, **options):
    if self._thread_name_prefix == "encode":
        interrupted.set()
    shutdown(self, *arguments, **options)

ThreadPoolExecutor.shutdown = end
extraction._Extraction._encode = encode
from laplacianshot.cli import main
main()
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_command_goes_on_where_it_was(place, environment, capsys, number):
    # One thread does all, so that the batches are encoded in order.
    command = [*COMMAND, "--batch-size", "8", "--threads", "1", "--workers", "0"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *command], env=environment, **pipes) as process:
        try:
            assert "sixteen\n" in iter(process.stderr.readline, "")  # after what is said of compilation
            # A second command on the same store has to wait.
            assert run(command) == 2
            assert "is writing there" in capsys.readouterr().err
            process.send_signal(number)
            out, err = process.communicate(timeout=300)
        finally:
            process.kill()
    assert out == ""
    if number == signal.SIGINT:
        assert process.returncode == 130
        # Before it may stand what is said of compilation.
        assert err.endswith("interrupted: 16 of 36 pictures are done; the same command continues from there.\n")
    assert run(["evaluate", "store"]) == 2
    assert "store is not finished: 16 of 36 items are done; run the same extraction again" in capsys.readouterr().err
    assert run([*command, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["found"], found["encoded"]) == (16, 20)
    assert run([*command[:5], "whole", *command[6:]]) == 0
    for path in sorted((place / "whole").iterdir()):
        assert path.read_bytes() == (place / "store" / path.name).read_bytes(), path.name


def test_a_full_disk_is_one_line_and_the_same_command_goes_on(place, environment, capsys):
    pytest.importorskip("resource", reason="the system has no limit on the size of files")
    # Room for some of the 36 rows only.
    code = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (70_000, 70_000)); "
    code += "from laplacianshot.embedding import encoding; encoding.SAVE_SECONDS = 0; "
    code += "from laplacianshot.cli import main; main()"
    command = [*COMMAND, "--batch-size", "8"]
    failed = subprocess.run(
        [sys.executable, "-c", code, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert failed.returncode == 1
    assert re.search(
        r"^error: --output store: [^\n;]+; (\d+) of 36 items are done and kept: mend this and run it again to go "
        r"on\.\n\Z",
        failed.stderr,
        re.MULTILINE,
    )
    assert run(command) == 0
    assert len(FeatureStore.open("store")) == N


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_refused(place, refused):
    (place / "locked").mkdir(mode=0o500)
    refused([*COMMAND[:5], "locked/store"], "cannot write there")
