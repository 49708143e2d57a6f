from __future__ import annotations

import json
from pathlib import Path

import pytest
from PIL import Image

from laplacianshot.reports.figures import save_figure
from laplacianshot.reports.table import duration
from laplacianshot.reports.training import TrainingReport, training_curves
from laplacianshot.training import EpochRecord, TrainConfig, TrainResult


def history(epochs: int, every: int = 2) -> tuple[EpochRecord, ...]:
    return tuple(
        EpochRecord(
            epoch=epoch,
            learning_rate=0.1 / epoch,
            loss=4 - epoch / 10,
            accuracy=epoch / 100,
            validation=0.3 + (epoch % 7) / 100 if epoch % every == 0 else None,
            validation_ci95=0.01 if epoch % every == 0 else None,
            images_per_second=1234.5,
            seconds=10.0,
        )
        for epoch in range(1, epochs + 1)
    )


def report(epochs: int, every: int = 2, best: tuple[int, float | None] = (6, 0.36)) -> TrainingReport:
    result = TrainResult(Path("out/best.safetensors"), Path("out/last.safetensors"), history(epochs, every), *best)
    return TrainingReport(TrainConfig(network="conv4"), result, (), Path("out/curves.png"), "laplacianshot extract out")


def test_the_table_has_every_epoch_of_a_short_run():
    table = report(8).tables()[0]
    assert [entry.cells[0].text for entry in table.rows] == [str(epoch) for epoch in range(1, 9)]
    assert [entry.cells[0].text for entry in table.rows if entry.bold] == ["6"]
    assert table.rows[5].cells[4].text == "36.00 ± 1.00"
    assert table.rows[4].cells[4].text == ""
    assert "8 epochs in 1 min 20 s. Best (bold): epoch 6." in table.notes


def test_the_table_of_a_long_run_has_the_first_the_last_and_the_best():
    table = report(90, best=(62, 0.36)).tables()[0]
    epochs = [int(entry.cells[0].text) for entry in table.rows]
    assert len(epochs) <= 10
    assert {1, 62, 90} <= set(epochs)
    assert epochs == sorted(epochs)
    assert "Not all epochs are shown; log.csv has them." in table.notes


def test_a_run_without_validation_says_so():
    found = report(3, every=100, best=(3, None))
    assert "3 epochs in 30 s, without validation." in found.tables()[0].notes
    assert found.to_dict()["best_validation"] is None


def test_json_holds_config_history_and_files():
    document = json.loads(json.dumps(report(8).to_dict(), allow_nan=False))
    assert document["best"] == str(Path("out/best.safetensors"))
    assert document["config"]["network"] == "conv4"
    assert [record["epoch"] for record in document["history"]] == list(range(1, 9))
    assert document["next"] == "laplacianshot extract out"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (59.6, "1 min 00 s"), (3599, "59 min 59 s"), (11520, "3 h 12 min")]
)
def test_durations_are_in_words(seconds, text):
    assert duration(seconds, digits=0) == text


def test_the_curves_are_loss_accuracies_and_learning_rate():
    loss, accuracy, validation, rate = training_curves(history(20), 6).axes
    records = history(20)
    assert loss.lines[0].get_ydata().tolist() == [record.loss for record in records]
    assert accuracy.lines[0].get_ydata().tolist() == [100 * record.accuracy for record in records]
    measured = [100 * record.validation for record in records if record.validation is not None]
    assert validation.lines[0].get_ydata().tolist() == measured
    assert rate.lines[0].get_ydata().tolist() == [record.learning_rate for record in records]
    assert "36.00" in [text.get_text() for text in validation.texts]


@pytest.mark.parametrize("epochs", [1, 20])
def test_the_picture_is_a_whole_file(tmp_path, epochs):
    """Also of one epoch, and of a run without validation."""
    save_figure(training_curves(history(epochs, every=100), None), tmp_path / "curves.png")
    with Image.open(tmp_path / "curves.png") as picture:
        picture.load()
        assert picture.width > 1000
    assert [path.name for path in tmp_path.iterdir()] == ["curves.png"]
