"""Label all items of a source: reading, encoding and labeling, in one call."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from laplacianshot import __version__
from laplacianshot.embedding.encoders import Encoder, open_encoder, open_text_side
from laplacianshot.embedding.encoding import Encoded, encode_items
from laplacianshot.estimator import LaplacianShot
from laplacianshot.labeling.classes import Classes, ClassNames, numbers_of, read_classes, read_prior, read_shares
from laplacianshot.labeling.core import LabelOptions, label_vectors
from laplacianshot.labeling.disputes import doubt_of_labels
from laplacianshot.labeling.errors import LabelingError, listed, one_line
from laplacianshot.labeling.labels import Given, merge_given, take_labels
from laplacianshot.labeling.language import language_note
from laplacianshot.labeling.model import LabelModel
from laplacianshot.labeling.outputs import renamed_columns
from laplacianshot.labeling.result import ARRAYS, GIVEN, PREDICTED, REJECTED, UNLABELED, LabelResult, Skipped, Stage
from laplacianshot.labeling.sources import PictureFolders, Source, open_source
from laplacianshot.runtime.extras import open_engine
from laplacianshot.runtime.files import user_cache
from laplacianshot.runtime.limits import LARGE_ROWS
from laplacianshot.runtime.progress import Progress, Watch
from laplacianshot.runtime.types import Floats, Ints


def label_source(
    source: str | PathLike[str] | Source | Any,
    labels: str | PathLike[str] | Mapping[Any, Any] | Any = None,
    *,
    encoder: str | None = None,
    text_column: str | None = None,
    id_column: str | None = None,
    label_column: str | None = None,
    classes_from_folders: bool | None = None,
    balanced: bool = False,
    suggest: int = 0,
    reject: float = 0.0,
    relabel: bool = False,
    classes: Classes | None = None,
    prior: str | PathLike[str] | Any = None,
    class_shares: str | PathLike[str] | Mapping[str, float] | ArrayLike | None = None,
    base_mean: ArrayLike | None = None,
    graph: str = "auto",
    memory: float | str | None = None,
    threads: int | None = None,
    cache: bool | str | PathLike[str] = True,
    engine: str = "local",
    address: str | None = None,
    run_folder: str | None = None,
    shards: int | None = None,
    watch: Watch | None = None,
) -> LabelResult:
    """Label all items of a source from the few that have a label, from the names of the classes, or from both.

    Parameters
    ----------
    source : path, DataFrame, array, sequence of str or Source
        A folder of pictures; a ``.csv``, ``.jsonl`` or ``.parquet`` with a column of texts; a ``.npy``, ``.npz`` or
        ``.parquet`` of vectors. In memory: a DataFrame of pandas or polars or a Table of pyarrow, with texts or
        vectors as in a ``.parquet``; an array (n, D); or texts. The ids of a DataFrame of pandas are its index.
    labels : path, DataFrame, mapping, Series or sequence, optional
        A table with the columns ``id`` and ``label``, a file or in memory; an export of Label Studio; a mapping, or a
        Series of pandas, from id to label; or a label for each item, with None where there is none. Ids may be whole
        numbers. Labels that the source itself holds, in a column ``label`` or as class folders, count as well.
    encoder : str, optional
        Network that turns pictures or texts into vectors; see :data:`laplacianshot.embedding.encoders.ENCODERS`.
    text_column, id_column, label_column : str, optional
        Columns of a table.
    classes_from_folders : bool, optional
        Whether the top folders of pictures are classes. By default they are not, unless every picture lies in a folder,
        one of these is called ``unlabeled`` and none is named by a date; a warning tells.
    balanced : bool
        All classes are known to be equally frequent among the unlabeled items.
    suggest : int
        Number of items to suggest for labeling next. Without any label, suggestions are all that is made.
    reject : float
        Share of the unlabeled items to leave without a label: those with the highest novelty.
    relabel : bool
        Report given labels that similar items contradict. They are kept either way.
    classes : sequence of str, mapping, str or path, optional
        Names of the classes: a list; a mapping from name to a description, a list of them or a vector; a text with
        commas; or a file with a class in each line, ``name`` or ``name: description``, or ``.npz`` with vectors. With
        them no label is needed. Pictures need an encoder with a text side.
    prior : path or DataFrame, optional
        Table with the scores of another model: a column ``id`` and one for each class, blank where there are none.
    class_shares : "equal", path, mapping of str to float, or array, optional
        How frequent the classes are among the unlabeled items; a file has the columns ``class`` and ``share``.
    base_mean : array of shape (D,), optional
        Center of the vectors (default: computed from them).
    graph : {"auto", "exact", "cells"}
        How neighbors are searched: exactly up to 50,000 items and approximately above, or in this way; see
        :class:`~laplacianshot.LaplacianShot`.
    memory : int, float or str, optional
        Bytes to keep to when labeling, besides the vectors, or text such as ``"8GB"``; MemoryError before the work
        starts where that is not possible.
    threads : int, optional
        Number of threads (default: all cores).
    cache : bool or path
        Keep vectors of pictures and texts, and finished stages of large sets, by content, in the user's cache folder,
        in no or in this folder.
    engine : {"local", "ray"}
        Where vectors are made and rows are labeled: on this machine or on a Ray cluster (extra ``ray``).
    address : str, optional
        Address of the cluster, ``host:port`` or ``auto`` (default: start one on this machine, and stop it at the end).
    run_folder : str, optional
        Path or URL that every node of the cluster can write to; finished stages are kept there.
    shards : int, optional
        Into how many parts the rows are cut for the cluster; one per CPU by default.
    watch : callable, optional
        ``watch(stage)`` is called when a stage starts and returns a callback ``progress(done, total)``.

    Returns
    -------
    LabelResult

    Raises
    ------
    LabelingError
        The input cannot be labeled; the message says why and what to do.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> vectors = np.repeat(np.eye(2, 8), 50, axis=0) + 0.1 * rng.standard_normal((100, 8))
    >>> label_source(vectors, {0: "left", 50: "right"})
    LabelResult(100 items, 2 classes: 2 given, 98 predicted)
    """
    options = LabelOptions(balanced, suggest, reject, base_mean, graph, memory)
    names = None if classes is None else read_classes(classes)
    with one_line():
        elsewhere = open_engine(engine, address=address, run_folder=run_folder, shards=shards)
        if elsewhere is not None:
            elsewhere.check()
    if elsewhere is not None and memory is not None:
        raise LabelingError("memory (--memory) is not supported on a cluster; use shards (--shards) instead.")
    stages: list[Stage] = []
    with _stage("Reading", watch, stages):
        if not isinstance(source, Source):
            source = open_source(
                source,
                text_column=text_column,
                id_column=id_column,
                label_column=label_column,
                classes_from_folders=classes_from_folders,
                labels_file=labels is not None,
            )
        others = None if labels is None else take_labels(labels, source)
        scores = None if prior is None else read_prior(prior, source)
        known = _known_classes(names, scores)
        given = merge_given(source, others, more_classes=bool(known))
        if not suggest and not any(given) and not known:
            if labels is None:
                fault, advice = str(source.path), f"give some with labels (--labels FILE){_or_folders(source)}"
            else:
                fault, advice = str(labels) if isinstance(labels, str | PathLike) else "labels", "fill in some"
            raise LabelingError(
                f"{fault}: no item has a label; {advice}, name the classes with classes (--classes), or ask which to "
                "label first with suggest (--suggest N)."
            )
        language = language_note(source, encoder)
        large = graph == "cells" or len(source) > LARGE_ROWS
        vectors_folder, checkpoint, cache_note = _cache_folders(cache if large or source.kind != "vectors" else False)
    with _stage("Vectors", watch, stages) as progress:
        side = None
        if names is not None and names.vectors is None and source.kind != "vectors":
            # Before all items are encoded: an encoder without a text side is an error.
            side = open_text_side(encoder, source.kind, threads=threads)
        encoded, opened = _encode(source, encoder, threads, vectors_folder, progress, elsewhere)
        vectors = None if names is None else names.encoded(side, source.kind, encoded.vectors.shape[1])
    with _stage("Labels", watch, stages):
        found_classes, codes, class_notes = _classes(source, given, encoded.rows, known)
        if names is not None:
            unnamed = [name for name in found_classes if name not in names.names]
            if scores is not None and unnamed:
                raise LabelingError(
                    f"prior (--prior) and classes (--classes) go together if all classes have a name; "
                    f"{listed(unnamed)} has none."
                )
            if unnamed:
                class_notes.append(f"Classes with labels that --classes does not name: {listed(unnamed)}.")
            options = replace(options, names=vectors, named=numbers_of(names.names, found_classes))
        if scores is not None:
            options = replace(options, prior=_scores_of(scores, found_classes, encoded.rows))
        options = replace(options, class_shares=read_shares(class_shares, found_classes))
        with nullcontext() if elsewhere is None and not known and class_shares is None else one_line():
            found = label_vectors(
                encoded.vectors,
                codes,
                len(found_classes),
                options,
                watch=watch,
                checkpoint=checkpoint if large else None,
                engine=None if elsewhere is None else partial(elsewhere.fit, source=_files(source)),
            )
    model = found.model
    origins = np.where(codes >= 0, GIVEN, UNLABELED if model is None else PREDICTED)
    origins[found.rejected] = REJECTED
    report = getattr(model, "graph_report_", None)
    settings = {
        "source": str(source.path),
        "kind": source.kind,
        "encoder": None if opened is None else opened.name,
        "balanced": balanced,
        "suggest": suggest,
        "reject": reject,
        "relabel": relabel,
        **({} if names is None else {"named_classes": len(names.names)}),
        **(
            {}
            if scores is None
            else {"prior": str(prior) if isinstance(prior, str | PathLike) else type(prior).__name__}
        ),
        "version": __version__,
        **({} if elsewhere is None else {"engine": engine}),
        **({} if report is None else {"graph": report.method, "graph_recall": report.recall}),
        "cached": encoded.n_cached,
    }
    doubt = "" if model is None else doubt_of_labels(found.probabilities, codes, model.solution_.answers)
    return LabelResult(
        ids=tuple(source.ids[row] for row in encoded.rows),
        classes=found_classes,
        origins=tuple(origins.tolist()),
        **{name: getattr(found, name) for name in ARRAYS},
        skipped=(*source.skipped, *(Skipped(source.ids[i], reason) for i, reason in encoded.failed)),
        notes=tuple(
            note for note in (language, cache_note, *encoded.notes, *class_notes, doubt, *_hint_notes(model)) if note
        ),
        objective=np.zeros(0) if model is None else model.objective_,
        converged=model is None or model.converged_,
        stages=tuple(stages),
        settings=settings,
        source=source,
        rows=encoded.rows,
        vectors=encoded.vectors,
        affinity=None if model is None else model.affinity_,
        center=None if model is None else model.center_,
        model=LabelModel.of_labels(found, codes, found_classes, source.kind, opened),
        expected_accuracy=found.expected_accuracy,
    )


@contextmanager
def _stage(name: str, watch: Watch | None, stages: list[Stage]) -> Iterator[Progress | None]:
    """Report a stage to ``watch``, and add the seconds it takes to ``stages``."""
    start = time.perf_counter()
    yield None if watch is None else watch(name)
    stages.append(Stage(name, time.perf_counter() - start))


def _cache_folders(cache: bool | str | PathLike[str]) -> tuple[Path | None, Path | None, str]:
    """Return where vectors and finished stages of large sets are kept, if at all, and a note for the user."""
    if cache is False:
        return None, None, ""
    if cache is not True:
        return Path(cache), Path(cache) / "stages", ""
    folder, note = user_cache()
    return folder / "vectors", folder / "stages", note


def _encode(
    source: Source,
    encoder: str | None,
    threads: int | None,
    folder: Path | None,
    progress: Progress | None,
    elsewhere: Any,
) -> tuple[Encoded, Encoder | None]:
    """Return the vectors of the items that can be read, and the encoder."""
    if source.kind == "vectors":
        if encoder is not None:
            raise LabelingError(f"encoder {encoder!r}: {source.path} holds vectors already; leave the encoder out.")
        assert source.vectors is not None
        return Encoded(source.vectors, np.arange(len(source))), None
    opened = open_encoder(encoder, source.kind, threads=threads)
    if elsewhere is None:
        encoded = encode_items(source, opened, folder, progress=progress)
    else:
        with one_line():
            encoded = elsewhere.encode(source, encoder, progress)
    if len(encoded.rows) == 0:
        reasons = listed(f"{source.ids[i]}: {reason}" for i, reason in encoded.failed)
        raise LabelingError(f"{source.path}: no item can be read: {reasons}.")
    return encoded, opened


def _known_classes(names: ClassNames | None, scores: tuple[tuple[str, ...], Floats] | None) -> set[str]:
    """Return the classes that a user names or has scores of."""
    return {*(() if names is None else names.names), *(() if scores is None else scores[0])}


def _scores_of(scores: tuple[tuple[str, ...], Floats], classes: tuple[str, ...], rows: Ints) -> Floats:
    """Return probabilities (m, C) of the rows that could be read, with the classes in order."""
    columns, P = scores
    missing = [name for name in classes if name not in columns]
    if missing:
        raise LabelingError(f"prior (--prior) has no column of the class {listed(missing)}; it needs one of each.")
    return P[rows][:, numbers_of(classes, columns)]


def _hint_notes(model: LaplacianShot | None) -> list[str]:
    """Return what names and scores counted for."""
    answers = None if model is None else model.solution_.answers
    return [] if answers is None else answers.of_knowledge()


def _classes(source: Source, given: Given, rows: Ints, known: set[str]) -> tuple[tuple[str, ...], Ints, list[str]]:
    """Return known classes and those of rows that could be read, sorted, the class number of each row, and notes."""
    labels = [given[row] for row in rows]
    classes = tuple(sorted({label for label in labels if label is not None} | known))
    number = {name: code for code, name in enumerate(classes)}
    codes = np.array([-1 if label is None else number[label] for label in labels], dtype=np.int64)
    lost = sorted({label for label in given if label is not None} - set(classes))
    if len(classes) == 1 and known:
        raise LabelingError(f"classes (--classes): {classes[0]!r} is the only class; name at least two.")
    if len(classes) == 1 or (lost and not classes):
        left = f" ({listed(lost)} had labels only on items that cannot be read)" if lost else ""
        only = f"all labels are of one class, {classes[0]!r}" if classes else "no label is left"
        raise LabelingError(f"{source.path}: {only}{left}; label at least one item of a second class.")
    notes = []
    if renamed := renamed_columns(source):
        columns = ", ".join(f"{old} is {new}" for old, new in renamed.items())
        notes.append(f"Columns of the source that have a name of ours get another in the output: {columns}.")
    if source.kind == "pictures" and any(source.given):
        notes.append(
            f"The folders are read as classes: {sum(map(bool, source.given)):,} pictures have the label of their "
            "folder; if they are not classes, use --folders-are-paths (classes_from_folders=False in Python)."
        )
    spelled = Counter(name.casefold() for name in classes)
    if alike := [name for name in classes if spelled[name.casefold()] > 1]:
        notes.append(f"Classes that differ only in case: {listed(alike)}; check whether they are the same.")
    if lost:
        notes.append(f"No item with the label {listed(lost)} can be read, so no item gets this label.")
    return classes, codes, notes


def _or_folders(source: Source) -> str:
    """Return the advice for pictures in several folders that were not read as classes."""
    if source.kind != "pictures":
        return ""
    n_folders = len(PictureFolders.of(source.path, source.ids).counts)
    return f", read its {n_folders} folders as classes (--classes-from-folders)" if n_folders >= 2 else ""


def _files(source: Source) -> list[str] | None:
    """Return the file that holds the rows as they are, which an engine may read itself."""
    return [str(source.path)] if source.kind == "vectors" and source.path.suffix.lower() == ".npy" else None
