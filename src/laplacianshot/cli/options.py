"""Options that several commands share, read and checked before any work."""

from __future__ import annotations

import difflib
import math
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from laplacianshot.cli.errors import CommandError

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet

Value = TypeVar("Value")

# The end of --help.
FEATURE_FILES = (
    "FEATURES is an .npz file with the arrays features (n, D) and labels (n,) and, if there are any, split (n,), such "
    "as base, val and novel, and class_names; or a feature store, the folder that extract makes. Where there is a "
    "split base, its mean is the center of CL2."
)

# Where options stand in --help.
TASKS, RECIPE, MORE, OUTPUT = "Tasks", "Recipes paper and reference", "Also show", "Output"
INPUT = "Input"
CLUSTER = "Cluster"


class EngineName(StrEnum):
    """Where the work is done."""

    local = "local"
    ray = "ray"


# Options of both commands over tasks.
FeaturesArgument = Annotated[Path, typer.Argument(metavar="FEATURES", help="Feature file, .npz, or feature store.")]
WayOption = Annotated[
    str, typer.Option(help="Classes of a task; a list gives a setting for each.", rich_help_panel=TASKS)
]
ShotOption = Annotated[
    str, typer.Option("--shot", help="Labeled rows a class, or a range 1-10; or a list.", rich_help_panel=TASKS)
]
QueryOption = Annotated[int, typer.Option(min=1, help="Queries a class.", rich_help_panel=TASKS)]
ProtocolOption = Annotated[
    str,
    typer.Option(
        help="balanced, dirichlet, unequal, inat, inat-leaking-labels, open-set; or a list.", rich_help_panel=TASKS
    ),
]
AlphaOption = Annotated[float, typer.Option(help="Of the Dirichlet distribution.", rich_help_panel=TASKS)]
SeedOption = Annotated[int, typer.Option(min=0, help="Of the tasks.", rich_help_panel=TASKS)]
BaseMeanOption = Annotated[
    str | None,
    typer.Option(
        help="Center of CL2: a feature file of base classes, a vector (.npy), or task.", rich_help_panel=TASKS
    ),
]
EngineOption = Annotated[
    EngineName, typer.Option(help="Run on this machine or on a Ray cluster.", rich_help_panel=CLUSTER)
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Address of the cluster, or auto (default: start one on this machine).",
        rich_help_panel=CLUSTER,
    ),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Number of threads (default: all cores).")]
JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document instead of tables.", rich_help_panel=OUTPUT)
]
ReportOption = Annotated[
    Path | None, typer.Option(help="Also write a page with figures into this folder.", rich_help_panel=OUTPUT)
]

# Options of the commands that read a source.
SourceArgument = Annotated[
    Path, typer.Argument(metavar="SOURCE", help="Folder of pictures, table of texts, or file of vectors.")
]
LabelsOption = Annotated[
    Path | None,
    typer.Option(
        "--labels",
        metavar="FILE",
        help="Known labels: a table with the columns id and label, or a Label Studio export. Labels that SOURCE itself "
        "holds count as well.",
        rich_help_panel=INPUT,
    ),
]
TextColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the texts (default: text, or the only one).", rich_help_panel=INPUT),
]
IdColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Column of the ids (default: id, or row numbers from 0).", rich_help_panel=INPUT),
]
LabelColumnOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Column of known labels, blank where there is none (default: label).",
        rich_help_panel=INPUT,
    ),
]
FoldersOption = Annotated[
    bool | None,
    typer.Option(
        "--folders-are-labels/--folders-are-paths",
        help="Whether the top folders of SOURCE are classes (default: yes if there are unlabeled pictures next to "
        "them).",
        rich_help_panel=INPUT,
        show_default=False,
    ),
]
EncoderOption = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Network that turns items into vectors: efficientnet-lite0 (default for pictures), minilm-l6 (default "
        "for texts), onnx:FILE, hf:NAME, timm:NAME or checkpoint:PATH.",
        rich_help_panel=INPUT,
    ),
]


