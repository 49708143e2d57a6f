"""Paths that show items: pages, groups, details, pictures and the map."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import Field
from starlette.exceptions import HTTPException

from laplacianshot.studio import schemas, view
from laplacianshot.studio.changes import ActionError
from laplacianshot.studio.describe import detail_of, items_of
from laplacianshot.studio.schemas import Digits, Problem
from laplacianshot.studio.session import Session
from laplacianshot.studio.thumbnails import LARGEST, SIZES, SmallPicture

_MOST = 2**31 - 1
_LONGEST_SEARCH = 200

Index = Annotated[int, Path(ge=0, le=_MOST), Digits]
_NOT_FOUND: dict[int | str, dict[str, Any]] = {404: {"model": Problem, "description": "Not there"}}
_PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {}, "image/png": {}, "image/jpeg": {}}, "description": "A picture"},
    304: {"description": "As it was"},
    **_NOT_FOUND,
}
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {}}, "description": "Numbers, little endian"},
    **_NOT_FOUND,
}


def query_of(
    classes: Annotated[
        list[Annotated[int, Field(ge=-1, le=_MOST), Digits]] | None, Query(alias="class", max_length=1000)
    ] = None,
    origin: Annotated[list[schemas.OriginName] | None, Query(max_length=5)] = None,
    min_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    max_confidence: Annotated[float | None, Query(ge=0, le=1)] = None,
    search: Annotated[str, Query(max_length=_LONGEST_SEARCH)] = "",
    only: Annotated[view.Only | None, Query()] = None,
    sort: Annotated[view.Sort, Query()] = "index",
) -> view.Query:
    """Which items, in which order."""
    return view.Query(
        tuple(sorted(set(classes or ()))),
        tuple(sorted(set(origin or ()))),
        min_confidence,
        max_confidence,
        search,
        only,
        sort,
    )


Asked = Annotated[view.Query, Depends(query_of)]


def item_routes(session: Session) -> APIRouter:
    """The paths of a session's items."""
    router = APIRouter(prefix="/api", tags=["items"])

    @router.get("/items", responses=_NOT_FOUND)
    def items(
        query: Asked,
        offset: Annotated[int, Query(ge=0, le=_MOST), Digits] = 0,
        limit: Annotated[int, Query(ge=1, le=500), Digits] = 100,
        index: Annotated[list[Annotated[int, Field(ge=0, le=_MOST), Digits]] | None, Query(max_length=500)] = None,
    ) -> schemas.ItemPage:
        """A page of the items that a query asks for; or the items of these indices, as they are named."""
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
    def indices(query: Asked) -> schemas.IndexList:
        """All items that a query asks for, by index."""
        now = session.view()
        rows = session.catalog.select(now, query)
        return schemas.IndexList(revision=now.revision, total=len(rows), indices=rows.tolist())

    @router.get("/groups")
    def groups(query: Asked) -> schemas.GroupList:
        """How many of the items that a query asks for there are of each class."""
        now = session.view()
        rows = session.catalog.select(now, query)
        found = [
            schemas.GroupInfo.model_validate(
                asdict(group) | {"class": group.class_id if group.class_id != view.NO_CLASS else None}
            )
            for group in view.groups(now, rows, list(session.store.book.classes))
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
        """The picture of an item, small; never enlarged."""
        if size not in SIZES:
            raise ActionError(f"size: give one of {', '.join(map(str, SIZES))}.", 422)
        session.items([index])
        return _picture(session, request, session.thumbnails.get(index, size))

    @router.get("/items/{index}/picture", responses=_PICTURE, response_class=Response)
    def picture(request: Request, index: Index) -> Response:
        """The picture of an item, at most 2048 pixels wide and high."""
        session.items([index])
        return _picture(session, request, session.thumbnails.get(index, LARGEST))

    @router.get("/map", responses=_BYTES, response_class=Response)
    def places() -> Response:
        """A place in the plane for each item: float32 x, y, NaN where there is none yet."""
        progress = session.engine.progress
        if progress.places is None:
            raise HTTPException(404, "the map is not drawn yet.")
        return _numbers(progress.places.astype("<f4").tobytes(), progress.map_revision)

    @router.get("/map/labels", responses=_BYTES, response_class=Response)
    def map_labels() -> Response:
        """Arrays of all items: class id (int32, -1 none), confidence (float32, NaN none), origin and flags (uint8).

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
    # Under the key of this run an address always means the same picture; under none it may be another project's.
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
