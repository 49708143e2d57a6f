"""Serve an application within limits: connections, their time, and what they may send."""

from __future__ import annotations

import contextlib
import errno
import socket
import sys
import time
from collections.abc import Callable
from types import FrameType
from typing import Any

import uvicorn

from laplacianshot.runtime.errors import InputError

# Seconds that open requests have when the server stops.
_LAST_SECONDS = 3
# Seconds in which a client must have sent a request, from its connection or its last request on.
_MAX_WAITING = 60.0
# Open connections: a browser takes six. Each has a file of the process, and so have databases, pictures and threads.
_MAX_CONNECTIONS, _OTHER_FILES = 512, 64
# Connections that are accepted at once.
_BACKLOG = 32


class PortError(InputError):
    """The server cannot listen on an address; the message is one line."""


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
                f"--port {port} is in use on {host}, perhaps by another of ours; choose another one, or 0 for any."
            ) from error
        raise PortError(f"--host {host} --port {port}: cannot listen there ({error.strerror}).") from error


def run_app(
    app: Any,
    listener: socket.socket,
    *,
    ready: Callable[[], object],
    stopping: Callable[[], object] = lambda: None,
) -> None:
    """Serve an application until Ctrl-C or SIGTERM; calls ``ready`` once it listens, and ``stopping`` at its end."""
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
    server = BoundedServer(config, ready, stopping)
    config.load()
    config.http_protocol_class = _limited(config.http_protocol_class, _max_connections())
    with contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


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


class BoundedServer(uvicorn.Server):
    """A server that reports when it is ready, drops silent clients, and says when it stops."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], object], stopping: Callable[[], object]) -> None:
        super().__init__(config)
        self._ready, self._stopping = ready, stopping
        # Connections that wait for a request: their last one, and since when.
        self._waiting: dict[Any, tuple[Any, float]] = {}

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def on_tick(self, counter: int) -> bool:
        """Look for silent clients once a second."""
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
        """Say that the server stops."""
        self._stopping()
        super().handle_exit(sig, frame)
