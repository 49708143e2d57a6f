"""Runs that are killed: ``python -m tests.training.killing BUNDLE FOLDER SEED KILLS STRIDE``.

KILLS runs are killed at random moments, others at every STRIDE-th call to the disk.

Each run is a child forked from this process, which has loaded torch but computed nothing: only so can dozens of runs
begin within seconds.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
from pathlib import Path

import numpy as np
import torch

from laplacianshot.episodes import validation_score
from laplacianshot.training import TrainStatus, epochs
from laplacianshot.training.plan import eval_view, train_view
from laplacianshot.training.trainer import Trainer, World
from tests.training.drawings import make_plan, read_bundle, tiny, train

# A checkpoint after every step: a kill is in the middle of writing more often than not.
CONFIG = tiny(checkpoint_seconds=0.0, epochs=2, workers=0)


def child(bundle: Path, output: Path, *, deadly: int = 0, alarm: tuple[int, float] | None = None) -> int:
    """Begin a run in a child process.

    With ``deadly`` it kills itself at that call that moves bytes to the disk. With ``alarm``, a number of steps and of
    seconds, the system kills it these seconds after that step, whatever it does then. A child that hangs says where.
    """
    pid = os.fork()
    if pid:
        return pid
    faulthandler.dump_traceback_later(240, exit=True)
    try:
        _count_down(deadly)
        steps = 0

        def progress(status: TrainStatus) -> None:
            nonlocal steps
            steps += 1
            if alarm is not None and steps == alarm[0]:
                signal.setitimer(signal.ITIMER_REAL, alarm[1])  # SIGALRM ends a process that does not handle it

        train(CONFIG, read_bundle(bundle), output, progress=progress)
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
        os._exit(1)
    os._exit(0)


def _count_down(deadly: int) -> None:
    left = deadly

    def deadly_version(function):
        def call(*args, **named):
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*args, **named)

        return call

    os.fsync = deadly_version(os.fsync)
    Path.replace = deadly_version(Path.replace)


def ended(pid: int) -> bool:
    """Wait for a run; whether it came to its end rather than being killed."""
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return False
    assert os.WEXITSTATUS(status) == 0, f"a run failed with {os.WEXITSTATUS(status)}"
    return True


def killed_at_random(bundle: Path, output: Path, chance: random.Random, times: int) -> None:
    """Kill a run again and again, a moment after some step."""
    for _ in range(times):
        alarm = (chance.randrange(1, 4), chance.uniform(1e-6, 0.02))
        assert not ended(child(bundle, output, alarm=alarm))


def main(bundle: Path, folder: Path, seed: int, kills: int, stride: int) -> None:
    epochs._SECONDS = 0.0
    # What a run loads is loaded here, once for all; torch must not have started threads before a fork.
    torch.set_num_threads(1)
    pictures = read_bundle(bundle)
    Trainer(make_plan(CONFIG, pictures), World(), torch.device("cpu"))
    for view in (train_view(CONFIG), eval_view(CONFIG)):
        view(pictures, [0, 1])
    labels = np.repeat(np.arange(4), 12)
    validation_score(np.random.default_rng(0).random((48, 5), dtype=np.float32), labels, CONFIG, threads=1)

    assert ended(child(bundle, folder / "whole"))
    killed_at_random(bundle, folder / "random", random.Random(seed), kills)
    assert ended(child(bundle, folder / "random"))
    # Each call to the disk of a run's first checkpoints is a place to die, in turn; each attempt gets a little further.
    for deadly in range(1, 17, stride):
        assert not ended(child(bundle, folder / "writing", deadly=deadly))
    assert ended(child(bundle, folder / "writing"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *(int(argument) for argument in sys.argv[3:]))