def listed(text: str, option: str, read: Callable[[str], Value]) -> list[Value]:
    """The values of a comma-separated list, each once, in order."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise CommandError(f"{option} {text!r}: give one value, or several separated by commas.")
    try:
        return list(dict.fromkeys(read(part) for part in parts))
    except ValueError as error:
        raise CommandError(f"{option} {text!r}: {error}") from error


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1.")
    return int(text)


def weight(text: str) -> float:
    """A finite number of at least 0."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is not a number of at least 0.")
    return value


def shot(text: str) -> int | tuple[int, int]:
    """Labeled rows a class, or a range of them: ``5`` or ``1-10``."""
    low, dash, high = text.partition("-")
    if not dash:
        return positive(text)
    if positive(low) > positive(high):
        raise ValueError(f"{text!r} is a range that ends before it begins.")
    return positive(low), positive(high)


def known(names: Iterable[str], what: str) -> Callable[[str], str]:
    """A reader that lets only known names pass, and suggests one for a slip of the keyboard."""
    choices = list(names)

    def read(text: str) -> str:
        if text not in choices:
            near = difflib.get_close_matches(text, choices, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            raise ValueError(f"there is no {what} {text!r}; {hint}choose from {', '.join(choices)}.")
        return text

    return read


def combinations(protocol: str, way: str, shots: str) -> list[tuple[str, int, int | tuple[int, int]]]:
    """Each protocol with each way and shot; the iNat task knows neither, so it comes once."""
    from laplacianshot.episodes.tasks import PROTOCOLS

    protocols = listed(protocol, "--protocol", known(PROTOCOLS, "protocol"))
    ways, its_shots = listed(way, "--way", positive), listed(shots, "--shot", shot)
    found = []
    for name in protocols:
        sizes = list(product(ways, its_shots))
        found += [(name, *size) for size in (sizes[:1] if name.startswith("inat") else sizes)]
    return found


def load_features(path: Path) -> FeatureSet:
    """The feature file, or one line that says what is wrong with it."""
    from laplacianshot.datasets.feature_set import FeatureSet

    try:
        return FeatureSet.load(path)
    except (ValueError, FileNotFoundError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"{path}: cannot be read ({error.strerror}).") from error


def choose_split(feature_set: FeatureSet, wanted: str | None, preferred: Sequence[str], option: str) -> str | None:
    """The split that was asked for, else the first preferred one that is there, else None: all rows."""
    if wanted is None:
        return next((name for name in preferred if name in feature_set.splits), None)
    if wanted not in feature_set.splits:
        there = ", ".join(feature_set.splits) or "none at all"
        raise CommandError(f"{option} {wanted}: the file has no such split; it has: {there}.")
    return wanted


def load_base_mean(text: str | None, dimension: int) -> Any:
    """What :func:`~laplacianshot.evaluate` takes as base mean: "task", a vector, another feature set, or None."""
    import numpy as np

    if text is None or text == "task":
        return text
    path = Path(text)
    if path.suffix != ".npy":
        base = load_features(path)
        found = base.dim
    else:
        try:
            base = np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise CommandError(f"--base-mean {text}: cannot be read as one array of numbers.") from error
        if base.ndim != 1 or base.dtype.kind not in "iuf" or not np.isfinite(base).all():
            raise CommandError(f"--base-mean {text}: must hold one vector of finite numbers.")
        found = len(base)
    if found != dimension:
        raise CommandError(f"--base-mean {text}: has {found} features a row, the tasks' file has {dimension}.")
    return base


def assignments(texts: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """Values of ``NAME=VALUE``, written as in TOML; a text needs no quotes."""
    import tomllib

    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise CommandError(f"{option} {text!r}: write NAME=VALUE, such as {option} epochs=10.")
        try:
            found[name.strip()] = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            found[name.strip()] = value.strip()
    return found


def command_line(context: typer.Context) -> str:
    """Return the command as it could be typed again."""
    return shlex.join(["laplacianshot", *(context.obj or sys.argv[1:])])


@contextmanager
def cluster(engine: EngineName, address: str | None) -> Iterator[None]:
    """Connect to Ray if it is requested."""
    if engine is EngineName.local:
        if address is not None:
            raise CommandError("--address needs --engine ray.")
        yield
        return
    from laplacianshot.ray.cluster import connected

    with connected(address):
        yield
