"""Requests and responses of the HTTP API, as pydantic models."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, FailFast, Field, StrictInt, model_validator

from laplacianshot.labeling.sources import Kind
from laplacianshot.studio.change_log import MAX_NAME_LENGTH, Action, How
from laplacianshot.studio.view import Group, Only, Origin

ExportName = Literal["csv", "jsonl", "parquet", "label-studio", "label-studio-interface", "model"]

# Maximum number of items per action.
_MAX_ITEMS = 1_000_000
# Characters of a list of classes.
_MAX_TYPED = 200_000
# Fields of a request: more than any has.
_MAX_FIELDS = 10
# Largest integer that fits the arrays.
MAX_INT = 2**31 - 1


def _whole(value: Any) -> Any:
    """Convert 2.0 to 2, as JSON has only one type of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _whole_items(value: Any) -> Any:
    """Convert whole numbers of a list, and refuse its first other entry: a million errors would take a minute."""
    if not isinstance(value, list):
        return value
    whole = [_whole(entry) for entry in value[: _MAX_ITEMS + 1]]
    for place, entry in enumerate(whole):
        if type(entry) is not int or not 0 <= entry <= MAX_INT:
            raise ValueError(f"entry {place} is not a whole number from 0 to {MAX_INT}.")
    return whole


def _digits(value: Any) -> Any:
    """Check a number in an address: 7 is valid, 7.0 and 1e3 are not."""
    if isinstance(value, str) and not value.removeprefix("-").isdecimal():
        raise ValueError("must be a whole number.")
    return value


# A whole number in a path or query; constraints come before it.
Digits = BeforeValidator(_digits)
# Positions of items; checked as a whole, the first fault ends it.
Indices = Annotated[
    list[Annotated[StrictInt, Field(ge=0, le=MAX_INT)]],
    Field(min_length=1, max_length=_MAX_ITEMS),
    FailFast(),
    BeforeValidator(_whole_items),
]
ClassId = Annotated[StrictInt, Field(ge=1, le=MAX_INT), BeforeValidator(_whole)]
Steps = Annotated[StrictInt, Field(ge=1, le=1000), BeforeValidator(_whole)]
# At least one visible character, and no control characters.
Name = Annotated[
    str,
    Field(
        min_length=1,
        max_length=MAX_NAME_LENGTH,
        pattern=r"^[^\x00-\x1f\x7f]*[^\x00-\x20\x7f][^\x00-\x1f\x7f]*$",
        strict=True,
    ),
]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, value: Any) -> Any:
        """Refuse many fields at once: each would be an error of its own."""
        if isinstance(value, dict) and len(value) > _MAX_FIELDS:
            raise ValueError(f"{len(value):,} fields; at most {_MAX_FIELDS} are possible.")
        return value


class Problem(BaseModel):
    """An error message of one line."""

    detail: str


class SourceInfo(BaseModel):
    """What is labeled. ``key`` changes from run to run: add it to the addresses of pictures as ``v``."""

    name: str
    kind: Kind
    total: int
    tiny: bool
    key: str


class EmbeddingInfo(BaseModel):
    """Progress of making vectors."""

    done: int
    total: int
    failed: int
    finished: bool
    problem: str | None


class NamesInfo(BaseModel):
    """Whether names of classes can be compared with items, if not why, and how many classes count by their names."""

    usable: bool
    reason: str | None
    counted: int


class ClassInfo(BaseModel):
    """A class, its colors on a light and on a dark page, whether its name counts, and how many items it has."""

    id: int
    name: str
    color: int
    light: str
    dark: str
    named: bool
    given: int
    accepted: int
    predicted: int


class Accuracy(BaseModel):
    """Share of the predicted labels that is expected to be right, with its 95% interval, and where it comes from."""

    estimate: float
    low: float
    high: float
    source: str


class MapInfo(BaseModel):
    """Whether the map is ready, and its revision."""

    ready: bool
    revision: int


class State(BaseModel):
    """The project at one moment."""

    version: int
    predicted: int
    settled: int
    revision: int
    source: SourceInfo
    embedding: EmbeddingInfo
    classes: list[ClassInfo]
    names: NamesInfo
    counts: dict[Origin | Only, int]
    folder_labels: int
    accuracy: Accuracy | None
    undo: Action | None
    redo: Action | None
    map: MapInfo
    hint: str | None
    seconds: float | None


class ItemInfo(BaseModel):
    """One item."""

    index: int
    id: str
    text: str | None
    class_id: int | None = Field(serialization_alias="class")
    origin: Origin
    how: How | None
    confidence: float | None
    dispute: int | None
    novel: bool
    suggestion: int
    reason: str | None


class ClassProbability(BaseModel):
    """A class and its probability."""

    class_id: int = Field(serialization_alias="class")
    probability: float


class ItemDetail(ItemInfo):
    """One item with its whole text, its most probable classes and its nearest neighbors."""

    probabilities: list[ClassProbability]
    neighbors: list[int]


class _Selection(BaseModel):
    version: int
    predicted: int
    revision: int
    total: int


class ItemPage(_Selection):
    """A page of items."""

    offset: int
    items: list[ItemInfo]


class IndexList(_Selection):
    """Indices of all matching items."""

    indices: list[int]


class GroupList(_Selection):
    """Items by class."""

    groups: list[Group]


class History(BaseModel):
    """Actions, the newest first."""

    version: int
    total: int
    actions: list[Action]


class Done(BaseModel):
    """A saved action, and the state after it."""

    state: State
    action: Action


class Imported(Done):
    """Number of imported labels, and of items that kept a different label."""

    imported: int
    kept: int
    notes: list[str]


class ItemsRequest(_Body):
    """One item or more."""

    items: Indices


class LabelByClass(ItemsRequest):
    """Label items with a class, or remove their labels (null)."""

    class_id: ClassId | None = Field(alias="class")


class LabelByName(ItemsRequest):
    """Label items with the class of this name, which is added if it does not exist."""

    name: Name


class AcceptConfident(_Body):
    """Accept all predictions of at least this confidence, of one class or of all."""

    min_confidence: float = Field(ge=0, le=1, strict=True)
    class_id: ClassId | None = Field(default=None, alias="class")


class ClassRequest(_Body):
    """The name of a class."""

    name: Name


class NamesRequest(_Body):
    """Classes as a person types them: one per line, as name or name: description, or in one line with commas."""

    text: str = Field(min_length=1, max_length=_MAX_TYPED, strict=True)


class MergeRequest(_Body):
    """The class that another one is merged into."""

    into: ClassId


class StepsRequest(_Body):
    """How many actions to undo or redo."""

    steps: Steps = 1
