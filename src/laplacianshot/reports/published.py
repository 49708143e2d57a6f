"""Published figures, read from the file that holds them, and which of our results they may stand beside."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib.resources import files
from typing import Any

from laplacianshot.episodes.results import Setting

STATUSES = ("as published", "superseded", "never corrected", "corrected", "independent", "unconfirmed")


@dataclass(frozen=True)
class Figure:
    """One published number."""

    dataset: str
    network: str | None  # None where the source does not name it
    method: str  # as its source calls it
    value: float  # accuracy in percent, or seconds
    ci95: float | None  # half-width of the 95% interval, where the source gives one
    status: str  # one of STATUSES
    source: str  # a key of Published.sources
    place: str  # the table in the source
    way: int | None
    shot: int | None
    query: int | None
    protocol: str
    transform: str | None  # of the features
    measure: str  # accuracy, per class, mean or seconds
    ablation: str | None  # row of the ablation table
    ours: str | None  # our method for it; None if it was published with a training of its own

    @property
    def key(self) -> str:
        """Data set and network, as a user names them: ``cub/resnet18``."""
        return f"{self.dataset}/{self.network}"

    @property
    def text(self) -> str:
        """``72.11 ± 0.19``, as the source has it."""
        return f"{self.value:.2f}" + ("" if self.ci95 is None else f" ± {self.ci95:.2f}")

    def suits(self, setting: Setting) -> bool:
        """Whether these are the tasks of a setting of ours."""
        if self.protocol != setting.protocol:
            return False
        # Tasks of the iNat protocol have one size, which is not the user's to choose.
        return self.way is None or (self.way, self.shot, self.query) == (setting.way, setting.shot, setting.query)


@dataclass(frozen=True)
class Source:
    """Where figures come from: its name in a table, and in full."""

    short: str
    title: str
    url: str


@dataclass(frozen=True)
class Caveat:
    """What must be said wherever figures of these data sets are printed; without networks, of all of them."""

    about: str
    datasets: Sequence[str]
    text: str
    networks: Sequence[str] = ()


@dataclass(frozen=True, repr=False)
class Published:
    """The whole data file."""

    figures: tuple[Figure, ...]
    sources: Mapping[str, Source]
    caveats: tuple[Caveat, ...]
    datasets: Mapping[str, tuple[str, int]]  # title, and number of classes that tasks are drawn from
    networks: Mapping[str, tuple[str, tuple[int, ...]]]  # title, and lengths that its feature vectors may have

    @property
    def keys(self) -> tuple[str, ...]:
        """Data sets and networks that we can train and that have figures: ``mini/resnet18`` and so on."""
        ours = [figure for figure in self.figures if figure.network and self.networks[figure.network][1]]
        return tuple(dict.fromkeys(figure.key for figure in ours))

    def title(self, key: str) -> str:
        """``CUB, ResNet-18`` for ``cub/resnet18``."""
        dataset, network = key.split("/")
        return f"{self.datasets[dataset][0]}, {self.networks[network][0]}"

    def mismatch(self, key: str, n_classes: int, dimension: int) -> str | None:
        """Say why features of this size and number of classes cannot be those of ``key``; None if they may be."""
        dataset, network = key.split("/")
        name, classes = self.datasets[dataset]
        if n_classes != classes:
            return f"tasks of {name} are drawn from {classes} classes, here there are {n_classes}"
        name, dimensions = self.networks[network]
        if dimension not in dimensions:
            lengths = " or ".join(map(str, dimensions))
            return f"{name} gives vectors of length {lengths}, here they have {dimension}"
        return None

    def matching(self, key: str, setting: Setting) -> tuple[Figure, ...]:
        """Figures of this data set, network and kind of task, corrected ones first."""
        order = ("corrected", "independent", "superseded", "never corrected", "as published", "unconfirmed")
        found = [one for one in self.figures if one.key == key and not one.ablation and one.suits(setting)]
        return tuple(sorted(found, key=lambda figure: (figure.ours is None, order.index(figure.status))))

    def ablation(self, key: str, setting: Setting) -> Mapping[str, Figure]:
        """The ablation table's column for this data set, network and kind of task, by row."""
        found = [one for one in self.figures if one.key == key and one.suits(setting)]
        return {one.ablation: one for one in found if one.ablation}

    def caveats_for(self, key: str) -> tuple[Caveat, ...]:
        """What must be said beside the figures of this data set and network."""
        dataset, network = key.split("/")
        found = [caveat for caveat in self.caveats if dataset in caveat.datasets]
        return tuple(caveat for caveat in found if not caveat.networks or network in caveat.networks)

    def source_text(self, figure: Figure) -> str:
        """Source and table of a figure, in a table of ours."""
        return f"{self.sources[figure.source].short}, {figure.place}"

    def to_dict(self, figure: Figure) -> dict[str, Any]:
        """One figure with its source spelled out, for JSON."""
        source = self.sources[figure.source]
        return asdict(figure) | {"source": f"{source.title}, {figure.place}", "url": source.url}


@cache
def load_published() -> Published:
    """The figures of ``published.toml``, which comes with the package."""
    text = files("laplacianshot.reports").joinpath("published.toml").read_text(encoding="utf-8")
    document = tomllib.loads(text)
    return Published(
        figures=tuple(figure for table in document["tables"] for figure in _figures(table, document["ours"])),
        sources={key: Source(**source) for key, source in document["sources"].items()},
        caveats=tuple(Caveat(**one | {"text": " ".join(one["text"].split())}) for one in document["caveats"]),
        datasets={key: (entry["title"], entry["classes"]) for key, entry in document["datasets"].items()},
        networks={key: (entry["title"], tuple(entry["dimensions"])) for key, entry in document["networks"].items()},
    )


def _figures(table: Mapping[str, Any], ours: Mapping[str, Mapping[str, str]]) -> list[Figure]:
    """Cells of a table; facts of a column or a row replace those of the table."""
    result = []
    for row in table["rows"]:
        status = row.get("status", table.get("status", "as published"))
        statuses = [status] * len(table["columns"]) if isinstance(status, str) else status
        for column, cell, its_status in zip(table["columns"], row["cells"], statuses, strict=True):
            if not cell:
                continue
            facts: dict[str, Any] = dict.fromkeys(("network", "way", "shot", "query", "transform", "ablation"))
            facts |= {"measure": "accuracy", **table, **column, **row}
            facts |= {"value": float(cell[0]), "ci95": cell[1] if len(cell) == 2 else None, "status": its_status}
            facts["ours"] = ours.get(facts["method"], {}).get(facts["transform"] or "")
            result.append(Figure(**{each.name: facts[each.name] for each in fields(Figure)}))
    return result
