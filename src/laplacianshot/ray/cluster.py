"""The connection to Ray: tasks that survive the loss of a node, and an early error when the cluster is too small."""

from __future__ import annotations

import atexit
import os
import re
import resource
import secrets
import socket
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

from laplacianshot.runtime.errors import LaplacianShotError
from laplacianshot.runtime.extras import require
from laplacianshot.runtime.limits import written_bytes
from laplacianshot.runtime.progress import Progress

# How often a task is restarted when its worker or node is lost.
_RETRIES = 8
# Seconds between two checks of what is done, and without any CPU before the run is given up.
_TICK = 2.0
_PATIENCE = 90.0
# Seconds that Ray has to end without its head.
_LAST_SECONDS = 4.0
# Seconds without an answer after which the head node is lost: well before Ray's own minute.
_HEAD_PATIENCE = 12.0
# Of the words of Ray only ours are for the user.
_QUIET = {"log_to_driver": False, "logging_level": "CRITICAL"}


class ClusterError(LaplacianShotError, RuntimeError):
    """The cluster cannot be reached, is too small, or was lost."""


@dataclass
class Usage:
    """What the calls of one function took on the workers."""

    calls: int = 0
    busy: float = 0.0  # seconds of processor time
    peak: int = 0  # largest memory of a worker, in bytes
    workers: set[int] = field(default_factory=set)  # process numbers


