"""CAN adapters as peers: one that speaks slcan, at a port or behind TCP, and a socketcand.

slcan is as in the manuals of LAWICEL's CAN232 and CANUSB, with the frames of CAN FD as CANable's firmware and
python-can write them; socketcand as in its doc/protocol.md. Both take nothing that is not in there: a command that is unknown, or
not due, fails the test that uses the peer.
"""

from __future__ import annotations

import os
import pty
import re
import select
import socket
import threading
import tty
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waiting import DEADLINE, until

LENGTHS = (*range(9), 12, 16, 20, 24, 32, 48, 64)
"""Bytes of a payload, by data length code."""
_PAUSE = 0.002
"""Seconds between pieces of what is said, so that they are likely to be read one by one."""


class Channel(ABC):
    """A connection with one client."""

    @abstractmethod
    def read(self) -> bytes:
        """What comes next; nothing once the connection is over."""

    @abstractmethod
    def write(self, data: bytes) -> None: ...

    @abstractmethod
    def close(self) -> None: ...

    def reset(self) -> None:
        """Closes it in the least orderly way that there is."""
        self.close()


class Port(ABC):
    """Where clients come."""

    @property
    @abstractmethod
    def place(self) -> dict[str, Any]:
        """The keys of a connection that leads here."""

    @abstractmethod
    def accept(self) -> Channel | None:
        """The next client's channel; none once the port is closed."""

    @abstractmethod
    def close(self) -> None: ...


class _TcpChannel(Channel):
    def __init__(self, stream: socket.socket) -> None:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._stream = stream

    def read(self) -> bytes:
        try:
            return self._stream.recv(65536)
        except OSError:
            return b""

    def write(self, data: bytes) -> None:
        self._stream.sendall(data)

    def close(self) -> None:
        try:
            self._stream.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # The other side was faster.
        self._stream.close()

    def reset(self) -> None:
        self._stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        # The reader, too, holds on to it.
        self._stream.shutdown(socket.SHUT_RD)
        self._stream.close()


class TcpPort(Port):
    def __init__(self, driver: str = "slcan-tcp") -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.number: int = self._server.getsockname()[1]
        self._driver = driver

    @property
    def place(self) -> dict[str, Any]:
        return {"driver": self._driver, "address": f"127.0.0.1:{self.number}"}

    def accept(self) -> Channel | None:
        try:
            return _TcpChannel(self._server.accept()[0])
        except OSError:
            return None

    def close(self) -> None:
        try:
            self._server.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._server.close()


class _PtyChannel(Channel):
    """A pseudo terminal behind a link; it stays whoever opens and closes it, until it is unplugged."""

    def __init__(self, link: Path) -> None:
        self._descriptor, opened = pty.openpty()
        tty.setraw(opened)
        link.unlink(missing_ok=True)
        link.symlink_to(os.ttyname(opened))
        # Opened and closed once, it tells whether anybody has it open.
        os.close(opened)
        self._link = link
        self._lock = threading.Lock()
        self._gone = threading.Event()

    def read(self) -> bytes:
        while not self._gone.is_set():
            with self._lock:
                if self._gone.is_set():
                    break
                poll = select.poll()
                poll.register(self._descriptor, select.POLLIN)
                events = poll.poll(10)
                if events and events[0][1] & select.POLLIN:
                    return os.read(self._descriptor, 65536)
            # Nothing came, or nobody has it open.
            self._gone.wait(_PAUSE)
        return b""

    def write(self, data: bytes) -> None:
        os.write(self._descriptor, data)

    def close(self) -> None:
        self._gone.set()
        with self._lock:
            self._link.unlink(missing_ok=True)
            os.close(self._descriptor)


class PtyPort(Port):
    def __init__(self, folder: Path) -> None:
        self._link = folder / "adapter"
        self._closed = False

    @property
    def place(self) -> dict[str, Any]:
        return {"driver": "slcan", "port": str(self._link)}

    def accept(self) -> Channel | None:
        return None if self._closed else _PtyChannel(self._link)

    def close(self) -> None:
        self._closed = True


