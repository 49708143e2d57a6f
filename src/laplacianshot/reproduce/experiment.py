"""Settings of ``laplacianshot reproduce``: what is trained, and on which tasks it is measured."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from laplacianshot.episodes.methods import ALIASES, METHODS
from laplacianshot.runtime.errors import suggestion
from laplacianshot.training import TrainConfig, load_config
from laplacianshot.training.config import read_toml
from laplacianshot.training.state import ConfigError

# Methods of a table: all that answer few-shot tasks, none that was made for whole data sets.
_TABLE_METHODS = (
    "simpleshot-un", "simpleshot-l2", "simpleshot-cl2", "matching-net", "ridge", "logistic", "bd-cspn", "can-t",
    "label-propagation", "entropy-tuning", "tim", "alpha-tim", "pt-map", "label-spreading", "laplacianshot",
    "laplacianshot-balanced", "laplacianshot-paper", "laplacianshot-reference",
)  # fmt: skip

# Methods for the one large task of iNat, with its thousands of queries.
_LARGE_TASK_METHODS = (
    "simpleshot-un", "simpleshot-l2", "simpleshot-cl2", "laplacianshot", "laplacianshot-paper",
    "laplacianshot-reference",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The tasks on which a trained network is measured, and those that choose lambda and k."""

    # Every way with every shot; the first way is also run with Dirichlet(2) queries, on other transforms and timed.
    ways: tuple[int, ...] = (5,)
    shots: tuple[int, ...] = (1, 5)
    query: int = 15
    tasks: int = 10_000
    slow_tasks: int = 1000  # for slow methods, the first of all tasks
    timing_tasks: int = 1000  # for the table of times, each method alone
    tuning_tasks: int = 500  # for each lambda and each number of neighbors
    methods: tuple[str, ...] = _TABLE_METHODS
    inat: bool = False  # the one large task of iNat instead
    test_split: str = "novel"
    seed: int = 0

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Check values by name; an unknown name is an error. For iNat the default methods are those that can run."""
        defaults = {each.name: each.default for each in dataclasses.fields(cls)}
        given: dict[str, Any] = {}
        for name, value in values.items():
            if name not in defaults:
                raise ConfigError(f"there is no value {name!r} of the evaluation; {suggestion(name, defaults)}")
            default: Any = defaults[name]
            is_list = isinstance(default, tuple)
            parts = tuple(value) if is_list and isinstance(value, (list, tuple)) else (value,)
            kind = type(default[0] if is_list else default)
            smallest = 0 if name == "seed" else 1
            if not parts or any(type(part) is not kind or (kind is int and part < smallest) for part in parts):
                raise ConfigError(f"{name} = {value!r}: does not fit; the default is {default!r}.")
            given[name] = parts if is_list else value
        if given.get("inat"):
            given.setdefault("methods", _LARGE_TASK_METHODS)
        found = cls(**given)
        for method in found.methods:
            if ALIASES.get(method, method) not in METHODS:
                raise ConfigError(f"methods: there is no method {method!r}; {suggestion(method, METHODS)}")
        return found

    def to_mapping(self) -> dict[str, Any]:
        """Return the values as JSON can hold them."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A setting: a network trained on a data set, and the tasks on which it is measured."""

    name: str
    source: str  # the setting whose training, features and tuning it uses; its own name but for cross-domain settings
    title: str
    config: TrainConfig
    target: str | None = None  # data set that the tasks are drawn from, where that is another one
    protocol: Protocol = field(default_factory=Protocol)
    published: str | None = None  # data set and network of published figures, such as cub/conv4

    @property
    def datasets(self) -> tuple[str, ...]:
        """Data sets whose pictures are needed."""
        return (self.config.dataset,) if self.target is None else (self.config.dataset, self.target)

    def with_tasks(self, tasks: int | None) -> Experiment:
        """The same with another number of test tasks."""
        if tasks is None:
            return self
        return dataclasses.replace(self, protocol=dataclasses.replace(self.protocol, tasks=tasks))


def named_experiments() -> dict[str, Mapping[str, Any]]:
    """The settings that come with the package, as they stand in ``experiments.toml``."""
    text = files("laplacianshot.reproduce").joinpath("experiments.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def load_experiment(name: str, settings: Mapping[str, Any] | None = None) -> Experiment:
    """A setting by its name, or from a TOML file of its own.

    Parameters
    ----------
    name : str
        One of :func:`named_experiments`, or the path of a ``.toml`` file with a table ``train`` (as for
        ``laplacianshot train``), a table ``evaluation`` (as :class:`Protocol`) and optionally ``title`` and
        ``published``.
    settings : mapping, optional
        Values that take the place of those of the training config.

    Raises
    ------
    ConfigError
        The setting does not exist, or one of its values is not valid.
    """
    if name.endswith(".toml"):
        return _from_file(Path(name), settings or {})
    known = named_experiments()
    if name not in known:
        raise ConfigError(f"there is no setting {name!r}; {suggestion(name, known)}")
    entry = dict(known[name])
    source = entry.pop("source", name)
    config = load_config(source, settings)
    if source != name:
        # Tasks like those of the source, but another title, and figures of its own or none.
        entry = {"evaluation": known[source].get("evaluation", {}), **entry}
    return _experiment(name, source, config, entry)


def _from_file(path: Path, settings: Mapping[str, Any]) -> Experiment:
    document = read_toml(path)
    try:
        config = TrainConfig.from_mapping({**document.pop("train", {}), **settings})
        return _experiment(path.stem, path.stem, config, {"title": path.stem, **document})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _experiment(name: str, source: str, config: TrainConfig, entry: Mapping[str, Any]) -> Experiment:
    known = ("title", "target", "published", "evaluation")
    for key in entry:
        if key not in known:
            raise ConfigError(f"there is no value {key!r} of a setting; {suggestion(key, known)}")
    facts = {key: value for key, value in entry.items() if key != "evaluation"}
    protocol = Protocol.from_mapping(entry.get("evaluation", {}))
    return Experiment(name=name, source=source, config=config, protocol=protocol, **facts)
