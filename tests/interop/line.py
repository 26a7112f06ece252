"""A serial line: two ports that see each other, and can be pulled out and plugged in again."""

from __future__ import annotations

import os
import pty
import select
import tty
from pathlib import Path

from background import Background

_LOOK = 0.005
"""How long until a port that somebody opened is noticed, in seconds."""


class _Port:
    """One end: the path that a program opens, and the descriptor of its other side."""

    def __init__(self) -> None:
        self.descriptor, opened = pty.openpty()
        self.path = os.ttyname(opened)
        tty.setraw(opened)
        os.set_blocking(self.descriptor, False)
        # Opened and closed once, it tells whether anybody has it open.
        os.close(opened)

    @property
    def held(self) -> bool:
        """Whether a program has it open."""
        poll = select.poll()
        poll.register(self.descriptor, 0)
        return not any(events & select.POLLHUP for _, events in poll.poll(0))


class Line:
    """Carries bytes between `near` and `far`; what nobody listens to is lost, as on a wire."""

    def __init__(self, folder: Path) -> None:
        self.near = folder / "line"
        """A link to the port that can be pulled out: where the bridge is, or another master."""
        self.heard = bytearray()
        """All bytes that came from the near port so far."""
        self._background = Background()
        self._far = _Port()
        self._near: _Port | None = None
        self._watched: dict[int, _Port] = {}
        self.far = self._far.path
        self._background.do(self._look)
        self.plug()

    def plug(self) -> None:
        """Brings the near port back, as a device file of another name behind the same link."""

        def plug() -> None:
            assert self._near is None, "it is plugged in"
            self._near = _Port()
            self.near.symlink_to(self._near.path)

        self._background.do(plug)

    def unplug(self) -> None:
        """Takes the near port away, with its path, under whoever has it open."""

        def unplug() -> None:
            assert self._near is not None, "it is unplugged"
            self.near.unlink()
            self._forget(self._near)
            os.close(self._near.descriptor)
            self._near = None

        self._background.do(unplug)

    @property
    def held(self) -> bool:
        """Whether a program has the near port open."""
        return self._background.do(lambda: self._near is not None and self._near.held)

    @property
    def served(self) -> bool:
        """Whether a program has the far port open."""
        return self._background.do(lambda: self._far.held)

    def close(self) -> None:
        if self._near is not None:
            self.unplug()

        def close() -> None:
            self._forget(self._far)
            os.close(self._far.descriptor)

        self._background.do(close)
        self._background.close()

    def _look(self) -> None:
        """Listens to the ports that are open: a port that is not would wake the loop all the time."""
        for port in (self._far, self._near):
            if port is not None and port.descriptor not in self._watched and port.held:
                self._watched[port.descriptor] = port
                self._background.loop.add_reader(port.descriptor, self._carry, port)
        self._background.loop.call_later(_LOOK, self._look)

    def _carry(self, port: _Port) -> None:
        try:
            chunk = os.read(port.descriptor, 4096)
        except BlockingIOError:
            return
        except OSError:
            # The last program that had it open closed it.
            self._forget(port)
            return
        if port is self._near:
            self.heard += chunk
        other = self._far if port is self._near else self._near
        if other is not None and other.held:
            os.write(other.descriptor, chunk)

    def _forget(self, port: _Port) -> None:
        if self._watched.pop(port.descriptor, None):
            self._background.loop.remove_reader(port.descriptor)
