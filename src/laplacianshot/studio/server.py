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

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.files import FolderLock, make_private, user_cache
from laplacianshot.studio.app import create_app
from laplacianshot.studio.change_log import FILE_NAME, ProjectError
from laplacianshot.studio.exporting import import_path, take_over
from laplacianshot.studio.security import Gate
from laplacianshot.studio.session import Session

if TYPE_CHECKING:
    from fastapi import FastAPI

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
    classes_from_folders: bool | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Session]:
    """Open a session on a source, until the end of ``with``; a project can be open only once.

    ``labels`` is a file to import; items that have labels keep theirs. The default ``project`` is a folder in the
    user's cache, named after the source. ``encoder`` turns pictures or texts into vectors. ``classes_from_folders`` is
    what the user said of the source's folders: if they are not classes, a project that holds their labels is freed of
    them. ``note`` is called with messages for the user.
    """
    from laplacianshot.embedding.encoders import open_encoder

    cache, fault = user_cache()
    if fault:
        note(fault)
    folder = _project_folder(source.path, cache) if project is None else project
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
        session = stack.enter_context(contextlib.closing(Session(source, opened, folder, cache / "vectors")))
        _take_given(session, labels, classes_from_folders, note)
        session.start()
        yield session


def _take_given(
    session: Session, labels: Path | None, classes_from_folders: bool | None, note: Callable[[str], object]
) -> None:
    """Import the labels of the source, the first time or where the user asks for those of folders, and of a file."""
    source = session.source
    own = {name: label for name, label in zip(source.ids, source.given, strict=True) if label is not None}
    if own and (session.log.version == 0 or (classes_from_folders and not session.folder_labels)):
        take_over(session, own, "source", "Labels of the source")
    elif session.folder_labels and classes_from_folders is False:
        note(f"the labels of the folders were removed from the project: {session.free_of_folders().summary}.")
    elif session.folder_labels and classes_from_folders is None:
        note(
            f"{session.folder_labels:,} labels of this project are names of folders; if the folders are not classes, "
            "run again with --folders-are-paths."
        )
    if labels is None:
        return
    found = import_path(session, labels, replace=False)
    for text in found.notes:
        note(text)
    if found.kept:
        note(f"{found.kept:,} items of {labels} already have other labels in this project and keep them.")


def has_project(source: Path, project: Path | None) -> bool:
    """Whether a source has a project already, in the default folder or in this one."""
    folder = _project_folder(source, user_cache()[0]) if project is None else project
    return (folder / FILE_NAME).exists()


def _project_folder(source: Path, cache: Path) -> Path:
    """Return the default project folder of a source: its name, and a hash of its path."""
    path = source.resolve()
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
