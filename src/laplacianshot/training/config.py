"""Settings of a training run, checked once, and the named configs of the package."""

from __future__ import annotations

import dataclasses
import math
import operator
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self, get_type_hints

from laplacianshot.embedding.networks import NETWORKS
from laplacianshot.runtime.errors import suggestion
from laplacianshot.runtime.files import read_input
from laplacianshot.training.state import ConfigError

_SCHEDULES = ("milestones", "every", "cosine", "constant")
_PRECISIONS = ("float32", "bfloat16", "float16")

# Pictures of one step, as published; other networks take 256. Conv4 is trained on small machines.
_BATCH_SIZES: Mapping[str, int] = {"wrn28_10": 128, "densenet121": 100, "conv4": 64}

_WHAT, _PICTURES, _OPTIMIZER, _VALIDATION, _MACHINE = (
    "What is trained on what",
    "Pictures",
    "Optimizer: SGD on label-smoothed cross-entropy",
    "Validation: nearest prototype with L2 features on classes that are not trained on",
    "This machine: none of these is part of the experiment",
)


# Limits of a number: the words of the message, and whether a value is within.
_LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "min": ("at least", operator.ge),
    "max": ("at most", operator.le),
    "above": ("above", operator.gt),
    "below": ("below", operator.lt),
}


