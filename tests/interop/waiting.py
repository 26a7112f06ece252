"""Waits on a state, each with a deadline that only says when to give up."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import anyio

T = TypeVar("T")

DEADLINE = 20.0
_PAUSE = 0.005


def until(what: str, probe: Callable[[], T | None], deadline: float = DEADLINE) -> T:
    """Returns the first true answer of `probe`."""
    end = time.monotonic() + deadline
    while True:
        if answer := probe():
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline} s in vain until {what}")
        time.sleep(_PAUSE)


async def until_async(what: str, probe: Callable[[], Awaitable[T | None]], deadline: float = DEADLINE) -> T:
    """As `until`, for a probe that waits itself."""
    end = time.monotonic() + deadline
    while True:
        if answer := await probe():
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"waited {deadline} s in vain until {what}")
        await anyio.sleep(_PAUSE)
