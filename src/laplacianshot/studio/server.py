"""Open a project and serve its page."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import secrets
import socket
import sys
import time
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn

from laplacianshot.labeling.classes import Classes, ClassNames, read_classes
from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.files import FolderLock, make_private, user_cache
from laplacianshot.studio.app import create_app
from laplacianshot.studio.change_log import ProjectError
from laplacianshot.studio.exporting import import_path, take_over
from laplacianshot.studio.names import NameVectors
from laplacianshot.studio.security import Gate
from laplacianshot.studio.session import Session

if TYPE_CHECKING:
    from fastapi import FastAPI

    from laplacianshot.embedding.encoders import Encoder
    from laplacianshot.labeling.sources import Source

# Seconds that open requests have when the server stops.
_LAST_SECONDS = 3
# Seconds in which a client must have sent a request, from its connection or its last request on.
_MAX_WAITING = 60.0
# Open connections: a browser takes six. Each has a file of the process, and so have databases, pictures and threads.
_MAX_CONNECTIONS, _OTHER_FILES = 512, 64
# Connections that are accepted at once.
_BACKLOG = 32

_IF_OPEN = "use its page, stop it with Ctrl-C, or choose another folder with --project DIR"


class PortError(InputError):
    """The server cannot listen on an address; the message is one line."""


@contextmanager
def open_session(
    source: Source,
    *,
    labels: Path | None = None,
    project: Path | None = None,
    encoder: str | None = None,
    threads: int | None = None,
    classes: Classes | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Session]:
    """Open a session on a source, until the end of ``with``; a project can be open only once.

    ``labels`` is a file to import; items that have labels keep theirs. The default ``project`` is a folder in the
    user's cache, named after the source. ``encoder`` turns pictures or texts into vectors. ``classes`` are names to
    start from, as of :func:`~laplacianshot.label_source`. ``note`` is called with messages for the user.
    """
    from laplacianshot.embedding.encoders import open_encoder

    given = None if classes is None else read_classes(classes)

    cache, fault = user_cache()
    if fault:
        note(fault)
    folder = _project_folder(source, cache) if project is None else project
    opened = None
    if source.vectors is None and source.kind != "vectors":
        opened = open_encoder(encoder, source.kind, threads=threads)
    elif encoder is not None:
        raise ProjectError(f"encoder {encoder!r}: {source.path} contains vectors already; remove the encoder.")
    with contextlib.ExitStack() as stack:
        try:
            make_private(folder)
            stack.enter_context(FolderLock(folder, ProjectError, holder="the studio", advice=_IF_OPEN))
        except OSError as error:
            message = f"--project {folder}: cannot be used ({error.strerror}); choose another folder."
            raise ProjectError(message) from error
        names = _name_vectors(source, opened, encoder, threads, given)
        session = stack.enter_context(contextlib.closing(Session(source, opened, folder, cache / "vectors", names)))
        _take_given(session, labels, note)
        if given is not None:
            session.name_classes(given)
            if names.problem is not None:
                note(f"the classes of --classes are there, but their names count for nothing: {names.problem}")
        session.start()
        yield session


def _name_vectors(
    source: Source, opened: Encoder | None, encoder: str | None, threads: int | None, given: ClassNames | None
) -> NameVectors:
    """Return what reads names of classes for this source."""
    from laplacianshot.embedding.encoders import EncoderError, check_text_side, open_text_side

    if source.kind == "vectors" or opened is None:
        if given is None or given.vectors is None:
            problem = "the items are vectors; start with --classes FILE.npz, which has vectors of the names."
            return NameVectors("texts", problem=problem)
        assert source.vectors is not None
        unit = given.encoded(None, source.kind, source.vectors.shape[1])
        return NameVectors("texts", given=dict(zip(given.names, unit, strict=True)))
    if given is not None and given.vectors is not None:
        raise ProjectError("--classes holds vectors, and the items are encoded here; give names or descriptions.")
    if source.kind == "texts":
        return NameVectors("texts", lambda: opened)
    try:
        check_text_side(encoder)
    except EncoderError as error:
        return NameVectors("pictures", problem=str(error))
    return NameVectors("pictures", lambda: open_text_side(encoder, "pictures", threads=threads))


def _take_given(session: Session, labels: Path | None, note: Callable[[str], object]) -> None:
    """Import the labels of the source, the first time, and those of a file."""
    source = session.source
    own = {name: label for name, label in zip(source.ids, source.given, strict=True) if label is not None}
    if own and session.log.version == 0:
        take_over(session, own, "source", "Labels of the source")
    if labels is None:
        return
    found = import_path(session, labels, replace=False)
    for text in found.notes:
        note(text)
    if found.kept:
        note(f"{found.kept:,} items of {labels} already have other labels in this project and keep them.")


def _project_folder(source: Source, cache: Path) -> Path:
    """Return the default project folder of a source: its name, and a hash of its path."""
    path = source.path.resolve()
    digest = hashlib.blake2b(str(path).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    name = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in path.name)[:60]
    return cache / "studio" / f"{name or 'source'}-{digest}"


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0 selects any free port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror as error:
        raise PortError(f"--host {host}: not an address of this machine ({error.strerror}).") from error
    except OverflowError as error:
        raise PortError(f"--port {port}: must be from 0 to 65535.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortError(
                f"--port {port} is in use on {host}, perhaps by another studio; choose another one, or 0 for any."
            ) from error
        raise PortError(f"--host {host} --port {port}: cannot listen there ({error.strerror}).") from error


def serve(session: Session, host: str, listener: socket.socket, *, opened: Callable[[Gate], object]) -> None:
    """Serve a session until Ctrl-C or SIGTERM; calls ``opened`` with the gate once the server is ready."""
    gate = Gate(secrets.token_urlsafe(24), host, listener.getsockname()[1])
    app = create_app(session, gate)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        # The protocol that every install of uvicorn has, and whose connections can be limited.
        http="h11",
        ws="none",
        timeout_graceful_shutdown=_LAST_SECONDS,
        timeout_keep_alive=30,
        backlog=_BACKLOG,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config, app, lambda: opened(gate))
    config.load()
    config.http_protocol_class = _limited(config.http_protocol_class, _max_connections())
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def open_browser(address: str) -> None:
    """Open the page in a browser, without waiting for it."""
    timer = Timer(0.1, webbrowser.open, [address])
    timer.daemon = True
    timer.start()


def _max_connections() -> int:
    """Connections that leave enough files for the rest of the process."""
    if sys.platform == "win32":
        return _MAX_CONNECTIONS
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return max(_BACKLOG, min(_MAX_CONNECTIONS, files - _BACKLOG - _OTHER_FILES))


def _limited(protocol: Any, limit: int) -> Any:
    """Return a protocol of uvicorn with at most ``limit`` connections; the one that waits longest makes room."""

    class Limited(protocol):  # type: ignore[misc]
        def connection_made(self, transport: Any) -> None:
            self.opened = time.monotonic()
            super().connection_made(transport)
            if len(self.connections) > limit:
                silent = [one for one in self.connections if one.cycle is None]
                oldest = min(silent, key=lambda one: one.opened)
                self.connections.discard(oldest)
                oldest.transport.abort()

    return Limited


class _Server(uvicorn.Server):
    """A server that reports when it is ready, drops silent clients, and ends its event streams before it stops."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._app, self._ready = app, ready
        # Connections that wait for a request: their last one, and since when.
        self._waiting: dict[Any, tuple[Any, float]] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._drop_silent(time.monotonic())
        return await super().on_tick(counter)

    def _drop_silent(self, now: float) -> None:
        """Close connections on which no request was completed for too long; uvicorn waits for ever."""
        before, self._waiting = self._waiting, {}
        connections: list[Any] = list(self.server_state.connections)
        for connection in connections:
            last = connection.cycle
            if last is not None and not last.response_complete and not last.more_body:
                continue  # being answered
            known, since = before.get(connection, (last, now))
            since = since if known is last else now
            self._waiting[connection] = last, since
            if now - since > _MAX_WAITING:
                connection.transport.abort()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.events.close()
        super().handle_exit(sig, frame)
