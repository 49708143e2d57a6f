"""Open a project and serve its page."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import socket
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING

from laplacianshot.labeling.language import language_note
from laplacianshot.runtime.files import FolderLock, make_private, user_cache
from laplacianshot.studio.app import create_app
from laplacianshot.studio.change_log import ProjectError
from laplacianshot.studio.exporting import import_path, take_over
from laplacianshot.studio.session import Session
from laplacianshot.web.access import Gate
from laplacianshot.web.server import run_app

if TYPE_CHECKING:
    from laplacianshot.labeling.sources import Source

_IF_OPEN = "use its page, stop it with Ctrl-C, or choose another folder with --project DIR"


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
    """Open a session on a source, until the end of ``with``; a project can be open only once.

    ``labels`` is a file to import; items that have labels keep theirs. The default ``project`` is a folder in the
    user's cache, named after the source. ``encoder`` turns pictures or texts into vectors. ``note`` is called with
    messages for the user.
    """
    from laplacianshot.embedding.encoders import open_encoder

    cache, fault = user_cache()
    if fault:
        note(fault)
    folder = _project_folder(source, cache) if project is None else project
    opened = None
    if source.vectors is None and source.kind != "vectors":
        opened = open_encoder(encoder, source.kind, threads=threads)
        if language := language_note(source, encoder):
            note(language)
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
        _take_given(session, labels, note)
        session.start()
        yield session


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


def serve(session: Session, host: str, listener: socket.socket, *, opened: Callable[[Gate], object]) -> None:
    """Serve a session until Ctrl-C or SIGTERM; calls ``opened`` with the gate once the server is ready."""
    gate = Gate(secrets.token_urlsafe(24), host, listener.getsockname()[1])
    app = create_app(session, gate)
    # Event streams end before the server does.
    run_app(app, listener, ready=lambda: opened(gate), stopping=app.state.events.close)


def open_browser(address: str) -> None:
    """Open the page in a browser, without waiting for it."""
    timer = Timer(0.1, webbrowser.open, [address])
    timer.daemon = True
    timer.start()
