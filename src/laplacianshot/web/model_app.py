"""The HTTP API of a saved model: items in, labels with calibrated confidence out."""

from __future__ import annotations

import base64
import binascii
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.labeling.model import LabelModel
from laplacianshot.runtime.files import read_input
from laplacianshot.runtime.threads import available_threads
from laplacianshot.web.access import Gate, Guard
from laplacianshot.web.errors import add_errors, problem
from laplacianshot.web.server import run_app

# Bytes of a request, items of one, and characters of a text.
MAX_REQUEST = 64_000_000
MAX_ITEMS = 1024
MAX_TEXT = 100_000
# Requests that wait for their turn, per thread, before others are sent away.
_WAITING = 16
_MAX_TOKEN = 10_000
_PUBLIC = frozenset({"/health"})
_ADVICE = "this server needs its token, in the header 'Authorization: Bearer TOKEN'."


class Items(BaseModel):
    """Items to label, in one of three forms."""

    texts: list[Annotated[str, Field(max_length=MAX_TEXT)]] | None = Field(
        None, max_length=MAX_ITEMS, description="For a model of texts."
    )
    pictures: list[str] | None = Field(
        None, max_length=MAX_ITEMS, description="For a model of pictures: the content of each file in base64."
    )
    vectors: list[list[float]] | None = Field(
        None, max_length=MAX_ITEMS, description="Vectors of the model's encoder, for every model."
    )


class Prediction(BaseModel):
    """What the model says of one item."""

    label: Any = Field(description="The most probable class.")
    confidence: float = Field(description="The probability that the label is right, calibrated.")
    novelty: float = Field(description="How little the item is like those of the fit, from 0 to 1.")
    probabilities: list[tuple[Any, float]] = Field(description="The most probable classes, the first one first.")


class Answer(BaseModel):
    """A prediction for each item, in their order."""

    predictions: list[Prediction]


class Facts(BaseModel):
    """What the model is."""

    kind: str
    classes: list[Any]
    encoder: str | None
    encoder_digest: str | None
    n_features: int
    rows: int
    compact: bool
    facts: dict[str, Any]


class Health(BaseModel):
    """Whether the server can answer."""

    status: str
    version: str


class Problem(BaseModel):
    """An error in one line."""

    detail: str


_RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": Problem, "description": words}
    for code, words in {
        401: "Missing or wrong token",
        403: "Request from another page, or for another host",
        413: "Request body too large",
        422: "Items that cannot be read",
        503: "Too many requests at once",
    }.items()
}


def create_model_app(model: LabelModel, gate: Gate) -> FastAPI:
    """Build the application of a model behind a gate."""
    app = FastAPI(
        title="laplacianshot model",
        version=__version__,
        # A page of documentation would load its scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        responses=_RESPONSES,
    )
    turns = _Turns(available_threads())

    def answer(items: Any, top: int) -> Answer:
        with turns.taken():
            found = model.predictions(model.vectors(items))
        order = np.argsort(-found.probabilities, axis=1, kind="stable")[:, :top]
        return Answer(
            predictions=[
                Prediction(
                    label=model.classes[code],
                    confidence=round(float(confidence), 6),
                    novelty=round(float(novelty), 6),
                    probabilities=[(model.classes[c], round(float(row[c]), 6)) for c in best],
                )
                for code, confidence, novelty, row, best in zip(
                    found.codes, found.confidence, found.novelty, found.probabilities, order, strict=True
                )
            ]
        )

    @app.get("/health", responses={401: {"description": "Never"}})
    def health() -> Health:
        """Whether the server can answer; needs no token."""
        return Health(status="ok", version=__version__)

    @app.get("/model")
    def facts() -> Facts:
        """What the model is: its classes, its encoder, its versions."""
        encoder, classifier = model.encoder, model.classifier
        return Facts(
            kind=model.kind,
            classes=list(model.classes),
            encoder=None if encoder is None else encoder.name,
            encoder_digest=None if encoder is None else encoder.key,
            n_features=classifier.n_features,
            rows=classifier.n_rows,
            compact=classifier.is_compact,
            facts=dict(model.facts),
        )

    @app.post("/predict")
    def predict(items: Items, top: Annotated[int, Query(ge=1, le=100)] = 5) -> Answer:
        """Label up to 1,024 texts, pictures or vectors; give one of the three."""
        given = {name: values for name, values in items.model_dump().items() if values is not None}
        if len(given) != 1:
            raise LabelingError("give one of texts, pictures and vectors.")
        name, values = next(iter(given.items()))
        if not values:
            raise LabelingError(f"{name} is empty; give at least one item.")
        if name != "vectors" and name != model.kind:
            raise LabelingError(f"the model is for {model.kind}, and the request has {name}.")
        if name == "vectors":
            values = _matrix(values)
        elif name == "pictures":
            values = [_decoded(place, text) for place, text in enumerate(values)]
        return answer(values, top)

    @app.post(
        "/predict/picture",
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}},
            }
        },
    )
    async def predict_picture(request: Request, top: Annotated[int, Query(ge=1, le=100)] = 5) -> Answer:
        """Label the one picture that is the body of the request, a file of JPEG, PNG, WebP or another format."""
        from starlette.concurrency import run_in_threadpool

        if model.kind != "pictures":
            raise LabelingError(f"the model is for {model.kind}, and the request has a picture.")
        content = await request.body()
        return await run_in_threadpool(answer, [content], top)

    add_errors(app)

    @app.exception_handler(_Busy)
    def _(request: Request, error: _Busy) -> JSONResponse:
        return problem(503, "too many requests at once; try again in a moment.")

    app.add_middleware(Guard, gate=gate, limit=lambda path: MAX_REQUEST)
    return app


class _Busy(Exception):
    """More requests wait than are let in."""


class _Turns:
    """Let one request per thread compute at a time, some wait, and send the others away."""

    def __init__(self, threads: int) -> None:
        self._room = threading.Semaphore(threads * _WAITING)
        self._computing = threading.Semaphore(threads)

    @contextmanager
    def taken(self) -> Iterator[None]:
        if not self._room.acquire(blocking=False):
            raise _Busy
        try:
            with self._computing:
                yield
        finally:
            self._room.release()


def _matrix(values: list[list[float]]) -> Any:
    widths = {len(row) for row in values}
    if len(widths) != 1:
        raise LabelingError("vectors must all have the same length.")
    with np.errstate(over="ignore"):
        # What is too large becomes infinite, and is refused as such.
        return np.array(values, dtype=np.float64).astype(np.float32)


def _decoded(place: int, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise LabelingError(f"pictures[{place}] is not base64.") from error


def serve_model(
    model: LabelModel,
    host: str,
    listener: Any,
    *,
    token: str = "",
    opened: Callable[[Gate], object],
) -> None:
    """Serve a model until Ctrl-C or SIGTERM; calls ``opened`` with the gate once the server is ready.

    On an address of this machine alone, only its own names are valid in a request: a page elsewhere cannot lead a
    browser here. Elsewhere the server may be called by any name.
    """
    local = host in ("127.0.0.1", "localhost", "::1")
    gate = Gate(token, host, listener.getsockname()[1], not local, _PUBLIC, _ADVICE)
    run_app(create_model_app(model, gate), listener, ready=lambda: opened(gate))


def read_token(path: Path) -> str:
    """Return the token in a file: its first word, in ASCII."""
    words = read_input(path, _MAX_TOKEN).split()
    if not words or not words[0].isascii():
        raise LabelingError(f"--token-file {path}: its first line must be a token of letters and digits.")
    return words[0].decode("ascii")
