"""Settings of a training run, checked once, and the named configs of the package."""

from __future__ import annotations

import dataclasses
import difflib
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any, Self, get_type_hints

from laplacianshot.embedding.networks import NETWORKS
from laplacianshot.training.errors import ConfigError

SCHEDULES = ("milestones", "every", "cosine", "constant")
PRECISIONS = ("float32", "bfloat16", "float16")

# Pictures of one step, as published; other networks take 256. Conv4 is trained on small machines.
BATCH_SIZES: Mapping[str, int] = {"wrn28_10": 128, "densenet121": 100, "conv4": 64}

WHAT, PICTURES, OPTIMIZER, VALIDATION, MACHINE = (
    "What is trained on what",
    "Pictures",
    "Optimizer: SGD on label-smoothed cross-entropy",
    "Validation: nearest prototype with L2 features on classes that are not trained on",
    "This machine: none of these is part of the experiment",
)


def _setting(
    group: str,
    default: Any,
    about: str,
    *,
    least: float = -math.inf,
    most: float = math.inf,
    above: float = -math.inf,
    below: float = math.inf,
    choices: tuple[str, ...] = (),
) -> Any:
    limits = {"least": least, "most": most, "above": above, "below": below, "choices": choices}
    return field(default=default, metadata={"group": group, "about": about, **limits})


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training run; the defaults are those of the paper.

    Every value is checked, and :class:`ConfigError` names the first that cannot be. :meth:`to_toml` gives all of them
    with their meaning.

    Examples
    --------
    >>> TrainConfig(network="wrn28_10", epochs=120).batch_size
    128
    >>> TrainConfig.from_mapping({"epoch": 90})
    Traceback (most recent call last):
    ...
    laplacianshot.training.errors.ConfigError: there is no setting 'epoch'; did you mean epochs?
    """

    dataset: str = _setting(WHAT, "folder", "layout of the pictures, see laplacianshot train --help")
    network: str = _setting(WHAT, "resnet18", ", ".join(NETWORKS), choices=tuple(NETWORKS))
    base_split: str = _setting(WHAT, "base", "classes to train on")
    seed: int = _setting(WHAT, 0, "of the first weights, the order and the augmentation", least=0, below=2**63)

    image_size: int = _setting(PICTURES, 84, "side of a picture for the network, in pixels", least=1)
    resize: int = _setting(PICTURES, 96, "short side before the center crop at evaluation", least=1)
    channels: int = _setting(PICTURES, 3, "3 color, 1 gray", least=1, most=3)
    crop_scale: tuple[float, ...] = _setting(
        PICTURES, (0.08, 1.0), "random crop: least and largest share of the area; [] for none", above=0.0, most=1.0
    )
    flip: float = _setting(PICTURES, 0.5, "probability of a mirrored picture", least=0.0, most=1.0)
    jitter: float = _setting(PICTURES, 0.4, "of brightness, contrast and saturation", least=0.0)
    degrees: float = _setting(PICTURES, 0.0, "turn either way, for drawings", least=0.0)
    zoom: float = _setting(PICTURES, 0.0, "magnification or its inverse, less 1, for drawings", least=0.0)
    shift: float = _setting(PICTURES, 0.0, "move by a share of each side, for drawings", least=0.0)

    epochs: int = _setting(OPTIMIZER, 90, "passes over the base classes", least=1)
    batch_size: int = _setting(OPTIMIZER, 0, "pictures of a step, over all devices", least=0)
    accumulate: int = _setting(OPTIMIZER, 1, "parts in which a step is computed, for small memory", least=1)
    learning_rate: float = _setting(OPTIMIZER, 0.1, "at the beginning", above=0.0)
    schedule: str = _setting(OPTIMIZER, "milestones", ", ".join(SCHEDULES), choices=SCHEDULES)
    milestones: tuple[float, ...] = _setting(
        OPTIMIZER, (0.5, 0.75), "milestones: shares of the epochs after which gamma applies", least=0.0, most=1.0
    )
    every: int = _setting(OPTIMIZER, 30, "every: epochs after which gamma applies, again and again", least=1)
    gamma: float = _setting(OPTIMIZER, 0.1, "factor of the learning rate", above=0.0, most=1.0)
    warmup_epochs: float = _setting(OPTIMIZER, 0.0, "linear rise to the learning rate", least=0.0)
    momentum: float = _setting(OPTIMIZER, 0.9, "of SGD", least=0.0, below=1.0)
    nesterov: bool = _setting(OPTIMIZER, False, "look ahead along the momentum")
    weight_decay: float = _setting(OPTIMIZER, 1e-4, "on all weights", least=0.0)
    label_smoothing: float = _setting(
        OPTIMIZER, 0.1, "share of the target spread over all classes", least=0.0, below=1.0
    )
    precision: str = _setting(
        OPTIMIZER, "float32", f"{', '.join(PRECISIONS)}; the latter two mixed with float32", choices=PRECISIONS
    )

    validation_split: str = _setting(VALIDATION, "val", 'classes to validate on; "" for none: the last epoch counts')
    validate_every: int = _setting(VALIDATION, 1, "epochs; the last one is always validated", least=1)
    validation_tasks: int = _setting(VALIDATION, 500, "the same at every validation", least=1)
    validation_way: int = _setting(VALIDATION, 5, "classes of a task", least=2)
    validation_shot: int = _setting(VALIDATION, 1, "labeled pictures per class", least=1)
    validation_query: int = _setting(VALIDATION, 15, "pictures per class to be labeled", least=1)
    validation_seed: int = _setting(VALIDATION, 0, "of the tasks", least=0)

    device: str = _setting(MACHINE, "auto", "auto, cpu, cuda, cuda:1, mps")
    channels_last: bool = _setting(MACHINE, True, "memory layout, faster for most convolutions")
    threads: int = _setting(MACHINE, 0, "number of threads; 0: all cores", least=0)
    workers: int = _setting(MACHINE, 2, "threads that load pictures", least=0)
    checkpoint_seconds: float = _setting(MACHINE, 300.0, "between checkpoints inside an epoch", least=0.0)
    tensorboard: bool = _setting(MACHINE, False, "also write events for TensorBoard")

    def __post_init__(self) -> None:
        kinds = get_type_hints(type(self))
        for each in dataclasses.fields(self):
            value = _of_kind(each.name, getattr(self, each.name), kinds[each.name])
            _check_limits(each, value)
            object.__setattr__(self, each.name, value)
        if self.batch_size == 0:
            object.__setattr__(self, "batch_size", BATCH_SIZES.get(self.network, 256))
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
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"the settings are {', '.join(known)}."
                raise ConfigError(f"there is no setting {name!r}; {hint}")
        return cls(**settings)

    @classmethod
    def from_toml(cls, path: Path) -> Self:
        """Read a TOML file; errors begin with its name."""
        try:
            return cls.from_mapping(tomllib.loads(path.read_bytes().decode("utf-8")))
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: is not UTF-8 text.") from error
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}") from error
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{path}: is not valid TOML: {error}.") from error

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
        machine = {each.name for each in dataclasses.fields(self) if each.metadata["group"] == MACHINE}
        return {name: value for name, value in self.to_mapping().items() if name not in machine}


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
    limits = each.metadata
    if limits["choices"] and value not in limits["choices"]:
        near = difflib.get_close_matches(value, limits["choices"], n=1)
        hint = f"did you mean {near[0]}? It can be" if near else "it can be"
        raise ConfigError(f"{each.name} = {value!r}: {hint} {', '.join(limits['choices'])}.")
    for part in value if isinstance(value, tuple) else (value,):
        if not isinstance(part, (int, float)):
            continue
        if not math.isfinite(part):
            raise ConfigError(f"{each.name} = {part}: must be a finite number.")
        for word, wrong in (
            ("at least {least}", part < limits["least"]),
            ("at most {most}", part > limits["most"]),
            ("above {above}", part <= limits["above"]),
            ("below {below}", part >= limits["below"]),
        ):
            if wrong:
                raise ConfigError(f"{each.name} = {part}: must be {word.format(**limits)}.")


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
        path = Path(name)
        try:
            config = TrainConfig.from_toml(path)
        except OSError as error:
            raise ConfigError(f"{path}: cannot be read ({error.strerror}).") from error
    else:
        known = list(config_names())
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}; or give a .toml file."
            raise ConfigError(f"there is no config {name!r}; {hint}")
        config = TrainConfig.from_toml(Path(str(files("laplacianshot").joinpath("configs", f"{name}.toml"))))
    if not settings:
        return config
    values = config.to_mapping()
    if settings.get("network", config.network) != config.network:
        # The batch size of another network, unless one is given.
        values["batch_size"] = 0
    return TrainConfig.from_mapping({**values, **settings})