class Peer(ABC):
    """Serves one client after another, and keeps what they say."""

    def __init__(self, port: Port) -> None:
        self.port = port
        self.heard: list[str] = []
        """What the client of now has said, command by command."""
        self.frames: list[str] = []
        """All frames of clients so far, as they wrote them."""
        self.clients = 0
        self.twin: Callable[[str], None] | None = None
        """Is told each frame as well."""
        self.problem: BaseException | None = None
        self._channel: Channel | None = None
        self._news = threading.Condition()
        self._away = threading.Event()
        """Nobody is let in while it is set."""
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    @abstractmethod
    def is_ready(self) -> bool:
        """Whether frames go both ways."""

    @abstractmethod
    def begin(self) -> None:
        """A client is there."""

    @abstractmethod
    def split(self, data: bytes) -> tuple[list[str], bytes]:
        """The commands in what came, and the rest."""

    @abstractmethod
    def take(self, command: str) -> None:
        """Carries out a command, or fails."""

    @abstractmethod
    def hear(self, *frames: str) -> None:
        """Frames are on the bus."""

    def say(self, data: bytes, pieces: int = 0) -> None:
        """Says something to the client, at once or in pieces of so many bytes."""
        channel = self._channel
        assert channel is not None, "nobody is there"
        for start in range(0, len(data), pieces or len(data)):
            channel.write(data[start : start + (pieces or len(data))])
            if pieces:
                threading.Event().wait(_PAUSE)

    def wait(self, what: str, probe: Callable[[], Any]) -> None:
        with self._news:
            done = self._news.wait_for(lambda: self.problem or probe(), DEADLINE)
        self.check()
        assert done, f"never seen: {what}; heard: {self.heard}"

    def wait_ready(self) -> None:
        self.wait("the channel is open", lambda: self.is_ready)

    def wait_frames(self, count: int) -> list[str]:
        self.wait(f"{count} frames were sent", lambda: len(self.frames) >= count)
        return list(self.frames)

    def check(self) -> None:
        """Fails if a client said what it must not say."""
        if self.problem:
            raise AssertionError(f"the client broke the protocol: {self.problem!r}; heard: {self.heard}")

    def leave(self, how: str = "close") -> None:
        """Goes away, under whoever is there, until `come`."""
        self._away.set()
        channel, self._channel = self._channel, None
        if channel is not None:
            getattr(channel, how)()

    def come(self) -> None:
        self._away.clear()

    def close(self) -> None:
        self._stopped = True
        self.port.close()
        self.leave()
        self._away.clear()
        self._thread.join(DEADLINE)
        self.check()

    def _run(self) -> None:
        while not self._stopped:
            if self._away.is_set():
                self._away.wait(_PAUSE)
                threading.Event().wait(_PAUSE)
                continue
            channel = self.port.accept()
            if channel is None:
                return
            if self._away.is_set():
                channel.close()
                continue
            self._channel = channel
            with self._news:
                self.clients += 1
                self.heard = []
            try:
                self._serve(channel)
            except OSError:
                pass  # The client, or this peer, went away.
            except BaseException as problem:
                self.problem = problem
            with self._news:
                self.end()
                self._news.notify_all()
            if self._channel is channel:
                self._channel = None
                channel.close()

    def end(self) -> None:
        """The client is gone."""

    def _serve(self, channel: Channel) -> None:
        self.begin()
        rest = b""
        while data := channel.read():
            commands, rest = self.split(rest + data)
            for command in commands:
                with self._news:
                    self.heard.append(command)
                    self.take(command)
                    self._news.notify_all()


_DATA = "([0-9A-F])((?:[0-9A-F]{2})*)"
_SLCAN = re.compile(f"([tdb])([0-7][0-9A-F]{{2}}){_DATA}|([TDB])([01][0-9A-F]{{7}}){_DATA}")