def _setting(group: str, default: Any, about: str, **limits: Any) -> Any:
    """A field with its group, its meaning and its limits: choices, or those of _LIMITS."""
    return field(default=default, metadata={"group": group, "about": about, **limits})


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run; the defaults are those of the paper.

    Every value is checked, and :class:`ConfigError` names the first that is not valid. :meth:`to_toml` gives all of
    them with their meaning.

    Examples
    --------
    >>> TrainConfig(network="wrn28_10", epochs=120).batch_size
    128
    >>> TrainConfig.from_mapping({"epoch": 90})
    Traceback (most recent call last):
    ...
    laplacianshot.training.state.ConfigError: there is no setting 'epoch'; did you mean epochs?
    """

    dataset: str = _setting(_WHAT, "folder", "layout of the pictures, see laplacianshot train --help")
    network: str = _setting(_WHAT, "resnet18", ", ".join(NETWORKS), choices=tuple(NETWORKS))
    base_split: str = _setting(_WHAT, "base", "classes to train on")
    seed: int = _setting(_WHAT, 0, "of the first weights, the order and the augmentation", min=0, below=2**63)

    image_size: int = _setting(_PICTURES, 84, "side of a picture for the network, in pixels", min=1)
    resize: int = _setting(_PICTURES, 96, "short side before the center crop at evaluation", min=1)
    channels: int = _setting(_PICTURES, 3, "3 color, 1 gray", min=1, max=3)
    crop_scale: tuple[float, ...] = _setting(
        _PICTURES, (0.08, 1.0), "random crop: smallest and largest share of the area; [] for none", above=0.0, max=1.0
    )
    flip: float = _setting(_PICTURES, 0.5, "probability of a mirrored picture", min=0.0, max=1.0)
    jitter: float = _setting(_PICTURES, 0.4, "of brightness, contrast and saturation", min=0.0)
    degrees: float = _setting(_PICTURES, 0.0, "turn either way, for drawings", min=0.0)
    zoom: float = _setting(_PICTURES, 0.0, "magnification or its inverse, less 1, for drawings", min=0.0)
    shift: float = _setting(_PICTURES, 0.0, "move by a share of each side, for drawings", min=0.0)

    epochs: int = _setting(_OPTIMIZER, 90, "passes over the base classes", min=1)
    batch_size: int = _setting(_OPTIMIZER, 0, "pictures of a step, over all devices", min=0)
    accumulate: int = _setting(_OPTIMIZER, 1, "parts in which a step is computed, for small memory", min=1)
    learning_rate: float = _setting(_OPTIMIZER, 0.1, "at the beginning", above=0.0)
    schedule: str = _setting(_OPTIMIZER, "milestones", ", ".join(_SCHEDULES), choices=_SCHEDULES)
    milestones: tuple[float, ...] = _setting(
        _OPTIMIZER, (0.5, 0.75), "milestones: shares of the epochs after which gamma applies", min=0.0, max=1.0
    )
    every: int = _setting(_OPTIMIZER, 30, "every: epochs after which gamma applies, again and again", min=1)
    gamma: float = _setting(_OPTIMIZER, 0.1, "factor of the learning rate", above=0.0, max=1.0)
    warmup_epochs: float = _setting(_OPTIMIZER, 0.0, "linear rise to the learning rate", min=0.0)
    momentum: float = _setting(_OPTIMIZER, 0.9, "of SGD", min=0.0, below=1.0)
    nesterov: bool = _setting(_OPTIMIZER, False, "look ahead along the momentum")
    weight_decay: float = _setting(_OPTIMIZER, 1e-4, "on all weights", min=0.0)
    label_smoothing: float = _setting(
        _OPTIMIZER, 0.1, "share of the target spread over all classes", min=0.0, below=1.0
    )
    precision: str = _setting(
        _OPTIMIZER, "float32", f"{', '.join(_PRECISIONS)}; the latter two mixed with float32", choices=_PRECISIONS
    )

    validation_split: str = _setting(_VALIDATION, "val", 'classes to validate on; "" for none: the last epoch counts')
    validate_every: int = _setting(_VALIDATION, 1, "epochs; the last one is always validated", min=1)
    validation_tasks: int = _setting(_VALIDATION, 500, "the same at every validation", min=1)
    validation_way: int = _setting(_VALIDATION, 5, "classes of a task", min=2)
    validation_shot: int = _setting(_VALIDATION, 1, "labeled pictures per class", min=1)
    validation_query: int = _setting(_VALIDATION, 15, "pictures per class to be labeled", min=1)
    validation_seed: int = _setting(_VALIDATION, 0, "of the tasks", min=0)

    device: str = _setting(_MACHINE, "auto", "auto, cpu, cuda, cuda:1, mps")
    channels_last: bool = _setting(_MACHINE, True, "memory layout, faster for most convolutions")
    threads: int = _setting(_MACHINE, 0, "number of threads; 0: all cores", min=0)
    workers: int = _setting(_MACHINE, 2, "threads that load pictures", min=0)
    checkpoint_seconds: float = _setting(_MACHINE, 300.0, "between checkpoints inside an epoch", min=0.0)
    tensorboard: bool = _setting(_MACHINE, False, "also write events for TensorBoard")

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for each in dataclasses.fields(self):
            value = _of_kind(each.name, getattr(self, each.name), kinds[each.name])
            _check_limits(each, value)
            object.__setattr__(self, each.name, value)
        if self.batch_size == 0:
            object.__setattr__(self, "batch_size", _BATCH_SIZES.get(self.network, 256))
        self._check_together()

    def _check_together(self) -> None:
        if self.batch_size % self.accumulate:
            raise ConfigError(
                f"accumulate = {self.accumulate}: must divide batch_size = {self.batch_size}, so that parts are equal."
            )
        if self.batch_size < 2 * self.accumulate:
            raise ConfigError(
                f"batch_size = {self.batch_size}: batch normalization needs two pictures in each of the "
                f"{self.accumulate} parts of a step; give at least {2 * self.accumulate}."
            )
        if self.channels == 2:
            raise ConfigError("channels = 2: must be 1 (gray) or 3 (color).")
        if self.crop_scale and (len(self.crop_scale) != 2 or self.crop_scale[0] > self.crop_scale[1]):
            raise ConfigError(
                f"crop_scale = {toml_value(self.crop_scale)}: must be two numbers, the smaller first, or [] for none."
            )
        if self.resize < self.image_size:
            raise ConfigError(f"resize = {self.resize}: must be at least image_size = {self.image_size}.")
        if self.schedule == "cosine" and self.warmup_epochs >= self.epochs:
            raise ConfigError(f"warmup_epochs = {self.warmup_epochs}: must be below epochs = {self.epochs}.")
        if self.nesterov and self.momentum == 0:
            raise ConfigError("nesterov = true: needs a momentum above 0.")

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any]) -> Self:
        """Settings by name; a name that is not known is an error."""
        known = [each.name for each in dataclasses.fields(cls)]
        for name in settings:
            if name not in known:
                raise ConfigError(f"there is no setting {name!r}; {suggestion(name, known)}")
        return cls(**settings)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file; errors begin with its name."""
        document = read_toml(path)
        try:
            return cls.from_mapping(document)
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error

    def to_mapping(self) -> dict[str, Any]:
        """All settings, tuples as lists: what JSON and TOML can hold."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}

    def to_toml(self) -> str:
        """All settings with their meaning; :meth:`from_toml` reads the same back."""
        lines: list[str] = []
        group = ""
        for each in dataclasses.fields(self):
            if each.metadata["group"] != group:
                group = each.metadata["group"]
                lines += ["", f"# {group}."]
            line = f"{each.name} = {toml_value(getattr(self, each.name))}"
            lines.append(f"{line:<36} # {each.metadata['about']}")
        return "\n".join(lines[1:]) + "\n"

    def experiment(self) -> dict[str, Any]:
        """The settings that decide the result: all but those of the machine."""
        machine = {each.name for each in dataclasses.fields(self) if each.metadata["group"] == _MACHINE}
        return {name: value for name, value in self.to_mapping().items() if name not in machine}


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file; errors begin with its name."""
    try:
        return tomllib.loads(read_input(path).decode("utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: is not UTF-8 text.") from error
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path}: is not valid TOML: {error}.") from error


