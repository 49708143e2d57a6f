"""Options that several commands share, read and checked before any work."""

from __future__ import annotations

import inspect
import math
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial, wraps
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from laplacianshot.cli.terminal import INTERRUPTED, CommandError, ask, can_ask, input_errors, note
from laplacianshot.runtime.errors import suggestion

if TYPE_CHECKING:
    from laplacianshot.datasets.feature_set import FeatureSet
    from laplacianshot.episodes.results import Setting

Value = TypeVar("Value")

# The end of --help.
FEATURE_FILES = (
    "FEATURES is an .npz file with the arrays features (n, D) and labels (n,) and, if there are any, split (n,), such "
    "as base, val and novel, and class_names; or a feature store, the folder that extract makes. If there is a split "
    "base, its mean is subtracted from all features (CL2)."
)

# Options by their panel in --help.
input_option = partial(typer.Option, rich_help_panel="Input")
task_option = partial(typer.Option, rich_help_panel="Tasks")
cluster_option = partial(typer.Option, rich_help_panel="Cluster")
output_option = partial(typer.Option, rich_help_panel="Output")

EngineName = Literal["local", "ray"]
EngineOption = Annotated[EngineName, cluster_option(help="Run on this machine or on a Ray cluster.")]
AddressOption = Annotated[
    str | None,
    cluster_option(metavar="HOST:PORT", help="Address of the cluster, or auto (default: start one on this machine)."),
]
ThreadsOption = Annotated[int | None, typer.Option(min=1, help="Number of threads (default: all cores).")]
JsonOption = Annotated[bool, output_option("--json", help="Print one JSON document instead of tables.")]
ReportOption = Annotated[
    Path | None, output_option(metavar="DIR", help="Also write a page with figures into this folder.")
]

FeaturesArgument = Annotated[Path, typer.Argument(metavar="FEATURES", help="Feature file, .npz, or feature store.")]
ShotOption = Annotated[
    str, task_option("--shot", metavar="N", help="Labeled rows per class, or a range such as 1-10, or a list.")
]


@dataclass(frozen=True)
class TaskOptions:
    """Tasks of evaluate and tune."""

    way: Annotated[
        str, task_option(metavar="N", help="Number of classes per task; a list gives a setting for each.")
    ] = "5"
    query: Annotated[int, task_option(min=1, metavar="N", help="Number of queries per class.")] = 15
    protocol: Annotated[
        str,
        task_option(
            metavar="NAME",
            help="balanced, dirichlet, present, unequal, inat, inat-leaking-labels or open-set; or a list of these.",
        ),
    ] = "balanced"
    alpha: Annotated[
        float, task_option(help="Parameter of the Dirichlet distribution of class sizes (protocol dirichlet).")
    ] = 2.0
    present: Annotated[
        str | None,
        task_option(
            metavar="N", help="Number of classes that occur among the queries (protocol present); or a list of these."
        ),
    ] = None
    total_queries: Annotated[
        int | None,
        task_option(
            min=1,
            metavar="N",
            help="Number of queries per task (protocols dirichlet and present; default: way x query).",
        ),
    ] = None
    seed: Annotated[int, task_option(min=0, help="Random seed for drawing tasks.")] = 0
    base_mean: Annotated[
        str | None,
        task_option(
            metavar="FILE|task",
            help="Mean to subtract from the features: that of a file of base classes, a vector (.npy), or each task's.",
        ),
    ] = None