@dataclass(eq=False)
class Cluster:
    """A connection to Ray, and what its workers did so far."""

    ray: Any  # the module
    usage: dict[str, Usage] = field(default_factory=dict)  # by the name of the function

    def cpus(self) -> int:
        """CPUs of the nodes that are alive."""
        return int(sum(node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]))

    def check(self, memory: float, objects: float) -> None:
        """ClusterError if all nodes together have less than these bytes of memory and of object store."""
        available = self.ray.cluster_resources()
        if self.cpus() < 1:
            raise ClusterError("the cluster has no CPU for workers; start nodes with --num-cpus 1 or more.")
        sizes = (("memory", memory, "memory"), ("object_store_memory", objects, "object store"))
        for key, needed, name in sizes:
            held = float(available.get(key, 0.0))
            if needed > held:
                raise ClusterError(
                    f"the cluster is too small: this needs {written_bytes(needed)} of {name} at least and there are "
                    f"{written_bytes(held)} on {sum(node['Alive'] for node in self.ray.nodes())} nodes; add nodes, or "
                    f"give them more."
                )

    def share(self, value: Any) -> Any:
        """Put a value into the object store; pass the returned reference as an argument."""
        return self.ray.put(value)

    def map(
        self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], *, progress: Progress | None = None
    ) -> list[Any]:
        """``function(*call)`` for every call on the workers, results in order; lost calls are restarted."""
        return self.results(function.__name__, self._started(function, calls), progress=progress)

    def stream(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> Iterator[Any]:
        """Like :meth:`map`, yielding results in order as they arrive."""
        for ref in self._started(function, calls):
            self._wait([ref])
            yield self._value(function.__name__, ref)

    def _started(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]]) -> list[Any]:
        remote = self.ray.remote(measured).options(num_cpus=1, max_retries=_RETRIES, scheduling_strategy="SPREAD")
        return [remote.remote(function, *call) for call in calls]

    def scatter(self, function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], parts: int) -> Any:
        """Like :meth:`map`, for a function of ``parts`` values left in the object store: references by call and part.

        Parts that are lost with a node are computed again.
        """
        remote = self.ray.remote(_parts).options(num_cpus=1, max_retries=_RETRIES, num_returns=parts)
        made = [remote.remote(function, *call) for call in calls]
        return [[refs] for refs in made] if parts == 1 else made

    def results(self, name: str, refs: Sequence[Any], *, progress: Progress | None = None) -> list[Any]:
        """What :func:`measured` calls of the function of this name return, when all are done."""
        place = {ref: number for number, ref in enumerate(refs)}
        values: list[Any] = [None] * len(refs)
        waiting = list(refs)
        if progress is not None:
            progress(0, len(refs))
        while waiting:
            done, waiting = self._wait(waiting)
            for ref in done:
                values[place[ref]] = self._value(name, ref)
            if progress is not None and done:
                progress(len(refs) - len(waiting), len(refs))
        return values

    def _value(self, name: str, ref: Any) -> Any:
        """What a :func:`measured` call returned; what it took is added to ``usage``."""
        value, worker, busy, peak = self.get(ref)
        usage = self.usage.setdefault(name, Usage())
        usage.calls += 1
        usage.busy += busy
        usage.peak = max(usage.peak, peak)
        usage.workers.add(worker)
        return value

    def get(self, refs: Any) -> Any:
        """Values of finished calls. An exception of the function is raised here; a lost worker raises Lost."""
        try:
            return self.ray.get(refs)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None)
            if isinstance(cause, Exception) and not isinstance(cause, self.ray.exceptions.RayError):
                raise cause from None
            if isinstance(error, self.ray.exceptions.LocalRayletDiedError):
                # Without it this process cannot start anything any more.
                raise HeadLost(_lost("the node that this process is connected to")) from error
            raise Lost(f"a worker was lost: {str(error).splitlines()[0]}") from error

    def _wait(self, refs: list[Any]) -> tuple[list[Any], list[Any]]:
        """Wait until a call is done or has failed; return finished references and the others."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            done, waiting = self.ray.wait(refs, num_returns=1, timeout=_TICK)
            if done:
                more, waiting = self.ray.wait(waiting, num_returns=len(waiting), timeout=0) if waiting else ([], [])
                return [*done, *more], waiting
            self._check_head()
            if self.cpus() > 0:
                deadline = time.monotonic() + _PATIENCE
            elif time.monotonic() > deadline:
                raise ClusterError(
                    f"the cluster has had no CPU for {_PATIENCE:.0f} seconds; start nodes and run again."
                )

    def _check_head(self) -> None:
        """Raise HeadLost where the head node does not answer for a while; Ray would wait for it without end."""
        address = str(self.ray.get_runtime_context().gcs_address)
        deadline = time.monotonic() + _HEAD_PATIENCE
        while not _answers(address):
            if time.monotonic() > deadline:
                raise HeadLost(_head_lost(address))
            time.sleep(1)


class HeadLost(ClusterError):
    """The head node was lost, or the node of this process, and with it the cluster."""


class Lost(ClusterError):
    """A worker or what it held was lost."""


@contextmanager
def connected(address: str | None = None, *, cpus: int | None = None) -> Iterator[Cluster]:
    """Connect to a cluster, and disconnect at the end.

    Parameters
    ----------
    address : str, optional
        ``host:port`` of a running cluster, or ``auto`` (default: the cluster that this process is connected to already,
        or a local one that listens on this machine only and ends with the block).
    cpus : int, optional
        CPUs of that local cluster (default: all).

    Raises
    ------
    ClusterError
        No cluster answers at the address, or the address has the wrong form.
    """
    if address is not None:
        _check_form(address)
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    if address is None or _is_here(address):
        # Read when ray is imported: without it, Ray takes 127.0.0.1 for this machine's address in its network.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    ray = require("ray", "ray")
    if ray.is_initialized():
        yield Cluster(ray)
        return
    if address is not None and address != "auto":
        _check_reachable(address)
    with _environment(ray, address), ExitStack() as stack:
        if address is not None and address != "auto":
            stack.enter_context(_watched(address))
        _connect(ray, address, cpus)
        if address is None or address == "auto":
            stack.enter_context(_watched(str(ray.get_runtime_context().gcs_address)))
        try:
            yield Cluster(ray)
        except HeadLost:
            # Ray's end waits for the head, here and when the process ends; it gets a few seconds.
            atexit.unregister(ray._private.worker.shutdown)
            end = Thread(target=ray.shutdown, daemon=True)
            end.start()
            end.join(_LAST_SECONDS)
            raise
        except BaseException:
            ray.shutdown()
            raise
        else:
            ray.shutdown()


def _connect(ray: Any, address: str | None, cpus: int | None) -> None:
    """Call ``ray.init``; what it prints where it fails is left out, and ClusterError has the reason."""
    # Workers that do not give way to everything else, as this process does not either.
    equal = {"worker_niceness": 0}
    here: dict[str, Any] = {"include_dashboard": False, "_node_ip_address": "127.0.0.1", "_system_config": equal}
    try:
        with _without_stderr():
            if address is None:
                ray.init("local", num_cpus=cpus, **here, **_QUIET)
            else:
                ray.init(address, **_QUIET)
    except Exception as error:  # Ray raises Exception itself where a node does not start in time
        reason = f"{error}".partition("\n")[0].rstrip(".") or type(error).__name__
        token = " If it asks for a token, set RAY_AUTH_MODE=token." if address else ""
        raise ClusterError(f"no Ray cluster at {address or 'this machine'}: {reason}.{token}") from error


@contextmanager
def _environment(ray: Any, address: str | None) -> Iterator[None]:
    """Settings of a connection, until the end of ``with``: Ray is quiet, and has a token.

    A cluster of our own has a token of its own: nobody else on this machine can use it, and none is left in the home
    folder, where clusters started later would find it and ask for it.
    """
    settings = {"RAY_BACKEND_LOG_LEVEL": "fatal"}
    if "RAY_AUTH_MODE" not in os.environ:
        if address is None:
            settings |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        elif _is_here(address) and _tokens(ray).has_token(ignore_auth_mode=True):
            # Ray sends the token of the home folder only to clusters that it finds by itself.
            settings["RAY_AUTH_MODE"] = "token"
    settings = {name: value for name, value in settings.items() if name not in os.environ}
    os.environ.update(settings)
    _read_environment(ray)
    # Else the last words of a killed node go to stdout, where results are.
    ray._private.worker._worker_logs_enabled = False
    try:
        yield
    finally:
        ray._private.worker._worker_logs_enabled = True
        for name in settings:
            os.environ.pop(name, None)
        _read_environment(ray)


def _read_environment(ray: Any) -> None:
    """Let Ray, which reads its environment when it is imported, read it again."""
    ray._raylet.Config.initialize("")
    _tokens(ray).reset_cache()


def _tokens(ray: Any) -> Any:
    return ray._raylet.AuthenticationTokenLoader.instance()


@contextmanager
def _without_stderr() -> Iterator[None]:
    """Throw away what the process writes to stderr, which Ray's own threads do without asking Python."""
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


