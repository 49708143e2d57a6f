"""Work whose n-th call to the disk fails: ``python -m tests.attack.faulty WORK FOLDER STRIDE``, with the shim loaded.

Each case is a child forked from this process, whose n-th open, write, fsync or rename below a folder fails with
ENOSPC, EIO or EACCES, once or from then on. Afterward nothing that was acknowledged may be lost, and nothing may be
half-written. Prints the number of cases.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import io
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from laplacianshot.cli.app import run
from laplacianshot.datasets.feature_store import FeatureStore, Manifest, StoreError, StoreKey, lock_store, write_files
from laplacianshot.embedding.vector_cache import VectorCache
from laplacianshot.runtime.keyed_folder import KeyedFolder
from laplacianshot.studio.change_log import ChangeLog, ProjectError

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)
OLD = b"written before\n"
N_ROWS = 40


class Work:
    """What is done under faults. A folder is prepared, the work done in a child, and its outcome checked."""

    # Whether it is done once before the first fork, so that no child has to import and compile for itself.
    warm = False

    def prepare(self, folder: Path) -> None:
        """Put what the work needs into a folder."""

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        """Do the work; what is acknowledged is passed to ``say``."""
        raise NotImplementedError

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        """Assert that nothing is lost and nothing half-written."""
        raise NotImplementedError


def rows() -> tuple[np.ndarray, np.ndarray]:
    """Vectors of two clusters, and their labels, most of them unknown."""
    truth = np.arange(N_ROWS) % 2
    X = np.eye(2, 4)[truth] * 3 + 0.3 * np.random.default_rng(0).standard_normal((N_ROWS, 4))
    return X, np.where(np.arange(N_ROWS) < 8, truth, -1)


def check_error(code: int, err: str) -> None:
    """One line of ours, not a bug."""
    assert code in (0, 1, 2), code
    lines = [line for line in err.splitlines() if line.startswith("error: ")]
    assert len(lines) == (code != 0), err
    assert "Traceback" not in err, err
    assert "this is a bug" not in err, err


def no_partial(folder: Path) -> None:
    """No half-written file may be left by a process that was not killed."""
    assert not list(folder.rglob(".partial-*")), list(folder.rglob(".partial-*"))


class Label(Work):
    """``laplacianshot label`` with a file and a page."""

    warm = True

    def prepare(self, folder: Path) -> None:
        X, y = rows()
        np.savez(folder / "v.npz", features=X, labels=y)
        for name in ("all.csv", "page"):
            place = folder / name / "index.html" if name == "page" else folder / name
            place.parent.mkdir(exist_ok=True)
            place.write_bytes(OLD)

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        return run(["label", str(folder / "v.npz"), "-o", str(folder / "all.csv"), "--report", str(folder / "page")])

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        check_error(code, err)
        no_partial(folder)
        table, page = (folder / "all.csv").read_bytes(), (folder / "page" / "index.html").read_bytes()
        assert table == OLD or len(table.splitlines()) == N_ROWS + 1
        assert page == OLD or page.rstrip().endswith(b"</html>")
        assert code or (table != OLD and page != OLD)


class Store(Work):
    """A feature store, written over an older one of the same key."""

    key = StoreKey(weights="w" * 8, view="v", data="d")

    def prepare(self, folder: Path) -> None:
        self._write(folder / "store", 0.0)

    def _write(self, place: Path, value: float) -> None:
        with lock_store(place, self.key, "float32") as folder:
            manifest = Manifest(self.key, "float32", 0, N_ROWS)
            write_files(folder, manifest, np.full((N_ROWS, 4), value, np.float32), {"labels": np.arange(N_ROWS)})

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        try:
            self._write(folder / "store", 0.0)
        except OSError:
            return 1
        return 0

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        no_partial(folder)
        store = FeatureStore.open(folder / "store")
        assert (store.features == 0).all()
        assert len(store) == N_ROWS


class Save(Work):
    """A result under a key, as checkpoints of large fits are kept. Failing costs a warning."""

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        KeyedFolder.of(folder, "result", 1, "x").save({"n": 3}, {"rows": np.arange(1000)})
        return 0

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        assert code == 0
        no_partial(folder)
        found = KeyedFolder.of(folder, "result", 1, "x").load()
        assert found is None or (found[0]["n"] == 3 and (found[1]["rows"] == np.arange(1000)).all())


class Cache(Work):
    """Vectors in the cache: what is found there is what was put there."""

    digests = tuple(bytes([i]) * 16 for i in range(8))

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        for part in range(4):
            cache = VectorCache(folder / "cache", "k" * 32, 3)
            with contextlib.suppress(OSError):
                chosen = self.digests[2 * part : 2 * part + 2]
                cache.put(list(chosen), np.array([[d[0]] * 3 for d in chosen], np.float32))
                say(str(part))
            with contextlib.suppress(OSError):
                cache.close()
        return 0

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        assert code == 0, err
        cache = VectorCache(folder / "cache", "k" * 32, 3)
        found, kept = cache.get(list(self.digests))
        cache.close()
        assert all((row == digest[0]).all() for digest, row in zip(self.digests, kept, strict=True) if found[digest[0]])
        assert all(found[2 * int(part) : 2 * int(part) + 2].all() for part in said), "acknowledged and lost"


class Studio(Work):
    """Actions of the studio: what was acknowledged is there, and nothing is there by half."""

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        try:
            log = ChangeLog(folder, "source")
        except (ProjectError, OSError):
            return 1
        for number in range(6):
            with contextlib.suppress(Exception):
                log.commit(log.state.labeling_by_name({f"a{number}": "cat", f"b{number}": "dog"}))
                say(str(number))
        return 0

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        assert code in (0, 1), err
        log = ChangeLog(folder, "source")
        for number in said:
            assert {f"a{number}", f"b{number}"} <= set(log.state.labels), f"{number} was acknowledged and is lost"
        assert all(f"b{item[1:]}" in log.state.labels for item in log.state.labels if item[0] == "a"), "half an action"
        log.close()


class Extract(Work):
    """``laplacianshot extract``; the same command afterward goes on."""

    def __init__(self) -> None:
        # Here, as the other kinds of work need no torch.
        from tests.cli.test_extract import write_checkpoint

        self._write_checkpoint = write_checkpoint

    def prepare(self, folder: Path) -> None:
        from PIL import Image

        self._write_checkpoint(folder / "best.safetensors")
        rng = np.random.default_rng(0)
        for split in ("base", "novel"):
            for name in ("ant", "bee"):
                place = folder / "birds" / split / f"{split} {name}"
                place.mkdir(parents=True)
                for number in range(3):
                    pixels = rng.integers(0, 256, (20, 20, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(place / f"{number}.png")

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        names = [str(folder / name) for name in ("best.safetensors", "birds", "store", "all.npz")]
        options = ["--threads", "1", "--workers", "0", "--batch-size", "4", "--export", names[3]]
        return run(["extract", names[0], "--data", names[1], "-o", names[2], *options])

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        check_error(code, err)
        no_partial(folder)
        try:
            complete = len(FeatureStore.open(folder / "store")) == 12
        except (StoreError, OSError):
            complete = False
        if (folder / "all.npz").exists():
            with np.load(folder / "all.npz") as archive:
                assert archive["features"].shape[0] == 12
        assert code or complete


class Train(Work):
    """``train``; the same run afterward goes on and ends."""

    def __init__(self) -> None:
        from laplacianshot.training.state import TrainError
        from tests.training import drawings

        self._drawings, self._error = drawings, TrainError

    def prepare(self, folder: Path) -> None:
        self._drawings.write_bundle(folder / "drawings.npz", per_class=8)

    def act(self, folder: Path, say: Callable[[str], None]) -> int:
        config = self._drawings.tiny(checkpoint_seconds=0.0, epochs=1, workers=0)
        try:
            self._drawings.train(config, self._drawings.read_bundle(folder / "drawings.npz"), folder / "run")
        except (OSError, self._error) as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
        return 0

    def check(self, folder: Path, code: int, said: list[str], err: str) -> None:
        check_error(code, err)
        no_partial(folder)
        from laplacianshot.training import Checkpoint

        for path in folder.rglob("*.safetensors"):
            Checkpoint.read(path)
        assert code or (folder / "run" / "best.safetensors").exists()


WORK: dict[str, type[Work]] = {
    work.__name__.lower(): work for work in (Label, Store, Save, Cache, Studio, Extract, Train)
}


def in_child(work: Work, folder: Path, n: int, number: int, persistent: bool) -> tuple[int, bool, list[str], str]:
    """Do the work in a child whose n-th call fails: exit code, whether it failed, what was said, and stderr."""
    reading, writing = os.pipe()
    # Files outside of the folder are never refused.
    errors = folder.with_name("stderr")
    pid = os.fork()
    if not pid:
        code = 99
        try:
            shim = ctypes.CDLL(None)
            sys.stderr = io.TextIOWrapper(errors.open("wb", buffering=0), write_through=True)
            sys.stdout = io.StringIO()
            shim.fault_arm(os.fsencode(folder), ctypes.c_long(n), number, int(persistent))
            code = work.act(folder, lambda text: os.write(writing, f"{text}\n".encode()) and None)
            shim.fault_disarm()
            os.write(writing, f"fired {shim.fault_fired()}\n".encode())
        except BaseException:
            shim.fault_disarm()
            import traceback

            traceback.print_exc()
            os.write(writing, b"fired 1\n")
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read().split("\n")[:-1]
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return code, "fired 1" in said, [line for line in said if not line.startswith("fired")], errors.read_text()


def main(name: str, place: Path, stride: int) -> int:
    """Let every ``stride``-th call fail until none is left; return the number of cases."""
    work = WORK[name]()
    template = place / "template"
    template.mkdir()
    work.prepare(template)
    os.environ["LAPLACIANSHOT_CACHE"] = str(place / "cache")
    folder = place / "work"
    if work.warm:
        shutil.copytree(template, folder)
        with contextlib.redirect_stdout(io.StringIO()):
            assert work.act(folder, lambda text: None) == 0
    cases, n = 0, 1
    while True:
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(template, folder)
        number, persistent = ERRORS[cases % len(ERRORS)], cases % 2 == 1
        code, fired, said, err = in_child(work, folder, n, number, persistent)
        try:
            work.check(folder, code, said, err)
        except BaseException as error:
            error.add_note(
                f"{name}, call {n}, {errno.errorcode[number]}, {'on' if persistent else 'once'}: {code}\n{err}"
            )
            raise
        if not fired:
            assert code == 0, err
            return cases
        cases, n = cases + 1, n + stride


if __name__ == "__main__":
    print(main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])))
