"""The HTTP API: every path, and how a session is described in its answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, Depends, Path, Query, Request
from fastapi.responses import Response
from fastapi.routing import APIRoute
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from laplacianshot.labeling.classes import typed_classes
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.studio import exporting, schemas, view
from laplacianshot.studio.change_log import Action, ActionError
from laplacianshot.studio.schemas import MAX_INT, Digits, Problem
from laplacianshot.studio.session import Session
from laplacianshot.studio.thumbnails import LARGEST, SIZES, SmallPicture
from laplacianshot.studio.view import ACCEPTED, GIVEN, NO_CLASS, ORIGINS, PREDICTED, View
from laplacianshot.ui.colors import class_color
from laplacianshot.ui.names import passage
from laplacianshot.web.access import MAX_SMALL_BODY

# Maximum number of seconds that a request waits for background work.
MAX_WAIT = 30.0
_MAX_SEARCH_LENGTH = 200
# Maximum number of characters of a text in the gallery, and of a whole text.
_SHORT, _LONG = 300, 100_000
# Number of classes and neighbors in the details of an item.
_CLASSES, _NEIGHBORS = 5, 12

_Index = Annotated[int, Path(ge=0, le=MAX_INT), Digits]
_ClassPath = Annotated[int, Path(ge=1, le=MAX_INT), Digits]
_Offset = Annotated[int, Query(ge=0, le=MAX_INT), Digits]
_Limit = Annotated[int, Query(ge=1, le=500), Digits]

_Responses = dict[int | str, dict[str, Any]]
_NOT_FOUND: _Responses = {404: {"model": Problem, "description": "Not found"}}
_ACTION: _Responses = {**_NOT_FOUND, 409: {"model": Problem, "description": "Conflicts with the current state"}}


def _content(description: str, *media_types: str) -> _Responses:
    return {200: {"content": {media_type: {} for media_type in media_types}, "description": description}}


_PICTURE = {
    **_content("A picture", "image/webp", "image/png", "image/jpeg"),
    304: {"description": "Not modified"},
    **_NOT_FOUND,
}
_BYTES = {**_content("Arrays, little endian", "application/octet-stream"), **_NOT_FOUND}
_FILE = _content("The file", *(media_type.partition(";")[0] for _, media_type in exporting.FORMATS.values()))
_EXPORT = {**_FILE, 409: {"model": Problem, "description": "There is no model yet"}}


def _query(
    classes: Annotated[
        list[Annotated[int, Field(ge=-1, le=MAX_INT), Digits]] | None, Query(alias="class", max_length=1000)
    ] = None,
    origin: Annotated[list[view.Origin] | None, Query(max_length=len(ORIGINS))] = None,
    min_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    max_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    search: Annotated[str, Query(max_length=_MAX_SEARCH_LENGTH)] = "",
    only: Annotated[view.Only | None, Query()] = None,
    sort: Annotated[view.Sort, Query()] = "index",
) -> view.Query:
    """Read a query from the parameters of the address."""
    chosen = tuple(sorted(set(classes or ())))
    origins = tuple(sorted(set(origin or ())))
    return view.Query(chosen, origins, min_confidence, max_confidence, search, only, sort)


_QueryParams = Annotated[view.Query, Depends(_query)]


def item_routes(session: Session) -> APIRouter:
    """Paths that show items: pages, groups, details, pictures and the map."""
    router = APIRouter(prefix="/api", tags=["items"])

    def facts(now: View, total: int) -> dict[str, int]:
        predicted = session.engine.progress.predicted
        return {"version": session.given.version, "predicted": predicted, "revision": now.revision, "total": total}

    @router.get("/items", responses=_NOT_FOUND)
    def items(
        query: _QueryParams,
        offset: _Offset = 0,
        limit: _Limit = 100,
        index: Annotated[list[Annotated[int, Field(ge=0, le=MAX_INT), Digits]] | None, Query(max_length=500)] = None,
    ) -> schemas.ItemPage:
        """One page of the items that match a query, or the items at the given indices."""
        now = session.view()
        if index:
            session.items(index)
            return schemas.ItemPage(**facts(now, len(index)), offset=0, items=_items(session, now, index))
        rows = session.catalog.select(now, query)
        shown = _items(session, now, rows[offset : offset + limit].tolist())
        return schemas.ItemPage(**facts(now, len(rows)), offset=offset, items=shown)

    @router.get("/indices")
    def indices(query: _QueryParams) -> schemas.IndexList:
        """The indices of all items that match a query."""
        now = session.view()
        rows = session.catalog.select(now, query)
        return schemas.IndexList(**facts(now, len(rows)), indices=rows.tolist())

    @router.get("/groups")
    def groups(query: _QueryParams) -> schemas.GroupList:
        """The number of matching items per class."""
        now = session.view()
        rows = session.catalog.select(now, query)
        found = view.groups(now, rows, list(session.log.state.classes))
        return schemas.GroupList(**facts(now, len(rows)), groups=found)

    @router.get("/items/{index}", responses=_NOT_FOUND)
    def item(index: _Index) -> schemas.ItemDetail:
        """One item, with its whole text, its most probable classes and its nearest neighbors."""
        session.items([index])
        return _detail(session, index)

    @router.get("/items/{index}/thumbnail", responses=_PICTURE, response_class=Response)
    def thumbnail(
        request: Request,
        index: _Index,
        size: Annotated[int, Query(json_schema_extra={"enum": list(SIZES)}), Digits] = 128,
    ) -> Response:
        """A small version of an item's picture; never enlarged."""
        if size not in SIZES:
            raise ActionError(f"size must be one of {', '.join(map(str, SIZES))}.", 422)
        session.items([index])
        return _picture(session, request, session.thumbnails.get(index, size))

    @router.get("/items/{index}/picture", responses=_PICTURE, response_class=Response)
    def picture(request: Request, index: _Index) -> Response:
        """The picture of an item, at most 2048 pixels wide and high."""
        session.items([index])
        return _picture(session, request, session.thumbnails.get(index, LARGEST))

    @router.get("/map", responses=_BYTES, response_class=Response)
    def places() -> Response:
        """A position on the map per item: float32 x, y; NaN where there is none yet."""
        progress = session.engine.progress
        if progress.places is None:
            raise HTTPException(404, "the map is not ready yet.")
        return _numbers(progress.places.astype("<f4").tobytes(), progress.map_revision)

    @router.get("/map/labels", responses=_BYTES, response_class=Response)
    def map_labels() -> Response:
        """Arrays of all items: class id (int32, -1: none), confidence (float32, NaN: none), origin and flags (uint8).

        Origins are 0 waiting, 1 unlabeled, 2 predicted, 3 given, 4 failed, 5 accepted; of the flags bit 0 is disputed
        and bit 1 novel.
        """
        now = session.view()
        flags = (now.disputes >= 0).astype(np.uint8) | (now.novel.astype(np.uint8) << 1)
        arrays = (now.classes.astype("<i4"), now.confidence.astype("<f4"), now.origins, flags)
        return _numbers(b"".join(array.tobytes() for array in arrays), now.revision)

    return router


