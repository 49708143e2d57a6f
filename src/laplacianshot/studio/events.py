"""Word of changes to whoever listens, from any thread to the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

# Seconds between two events at least, and after which a quiet line is kept alive by a comment.
_PAUSE = 0.03
_QUIET = 15.0


class Bell:
    """Rung from any thread; wakes every listener of the event loop it is bound to."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()
        self.closing = False

    def ring(self) -> None:
        """Wake all."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake)

    def close(self) -> None:
        """Wake all for the last time."""
        self.closing = True
        self.ring()

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()

    async def stream(self, tell: Callable[[], Awaitable[str]]) -> AsyncIterator[bytes]:
        """Server-sent events: what ``tell`` gives, at once and after each change, a while apart."""
        self._loop = asyncio.get_running_loop()
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            event.set()
            while not self.closing:
                try:
                    await asyncio.wait_for(event.wait(), _QUIET)
                except TimeoutError:
                    yield b": quiet\n\n"
                    continue
                event.clear()
                if self.closing:
                    break
                yield f"event: state\ndata: {await tell()}\n\n".encode()
                await asyncio.sleep(_PAUSE)
            yield b"event: bye\ndata: {}\n\n"
        finally:
            self._waiting.discard(event)
