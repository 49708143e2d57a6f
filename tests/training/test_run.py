from __future__ import annotations

import csv
import dataclasses
import json
import math
import signal
import tomllib

import numpy as np
import pytest
import torch

from laplacianshot.episodes import validation_score
from laplacianshot.runtime.files import FolderLock
from laplacianshot.training import Checkpoint, TrainConfig, TrainingInterrupted
from laplacianshot.training.checkpoint import MODEL, MOMENTUM
from laplacianshot.training.epochs import Epochs, features_of
from laplacianshot.training.plan import eval_view
from laplacianshot.training.state import ConfigError, TrainError
from tests.training.drawings import read_bundle, same_runs, same_tensors, tiny, train, write_bundle


@pytest.fixture(scope="module")
def finished(tmp_path_factory, bundle):
    """A run of one piece, with all that was told on the way."""
    told = []
    output = tmp_path_factory.mktemp("run") / "out"
    result = train(tiny(), read_bundle(bundle), output, progress=told.append)
    return result, output, told


def test_training_lowers_the_loss_and_raises_the_accuracy(tmp_path, pictures):
    history = train(tiny(epochs=12, crop_scale=(0.6, 1.0)), pictures, tmp_path).history
    assert history[-1].loss < 0.8 * history[0].loss
    assert history[-1].accuracy > max(0.6, history[0].accuracy)


def test_the_output_holds_checkpoints_config_and_log(finished):
    result, output, _ = finished
    assert sorted(path.name for path in output.iterdir()) == [
        ".lock", "best.json", "best.safetensors", "config.toml", "last.json", "last.safetensors", "log.csv",
    ]  # fmt: skip
    assert (result.best, result.last) == (output / "best.safetensors", output / "last.safetensors")
    assert TrainConfig.from_toml(output / "config.toml") == tiny()
    assert "workers" in tomllib.loads((output / "config.toml").read_text())


