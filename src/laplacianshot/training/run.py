"""A whole training run in an output folder, from its first step or from wherever it was stopped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from laplacianshot.runtime.files import FolderLock, put_file, remove_partial
from laplacianshot.runtime.threads import torch_threads
from laplacianshot.training.checkpoint import BEST, LAST, Checkpoint
from laplacianshot.training.config import TrainConfig
from laplacianshot.training.epochs import Epochs, Log, Reporter, stop_request
from laplacianshot.training.plan import Plan, Score, make_plan
from laplacianshot.training.state import TrainError, TrainResult, TrainStatus
from laplacianshot.training.trainer import Trainer, joined, world_of_environment

if TYPE_CHECKING:
    from laplacianshot.datasets.pictures import Pictures


def train(
    config: TrainConfig,
    pictures: Pictures,
    output: Path,
    *,
    score: Score | None = None,
    resume: bool = True,
    progress: Callable[[TrainStatus], object] | None = None,
) -> TrainResult:
    """Train a network on the base classes of a data set.

    The result is a function of the config and the pictures. On a processor, with the same number of threads, it is the
    same to the last bit however often the run is stopped or killed and started again.

    The output folder receives ``config.toml``, ``last.safetensors`` and ``best.safetensors`` with a ``.json`` beside
    each, ``log.csv`` and, if requested, ``tensorboard/``. Started by torchrun, all processes train together and the
    first of them writes.

    Parameters
    ----------
    config : TrainConfig
    pictures : Pictures
    output : Path
        A folder, created if it does not exist.
    score : callable, optional
        ``score(features, labels, config, threads)`` returns the few-shot accuracy of features on the validation
        tasks, with ``mean`` and ``ci95``: :func:`laplacianshot.episodes.validation_score`. Needed unless
        ``validation_split`` is empty.
    resume : bool, default=True
        Continue the run in the folder, if there is one; otherwise such a folder is an error.
    progress : callable, optional
        Called with a :class:`TrainStatus` a few times per second.

    Returns
    -------
    TrainResult

    Raises
    ------
    TrainError
        A setting that does not suit the pictures, a folder that holds another run or is in use, a checkpoint that
        cannot be read, or a loss that is not finite.
    TrainingInterrupted
        After Ctrl-C or SIGTERM, with everything written.
    """
    world = world_of_environment()
    plan = make_plan(config, pictures, world.size, score)
    device = world.device(config.device)
    output.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        stop = held.enter_context(stop_request())
        if world.is_main:
            held.enter_context(FolderLock(output, TrainError, holder="a training run"))
            remove_partial(output)
        found = _earlier(output, plan, resume)
        held.enter_context(joined(world, device))
        held.enter_context(torch_threads(config.threads))
        # What torch draws elsewhere in this process is not disturbed.
        held.enter_context(torch.random.fork_rng([device] if device.type == "cuda" else []))
        torch.manual_seed(config.seed)
        trainer = Trainer(plan, world, device)
        if found is not None:
            trainer.restore(found)
        # Nobody writes before all have read.
        world.wait()
        log = None
        if world.is_main:
            put_file(output / "config.toml", lambda file: file.write(config.to_toml().encode()))
            log = held.enter_context(closing(Log(output, trainer.state.history, config.tensorboard)))
            if found is not None:
                # A kill may have come between the two files.
                found.write_json(output / LAST)
        reporter = Reporter(progress if world.is_main else None, plan, world.size)
        state = Epochs(plan, pictures, trainer, world, output, log, stop, reporter, score).run()
    return TrainResult(
        best=output / BEST,
        last=output / LAST,
        history=state.history,
        best_epoch=state.epoch if state.best is None else state.best.epoch,
        best_validation=None if state.best is None else state.best.validation,
    )


def _earlier(output: Path, plan: Plan, resume: bool) -> Checkpoint | None:
    """The checkpoint to go on from, if there is one and it belongs to this run."""
    path = output / LAST
    if not path.exists():
        return None
    found = Checkpoint.read(path)
    if not resume:
        done = f"{found.state.epoch} of {found.config.epochs} epochs"
        raise TrainError(f"{output}: holds a run already ({done}); resume it, or choose another folder.")
    earlier = found.config.experiment()
    for name, value in plan.config.experiment().items():
        if earlier[name] != value:
            raise TrainError(
                f"{output}: holds a run with {name} = {earlier[name]}, and this one has {value}; choose another folder."
            )
    if found.data_key != plan.data_key:
        raise TrainError(f"{output}: holds a run on other pictures; choose another folder.")
    return found
