"""The HTTP API: every path, and how a session is described in its answers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Body, Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from laplacianshot.studio import exporting, schemas, view
from laplacianshot.studio.change_log import Action
from laplacianshot.studio.changes import ActionError
from laplacianshot.studio.schemas import Digits, Problem
from laplacianshot.studio.session import Session
from laplacianshot.studio.thumbnails import LARGEST, SIZES, SmallPicture
from laplacianshot.studio.view import GIVEN, ORIGINS, PREDICTED, View
from laplacianshot.ui.colors import class_color
from laplacianshot.ui.names import passage

# Maximum number of seconds that a request waits for background work.
MAX_WAIT = 30.0
_MAX_INT = 2**31 - 1
_MAX_SEARCH_LENGTH = 200
# Maximum number of characters of a text in the gallery, and of a whole text.
_SHORT, _LONG = 300, 100_000
# Number of classes and neighbors in the details of an item.
_CLASSES, _NEIGHBORS = 5, 12

Index = Annotated[int, Path(ge=0, le=_MAX_INT), Digits]
ClassPath = Annotated[int, Path(ge=1, le=_MAX_INT), Digits]
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not found"}}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {}, "image/png": {}, "image/jpeg": {}}, "description": "A picture"},
    304: {"description": "Not modified"},
    **_NOT_FOUND,
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "Arrays, little endian"},
    **_NOT_FOUND,
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    404: {"model": Problem, "description": "Not found"},
    409: {"model": Problem, "description": "Conflicts with the current state"},
}
_FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {
            "text/csv": {},
            "application/x-ndjson": {},
            "application/vnd.apache.parquet": {},
            "application/json": {},
            "application/xml": {},
        },
        "description": "The file",
    }
}


def query_of(
    classes: Annotated[
        list[Annotated[int, Field(ge=-1, le=_MAX_INT), Digits]] | None, Query(alias="class", max_length=1000)
    ] = None,
    origin: Annotated[list[schemas.OriginName] | None, Query(max_length=5)] = None,
    min_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    max_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    search: Annotated[str, Query(max_length=_MAX_SEARCH_LENGTH)] = "",
    only: Annotated[view.Only | None, Query()] = None,
    sort: Annotated[view.Sort, Query()] = "index",
) -> view.Query:
    """Read a query from the parameters of the address."""
    return view.Query(
        tuple(sorted(set(classes or ()))),
        tuple(sorted(set(origin or ()))),
        min_confidence,
        max_confidence,
        search,
        only,
        sort,
    )


QueryParams = Annotated[view.Query, Depends(query_of)]


def item_routes(session: Session) -> APIRouter:
    """Paths that show items: pages, groups, details, pictures and the map."""
    router = APIRouter(prefix="/api", tags=["items"])

    @router.get("/items", responses=_NOT_FOUND)
    def items(
        query: QueryParams,
        offset: Annotated[int, Query(ge=0, le=_MAX_INT), Digits] = 0,
        limit: Annotated[int, Query(ge=1, le=500), Digits] = 100,
        index: Annotated[list[Annotated[int, Field(ge=0, le=_MAX_INT), Digits]] | None, Query(max_length=500)] = None,
    ) -> schemas.ItemPage:
        """One page of the items that match a query, or the items at the given indices."""
        now = session.view()
        if index:
            session.items(index)
            return schemas.ItemPage(
                **_versions(session, now), total=len(index), offset=0, items=items_of(session, now, index)
            )
        rows = session.catalog.select(now, query)
        return schemas.ItemPage(
            **_versions(session, now),
            total=len(rows),
            offset=offset,
            items=items_of(session, now, rows[offset : offset + limit].tolist()),
        )

    @router.get("/indices")
    def indices(query: QueryParams) -> schemas.IndexList:
        """The indices of all items that match a query."""
        now = session.view()
        rows = session.catalog.select(now, query)
        return schemas.IndexList(revision=now.revision, total=len(rows), indices=rows.tolist())

    @router.get("/groups")
    def groups(query: QueryParams) -> schemas.GroupList:
        """The number of matching items per class."""
        now = session.view()
        rows = session.catalog.select(now, query)
        found = [
            schemas.GroupInfo.model_validate(
                asdict(group) | {"class": group.class_id if group.class_id != view.NO_CLASS else None}
            )
            for group in view.groups(now, rows, list(session.log.state.classes))
        ]
        return schemas.GroupList(**_versions(session, now), total=len(rows), groups=found)

    @router.get("/items/{index}", responses=_NOT_FOUND)
    def item(index: Index) -> schemas.ItemDetail:
        """One item, with its whole text, its most probable classes and its nearest neighbors."""
        session.items([index])
        return detail_of(session, index)

    @router.get("/items/{index}/thumbnail", responses=_PICTURE, response_class=Response)
    def thumbnail(
        request: Request,
        index: Index,
        size: Annotated[int, Query(json_schema_extra={"enum": list(SIZES)}), Digits] = 128,
    ) -> Response:
        """A small version of an item's picture; never enlarged."""
        if size not in SIZES:
            raise ActionError(f"size must be one of {', '.join(map(str, SIZES))}.", 422)
        session.items([index])
        return _picture(session, request, session.thumbnails.get(index, size))

    @router.get("/items/{index}/picture", responses=_PICTURE, response_class=Response)
    def picture(request: Request, index: Index) -> Response:
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

        Origins are 0 waiting, 1 unlabeled, 2 predicted, 3 given, 4 failed; of the flags bit 0 is disputed and bit 1
        strange.
        """
        now = session.view()
        flags = (now.disputes >= 0).astype(np.uint8) | (now.strange.astype(np.uint8) << 1)
        arrays = (now.classes.astype("<i4"), now.confidence.astype("<f4"), now.origins, flags)
        return _numbers(b"".join(array.tobytes() for array in arrays), now.revision)

    return router


def _versions(session: Session, now: view.View) -> dict[str, int]:
    return {
        "version": session.given.version,
        "predicted": session.engine.progress.predicted,
        "revision": now.revision,
    }


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


def action_routes(session: Session) -> APIRouter:
    """Paths that change labels and classes, and those that import and export them."""
    router = APIRouter(prefix="/api", tags=["actions"])

    def done(action: Action) -> schemas.Done:
        return schemas.Done(state=state_of(session), action=action_info(action))

    @router.post("/label", responses=_RESPONSES)
    def label(body: schemas.LabelByClass | schemas.LabelByName) -> schemas.Done:
        """Label items, or remove their labels."""
        if isinstance(body, schemas.LabelByName):
            return done(session.label_by_name(body.items, body.name))
        if body.class_id is None:
            return done(session.clear(body.items))
        return done(session.label(body.items, body.class_id))

    @router.post("/accept", responses=_RESPONSES)
    def accept(body: schemas.AcceptItems | schemas.AcceptConfident) -> schemas.Done:
        """Turn predictions into given labels."""
        if isinstance(body, schemas.AcceptItems):
            return done(session.accept(body.items))
        return done(session.accept_confident(body.min_confidence, body.class_id))

    @router.post("/classes", responses=_RESPONSES)
    def add_class(body: schemas.ClassRequest) -> schemas.Done:
        """Add a class."""
        return done(session.add_class(body.name))

    @router.patch("/classes/{class_id}", responses=_RESPONSES)
    def rename_class(class_id: ClassPath, body: schemas.ClassRequest) -> schemas.Done:
        """Rename a class."""
        return done(session.rename_class(class_id, body.name))

    @router.post("/classes/{class_id}/merge", responses=_RESPONSES)
    def merge_classes(class_id: ClassPath, body: schemas.MergeRequest) -> schemas.Done:
        """Merge a class into another one."""
        return done(session.merge_classes(class_id, body.into))

    @router.delete("/classes/{class_id}", responses=_RESPONSES)
    def delete_class(class_id: ClassPath) -> schemas.Done:
        """Delete a class and its labels."""
        return done(session.delete_class(class_id))

    @router.post("/undo", responses=_RESPONSES)
    def undo(body: schemas.StepsRequest) -> schemas.Done:
        """Undo the last action, or several."""
        return done(session.turn_back(body.steps))

    @router.post("/redo", responses=_RESPONSES)
    def redo(body: schemas.StepsRequest) -> schemas.Done:
        """Redo what was undone."""
        return done(session.turn_back(body.steps, redo=True))

    @router.get("/history")
    def history(
        offset: Annotated[int, Query(ge=0, le=_MAX_INT), Digits] = 0,
        limit: Annotated[int, Query(ge=1, le=500), Digits] = 100,
    ) -> schemas.History:
        """Past actions, the newest first."""
        found = session.log.history(offset, limit)
        total = session.log.version
        return schemas.History(version=total, total=total, actions=[action_info(action) for action in found])

    @router.post("/import", responses=_RESPONSES)
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
        return schemas.Imported(
            state=state_of(session),
            action=action_info(found.action),
            imported=found.imported,
            kept=found.kept,
            notes=list(found.notes),
        )

    @router.get("/export", responses=_FILE, response_class=Response)
    def export(
        format: Annotated[schemas.ExportName, Query()] = "csv", disputes: Annotated[bool, Query()] = False
    ) -> Response:
        """All labels, in the format of ``laplacianshot label`` or as Label Studio tasks.

        Waits up to 30 seconds for the full prediction that follows the last action.
        """
        session.engine.wait_until_whole(MAX_WAIT)
        made = exporting.export(session, format, disputes=disputes)
        headers = {"content-disposition": f'attachment; filename="{made.name}"'}
        return Response(made.content, media_type=made.media_type, headers=headers)

    return router


def state_of(session: Session) -> schemas.State:
    """Describe the project at this moment."""
    now, state, progress = session.view(), session.log.state, session.engine.progress
    vectors, source = session.engine.vectors, session.source
    given, predicted = now.by_class(GIVEN), now.by_class(PREDICTED)
    undo, redo = session.log.next_undo, session.log.next_redo
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
                light=class_color(entry.color).light,
                dark=class_color(entry.color).dark,
                given=given.get(id, 0),
                predicted=predicted.get(id, 0),
            )
            for id, entry in state.classes.items()
        ],
        counts=schemas.Counts(**now.counts()),
        accuracy=_accuracy(session),
        undo=None if undo is None else action_info(undo),
        redo=None if redo is None else action_info(redo),
        map=schemas.MapInfo(ready=progress.places is not None, revision=progress.map_revision),
        hint=_hint(session, len(given)),
        seconds=progress.seconds,
    )


def action_info(action: Action) -> schemas.ActionInfo:
    """Describe an action of the history."""
    return schemas.ActionInfo.model_validate(action, from_attributes=True)


def items_of(session: Session, now: View, rows: Iterable[int]) -> list[schemas.ItemInfo]:
    """Describe the items at these positions."""
    return [schemas.ItemInfo.model_validate(_item(session, now, i, _SHORT)) for i in rows]


def detail_of(session: Session, i: int) -> schemas.ItemDetail:
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
                    likely = {"class": class_id, "probability": float(predictions.probabilities[row, column])}
                    probabilities.append(schemas.ClassProbability.model_validate(likely))
    item = _item(session, now, i, _LONG)
    return schemas.ItemDetail.model_validate(item | {"probabilities": probabilities, "neighbors": neighbors})


def _item(session: Session, now: View, i: int, max_length: int) -> dict[str, object]:
    class_id, confidence, dispute = int(now.classes[i]), float(now.confidence[i]), int(now.disputes[i])
    given = session.log.state.labels.get(session.source.ids[i])
    text = None
    if session.source.kind == "texts":
        whole = _utf8(str(session.source.preview(i)))
        text = passage(whole, max_length) if max_length == _SHORT else whole[:max_length]
    return {
        "index": i,
        "id": session.source.ids[i],
        "text": text,
        "class": class_id if class_id >= 0 else None,
        "origin": ORIGINS[now.origins[i]],
        "how": None if given is None else given.how,
        "confidence": None if math.isnan(confidence) else round(confidence, 6),
        "dispute": dispute if dispute >= 0 else None,
        "strange": bool(now.strange[i]),
        "suggestion": int(now.suggestions[i]),
        "reason": session.engine.vectors.failed.get(i),
    }


def _utf8(text: str) -> str:
    """Replace halves of characters, which JSON can contain and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _accuracy(session: Session) -> schemas.Accuracy | None:
    progress = session.engine.progress
    predictions, held_back = progress.predictions, progress.accuracy
    if predictions is None or not len(predictions.class_ids):
        return None
    expected = predictions.expected_accuracy(session.given.classes[predictions.cache.positions] >= 0)
    if held_back is None:
        return schemas.Accuracy(estimate=None, low=None, high=None, right=0, checked=0, expected=expected)
    low, high = held_back.interval
    return schemas.Accuracy(
        estimate=held_back.estimate,
        low=low,
        high=high,
        right=held_back.right,
        checked=held_back.checked,
        expected=expected,
    )


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
