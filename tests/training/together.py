"""Two processes that train together, stopped on the way and started again.

``python -m tests.training.together BUNDLE FOLDER`` trains into FOLDER/two. Checkpoints of the stopped run are in
FOLDER/stopped, and FOLDER/RUN-RANK holds what each process has printed.

The processes are forked from this one, which has loaded torch but computed nothing: torch is loaded once only.
"""

from __future__ import annotations

import faulthandler
import os
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

import laplacianshot.training.trainer as trainer
from laplacianshot.training import TrainingInterrupted, TrainStatus
from tests.training.drawings import Plain, read_bundle, tiny, train

# The last step of an epoch is smaller than the others, and each is done in parts.
SETTINGS = {"batch_size": 20, "accumulate": 2, "epochs": 20, "milestones": (), "validate_every": 20}
INTERRUPTED = 100


def one_of_two(bundle: Path, output: Path, log: Path, names: dict[str, str]) -> int:
    """Begin a process that trains. One that hangs says where."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.environ.update(names)
        with log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)
        faulthandler.dump_traceback_later(240, exit=True)
        # Batch normalization would see half a batch in each process, so the network has none.
        trainer.build_network = lambda *args, **named: Plain()
        result = train(tiny(**SETTINGS), read_bundle(bundle), output, progress=tell)
        print("accuracy", result.history[-1].accuracy, flush=True)
        code = 0
    except TrainingInterrupted as stopped:
        code = INTERRUPTED + stopped.signal
    except BaseException as error:
        print(repr(error), file=sys.stderr, flush=True)
    os._exit(code)


def tell(status: TrainStatus) -> None:
    print(status.phase, status.step, flush=True)


def start(bundle: Path, folder: Path, run: str) -> tuple[list[int], list[Path]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    world = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    logs = [folder / f"{run}-{rank}" for rank in range(2)]
    ranks = [{**world, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(2)]
    return [one_of_two(bundle, folder / "two", log, names) for log, names in zip(logs, ranks, strict=True)], logs


def wait_for_word(pids: list[int], logs: list[Path], word: str) -> None:
    """Wait until the first process has printed ``word``. One that ends before is an error: the other would wait."""
    while not (logs[0].exists() and word in logs[0].read_text()):
        for pid in pids:
            ended, status = os.waitpid(pid, os.WNOHANG)
            assert not ended, (status, [log.read_text() for log in logs])
        time.sleep(0.02)


def wait_for_end(pids: list[int], logs: list[Path], code: int) -> None:
    """Wait until all have ended with ``code``; one that ends with another is an error at once."""
    for _ in pids:
        _, status = os.wait()
        assert os.waitstatus_to_exitcode(status) == code, (status, [log.read_text() for log in logs])


def main(bundle: Path, folder: Path) -> None:
    pids, logs = start(bundle, folder, "stopped")
    wait_for_word(pids, logs, "train")
    # One of them is told; the other learns of it.
    os.kill(pids[1], signal.SIGINT)
    wait_for_end(pids, logs, INTERRUPTED + signal.SIGINT)
    shutil.copytree(folder / "two", folder / "stopped")
    wait_for_end(*start(bundle, folder, "finished"), 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
