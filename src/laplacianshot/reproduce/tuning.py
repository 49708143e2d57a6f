"""Lambda and k of the recipes reference and paper, chosen on classes that are not tested."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laplacianshot.datasets.feature_set import FeatureSet
from laplacianshot.episodes.methods import make_method
from laplacianshot.episodes.plans import Tuned, TuningPlan
from laplacianshot.episodes.results import Setting
from laplacianshot.episodes.tasks import draw_tasks
from laplacianshot.reproduce.experiment import Protocol
from laplacianshot.reproduce.parts import load_tuned, save_tuned
from laplacianshot.runtime.progress import Watch

REFERENCE, PAPER = "laplacianshot-reference", "laplacianshot-paper"

# Whose constants are chosen, on which transform; all ways on CL2, the first way alone on the others.
TUNED = ((REFERENCE, "cl2"), (PAPER, "cl2"), (REFERENCE, "l2"), (REFERENCE, "none"))


@dataclass(frozen=True)
class Choice:
    """One thing to be tuned: a recipe on a transform, for tasks of one size."""

    method: str
    transform: str
    setting: Setting

    @property
    def file(self) -> str:
        """Name of its part."""
        return f"{self.method}-{self.transform}-{self.setting.slug}.npz"


def choices(protocol: Protocol, splits: tuple[str, ...]) -> Iterator[Choice]:
    """All that is to be tuned."""
    split = lam_split(splits)
    for method, transform in TUNED:
        for way in protocol.ways if transform == "cl2" else protocol.ways[:1]:
            for shot in protocol.shots:
                size = Setting("balanced", way, shot, protocol.query, protocol.tuning_tasks, protocol.seed, split)
                yield Choice(method, transform, size)


def lam_split(splits: tuple[str, ...]) -> str:
    """The classes that choose lambda: those for validation, else the base classes."""
    return "val" if "val" in splits else "base"


def tune_all(
    feature_set: FeatureSet, protocol: Protocol, folder: Path, watch: Watch, done: Callable[[], object]
) -> None:
    """Tune whatever has no part in the folder yet; ``done`` is called after each."""
    for choice in choices(protocol, tuple(feature_set.splits)):
        if (folder / choice.file).exists() or not _possible(feature_set, choice.setting):
            continue
        shown = protocol.test_split if protocol.test_split in feature_set.splits else None
        plan = TuningPlan(
            feature_set,
            make_method(choice.method).set_params(transform=choice.transform),
            (choice.setting,),
            neighbor_split="base",
            test_split=shown,
        )
        plan.check()
        result = plan.run(watch=_named(f"{choice.method} {choice.transform}", watch))
        if result.interrupted:
            raise KeyboardInterrupt
        save_tuned(folder / choice.file, choice.method, result.tuned[0])
        done()


def _named(name: str, watch: Watch) -> Watch:
    return lambda what: watch(f"{name}, {what}")


def _possible(feature_set: FeatureSet, setting: Setting) -> bool:
    """Whether the classes that choose are enough for tasks of this size."""
    one: dict[str, Any] = {**setting.arguments, "tasks": 1}
    try:
        draw_tasks(feature_set, **one)
        draw_tasks(feature_set, **{**one, "split": "base"})
    except ValueError:
        return False
    return True


@dataclass(frozen=True)
class Constants:
    """What was tuned, looked up by the size of a task.

    Attributes
    ----------
    found : dict of (method, transform, way, shot) to Tuned
    """

    found: dict[tuple[str, str, int, int], Tuned]

    @classmethod
    def load(cls, folder: Path, protocol: Protocol, splits: tuple[str, ...]) -> Constants:
        """The parts of a finished step."""
        found = {}
        for choice in choices(protocol, splits):
            if (folder / choice.file).exists():
                size = choice.setting
                _, tuned = load_tuned(folder / choice.file)
                found[choice.method, choice.transform, size.way, int(str(size.shot))] = tuned
        return cls(found)

    def estimator(self, method: str, way: int, shot: int, transform: str = "cl2") -> Any:
        """A recipe with the constants for tasks of this size; where these were not tuned, of the nearest size."""
        near = [key for key in self.found if key[:2] == (method, transform)]
        made = make_method(method).set_params(transform=transform)
        if not near:
            return made
        key = min(near, key=lambda key: (abs(key[2] - way), abs(key[3] - shot)))
        tuning = self.found[key].tuning
        return made.set_params(lam=tuning.lam, n_neighbors=tuning.n_neighbors)