class SlcanPeer(Peer):
    """An slcan adapter; `answers = False` makes it one that answers nothing, as CANable's firmware."""

    def __init__(self, port: Port, answers: bool = True) -> None:
        super().__init__(port)
        self.answers = answers
        self.refuse_frames = False
        self.refuse_opening = False
        self.timestamps = False
        self.lower = False
        self.pieces = 0
        self._opened: str | None = None
        self._has_rate = False
        self.start()

    @property
    def is_ready(self) -> bool:
        return self._opened is not None

    def begin(self) -> None:
        pass

    def end(self) -> None:
        self._opened = None

    def split(self, data: bytes) -> tuple[list[str], bytes]:
        *lines, rest = data.split(b"\r")
        return [line.decode("ascii") for line in lines], rest

    def take(self, command: str) -> None:
        answer = self._answer(command)
        if self.answers:
            self.say(answer)

    def _answer(self, command: str) -> bytes:
        good, bad = b"\r", b"\a"
        match command:
            case "":
                return good
            case "C":
                was_open, self._opened = self._opened, None
                return good if was_open else bad
            case _ if "?" in command:
                return bad
            case "S0" | "S1" | "S2" | "S3" | "S4" | "S5" | "S6" | "S7" | "S8":
                if self._opened:
                    return bad
                self._has_rate = True
                return good
            case "Y0" | "Y1" | "Y2" | "Y3" | "Y4" | "Y5" | "Y8":
                return bad if self._opened else good
            case "O" | "L":
                if self._opened or not self._has_rate or self.refuse_opening:
                    return bad
                self._opened = command
                return good
        frame = _SLCAN.fullmatch(command)
        assert frame, f"{command!r} is no command"
        kind, _, code, data = [part for part in frame.groups() if part is not None]
        assert len(data) == 2 * LENGTHS[int(code, 16)], f"{command!r} has another length than it says"
        assert kind not in "tT" or int(code, 16) <= 8, f"{command!r} is too long"
        assert self._opened == "O", f"{command!r} comes while the channel is {self._opened}"
        if self.refuse_frames:
            return bad
        self.frames.append(command)
        if self.twin:
            self.twin(command)
        return b"z\r" if kind.islower() else b"Z\r"

    def hear(self, *frames: str) -> None:
        self.wait_ready()
        data = b"".join(self.spell(frame).encode() + b"\r" for frame in frames)
        self.say(data, self.pieces)

    def spell(self, frame: str) -> str:
        """A frame in the way of this adapter."""
        frame = frame + "EA5F" if self.timestamps else frame
        return frame[0] + frame[1:].lower() if self.lower else frame


_SEND = re.compile(r"< send ([0-7][0-9A-F]{2}|[01][0-9A-F]{7}) ([0-8])((?: [0-9a-fA-F]{1,2})*) >")


class SocketcandPeer(Peer):
    """A socketcand that has one interface."""

    def __init__(self, interface: str = "can0") -> None:
        super().__init__(TcpPort("socketcand"))
        self.interface = interface
        self.greeting = b"< hi >"
        self.pieces = 0
        self.lower = False
        self.spaced = False
        self._state = "new"
        self.start()

    @property
    def place(self) -> dict[str, Any]:
        return {**self.port.place, "interface": self.interface}

    @property
    def is_ready(self) -> bool:
        return self._state == "raw"

    def begin(self) -> None:
        self._state = "new"
        if self.greeting:
            self.say(self.greeting, self.pieces)

    def end(self) -> None:
        self._state = "gone"

    def split(self, data: bytes) -> tuple[list[str], bytes]:
        *messages, rest = data.split(b">")
        return [f"{message.decode('ascii')}>" for message in messages], rest

    def take(self, command: str) -> None:
        match self._state:
            case "new":
                assert re.fullmatch(r"< open \S{1,15} >", command), f"{command!r} instead of < open … >"
                if command != f"< open {self.interface} >":
                    self.say(b"< error could not open bus >")
                    raise ConnectionAbortedError
                self._state = "open"
                self.say(b"< ok >", self.pieces)
            case "open":
                assert command == "< rawmode >", f"{command!r} instead of < rawmode >"
                self._state = "raw"
                self.say(b"< ok >", self.pieces)
            case _:
                self._send(command)

    def _send(self, command: str) -> None:
        frame = _SEND.fullmatch(command)
        assert frame, f"{command!r} is no command of raw mode"
        data = frame[3].split()
        assert len(data) == int(frame[2]), f"{command!r} has another length than it says"
        self.frames.append(command)
        if self.twin:
            self.twin(f"{frame[1]}#{''.join(f'{int(byte, 16):02X}' for byte in data)}")

    def hear(self, *frames: str) -> None:
        """Frames as cansend writes them."""
        self.wait_ready()
        self.say("".join(map(self.spell, frames)).encode(), self.pieces)

    def spell(self, frame: str) -> str:
        id, data = frame.split("#")
        data = " ".join(re.findall("..", data)) if self.spaced else data
        text = f"< frame {id} 1796250821.681584 {data} >"
        return text.lower() if self.lower else text
