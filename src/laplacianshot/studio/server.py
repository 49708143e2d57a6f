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

from laplacianshot.labeling.classes import Classes, ClassNames, read_classes
from laplacianshot.labeling.language import language_note
from laplacianshot.runtime.files import FolderLock, make_private, user_cache
from laplacianshot.studio.app import create_app
from laplacianshot.studio.change_log import FILE_NAME, ProjectError
from laplacianshot.studio.exporting import import_path, take_over
from laplacianshot.studio.names import NameVectors
from laplacianshot.studio.session import Session
from laplacianshot.web.access import Gate
from laplacianshot.web.server import run_app

if TYPE_CHECKING:
    from laplacianshot.embedding.encoders import Encoder
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
    classes: Classes | None = None,
    classes_from_folders: bool | None = None,
    note: Callable[[str], object] = lambda text: None,
) -> Iterator[Session]:
    """Open a session on a source, until the end of ``with``; a project can be open only once.

    ``labels`` is a file to import; items that have labels keep theirs. The default ``project`` is a folder in the
    user's cache, named after the source. ``encoder`` turns pictures or texts into vectors. ``classes`` are names to
    start from, as of :func:`~laplacianshot.label_source`. ``classes_from_folders`` is what the user said of the
    source's folders: if they are not classes, a project that holds their labels is freed of them. ``note`` is called
    with messages for the user.
    """
    from laplacianshot.embedding.encoders import open_encoder

    given = None if classes is None else read_classes(classes)

    cache, fault = user_cache()
    if fault:
        note(fault)
    folder = _project_folder(source.path, cache) if project is None else project
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
        names = _name_vectors(source, opened, encoder, threads, given)
        session = stack.enter_context(contextlib.closing(Session(source, opened, folder, cache / "vectors", names)))
        _take_given(session, labels, classes_from_folders, note)
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