def toml_value(value: Any) -> str:
    """A string, bool, number or sequence of them as TOML writes it.

    Examples
    --------
    >>> toml_value(True), toml_value(1e-4), toml_value((0.5, 1)), toml_value("a")
    ('true', '0.0001', '[0.5, 1]', '"a"')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(toml_value, value))}]"
    if isinstance(value, str):
        escaped = (f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c for c in value)
        return '"' + "".join({"\\": "\\\\", '"': '\\"'}.get(c, c) for c in escaped) + '"'
    return repr(value)


def _of_kind(name: str, value: Any, kind: Any) -> Any:
    """The value as ``kind``; whole numbers pass for floats, and nothing else for anything else."""
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if kind == tuple[float, ...] and isinstance(value, (list, tuple)):
        return tuple(_of_kind(name, part, float) for part in value)
    if type(value) is not kind:
        words = {str: "a text in quotes", int: "a whole number", float: "a number", bool: "true or false"}
        raise ConfigError(f"{name} = {value!r}: must be {words.get(kind, 'a list of numbers')}.")
    return value


def _check_limits(each: dataclasses.Field[Any], value: Any) -> None:
    choices = each.metadata.get("choices", ())
    if choices and value not in choices:
        raise ConfigError(f"{each.name} = {value!r}: {suggestion(value, choices)}")
    for part in value if isinstance(value, tuple) else (value,):
        if isinstance(part, float) and not math.isfinite(part):
            raise ConfigError(f"{each.name} = {part}: must be a finite number.")
        for name, (words, is_within) in _LIMITS.items():
            if name in each.metadata and not is_within(part, each.metadata[name]):
                raise ConfigError(f"{each.name} = {part}: must be {words} {each.metadata[name]}.")


def config_names() -> dict[str, str]:
    """Names of the configs, each with what it is for: the comment on the first line of its file."""
    found = {}
    for file in sorted(files("laplacianshot").joinpath("configs").iterdir(), key=lambda file: file.name):
        if file.name.endswith(".toml"):
            first = file.read_text(encoding="utf-8").partition("\n")[0]
            found[file.name.removesuffix(".toml")] = first.lstrip("# ")
    return found


def load_config(name: str, settings: Mapping[str, Any] | None = None) -> TrainConfig:
    """A config by its name or from a TOML file.

    Parameters
    ----------
    name : str
        One of :func:`config_names`, or a path that ends in ``.toml``.
    settings : mapping, optional
        Values that take the place of those of the file.

    Raises
    ------
    ConfigError
        The config does not exist, or one of its values is not valid.
    """
    if name.endswith(".toml"):
        config = TrainConfig.from_toml(Path(name))
    else:
        known = config_names()
        if name not in known:
            raise ConfigError(f"there is no config {name!r}; {suggestion(name, (*known, 'FILE.toml'))}")
        config = TrainConfig.from_toml(Path(str(files("laplacianshot").joinpath("configs", f"{name}.toml"))))
    if not settings:
        return config
    values = config.to_mapping()
    if settings.get("network", config.network) != config.network:
        # The batch size of another network, unless one is given.
        values["batch_size"] = 0
    return TrainConfig.from_mapping({**values, **settings})
