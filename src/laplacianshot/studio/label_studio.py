"""A live ML backend for Label Studio: a saved model, or a project of the studio that learns from annotations.

Label Studio calls ``/health``, ``/setup``, ``/predict``, ``/versions`` and ``/webhook``, as its package label-studio-ml
documents them. Tasks need one control tag *Choices* on a text or a picture.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import sqlite3
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any, NamedTuple, Protocol
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree

from fastapi import FastAPI, Request
from starlette.concurrency import run_in_threadpool

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError, listed
from laplacianshot.labeling.labels import TaskItems, annotated
from laplacianshot.labeling.model import LabelModel
from laplacianshot.labeling.sources import open_source
from laplacianshot.labeling.tables import label_of
from laplacianshot.studio import view as views
from laplacianshot.studio.change_log import FILE_NAME, ActionError, ProjectError
from laplacianshot.studio.server import open_session
from laplacianshot.studio.session import Session
from laplacianshot.web.access import Gate, Guard
from laplacianshot.web.errors import add_errors

# Bytes of a request and of a picture, tasks of a request, seconds to fetch a picture, and pictures fetched at once.
MAX_REQUEST = 64_000_000
_MAX_PICTURE = 64_000_000
_MAX_TASKS = 1024
_FETCH_SECONDS = 10.0
_FETCHES = 4

# Tags whose value is the item, by what the items are.
_OBJECTS = {"texts": ("Text", "HyperText"), "pictures": ("Image",)}


class Choice(NamedTuple):
    """A label for a task, and the probability that it is right."""

    label: str
    confidence: float


class Predictor(Protocol):
    """What answers Label Studio."""

    kind: str

    @property
    def version(self) -> str:
        """Name of what predicts now; another one after each change."""

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes."""

    def predict(self, tasks: Sequence[Mapping[str, Any]], interface: Interface) -> list[Choice | None]:
        """Return a label for each task, None where there is none."""

    def learn(self, task: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> bool:
        """Take over the annotation of a task, or its removal (None); return whether anything changed."""


@dataclass(frozen=True)
class Interface:
    """The tags of a labeling interface that a prediction refers to."""

    control: str
    target: str
    field: str  # of a task's data that holds the item
    choices: Mapping[str, str]  # what an annotation says, by the name of the class

    @classmethod
    def read(cls, config: str, kind: str) -> Interface:
        """Read the labeling interface of a project; LabelingError if it has no choices on items of this kind."""
        if "<!" in config.replace("<!--", ""):
            raise LabelingError("the labeling interface has declarations (<!...); remove them.")
        try:
            root = ElementTree.fromstring(config)
        except ElementTree.ParseError as error:
            raise LabelingError(f"the labeling interface cannot be read ({error}).") from error
        objects = {
            tag.get("name"): str(tag.get("value", "")).lstrip("$") for name in _OBJECTS[kind] for tag in root.iter(name)
        }
        for control in root.iter("Choices"):
            if control.get("toName") in objects and control.get("name"):
                tags = [(tag.get("value", ""), tag.get("alias")) for tag in control.iter("Choice")]
                target = str(control.get("toName"))
                return cls(
                    str(control.get("name")),
                    target,
                    objects[target],
                    {str(label_of(value)): alias or value for value, alias in tags if label_of(value)},
                )
        known = " or ".join(_OBJECTS[kind])
        raise LabelingError(f"the labeling interface has no tag Choices on a tag {known}, which {kind} need.")


@dataclass
class Pictures:
    """Pictures of tasks, from Label Studio itself and from nowhere else.

    Address and key are either both the user's, or both of ``/setup``: a key must not be sent to an address that a
    request has named.
    """

    host: str = ""  # address of Label Studio
    token: str = field(default="", repr=False)
    fixed: bool = False  # whether a user has given the address

    def load(self, address: str) -> bytes:
        """Return the bytes of a picture: within the task, or from Label Studio; LabelingError if it is elsewhere."""
        if address.startswith("data:"):
            try:
                return base64.b64decode(address.partition(",")[2], validate=True)
            except binascii.Error as error:
                raise LabelingError(f"a picture within a task is not base64: {error}.") from error
        if not self.host:
            raise LabelingError("the address of Label Studio is not known; give it with --label-studio URL.")
        full = urljoin(f"{self.host.rstrip('/')}/", address)
        if urlsplit(full)[:2] != urlsplit(self.host)[:2]:
            raise LabelingError(f"{address!r} is not a picture of {self.host}; import it into Label Studio.")
        request = urllib.request.Request(full, headers={"Authorization": f"Token {self.token}"} if self.token else {})
        try:
            with _OPENER.open(request, timeout=_FETCH_SECONDS) as answer:
                content: bytes = answer.read(_MAX_PICTURE + 1)
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise LabelingError(f"{full} cannot be fetched: {error}.") from error
        if len(content) > _MAX_PICTURE:
            raise LabelingError(f"{full} has more than {_MAX_PICTURE:,} bytes.")
        return content


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address than the one that was checked is not followed; nor is the token sent there."""

    def redirect_request(self, *args: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect)


class ModelPredictor:
    """Predictions of a saved model, which annotations do not change."""

    def __init__(self, model: LabelModel, path: Path, pictures: Pictures, note: Callable[[str], object]) -> None:
        if model.kind == "vectors":
            raise LabelingError(f"{path}: the model is for vectors, which Label Studio does not have.")
        self.kind: str = model.kind
        self._model, self._pictures, self._note = model, pictures, note
        digest = hashlib.blake2b(path.read_bytes(), digest_size=4).hexdigest()
        self.version = f"laplacianshot {__version__} {path.stem} {digest}"
        self.classes = tuple(str(name) for name in model.classes)

    def predict(self, tasks: Sequence[Mapping[str, Any]], interface: Interface) -> list[Choice | None]:
        """Return the model's label of each task; None for an item that cannot be read."""
        values = [(task.get("data") or {}).get(interface.field) for task in tasks]
        if self.kind == "pictures":
            with ThreadPoolExecutor(_FETCHES) as pool:
                items: list[Any] = list(pool.map(self._picture, values))
        else:
            items = [value if isinstance(value, str) and value.strip() else None for value in values]
        return [self._one(item) for item in items] if self.kind == "pictures" else self._all(items)

    def learn(self, task: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> bool:
        """Nothing is learned."""
        return False

    def _picture(self, value: Any) -> bytes | None:
        try:
            return self._pictures.load(str(value)) if value else None
        except LabelingError as error:
            self._note(str(error))
            return None

    def _one(self, item: Any) -> Choice | None:
        """Return the label of one picture; one that is damaged must not spoil the others."""
        try:
            return None if item is None else self._all([item])[0]
        except LabelingError as error:
            self._note(str(error))
            return None

    def _all(self, items: list[Any]) -> list[Choice | None]:
        at = [place for place, item in enumerate(items) if item is not None]
        found: list[Choice | None] = [None] * len(items)
        if at:
            answers = self._model.predictions(self._model.vectors([items[place] for place in at]))
            for place, code, confidence in zip(at, answers.codes.tolist(), answers.confidence.tolist(), strict=True):
                found[place] = Choice(self.classes[code], confidence)
        return found


class ProjectPredictor:
    """Labels of a project of the studio: annotations become labels, and all other items are labeled again."""

    def __init__(self, session: Session) -> None:
        if session.source.kind == "vectors":
            raise LabelingError(f"{session.source.path} holds vectors, which Label Studio does not have.")
        self.kind: str = session.source.kind
        self._session, self._items = session, TaskItems(session.source)

    @property
    def version(self) -> str:
        """The version of the project's labels."""
        return f"laplacianshot {__version__} project {self._session.log.version}"

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of the project."""
        return tuple(entry.name for entry in self._session.log.state.classes.values())

    def predict(self, tasks: Sequence[Mapping[str, Any]], interface: Interface) -> list[Choice | None]:
        """Return the present label of each task's item; None while there is none."""
        with self._session.lock:
            view, names = self._session.view(), self._session.log.state.classes
        found: list[Choice | None] = []
        for task in tasks:
            place = self._place(task)
            known = place is not None and view.origins[place] in (views.PREDICTED, views.GIVEN)
            code = int(view.classes[place]) if known else views.NO_CLASS
            found.append(Choice(names[code].name, float(view.confidence[place])) if code in names else None)
        return found

    def learn(self, task: Mapping[str, Any], annotation: Mapping[str, Any] | None) -> bool:
        """Label the item of a task as its annotation does, or remove the label."""
        place = self._place(task)
        labels = {} if annotation is None else annotated({"annotations": [annotation]})
        names = [label for label in map(label_of, labels) if label is not None]
        if place is None or len(names) > 1:
            return False
        with contextlib.suppress(ActionError):
            if names:
                self._session.label_by_name([place], names[0])
            else:
                self._session.label([place], None)
            return True
        return False

    def _place(self, task: Mapping[str, Any]) -> int | None:
        data = task.get("data")
        try:
            _, places = self._items.find(data if isinstance(data, dict) else {})
        except LabelingError:
            return None
        return places[0] if places and places[0] >= 0 else None


@contextmanager
def open_predictor(
    path: Path,
    pictures: Pictures,
    *,
    text_column: str | None = None,
    id_column: str | None = None,
    encoder: str | None = None,
    threads: int | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Predictor]:
    """Open a saved model, or the project of the studio in a folder, until the end of ``with``."""
    if not path.is_dir():
        model = LabelModel.load(path, encoder=encoder, threads=threads)
        model.warm_up()
        yield ModelPredictor(model, path, pictures, note)
        return
    source = open_source(_source_of(path), text_column=text_column, id_column=id_column)
    with open_session(source, project=path, encoder=encoder, threads=threads, note=note) as session:
        yield ProjectPredictor(session)


def _source_of(project: Path) -> str:
    """Return the source of a project of the studio."""
    file = project / FILE_NAME
    if not file.is_file():
        raise ProjectError(
            f"{project}: neither a model (.lshot) nor a project of the studio; make one with laplacianshot studio "
            "SOURCE --project DIR."
        )
    try:
        with contextlib.closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)) as log:
            row = log.execute("SELECT value FROM meta WHERE key = 'source'").fetchone()
    except sqlite3.Error as error:
        raise ProjectError(f"{file} cannot be read ({error}).") from error
    if row is None:
        raise ProjectError(f"{file} does not say what it is the project of.")
    return str(row[0])


