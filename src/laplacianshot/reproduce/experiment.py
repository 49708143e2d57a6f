"""Settings of ``laplacianshot reproduce``: what is trained, and on which tasks it is measured."""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

from laplacianshot.episodes.methods import ALIASES, METHODS
from laplacianshot.training import TrainConfig, load_config
from laplacianshot.training.errors import ConfigError

# Methods of a table: every one that answers few-shot tasks, none that was made for whole data sets.
TABLE_METHODS = (
    "simpleshot-un", "simpleshot-l2", "simpleshot-cl2", "matching-net", "ridge", "logistic", "bd-cspn", "can-t",
    "label-propagation", "entropy-tuning", "tim", "alpha-tim", "pt-map", "label-spreading", "laplacianshot",
    "laplacianshot-balanced", "laplacianshot-paper", "laplacianshot-reference",
)  # fmt: skip

# Of the one large task of iNat, with its thousands of queries.
LARGE_TASK_METHODS = (
    "simpleshot-un", "simpleshot-l2", "simpleshot-cl2", "laplacianshot", "laplacianshot-paper",
    "laplacianshot-reference",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """The tasks on which a trained network is measured, and those that choose lambda and k.

    Attributes
    ----------
    ways, shots : tuple of int
        Every way with every shot; the first way is also run with Dirichlet(2) queries, alone and against the clock.
    query, tasks : int
    slow_tasks : int
        Number of tasks for slow methods: the first of all.
    timing_tasks : int
        For the table of times, each method alone.
    tuning_tasks : int
        For each lambda and each number of neighbors.
    methods : tuple of str
        Default: all, and for the large task of iNat those that can answer it.
    inat : bool
        The one large task of iNat instead.
    test_split : str
        Where the tasks are drawn from.
    seed : int
        Of all tasks.
    """

    ways: tuple[int, ...] = (5,)
    shots: tuple[int, ...] = (1, 5)
    query: int = 15
    tasks: int = 10_000
    slow_tasks: int = 1000
    timing_tasks: int = 1000
    tuning_tasks: int = 500
    methods: tuple[str, ...] = TABLE_METHODS
    inat: bool = False
    test_split: str = "novel"
    seed: int = 0

    @classmethod
    def from_mapping(cls, values: Mapping[str, Any]) -> Self:
        """Values by name, checked; a name that is not known is an error."""
        known = {each.name: each for each in dataclasses.fields(cls)}
        given: dict[str, Any] = {}
        for name, value in values.items():
            if name not in known:
                raise ConfigError(f"there is no value {name!r} of the evaluation; {_nearest(name, list(known))}.")
            default = known[name].default
            if isinstance(default, tuple):
                value = tuple(value) if isinstance(value, (list, tuple)) else (value,)
                wanted = type(default[0])
                fine = bool(value) and all(type(part) is wanted for part in value)
                fine = fine and (wanted is str or min(value) >= 1)
            else:
                fine = type(value) is type(default) and (type(value) is not int or value >= (name != "seed"))
            if not fine:
                raise ConfigError(f"{name} = {values[name]!r}: does not fit; the default is {default!r}.")
            given[name] = value
        if given.get("inat"):
            given.setdefault("methods", LARGE_TASK_METHODS)
        found = cls(**given)
        for method in found.methods:
            if ALIASES.get(method, method) not in METHODS:
                raise ConfigError(f"methods: there is no method {method!r}; {_nearest(method, list(METHODS))}.")
        return found

    def to_mapping(self) -> dict[str, Any]:
        """What JSON can hold."""
        values = dataclasses.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """A setting: a network trained on a data set, and the tasks on which it is measured.

    Attributes
    ----------
    name : str
    source : str
        Name of the setting whose training, features and tuning it uses; its own but for cross-domain ones.
    title : str
    config : TrainConfig
        With the data set that is trained on.
    target : str or None
        Data set that the tasks are drawn from, where that is another one.
    protocol : Protocol
    published : str or None
        Data set and network of published figures, such as ``cub/conv4``.
    """

    name: str
    source: str
    title: str
    config: TrainConfig
    target: str | None = None
    protocol: Protocol = field(default_factory=Protocol)
    published: str | None = None

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
        ``laplacianshot train``), a table ``evaluation`` (as :class:`Protocol`) and, if wanted, ``title`` and
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
        raise ConfigError(f"there is no setting {name!r}; {_nearest(name, list(known))}.")
    entry = dict(known[name])
    source = entry.pop("source", name)
    config = load_config(source, settings)
    if source != name:
        # Tasks like those of the source, but another title, and figures of its own or none.
        entry = {"evaluation": known[source].get("evaluation", {}), **entry}
    return _experiment(name, source, config, entry)


def _from_file(path: Path, settings: Mapping[str, Any]) -> Experiment:
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: is not valid TOML ({error}).") from error
    try:
        config = TrainConfig.from_mapping({**document.pop("train", {}), **settings})
        return _experiment(path.stem, path.stem, config, {"title": path.stem, **document})
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from error


def _experiment(name: str, source: str, config: TrainConfig, entry: Mapping[str, Any]) -> Experiment:
    known = ("title", "target", "published", "evaluation")
    for key in entry:
        if key not in known:
            raise ConfigError(f"there is no value {key!r} of a setting; {_nearest(key, list(known))}.")
    protocol = Protocol.from_mapping(entry.get("evaluation", {}))
    return Experiment(
        name=name,
        source=source,
        title=entry["title"],
        config=config,
        target=entry.get("target"),
        protocol=protocol,
        published=entry.get("published"),
    )


def _nearest(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}? There are " if near else "there are "
    return f"{hint}{', '.join(known)}"
