"""The web around a session: the page, the state and its events, and every error as one line."""

from __future__ import annotations

import sqlite3
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from laplacianshot import __version__
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.studio import schemas
from laplacianshot.studio.assets import Asset, Assets
from laplacianshot.studio.changes import ActionError
from laplacianshot.studio.describe import state_of
from laplacianshot.studio.events import Bell
from laplacianshot.studio.routes_actions import PATIENCE, action_routes
from laplacianshot.studio.routes_items import item_routes
from laplacianshot.studio.security import Gate, Guard
from laplacianshot.studio.session import Session
from laplacianshot.studio.thumbnails import NoPicture

_RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": words}
    for code, words in {
        400: "Not a request that can be read",
        401: "No token",
        403: "Of another page, or for another host",
        413: "Too large",
        422: "Not what is expected",
        503: "Cannot be done now",
    }.items()
}


def create_app(session: Session, gate: Gate, *, assets: Assets | None = None) -> FastAPI:
    """The application of a session behind a gate. ``app.state.bell`` ends its events when it is closed."""
    app = FastAPI(
        title="laplacianshot studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_RESPONSES,
    )
    bell = Bell()
    app.state.bell = bell
    session.listen(bell.ring)
    files = Assets() if assets is None else assets
    app.include_router(item_routes(session))
    app.include_router(action_routes(session))

    @app.get("/api/state", tags=["state"])
    def state(settled: Annotated[bool, Query()] = False) -> schemas.State:
        """The project at this moment; ``settled`` waits, at most 30 seconds, until nothing is left to do."""
        if settled:
            session.engine.wait_until_settled(PATIENCE)
        return state_of(session)

    @app.get("/api/events", tags=["state"], include_in_schema=False)
    async def events() -> StreamingResponse:
        async def tell() -> str:
            return await run_in_threadpool(lambda: state_of(session).model_dump_json())

        return StreamingResponse(bell.stream(tell), media_type="text/event-stream")

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        return _served(files.get("index.html"), request)

    @app.get("/page/{name:path}", include_in_schema=False)
    def file(name: str, request: Request) -> Response:
        return _served(files.get(name), request)

    _add_errors(app)
    app.add_middleware(Guard, gate=gate)
    return app


def _served(asset: Asset | None, request: Request) -> Response:
    if asset is None:
        raise HTTPException(404, "there is no such file.")
    headers = {"etag": f'"{asset.tag}"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _add_errors(app: FastAPI) -> None:
    """Every error as one line under ``detail``."""

    @app.exception_handler(ActionError)
    def _(request: Request, error: ActionError) -> JSONResponse:
        return _problem(error.code, str(error))

    @app.exception_handler(NoPicture)
    def _(request: Request, error: NoPicture) -> JSONResponse:
        return _problem(404, str(error))

    @app.exception_handler(LabelingError)
    def _(request: Request, error: LabelingError) -> JSONResponse:
        return _problem(422, str(error))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"][1:]) or str(first["loc"][0])
        # Pydantic puts the kind of error before messages of ours.
        return _problem(422, f"{place}: {first['msg'].removeprefix('Value error, ')}")

    @app.exception_handler(sqlite3.Error)
    def _(request: Request, error: sqlite3.Error) -> JSONResponse:
        return _problem(503, f"labels cannot be kept ({error}); make room on the disk and try again.")

    @app.exception_handler(OSError)
    def _(request: Request, error: OSError) -> JSONResponse:
        return _problem(503, f"the disk does not let this be done ({error.strerror or type(error).__name__}).")


def _problem(status: int, detail: str) -> JSONResponse:
    line = " ".join(detail.split()).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": line[:1000]}, status_code=status)