def test_the_log_has_a_line_an_epoch_with_the_numbers_of_the_history(finished):
    result, output, _ = finished
    with (output / "log.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert [int(line["epoch"]) for line in lines] == [1, 2, 3]
    for line, record in zip(lines, result.history, strict=True):
        assert {name: float(value) for name, value in line.items()} == dataclasses.asdict(record)
    assert [record.learning_rate for record in result.history] == pytest.approx([0.05, 0.005, 0.0005])


def test_the_best_checkpoint_is_of_the_epoch_with_the_best_validation(finished, pictures):
    result, _, _ = finished
    values = [record.validation for record in result.history]
    assert result.best_validation == max(values)
    assert result.best_epoch == 1 + values.index(max(values))
    best = Checkpoint.read(result.best)
    assert best.state.epoch == result.best_epoch
    assert not best.part(MOMENTUM)
    rows = pictures.rows("val")
    images = eval_view(best.config)(pictures, rows)
    found = validation_score(features_of(best.network(), [images]), pictures.labels[rows], best.config)
    assert found.mean == pytest.approx(result.best_validation, abs=1e-9)


def test_progress_is_told_with_loss_accuracy_speed_and_time_left(finished):
    _, _, told = finished
    assert {status.phase for status in told} == {"train", "validate", "done"}
    assert [status.epoch for status in told] == sorted(status.epoch for status in told)
    assert math.isnan(told[0].loss)
    training = [status for status in told if status.phase == "train" and status.step > 0]
    assert all(status.images_per_second > 0 and math.isfinite(status.seconds_left) for status in training)
    assert all(0 <= status.accuracy <= 1 and status.loss > 0 for status in training)
    assert told[-1].phase == "done"
    assert told[-1].seconds_left == 0
    assert told[-1].best is not None
    assert told[-1].latest.epoch == 3


def test_neither_workers_nor_chance_change_a_bit(finished, tmp_path, pictures):
    _, output, _ = finished
    torch.manual_seed(99)
    train(tiny(workers=0), pictures, tmp_path)
    assert same_runs(output, tmp_path)


def test_another_seed_is_another_run(finished, tmp_path, pictures):
    _, output, _ = finished
    train(tiny(seed=1), pictures, tmp_path)
    assert not same_runs(output, tmp_path)


def test_what_torch_draws_elsewhere_and_its_threads_are_left_alone(tmp_path, pictures):
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    threads = torch.get_num_threads()
    train(tiny(epochs=1), pictures, tmp_path)
    assert torch.equal(torch.rand(3), wanted)
    assert torch.get_num_threads() == threads


def test_a_finished_run_is_returned_as_it_is(finished, pictures):
    result, output, _ = finished
    before = (output / "last.safetensors").stat().st_mtime_ns
    assert train(tiny(), pictures, output) == result
    assert (output / "last.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("phase", ["train", "validate"])
def test_a_signal_writes_a_checkpoint_from_which_the_run_goes_on_to_the_same_end(
    finished, tmp_path, pictures, monkeypatch, phase, number
):
    """Stopped three times, in training or in validation."""
    _, output, _ = finished
    monkeypatch.setattr("laplacianshot.training.epochs._SECONDS", 0.0)
    told, before = 0, signal.getsignal(number)

    def interrupt(status):
        nonlocal told
        told += status.phase == phase
        if status.phase == phase and told in (1, 6, 11):
            signal.raise_signal(number)

    for _ in range(3):
        with pytest.raises(TrainingInterrupted) as stopped:
            train(tiny(), pictures, tmp_path, progress=interrupt)
        assert stopped.value.signal == number
        assert stopped.value.checkpoint == tmp_path / "last.safetensors"
        assert Checkpoint.read(stopped.value.checkpoint).part(MOMENTUM)
    train(tiny(), pictures, tmp_path, progress=interrupt)
    assert same_runs(output, tmp_path)
    assert signal.getsignal(number) is before


def test_a_second_ctrl_c_breaks_off_at_once(tmp_path, pictures):
    def interrupt(status):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as raised:
        train(tiny(), pictures, tmp_path, progress=interrupt)
    assert not isinstance(raised.value, TrainingInterrupted)
    with FolderLock(tmp_path):
        pass


def test_checkpoints_are_written_inside_an_epoch(tmp_path, pictures, monkeypatch):
    steps = []
    save = Epochs._save

    def note(self, state):
        save(self, state)
        steps.append((state.epoch, Checkpoint.read(tmp_path / "last.safetensors").state.step))

    monkeypatch.setattr(Epochs, "_save", note)
    train(tiny(epochs=2, checkpoint_seconds=0), pictures, tmp_path)
    assert steps == [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (1, 0), (1, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 0)]
    steps.clear()
    train(tiny(epochs=2, checkpoint_seconds=1e6, seed=1), pictures, tmp_path / "slow")
    assert [step for step, _ in steps] == [1, 2]


def test_a_run_without_validation_keeps_its_last_epoch_as_best(tmp_path, pictures):
    result = train(tiny(validation_split="", epochs=2), pictures, tmp_path)
    assert (result.best_epoch, result.best_validation) == (2, None)
    assert same_tensors(Checkpoint.read(result.best).part(MODEL), Checkpoint.read(result.last).part(MODEL))
    assert (tmp_path / "log.csv").read_text().splitlines()[1].count(",,") == 1


def test_validation_comes_every_so_many_epochs_and_after_the_last(tmp_path, pictures):
    history = train(tiny(epochs=5, validate_every=2), pictures, tmp_path).history
    assert [record.validation is not None for record in history] == [False, True, False, True, True]


def test_accumulation_takes_as_many_steps_over_the_same_pictures(tmp_path, pictures):
    result = train(tiny(accumulate=4, epochs=1, batch_size=20), pictures, tmp_path)
    assert Checkpoint.read(result.last).state.epoch == 1
    assert result.history[0].accuracy * 48 == pytest.approx(round(result.history[0].accuracy * 48))


def test_a_folder_with_a_run_is_refused_where_resuming_was_not_asked_for(finished, pictures):
    _, output, _ = finished
    with pytest.raises(TrainError, match=r"holds a run already \(3 of 3 epochs\)"):
        train(tiny(), pictures, output, resume=False)


def test_a_run_with_other_settings_or_pictures_is_not_resumed(finished, tmp_path, pictures):
    _, output, _ = finished
    with pytest.raises(TrainError, match=r"holds a run with learning_rate = 0\.05, and this one has 0\.5"):
        train(tiny(learning_rate=0.5), pictures, output)
    other = read_bundle(write_bundle(tmp_path / "drawings.npz", per_class=13))
    with pytest.raises(TrainError, match="holds a run on other pictures"):
        train(tiny(), other, output)


def test_settings_of_the_machine_may_change_when_a_run_goes_on(finished, pictures):
    result, output, _ = finished
    assert train(tiny(workers=2, checkpoint_seconds=1), pictures, output).history == result.history


def test_a_folder_in_use_is_refused(tmp_path, pictures):
    with FolderLock(tmp_path), pytest.raises(TrainError, match="is writing there"):
        train(tiny(), pictures, tmp_path)


def test_a_loss_that_is_not_finite_ends_the_run_and_not_the_last_checkpoint(tmp_path, pictures):
    with pytest.raises(TrainError, match="no longer finite in epoch 1; lower learning_rate"):
        train(tiny(learning_rate=1e30, checkpoint_seconds=0), pictures, tmp_path)
    last = Checkpoint.read(tmp_path / "last.safetensors")
    assert math.isfinite(last.state.loss_sum)


def test_a_setting_that_does_not_suit_the_pictures_leaves_no_folder(tmp_path, pictures):
    with pytest.raises(ConfigError):
        train(tiny(base_split="nope"), pictures, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("device", ["nonsense", "cuda:99"])
def test_a_device_that_is_not_there_is_named(tmp_path, pictures, device):
    with pytest.raises(ConfigError, match=f"device = '{device}': "):
        train(tiny(device=device), pictures, tmp_path)


def test_a_damaged_checkpoint_is_an_error_and_stays_as_it_is(tmp_path, pictures):
    (tmp_path / "last.safetensors").write_bytes(b"rubbish" * 10)
    with pytest.raises(TrainError, match=r"last\.safetensors: is not a complete safetensors file"):
        train(tiny(), pictures, tmp_path)
    assert (tmp_path / "last.safetensors").read_bytes() == b"rubbish" * 10


def test_tensorboard_is_given_the_same_numbers(tmp_path, pictures):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    result = train(tiny(tensorboard=True, epochs=2), pictures, tmp_path)
    events = accumulator.EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    found = [(event.step, event.value) for event in events.Scalars("validation")]
    assert found == [(record.epoch, pytest.approx(record.validation)) for record in result.history]


def test_gray_drawings_are_trained_on_with_one_channel(tmp_path, bundle):
    with np.load(bundle) as arrays:
        gray = {**arrays, "images": arrays["images"].mean(axis=3).astype(np.uint8)}
    np.savez(tmp_path / "gray.npz", **gray)
    config = tiny(channels=1, crop_scale=(), flip=0.0, jitter=0.0, degrees=10.0, zoom=0.1, shift=0.1, epochs=1)
    result = train(config, read_bundle(tmp_path / "gray.npz"), tmp_path / "out")
    assert json.loads(result.last.with_suffix(".json").read_text())["config"]["channels"] == 1
