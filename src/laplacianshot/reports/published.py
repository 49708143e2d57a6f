"""Published figures, read from the one file that holds them, and where they may stand beside ours."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from laplacianshot.episodes.results import Setting

STATUSES = ("as published", "superseded", "never corrected", "corrected", "independent", "unconfirmed")


@dataclass(frozen=True)
class Figure:
    """One published number.

    Attributes
    ----------
    dataset, network : str
        Keys of the data file; the network is None where the source does not name it.
    method : str
        As its source calls it.
    value : float
        Accuracy in percent, or seconds.
    ci95 : float or None
        Half-width of the 95% interval, where the source gives one.
    status : str
        One of :data:`STATUSES`.
    source, place : str
        A key of :attr:`Published.sources`, and the table in it.
    way, shot, query : int or None
    protocol : str
    transform : str or None
        Of the features.
    measure : {"accuracy", "per class", "mean", "seconds"}
    ablation : str or None
        Row of the ablation table.
    ours : str or None
        Our method for it; None if it was published with a training of its own.
    """

    dataset: str
    network: str | None
    method: str
    value: float
    ci95: float | None
    status: str
    source: str
    place: str
    way: int | None
    shot: int | None
    query: int | None
    protocol: str
    transform: str | None
    measure: str
    ablation: str | None
    ours: str | None

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
    """What must be said wherever figures of these data sets, and of these networks if any are named, are printed."""

    about: str
    datasets: tuple[str, ...]
    text: str
    networks: tuple[str, ...] = ()

    def concerns(self, key: str) -> bool:
        """Whether it must be said beside figures of ``key``."""
        dataset, network = key.split("/")
        return dataset in self.datasets and (not self.networks or network in self.networks)


@dataclass(frozen=True, repr=False)
class Published:
    """The whole data file.

    Attributes
    ----------
    figures : tuple of Figure
    sources : dict of str to Source
    caveats : tuple of Caveat
    datasets : dict of str to (str, int)
        Title, and the classes that tasks are drawn from.
    networks : dict of str to (str, tuple of int)
        Title, and the lengths its feature vectors may have.
    """

    figures: tuple[Figure, ...]
    sources: Mapping[str, Source]
    caveats: tuple[Caveat, ...]
    datasets: Mapping[str, tuple[str, int]]
    networks: Mapping[str, tuple[str, tuple[int, ...]]]

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
        """Why features of this size, with classes of this number, cannot be those of ``key``; None if they may be."""
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
        found = [
            figure for figure in self.figures if figure.key == key and not figure.ablation and figure.suits(setting)
        ]
        return tuple(sorted(found, key=lambda figure: (figure.ours is None, order.index(figure.status))))

    def ablation(self, key: str, setting: Setting) -> Mapping[str, Figure]:
        """The ablation table's column for this data set, network and kind of task, by row."""
        return {
            figure.ablation: figure
            for figure in self.figures
            if figure.key == key and figure.ablation and figure.suits(setting)
        }

    def caveats_for(self, key: str) -> tuple[Caveat, ...]:
        """What must be said beside the figures of this data set and network."""
        return tuple(caveat for caveat in self.caveats if caveat.concerns(key))

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
        caveats=tuple(
            Caveat(
                entry["about"],
                tuple(entry["datasets"]),
                " ".join(entry["text"].split()),
                tuple(entry.get("networks", ())),
            )
            for entry in document["caveats"]
        ),
        datasets={key: (entry["title"], entry["classes"]) for key, entry in document["datasets"].items()},
        networks={key: (entry["title"], tuple(entry["dimensions"])) for key, entry in document["networks"].items()},
    )


def _figures(table: Mapping[str, Any], ours: Mapping[str, Mapping[str, str]]) -> list[Figure]:
    """Cells of a table; what a column or a row says of itself goes before what the table says of all."""
    result = []
    for row in table["rows"]:
        status = row.get("status", table.get("status", "as published"))
        statuses = [status] * len(table["columns"]) if isinstance(status, str) else status
        for column, cell, its_status in zip(table["columns"], row["cells"], statuses, strict=True):
            if not cell:
                continue
            facts = {**table, **column, **row}
            transform = facts.get("transform")
            value, ci95 = cell if len(cell) == 2 else (cell[0], None)
            result.append(
                Figure(
                    dataset=facts["dataset"],
                    network=facts.get("network"),
                    method=facts["method"],
                    value=float(value),
                    ci95=ci95,
                    status=its_status,
                    source=facts["source"],
                    place=facts["place"],
                    way=facts.get("way"),
                    shot=facts.get("shot"),
                    query=facts.get("query"),
                    protocol=facts["protocol"],
                    transform=transform,
                    measure=facts.get("measure", "accuracy"),
                    ablation=facts.get("ablation"),
                    ours=ours.get(facts["method"], {}).get(transform or ""),
                )
            )
    return result