def _picture(session: Session, request: Request, found: SmallPicture) -> Response:
    # With the key of this run an address always means the same picture; without it, it may be another project's.
    is_fixed = request.query_params.get("v") == session.key
    headers = {
        "etag": f'"{found.tag}"',
        "cache-control": "private, max-age=604800, immutable" if is_fixed else "private, no-cache",
    }
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.media_type, headers=headers)


def _numbers(content: bytes, revision: int) -> Response:
    return Response(content, media_type="application/octet-stream", headers={"x-revision": str(revision)})


class _ActionRoute(APIRoute):
    """A path whose large bodies are parsed and checked on a thread of their own, so that others are answered meanwhile.

    FastAPI does both on the event loop.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_aside(request: Request) -> Response:
            if len(await request.body()) <= MAX_SMALL_BODY:
                return await handle(request)
            return await run_in_threadpool(lambda: asyncio.run(handle(request)))

        return handle_aside


def action_routes(session: Session) -> APIRouter:
    """Paths that change labels and classes, and those that import and export them."""
    router = APIRouter(prefix="/api", tags=["actions"], route_class=_ActionRoute)

    def done(action: Action) -> schemas.Done:
        return schemas.Done(state=state_of(session), action=action)

    @router.post("/label", responses=_ACTION)
    def label(body: schemas.LabelByClass | schemas.LabelByName) -> schemas.Done:
        """Label items, or remove their labels."""
        if isinstance(body, schemas.LabelByName):
            return done(session.label_by_name(body.items, body.name))
        return done(session.label(body.items, body.class_id))

    @router.post("/accept", responses=_ACTION)
    def accept(body: schemas.ItemsRequest | schemas.AcceptConfident) -> schemas.Done:
        """Accept predictions. They keep their label and teach nothing; a label that a person gives does."""
        if isinstance(body, schemas.ItemsRequest):
            return done(session.accept(body.items))
        return done(session.accept_confident(body.min_confidence, body.class_id))

    @router.post("/classes", responses=_ACTION)
    def add_class(body: schemas.ClassRequest) -> schemas.Done:
        """Add a class."""
        return done(session.act(lambda state: state.adding(body.name)))

    @router.post("/names", responses=_ACTION)
    def name_classes(body: schemas.NamesRequest) -> schemas.Done:
        """Name the classes: everything is labeled by their names, and labels correct it."""
        try:
            action = session.name_classes(typed_classes(body.text))
        except LabelingError as error:
            raise ActionError(str(error), 422) from error
        if action is None:
            raise ActionError("all of these classes are there already.")
        return done(action)

    @router.patch("/classes/{class_id}", responses=_ACTION)
    def rename_class(class_id: _ClassPath, body: schemas.ClassRequest) -> schemas.Done:
        """Rename a class."""
        return done(session.act(lambda state: state.renaming(class_id, body.name)))

    @router.post("/classes/{class_id}/merge", responses=_ACTION)
    def merge_classes(class_id: _ClassPath, body: schemas.MergeRequest) -> schemas.Done:
        """Merge a class into another one."""
        return done(session.act(lambda state: state.merging(class_id, body.into)))

    @router.delete("/classes/{class_id}", responses=_ACTION)
    def delete_class(class_id: _ClassPath) -> schemas.Done:
        """Delete a class and its labels."""
        return done(session.act(lambda state: state.deleting(class_id)))

    @router.delete("/folder-labels", responses=_ACTION)
    def free_of_folders() -> schemas.Done:
        """Remove all labels that are names of folders, and the classes that have no other."""
        return done(session.free_of_folders())

    @router.post("/undo", responses=_ACTION)
    def undo(body: schemas.StepsRequest) -> schemas.Done:
        """Undo the last action, or several."""
        return done(session.turn_back(body.steps))

    @router.post("/redo", responses=_ACTION)
    def redo(body: schemas.StepsRequest) -> schemas.Done:
        """Redo what was undone."""
        return done(session.turn_back(body.steps, redo=True))

    @router.get("/history")
    def history(offset: _Offset = 0, limit: _Limit = 100) -> schemas.History:
        """Past actions, the newest first."""
        total = session.log.version
        return schemas.History(version=total, total=total, actions=session.log.history(offset, limit))

    @router.post("/import", responses=_ACTION)
    def import_labels(
        content: Annotated[bytes, Body(media_type="application/octet-stream")],
        name: Annotated[str, Query(max_length=300)],
        replace: Annotated[bool, Query()] = False,
    ) -> schemas.Imported:
        """Import labels from a file: a table of ids and labels, or a Label Studio export."""
        found = exporting.import_file(session, name, content, replace=replace)
        if found.action is None:
            kept = f" {found.kept} items keep their current labels." if found.kept else ""
            raise ActionError(f"the file contains no new labels.{kept}")
        return schemas.Imported(state=state_of(session), **vars(found))

    @router.get("/export", responses=_EXPORT, response_class=Response)
    def export(
        format: Annotated[schemas.ExportName, Query()] = "csv", disputes: Annotated[bool, Query()] = False
    ) -> Response:
        """All labels, in the format of ``laplacianshot label`` or as Label Studio tasks; or a model for new items.

        Waits up to 30 seconds for the full prediction that follows the last action.
        """
        session.engine.wait_until_whole(MAX_WAIT)
        name, media_type = exporting.FORMATS[format]
        headers = {"content-disposition": f'attachment; filename="{name}"'}
        content = exporting.export(session, format, disputes=disputes)
        return Response(content, media_type=media_type, headers=headers)

    return router


def state_of(session: Session) -> schemas.State:
    """Describe the project at this moment."""
    now, state, progress = session.view(), session.log.state, session.engine.progress
    vectors, source = session.engine.vectors, session.source
    given, accepted, predicted = (now.by_class(origin) for origin in (GIVEN, ACCEPTED, PREDICTED))
    named = set(session.given.named.class_ids.tolist())
    return schemas.State(
        version=session.given.version,
        predicted=progress.predicted,
        settled=progress.settled,
        revision=now.revision,
        source=schemas.SourceInfo(
            name=source.path.name or str(source.path),
            kind=source.kind,
            total=len(source),
            tiny=session.tiny,
            key=session.key,
        ),
        embedding=schemas.EmbeddingInfo(
            done=vectors.done,
            total=len(source),
            failed=len(vectors.failed),
            finished=vectors.finished,
            problem=progress.problem,
        ),
        classes=[
            schemas.ClassInfo(
                id=id,
                name=entry.name,
                color=entry.color,
                named=id in named,
                **vars(class_color(entry.color)),
                given=given.get(id, 0),
                accepted=accepted.get(id, 0),
                predicted=predicted.get(id, 0),
            )
            for id, entry in state.classes.items()
        ],
        names=schemas.NamesInfo(usable=session.names.usable, reason=session.names.problem, counted=len(named)),
        counts=now.counts(),
        folder_labels=session.folder_labels,
        accuracy=_accuracy(session),
        undo=session.log.next_undo,
        redo=session.log.next_redo,
        map=schemas.MapInfo(ready=progress.places is not None, revision=progress.map_revision),
        hint=_hint(session, len(named | set(given))),
        seconds=progress.seconds,
    )


def _items(session: Session, now: View, rows: Iterable[int]) -> list[schemas.ItemInfo]:
    return [schemas.ItemInfo(**_item(session, now, i, _SHORT)) for i in rows]


def _detail(session: Session, i: int) -> schemas.ItemDetail:
    """Describe one item with its probabilities and neighbors."""
    now, predictions = session.view(), session.engine.progress.predictions
    probabilities: list[schemas.ClassProbability] = []
    neighbors: list[int] = []
    if predictions is not None:
        row = int(np.searchsorted(predictions.cache.positions, i))
        if row < len(predictions.cache) and predictions.cache.positions[row] == i:
            near = predictions.cache.neighbors.indices[row, :_NEIGHBORS]
            neighbors = predictions.cache.positions[near[near >= 0]].tolist()
            for column in np.argsort(-predictions.probabilities[row], kind="stable")[:_CLASSES].tolist():
                class_id = int(predictions.class_ids[column])
                if class_id in session.log.state.classes:
                    probability = float(predictions.probabilities[row, column])
                    probabilities.append(schemas.ClassProbability(class_id=class_id, probability=probability))
    return schemas.ItemDetail(**_item(session, now, i, _LONG), probabilities=probabilities, neighbors=neighbors)


def _item(session: Session, now: View, i: int, max_length: int) -> dict[str, Any]:
    class_id, confidence, dispute = int(now.classes[i]), float(now.confidence[i]), int(now.disputes[i])
    given = session.log.state.labels.get(session.source.ids[i])
    text = None
    if session.source.kind == "texts":
        # JSON can contain halves of characters, and UTF-8 cannot.
        whole = str(session.source.preview(i)).encode("utf-8", "replace").decode("utf-8")
        text = passage(whole, max_length) if max_length == _SHORT else whole[:max_length]
    return {
        "index": i,
        "id": session.source.ids[i],
        "text": text,
        "class_id": class_id if class_id != NO_CLASS else None,
        "origin": ORIGINS[now.origins[i]],
        "how": None if given is None else given.how,
        "confidence": None if math.isnan(confidence) else round(confidence, 6),
        "dispute": dispute if dispute != NO_CLASS else None,
        "novel": bool(now.novel[i]),
        "suggestion": int(now.suggestions[i]),
        "reason": session.engine.vectors.failed.get(i),
    }


def _accuracy(session: Session) -> schemas.Accuracy | None:
    predictions = session.engine.progress.predictions
    said = None if predictions is None else predictions.accuracy
    return None if said is None else schemas.Accuracy(**said.to_dict())


def _hint(session: Session, n_classes: int) -> str | None:
    """Say what is missing before anything can be predicted."""
    progress, vectors = session.engine.progress, session.engine.vectors
    if progress.problem is not None:
        return f"Background work has stopped: {progress.problem}"
    if n_classes == 0:
        return "Name a class and label a few items. The queue shows good items to start with."
    if n_classes == 1:
        return "Label at least one item of a second class. The rest is then labeled for you."
    if progress.predictions is None or not len(progress.predictions.class_ids):
        if vectors.finished and progress.settled == session.given.version:
            return "Fewer than two classes have labeled items that can be read. Label another item."
        return "Computing the first predictions."
    return None
