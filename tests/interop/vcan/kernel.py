"""The CAN of the kernel: its interfaces, and can-utils on them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

from waiting import DEADLINE, until

BUS = "vcan0"
_LINE = re.compile(r"\((\d+\.\d+)\) (\S+) (\S+)")


def _find(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    assert found, f"{name} is missing: install it (Debian, Ubuntu: apt-get install can-utils iproute2)"
    return found


def run(*command: str) -> None:
    done = subprocess.run([_find(command[0]), *command[1:]], capture_output=True, text=True, timeout=DEADLINE)
    assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"


def ip(arguments: str) -> None:
    run("ip", *arguments.split())


def exists() -> bool:
    return Path(f"/sys/class/net/{BUS}").exists()


def add() -> None:
    """Adds the interface, which takes CAN FD, and leaves it down."""
    ip(f"link add dev {BUS} type vcan")
    ip(f"link set {BUS} mtu 72")


def up() -> None:
    ip(f"link set {BUS} up")


def down() -> None:
    ip(f"link set {BUS} down")


def remove() -> None:
    ip(f"link del {BUS}")


def renew() -> None:
    if exists():
        remove()
    add()
    up()


def fits(frame: str) -> bool:
    """Sends a frame with cansend; `False` where the queue is full."""
    done = subprocess.run([_find("cansend"), BUS, frame], capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode == 1 and "No buffer space available" in done.stderr:
        return False
    assert done.returncode == 0, f"cansend {frame} ended with {done.returncode}: {done.stderr}"
    return True


def send(*frames: str) -> None:
    """Sends frames as cansend writes them."""
    for frame in frames:
        assert fits(frame), f"there is no room for {frame}"


def tbf(verb: str, rate: str, burst: int, limit: int) -> None:
    """Lets frames through at a rate, `burst` bytes at once, and keeps `limit` bytes of them waiting."""
    run("tc", *f"qdisc {verb} dev {BUS} root tbf rate {rate} burst {burst} limit {limit}".split())


def listeners() -> int:
    """Sockets that take all frames of the bus."""
    rows = Path("/proc/net/can/rcvlist_all").read_text(encoding="ascii").splitlines()
    return sum(row.split()[:1] == [BUS] for row in rows)


@dataclass(frozen=True)
class Seen:
    """A frame as candump saw it, at a time in seconds."""

    time: float
    text: str


def _plain(text: str) -> str:
    """Without the flag that says of a frame of CAN FD that it is one: senders and kernels may set it or not."""
    head, mark, rest = text.partition("##")
    return f"{head}##{int(rest[0], 16) & ~4:X}{rest[1:]}" if mark else text


class Candump:
    """A running candump."""

    def __init__(self, *options: str, filters: str = "") -> None:
        before = listeners()
        command = [_find("candump"), "-L", *options, BUS + filters]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
        self._lines: list[str] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        until("candump listens", lambda: listeners() > before)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.append(line.rstrip("\n"))

    def frames(self) -> list[Seen]:
        """What it saw so far."""
        rows = [_LINE.fullmatch(line.strip()) for line in list(self._lines)]
        assert all(rows), self._lines
        return [Seen(float(row[1]), _plain(row[3])) for row in rows if row]

    def texts(self) -> list[str]:
        return [frame.text for frame in self.frames()]

    def until(self, text: str) -> list[str]:
        """What it saw up to a frame, without it."""
        until(f"candump saw {text}", lambda: text in self.texts())
        texts = self.texts()
        return texts[: texts.index(text)]

    def wait(self, count: int) -> list[str]:
        until(f"candump saw {count} frames", lambda: len(self._lines) >= count)
        return self.texts()

    def finish(self) -> list[str]:
        """All that it saw, once it ended by itself."""
        assert self.process.wait(DEADLINE) == 0
        self._thread.join(DEADLINE)
        return self.texts()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join(DEADLINE)