def _head_lost(address: str) -> str:
    return _lost(f"the head node of the cluster at {address}")


def _lost(node: str) -> str:
    return (
        f"{node} does not answer any more; start it and run the same command again: finished stages are kept in the "
        "run folder."
    )


@contextmanager
def _watched(address: str) -> Iterator[None]:
    """End the process where a call to Ray hangs for a lost head: Ray would end it after a minute, in its own words."""
    done = Event()
    # A copy: stderr may be elsewhere when it is needed.
    err = os.dup(2)
    Thread(target=_watch_head, args=(address, err, done), daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _watch_head(address: str, err: int, done: Event) -> None:
    last = time.monotonic()
    while not done.wait(_TICK):
        if _answers(address):
            last = time.monotonic()
        elif time.monotonic() - last > 2 * _HEAD_PATIENCE:
            os.write(err, f"error: {_head_lost(address)}\n".encode())
            os._exit(1)
    os.close(err)


def _check_form(address: str) -> None:
    """Raise ClusterError unless the address is ``host:port`` or ``auto``."""
    port = re.fullmatch(r"[^\s/]+:(\d{1,5})", address)
    if address != "auto" and (port is None or not 0 < int(port[1]) < 2**16):
        raise ClusterError(f"address is {address!r}; give HOST:PORT of the head node, such as 10.0.0.1:6379, or auto.")


def _is_here(address: str) -> bool:
    return address.partition(":")[0] in ("127.0.0.1", "localhost")


def _answers(address: str) -> bool:
    """Whether anything listens at the address."""
    try:
        _check_reachable(address)
    except ClusterError:
        return False
    return True


def _check_reachable(address: str) -> None:
    """Raise ClusterError at once if nothing listens at the address: Ray itself would retry for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ClusterError(f"no Ray cluster at {address} ({error}); give host:port of its head node.") from None


def measured(function: Callable[..., Any], *arguments: Any) -> tuple[Any, int, float, int]:
    """Call a function on a worker: its value, the process, seconds of processor time and the process's peak memory."""
    start = time.process_time()
    value = function(*arguments)
    peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return value, os.getpid(), time.process_time() - start, peak


def _parts(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of several values on a worker."""
    values = tuple(function(*arguments))
    return values if len(values) > 1 else values[0]