# Options of the commands that read pictures.
OnError = Literal["raise", "skip"]
OnErrorOption = Annotated[
    OnError, typer.Option(help="What to do with a picture that cannot be read: raise (stop), or skip and list it.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="Override a value of the training config; may be repeated."),
]

SOURCE_HELP = "Folder of pictures, table of texts, or file of vectors."
SourceArgument = Annotated[Path, typer.Argument(metavar="SOURCE", help=SOURCE_HELP)]
LabelsOption = Annotated[
    Path | None,
    input_option(
        "--labels",
        metavar="FILE",
        help="Known labels: a table with the columns id and label, or a Label Studio export. Labels that SOURCE itself "
        "holds count as well.",
    ),
]


@dataclass(frozen=True)
class SourceOptions:
    """How label, suggest and studio read a source."""

    labels: LabelsOption = None
    text_column: Annotated[
        str | None, input_option(metavar="NAME", help="Column of the texts (default: text, or the only one).")
    ] = None
    id_column: Annotated[
        str | None, input_option(metavar="NAME", help="Column of the ids (default: id, or row numbers from 0).")
    ] = None
    label_column: Annotated[
        str | None,
        input_option(metavar="NAME", help="Column of known labels, blank where there is none (default: label)."),
    ] = None
    classes_from_folders: Annotated[
        bool | None,
        input_option(
            "--classes-from-folders/--folders-are-paths",
            "--folders-are-labels",
            help="Whether the top folders of SOURCE are classes (default: no; where it is likely, you are asked).",
            show_default=False,
        ),
    ] = None
    encoder: Annotated[
        str | None,
        input_option(
            metavar="NAME",
            help="Network that turns items into vectors: efficientnet-lite0 (default for pictures), minilm-l6 (default "
            "for texts), clip:NAME, onnx:FILE, hf:NAME, timm:NAME or checkpoint:PATH.",
        ),
    ] = None


ClassesOption = Annotated[
    str | None,
    input_option(
        metavar="NAMES|FILE",
        help="Names of the classes, with commas between them, or a file with one in each line, as name or name: "
        "description. With them no label is needed.",
    ),
]


@dataclass(frozen=True)
class KnowledgeOptions:
    """What label and suggest may know of the classes besides labels."""

    classes: ClassesOption = None
    prior: Annotated[
        Path | None,
        input_option(
            metavar="FILE", help="Scores of another model: a table with the column id and one for each class."
        ),
    ] = None
    class_shares: Annotated[
        str | None,
        input_option(
            metavar="equal|FILE",
            help="How frequent classes are: equal, or a table with the columns class and share.",
        ),
    ] = None
    max_pixels: Annotated[
        int | None,
        input_option(min=1, metavar="N", help="Largest picture to decode, for panoramas (default: 89,478,485 pixels)."),
    ] = None

    def __post_init__(self) -> None:
        # Through the environment, so that it also holds in worker processes; not an argument of the commands.
        if (pixels := vars(self).pop("max_pixels")) is not None:
            os.environ["LAPLACIANSHOT_MAX_PIXELS"] = str(pixels)


def with_folders(source: Path, reading: SourceOptions, knowledge: KnowledgeOptions | None = None) -> SourceOptions:
    """Decide whether folders of pictures are classes where the user has not: ask at a terminal, or say what is done."""
    if reading.classes_from_folders is not None or not source.is_dir():
        return reading
    from laplacianshot.labeling.sources import PictureFolders, is_store

    if is_store(source):
        return reading
    folders = PictureFolders.of(source)
    likely = folders.look_like_classes
    # Whoever brings labels or names does not mean the folders, unless these say so themselves.
    named = knowledge is not None and (knowledge.classes is not None or knowledge.prior is not None)
    if not likely and (reading.labels is not None or named or len(folders.counts) < 2):
        return reading
    if folders.may_be_classes and can_ask():
        unlabeled = f"; {folders.n_unlabeled:,} pictures are unlabeled" if folders.n_unlabeled else ""
        question = f"All pictures of {source} lie in folders: {folders}{unlabeled}.\nAre these folders the classes?"
        return replace(reading, classes_from_folders=ask(question, default=likely))
    if likely:
        note(f"FOLDERS ARE READ AS CLASSES: {folders}. If they are not classes, run again with --folders-are-paths.")
    else:
        note(f"folders are not read as classes: {folders}. If they are classes, run again with --classes-from-folders.")
    return replace(reading, classes_from_folders=likely)


# File names that tables of labels can have.
TABLE_ENDINGS = (".csv", ".jsonl", ".parquet")


def with_groups(command: Callable[..., int]) -> Callable[..., int]:
    """Replace each parameter of a command that is a dataclass, such as SourceOptions, by one option per field."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: p.annotation for name, p in signature.parameters.items() if is_dataclass(p.annotation)
    }

    @wraps(command)
    def run(**given: Any) -> int:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        try:
            return command(**given)
        except KeyboardInterrupt:
            # Typer would end the program without a word.
            raise CommandError("interrupted.", INTERRUPTED) from None

    parameters = []
    for name, parameter in signature.parameters.items():
        inner = inspect.signature(groups[name], eval_str=True).parameters if name in groups else {name: parameter}
        parameters += [p.replace(kind=p.KEYWORD_ONLY) for p in inner.values()]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return run


def listed(text: str, option: str, read: Callable[[str], Value]) -> list[Value]:
    """Return the values of a comma-separated list, each once, in order."""
    parts = [part.strip() for part in text.split(",")]
    if not all(parts):
        raise CommandError(f"{option} {text!r}: give one value, or several separated by commas.")
    with input_errors(f"{option} {text!r}: "):
        return list(dict.fromkeys(read(part) for part in parts))


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1.")
    return int(text)


def weight(text: str) -> float:
    """Read a finite number of at least 0."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise ValueError(f"{text!r} is not a number of at least 0.")
    return value


def _shot(text: str) -> int | tuple[int, int]:
    """Read a number of labeled rows per class, or a range: ``5`` or ``1-10``."""
    low, dash, high = text.partition("-")
    if not dash:
        return positive(text)
    if positive(low) > positive(high):
        raise ValueError(f"{text!r} is a range that ends before it begins.")
    return positive(low), positive(high)


def known(names: Iterable[str], what: str) -> Callable[[str], str]:
    """Return a reader that accepts only known names, and suggests one for a typing error."""
    choices = list(names)

    def read(text: str) -> str:
        if text not in choices:
            raise ValueError(f"there is no {what} {text!r}; {suggestion(text, choices)}")
        return text

    return read


def settings(chosen: TaskOptions, shots: str, tasks: int, split: str | None) -> tuple[Setting, ...]:
    """Combine each protocol with each way and shot, and ``present`` with each number of present classes.

    The iNat task has neither way nor shot, so it comes once.
    """
    from laplacianshot.episodes.results import Setting
    from laplacianshot.episodes.tasks import PROTOCOLS, SHARED

    protocols = listed(chosen.protocol, "--protocol", known(PROTOCOLS, "protocol"))
    sizes = list(product(listed(chosen.way, "--way", positive), listed(shots, "--shot", _shot)))
    presents = _present_counts(chosen, protocols)
    if chosen.total_queries is not None and not set(protocols) & set(SHARED):
        raise CommandError(f"--total-queries is for --protocol {' and '.join(SHARED)}; use --query.")
    return tuple(
        Setting(
            name, *size, chosen.query, tasks, chosen.seed, split, chosen.alpha,
            present=present, total_queries=chosen.total_queries if name in SHARED else None,
        )
        for name in protocols
        for size in (sizes[:1] if name.startswith("inat") else sizes)
        for present in (presents if name == "present" else [None])
    )  # fmt: skip


def _present_counts(chosen: TaskOptions, protocols: Sequence[str]) -> list[int]:
    """Read the list of --present, which belongs to the protocol of that name."""
    if (chosen.present is not None) != ("present" in protocols):
        wrong = "--protocol present needs" if chosen.present is None else "--protocol present is missing for"
        raise CommandError(f"{wrong} --present: how many classes of a task occur among the queries.")
    return [] if chosen.present is None else listed(chosen.present, "--present", positive)


def load_features(path: Path) -> FeatureSet:
    """Load a feature file."""
    from laplacianshot.datasets.feature_set import FeatureSet

    with input_errors():
        return FeatureSet.load(path)


def choose_split(feature_set: FeatureSet, requested: str | None, preferred: Sequence[str], option: str) -> str | None:
    """Return the requested split, else the first preferred one that exists, else None: all rows."""
    if requested is None:
        return next((name for name in preferred if name in feature_set.splits), None)
    if requested not in feature_set.splits:
        existing = ", ".join(feature_set.splits) or "none at all"
        raise CommandError(f"{option} {requested}: the file has no such split; it has: {existing}.")
    return requested


def load_base_mean(text: str | None, dimension: int) -> Any:
    """Return what :func:`~laplacianshot.evaluate` takes as base mean: "task", a vector, a feature set, or None."""
    import numpy as np

    from laplacianshot.runtime.files import load_npy

    if text is None or text == "task":
        return text
    path = Path(text)
    if path.suffix != ".npy":
        base = load_features(path)
        found = base.dim
    else:
        try:
            base = load_npy(path)
        except (OSError, ValueError) as error:
            raise CommandError(f"--base-mean {text}: cannot be read as one array of numbers.") from error
        if base.ndim != 1 or base.dtype.kind not in "iuf" or not np.isfinite(base).all():
            raise CommandError(f"--base-mean {text}: must hold one vector of finite numbers.")
        found = len(base)
    if found != dimension:
        raise CommandError(f"--base-mean {text}: has {found} features per row, the tasks' file has {dimension}.")
    return base


def assignments(texts: Sequence[str]) -> dict[str, Any]:
    """Read the values of ``--set NAME=VALUE``, written as in TOML; a text needs no quotes."""
    import tomllib

    found = {}
    for text in texts:
        name, sign, value = text.partition("=")
        if not sign or not name.strip():
            raise CommandError(f"--set {text!r}: write NAME=VALUE, such as --set epochs=10.")
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
    if engine == "local":
        if address is not None:
            raise CommandError("--address needs --engine ray.")
        yield
        return
    from laplacianshot.ray.cluster import connected

    with connected(address):
        yield
