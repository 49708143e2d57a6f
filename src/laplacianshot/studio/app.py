"""The web application around a session: the page's files, the project's state, its events, and one-line errors."""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from laplacianshot import __version__, ui
from laplacianshot.labeling.errors import LabelingError
from laplacianshot.studio import schemas
from laplacianshot.studio.changes import ActionError
from laplacianshot.studio.routes import MAX_WAIT, action_routes, item_routes, state_of
from laplacianshot.studio.security import Gate, Guard
from laplacianshot.studio.session import Session
from laplacianshot.studio.thumbnails import NoPicture

# The page's own files, and the scripts that it shares with reports; both are served below /page/.
PAGE_FOLDERS = (Path(__file__).parent / "page", Path(ui.__file__).parent / "page")

_MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".webmanifest": "application/manifest+json",
    ".woff2": "font/woff2",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    code: {"model": schemas.Problem, "description": words}
    for code, words in {
        400: "Malformed request",
        401: "Missing or wrong token",
        403: "Request from another page, or for another host",
        413: "Request body too large",
        422: "Invalid parameters",
        503: "Not possible right now",
    }.items()
}
# Minimum number of seconds between two events, and the quiet time after which a comment keeps the connection open.
_MIN_EVENT_GAP = 0.03
_KEEP_ALIVE = 15.0


def create_app(session: Session, gate: Gate, *, assets: Assets | None = None) -> FastAPI:
    """Build the application of a session behind a gate. ``app.state.events.close()`` ends its event streams."""
    app = FastAPI(
        title="laplacianshot studio",
        version=__version__,
        openapi_url="/api/openapi.json",
        docs_url=None,
        redoc_url=None,
        responses=_RESPONSES,
    )
    event_stream = EventStream()
    app.state.events = event_stream
    session.listen(event_stream.notify)
    files = Assets() if assets is None else assets
    app.include_router(item_routes(session))
    app.include_router(action_routes(session))

    @app.get("/api/state", tags=["state"])
    def state(settled: Annotated[bool, Query()] = False) -> schemas.State:
        """The project at this moment; ``settled`` waits up to 30 seconds until all background work is done."""
        if settled:
            session.engine.wait_until_settled(MAX_WAIT)
        return state_of(session)

    @app.get("/api/events", tags=["state"], include_in_schema=False)
    async def events() -> StreamingResponse:
        async def message() -> str:
            return await run_in_threadpool(lambda: state_of(session).model_dump_json())

        return StreamingResponse(event_stream.stream(message), media_type="text/event-stream")

    @app.get("/", include_in_schema=False)
    def page(request: Request) -> Response:
        return _file_response(files.get("index.html"), request)

    @app.get("/page/{name:path}", include_in_schema=False)
    def file(name: str, request: Request) -> Response:
        return _file_response(files.get(name), request)

    _add_errors(app)
    app.add_middleware(Guard, gate=gate)
    return app


class EventStream:
    """Server-sent events: any thread calls :meth:`notify`, and every open stream sends the new state."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self.closing = False

    def notify(self) -> None:
        """Wake every open stream."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """End every open stream."""
        self.closing = True
        self.notify()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def stream(self, message: Callable[[], Awaitable[str]]) -> AsyncIterator[bytes]:
        """Send what ``message`` returns, at once and after each change, with a short pause in between."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            event.set()
            while not self.closing:
                try:
                    await asyncio.wait_for(event.wait(), _KEEP_ALIVE)
                except TimeoutError:
                    yield b": quiet\n\n"
                    continue
                event.clear()
                if self.closing:
                    break
                yield f"event: state\ndata: {await message()}\n\n".encode()
                await asyncio.sleep(_MIN_EVENT_GAP)
            yield b"event: bye\ndata: {}\n\n"
        finally:
            self._waiting.discard(event)


@dataclass(frozen=True)
class Asset:
    """A file of the page: its bytes, media type and hash."""

    content: bytes
    media_type: str
    tag: str


class Assets:
    """The page's files by their path below a folder. They are listed once, so no other path can be requested."""

    def __init__(self, folders: Sequence[Path] = PAGE_FOLDERS) -> None:
        self._files = {
            path.relative_to(folder).as_posix(): path
            for folder in folders
            for path in sorted(folder.rglob("*"))
            if path.suffix in _MEDIA_TYPES and path.is_file() and not path.is_symlink()
        }

    def get(self, name: str) -> Asset | None:
        """Return the file of that name, or None."""
        path = self._files.get(name)
        if path is None:
            return None
        content = path.read_bytes()
        return Asset(content, _MEDIA_TYPES[path.suffix], hashlib.blake2b(content, digest_size=8).hexdigest())


def _file_response(asset: Asset | None, request: Request) -> Response:
    if asset is None:
        raise HTTPException(404, "there is no such file.")
    headers = {"etag": f'"{asset.tag}"', "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == headers["etag"]:
        return Response(status_code=304, headers=headers)
    return Response(asset.content, media_type=asset.media_type, headers=headers)


def _add_errors(app: FastAPI) -> None:
    """Report every error as one line under ``detail``."""

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
        # Pydantic puts the kind of error before our own messages.
        return _problem(422, f"{place}: {first['msg'].removeprefix('Value error, ')}")

    @app.exception_handler(sqlite3.Error)
    def _(request: Request, error: sqlite3.Error) -> JSONResponse:
        return _problem(503, f"the label could not be saved ({error}); free some disk space and try again.")

    @app.exception_handler(OSError)
    def _(request: Request, error: OSError) -> JSONResponse:
        return _problem(503, f"a file could not be read or written ({error.strerror or type(error).__name__}).")


def _problem(status: int, detail: str) -> JSONResponse:
    line = " ".join(detail.split()).encode("utf-8", "replace").decode()
    return JSONResponse({"detail": line[:1000]}, status_code=status)
