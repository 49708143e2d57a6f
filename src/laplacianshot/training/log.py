"""The log of a run: a CSV file that is always whole, and events for TensorBoard."""

from __future__ import annotations

import csv
import dataclasses
import io
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from laplacianshot.runtime.extras import require
from laplacianshot.runtime.files import put_file
from laplacianshot.training.state import EpochRecord

LOG, EVENTS = "log.csv", "tensorboard"


def log_text(history: Sequence[EpochRecord]) -> str:
    """One line an epoch under a line of names; a validation that was not made is empty."""
    text = io.StringIO()
    names = [field.name for field in dataclasses.fields(EpochRecord)]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(dataclasses.asdict(record) for record in history)
    return text.getvalue()


class Log:
    """Writes the log of a run, from ``with`` to its end.

    Parameters
    ----------
    folder : Path
    history : sequence of EpochRecord
        Epochs finished before. What a killed run has left behind of others is taken back.
    events : bool
        Whether to write for TensorBoard as well.
    """

    def __init__(self, folder: Path, history: Sequence[EpochRecord], events: bool) -> None:
        self._folder = folder
        self._writer: Any = None
        if events:
            require("tensorboard", "train")
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / EVENTS), purge_step=len(history))
        if history:
            self.write(history)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, history: Sequence[EpochRecord]) -> None:
        """After an epoch: all of the log anew, and the events of the last epoch."""
        put_file(self._folder / LOG, lambda file: file.write(log_text(history).encode()))
        if self._writer is None:
            return
        record = dataclasses.asdict(history[-1])
        for name, value in record.items():
            if name != "epoch" and value is not None:
                self._writer.add_scalar(name, value, record["epoch"])
        self._writer.flush()
