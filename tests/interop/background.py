"""An event loop in a thread of its own, for peers that run beside a test."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

_WAIT = 20.0


class Background:
    """Runs what it is given in its own thread, one thing at a time."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()

    def call(self, make: Callable[[], Awaitable[T]]) -> T:
        """Awaits what `make` gives, in the thread of the loop."""

        async def run() -> T:
            return await make()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(_WAIT)

    def do(self, act: Callable[[], T]) -> T:
        """As `call`, for what need not wait."""

        async def run() -> T:
            return act()

        return self.call(run)

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_WAIT)
        self.loop.close()