class PasswordGate(Gate):
    """A gate whose token is the password of HTTP Basic authentication, which Label Studio sends."""

    def has_token(self, headers: Any) -> bool:
        """Whether a request has the token as a password, or as :class:`Gate` takes it."""
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            with contextlib.suppress(ValueError):
                return self.is_token(base64.b64decode(given, validate=True).decode().partition(":")[2])
        return super().has_token(headers)


def create_backend(
    predictor: Predictor, gate: Gate, pictures: Pictures, note: Callable[[str], object] = lambda text: None
) -> FastAPI:
    """Build the application that Label Studio talks to."""
    app = FastAPI(title="laplacianshot for Label Studio", version=__version__, docs_url=None, redoc_url=None)
    said: set[str] = set()
    lock = RLock()

    def once(text: str) -> None:
        with lock:
            if text not in said and len(said) < 100:
                said.add(text)
                note(text)

    @app.get("/health")
    @app.get("/", include_in_schema=False)
    def health() -> dict[str, Any]:
        """Whether the server can answer."""
        return {"status": "UP", "model_class": "laplacianshot", "v2": True}

    @app.post("/setup")
    async def setup(request: Request) -> dict[str, Any]:
        """Take the labeling interface, and where Label Studio is; return the version of the model."""
        asked = await _asked(request)
        interface = Interface.read(str(asked.get("schema") or ""), predictor.kind)
        if not pictures.fixed:
            pictures.host, pictures.token = str(asked.get("hostname") or ""), str(asked.get("access_token") or "")
        if missing := [name for name in predictor.classes if name not in interface.choices]:
            once(f"the labeling interface has no choice {listed(missing)}; items of these classes get no prediction.")
        return {"model_version": predictor.version}

    @app.post("/validate")
    async def validate(request: Request) -> dict[str, Any]:
        """Check a labeling interface."""
        Interface.read(str((await _asked(request)).get("config") or ""), predictor.kind)
        return {"status": "ok"}

    @app.post("/predict")
    async def predict(request: Request) -> dict[str, Any]:
        """Return a prediction for each task, in their order."""
        asked = await _asked(request)
        tasks = asked.get("tasks")
        if not isinstance(tasks, list) or not all(isinstance(task, dict) for task in tasks):
            raise LabelingError("tasks must be a list of tasks.")
        if len(tasks) > _MAX_TASKS:
            raise LabelingError(f"there are {len(tasks):,} tasks; send at most {_MAX_TASKS:,} at once.")
        interface = Interface.read(str(asked.get("label_config") or ""), predictor.kind)
        version = predictor.version
        found = await run_in_threadpool(predictor.predict, tasks, interface)
        return {
            "results": [_prediction(choice, interface, version) for choice in found],
            "model_version": version,
        }

    @app.api_route("/versions", methods=["GET", "POST"])
    def versions() -> dict[str, Any]:
        """Return the versions of the model: the present one."""
        return {"versions": [predictor.version], "v2": True}

    @app.post("/webhook", status_code=201)
    async def webhook(request: Request) -> dict[str, Any]:
        """Take over an annotation that was made, changed or removed; other events are ignored."""
        asked = await _asked(request)
        action = str(asked.get("action") or "")
        learned = 0
        if action in ("ANNOTATION_CREATED", "ANNOTATION_UPDATED", "ANNOTATIONS_DELETED"):
            tasks = asked.get("tasks") if isinstance(asked.get("tasks"), list) else [asked.get("task")]
            annotation = None if action == "ANNOTATIONS_DELETED" else asked.get("annotation")
            for task in tasks or []:
                if isinstance(task, dict) and (annotation is None or isinstance(annotation, dict)):
                    learned += await run_in_threadpool(predictor.learn, task, annotation)
        return {"action": action, "learned": learned, "model_version": predictor.version}

    @app.post("/train", status_code=201, include_in_schema=False)
    @app.post("/duplicate_model", include_in_schema=False)
    @app.post("/delete", include_in_schema=False)
    @app.post("/job_status", include_in_schema=False)
    def nothing() -> dict[str, Any]:
        return {}

    add_errors(app)
    app.add_middleware(Guard, gate=gate, limit=lambda path: MAX_REQUEST)
    return app


async def _asked(request: Request) -> dict[str, Any]:
    try:
        asked = await request.json()
    except (ValueError, RecursionError) as error:
        raise LabelingError("the request is not JSON.") from error
    if not isinstance(asked, dict):
        raise LabelingError("the request is not a JSON object.")
    return asked


def _prediction(choice: Choice | None, interface: Interface, version: str) -> dict[str, Any]:
    """Return a prediction as Label Studio takes it; without a result where there is none."""
    name = None if choice is None else interface.choices.get(choice.label)
    if choice is None or name is None:
        return {"result": [], "score": 0.0, "model_version": version}
    tags = {"from_name": interface.control, "to_name": interface.target, "type": "choices"}
    score = round(choice.confidence, 6)
    result = {"id": "laplacianshot", **tags, "value": {"choices": [name]}, "score": score}
    return {"result": [result], "score": score, "model_version": version}
