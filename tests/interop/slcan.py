"""A CAN adapter that speaks slcan behind TCP, and all the bus that there is behind it."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass

from waiting import DEADLINE

LENGTHS = (*range(9), 12, 16, 20, 24, 32, 48, 64)
"""Bytes of a payload, by data length code."""


@dataclass(frozen=True)
class Frame:
    id: int
    data: bytes
    extended: bool = False
    fd: bool = False
    brs: bool = False

    def line(self) -> str:
        """As the adapter and its client write it, without the end."""
        kind = ("b" if self.brs else "d") if self.fd else "t"
        head = f"{kind.upper()}{self.id:08X}" if self.extended else f"{kind}{self.id:03X}"
        return f"{head}{LENGTHS.index(len(self.data)):X}{self.data.hex().upper()}"

    @classmethod
    def of(cls, line: str) -> Frame:
        kind, extended = line[0].lower(), line[0].isupper()
        assert kind in "tdb", line
        digits = 8 if extended else 3
        number, code, data = line[1 : 1 + digits], line[1 + digits], bytes.fromhex(line[2 + digits :])
        assert LENGTHS[int(code, 16)] == len(data), line
        return cls(int(number, 16), data, extended, fd=kind != "t", brs=kind == "b")

    def __str__(self) -> str:
        return self.line()


class Adapter:
    """One client at a time; what it commands and sends is kept. One that is slow answers nothing, so that TCP takes its
    time to acknowledge what came."""

    def __init__(self, slow: bool = False) -> None:
        self.slow = slow
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:{}".format(self._server.getsockname()[1])
        self.commands: list[str] = []
        self.frames: list[Frame] = []
        self._news = threading.Condition()
        self._client: socket.socket | None = None
        self._is_open = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def wait_open(self) -> None:
        self._wait("the channel is open", lambda: self._is_open)

    def wait_closed(self) -> None:
        self._wait("the channel is closed", lambda: not self._is_open)

    def send(self, *frames: Frame) -> None:
        """Frames from the bus, in one piece."""
        self.wait_open()
        assert self._client is not None
        self._client.sendall("".join(f"{frame.line()}\r" for frame in frames).encode())

    def wait(self, count: int) -> list[Frame]:
        """What the client has sent, once that is so many frames."""
        self._wait(f"{count} frames are sent", lambda: len(self.frames) >= count)
        return list(self.frames)

    def close(self) -> None:
        for one in (self._server, self._client):
            if one is not None:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # It is closed already.
        self._thread.join(DEADLINE)
        self._server.close()

    def _wait(self, what: str, probe: object) -> None:
        with self._news:
            if not self._news.wait_for(probe, DEADLINE):  # type: ignore[arg-type]
                raise AssertionError(f"never seen: {what}; came: {self.commands} and {len(self.frames)} frames")

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._news:
                self._client = client
            try:
                self._listen(client)
            except OSError:
                pass  # The client went away.
            with self._news:
                self._is_open = False
                self._news.notify_all()
            client.close()

    def _listen(self, client: socket.socket) -> None:
        rest = b""
        while chunk := client.recv(65536):
            *lines, rest = (rest + chunk).split(b"\r")
            answer = b"".join(self._take(line.decode()) for line in lines)
            if not self.slow:
                client.sendall(answer)

    def _take(self, line: str) -> bytes:
        with self._news:
            if line[:1] in "tTdDbB" and line:
                self.frames.append(Frame.of(line))
                answer = b"z\r" if line[0].islower() else b"Z\r"
            else:
                self.commands.append(line)
                self._is_open = line in ("O", "L") or (self._is_open and line != "C")
                answer = b"\r"
            self._news.notify_all()
            return answer
