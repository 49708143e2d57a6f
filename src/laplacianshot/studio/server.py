"""From a source to a page that can be opened."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import secrets
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from types import FrameType
from typing import TYPE_CHECKING

import uvicorn

from laplacianshot.runtime.errors import InputError
from laplacianshot.runtime.locks import FolderLock
from laplacianshot.runtime.user_cache import user_cache
from laplacianshot.studio.app import create_app
from laplacianshot.studio.change_log import ProjectError
from laplacianshot.studio.exporting import import_path, take_over
from laplacianshot.studio.security import Gate
from laplacianshot.studio.session import Folders, Session

if TYPE_CHECKING:
    from fastapi import FastAPI

    from laplacianshot.labeling.sources import Source

# Seconds that open requests get when the server ends.
_LAST_SECONDS = 3

# What to do with a project that is open already.
_IF_OPEN = "go on in its page, or end it with Ctrl-C, or name another folder for other labels with --project DIR"


class PortError(InputError):
    """An address that cannot be listened on, in one line."""


@contextmanager
def open_session(
    source: Source,
    *,
    labels: Path | None = None,
    project: Path | None = None,
    encoder: str | None = None,
    threads: int | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Session]:
    """A session on a source, at work until the end of ``with``; one at a time on a project.

    Parameters
    ----------
    source : Source
    labels : Path, optional
        A file of labels to take over; items that have others keep theirs.
    project : Path, optional
        Folder where labels are kept; one below the user's cache, by the path of the source, if not given.
    encoder : str, optional
        Name of what makes vectors of pictures and texts.
    threads : int, optional
    note : callable
        Given what the user should know besides.
    """
    from laplacianshot.embedding.encoders import open_encoder

    cache, fault = user_cache()
    if fault:
        note(fault)
    folder = project_folder(source, cache) if project is None else project
    opened = None
    if source.vectors is None and source.kind != "vectors":
        opened = open_encoder(encoder, source.kind, threads=threads)
    elif encoder is not None:
        raise ProjectError(f"encoder {encoder!r}: {source.path} holds vectors already; leave the encoder out.")
    lock = _taken(folder)
    try:
        session = Session(source, opened, Folders(folder, cache / "vectors"))
        try:
            _take_given(session, labels, note)
            session.start()
            yield session
        finally:
            session.close()
    finally:
        lock.release()


def _taken(folder: Path) -> FolderLock:
    """The lock of a project, whose folder is made if there is none."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return FolderLock(folder, ProjectError, holder="the studio", advice=_IF_OPEN).acquire()
    except OSError as error:
        raise ProjectError(f"--project {folder}: cannot be used ({error.strerror}); choose another folder.") from error


def _take_given(session: Session, labels: Path | None, note: Callable[[str], object]) -> None:
    """Labels that the source holds, at the first time, and those of a file."""
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
        note(f"{found.kept:,} items of {labels} have other labels here, and keep them.")


def project_folder(source: Source, cache: Path) -> Path:
    """Where the labels of a source are kept: by its name, to be found by people, and by its whole path."""
    path = source.path.resolve()
    digest = hashlib.blake2b(str(path).encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()
    name = "".join(mark if mark.isalnum() or mark in "-_." else "_" for mark in path.name)[:60]
    return cache / "studio" / f"{name or 'source'}-{digest}"


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens, or an error that says why there is none. Port 0 takes any that is free."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0][0]
        return socket.create_server((host, port), family=family, backlog=128)
    except socket.gaierror as error:
        raise PortError(f"--host {host}: there is no such address here ({error.strerror}).") from error
    except OverflowError as error:
        raise PortError(f"--port {port}: give a number from 0 to 65535.") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortError(
                f"--port {port} is in use on {host}, perhaps by another studio; name another one, or 0 for any."
            ) from error
        raise PortError(f"--host {host} --port {port}: cannot listen there ({error.strerror}).") from error


def serve(session: Session, host: str, listener: socket.socket, *, opened: Callable[[Gate], object]) -> None:
    """Serve a session until Ctrl-C or SIGTERM; ``opened`` is called with the gate once requests are answered."""
    gate = Gate(secrets.token_urlsafe(24), host, listener.getsockname()[1])
    app = create_app(session, gate)
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        server_header=False,
        ws="none",
        timeout_graceful_shutdown=_LAST_SECONDS,
        timeout_keep_alive=30,
        h11_max_incomplete_event_size=64 * 1024,
    )
    server = _Server(config, app, lambda: opened(gate))
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def open_browser(address: str) -> None:
    """Show the page, without waiting for the browser."""
    timer = Timer(0.1, webbrowser.open, [address])
    timer.daemon = True
    timer.start()


class _Server(uvicorn.Server):
    """A server that says when it is ready, and ends its events before it waits for them."""

    def __init__(self, config: uvicorn.Config, app: FastAPI, ready: Callable[[], object]) -> None:
        super().__init__(config)
        self._app, self._ready = app, ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.events.close()
        super().handle_exit(sig, frame)
