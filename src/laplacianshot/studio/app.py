"""The web application around a session: the page's files, the project's state, its events, and one-line errors."""

from __future__ import annotations

import asyncio
import mimetypes
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.staticfiles import StaticFiles

from laplacianshot import __version__
from laplacianshot.studio import schemas
from laplacianshot.studio.routes import MAX_WAIT, action_routes, item_routes, state_of
from laplacianshot.studio.session import Session
from laplacianshot.web.access import Gate, Guard
from laplacianshot.web.errors import add_errors, problem

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


def create_app(session: Session, gate: Gate) -> FastAPI:
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
    files = _PageFiles()
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
    async def page(request: Request) -> Response:
        return await files.get_response("index.html", request.scope)

    app.mount("/page", files)
    add_errors(app)
    _add_disk_errors(app)
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


# Some systems have another type for scripts, which browsers would then not run.
mimetypes.add_type("text/javascript", ".js")


class _PageFiles(StaticFiles):
    """The page's own files, and the scripts that it shares with reports. Browsers ask whether a file has changed."""

    def __init__(self) -> None:
        super().__init__(packages=[("laplacianshot.studio", "page"), ("laplacianshot.ui", "page")])

    def file_response(self, *arguments: Any, **options: Any) -> Response:
        response = super().file_response(*arguments, **options)
        response.headers["cache-control"] = "no-cache"
        return response


def _add_disk_errors(app: FastAPI) -> None:
    """Report a full disk as one line."""

    @app.exception_handler(sqlite3.Error)
    def _(request: Request, error: sqlite3.Error) -> JSONResponse:
        return problem(503, f"the label could not be saved ({error}); free some disk space and try again.")
