"""The simulated CAN bus, and python-can and cantools as a node on it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import can
import cantools
from cantools.database import Database, Message
from cantools.database.namedsignalvalue import NamedSignalValue

from conftest import Run
from plant import lines
from waiting import until

T = TypeVar("T")
Values = dict[str, Any]

WAYS = ("slcan", "slcan-tcp", "socketcand")
"""The drivers of the ways to the bus."""
PROFILES = ("pump-drive", "battery", "engine")

_FOLDER = Path(__file__).parents[2] / "devices" / "demo"
DRIVE, BATTERY, ENGINE = (cantools.database.load_file(_FOLDER / f"{name}.dbc", strict=True) for name in PROFILES)
FILES: tuple[Database, ...] = (DRIVE, BATTERY, ENGINE)
MESSAGES = {message.name: message for file in FILES for message in file.messages}
TOLD = {name: message for name, message in MESSAGES.items() if "Controller" not in message.senders}
"""What the devices send."""

_IDS = {(message.frame_id, message.is_extended_frame): message for message in MESSAGES.values()}
_SLCAN, _SLCAN_TCP = re.compile(r"slcan on (\S+)"), re.compile(r"slcan at (\S+:\d+)")
_SOCKETCAND = re.compile(r"socketcand at (\S+:\d+), interface drives")
_PATTERNS = dict(zip(WAYS, (_SLCAN, _SLCAN_TCP, _SOCKETCAND), strict=True))
_PERIOD = 0.1


class Simulator:
    """One run of the simulator with all ways to its bus; `places` are those of another run."""

    def __init__(self, run: Run, port: Path, *faults: str, places: dict[str, str] | None = None) -> None:
        asked = places or {"slcan": str(port), "slcan-tcp": "127.0.0.1:0", "socketcand": "127.0.0.1:0"}
        arguments = [word for way, place in asked.items() for word in (f"--can-{way}", place)]
        self.process = run("simulate", *arguments, *(f"--can-fault={fault}" for fault in faults))
        self.places = {way: self._place(pattern) for way, pattern in _PATTERNS.items()}

    def _place(self, pattern: re.Pattern[str]) -> str:
        found: str = self.process.log.wait(f"{pattern.pattern} is served", pattern.search).group(1)
        return found

    def connect(self, way: str) -> can.BusABC:
        place = self.places[way]
        if way == "socketcand":
            host, port = place.rsplit(":", 1)
            return can.Bus(interface=way, channel="drives", host=host, port=int(port), ignore_config=True)
        channel = place if way == "slcan" else f"socket://{place}"
        return can.Bus(interface="slcan", channel=channel, bitrate=500_000, sleep_after_open=0, ignore_config=True)

    def connection(self, way: str) -> Values:
        """Keys of the bridge's connection."""
        place = self.places[way]
        more = {
            "slcan": {"port": place, "bitrate": 500_000, "fd": True},
            "slcan-tcp": {"address": place, "bitrate": 500_000, "fd": True},
            "socketcand": {"address": place, "interface": "drives"},
        }[way]
        backoff = {"reconnect_min_ms": 20, "reconnect_max_ms": 200}
        return {"name": way, "driver": way, "send_ids": ["201"], **backoff, **more}

    def site(self, *ways: str) -> str:
        """A site with all devices at each of these ways."""
        text = lines({"site": {"name": "test", "writes": "allow"}})
        for way in ways:
            text += "[[connections]]\n" + lines(self.connection(way))
            for name in PROFILES:
                more = {"source_address": 0} if name == "engine" else {}
                keys = {"name": f"{name}-{way}", "connection": way, "profile": f"demo/{name}", **more}
                text += "[[devices]]\n" + lines(keys)
        return text


class Node:
    """A node; while it has a command for the drive, it sends that every 100 ms."""

    def __init__(self, bus: can.BusABC) -> None:
        self.bus = bus
        self.command: Values | None = None
        self._counter = 0
        self._due = 0.0

    def send(self, id: int, data: bytes, extended: bool = False) -> None:
        self.bus.send(can.Message(arbitration_id=id, data=data, is_extended_id=extended))

    def say(self, name: str, **values: Any) -> None:
        message = MESSAGES[name]
        self.send(message.frame_id, message.encode(values), message.is_extended_frame)

    def drive(self, *, stands: bool = False, garbles: bool = False, **values: Any) -> None:
        """One command, perhaps with the counter of the one before, or with a wrong check sum."""
        if not stands:
            self._counter = (self._counter + 1) % 16
        idle = {"Enable": 0, "Reset": 0, "SpeedSetpoint": 0, "CommandCounter": self._counter, "Checksum": 0}
        data = bytearray(DRIVE.encode_message("DriveCommand", {**idle, **values}))
        data[7] = crc8(data[:7]) ^ garbles
        self.send(0x201, data)

    def request(self, pgn: int) -> None:
        self.say("RQST", RequestedPGN=pgn)

    def take(self, what: str, wanted: Callable[[can.Message], T | None]) -> T:
        """The first true thing that `wanted` says of a frame."""

        def found() -> T | None:
            for _ in range(20):
                self._beat()
                frame = self.bus.recv(0.05)
                if frame is not None and (answer := wanted(frame)):
                    return answer
            return None

        return until(what, found)

    def see(self, name: str, **want: Any) -> Values:
        """The first message that says all of this."""
        last: Values = {}

        def wanted(frame: can.Message) -> Values | None:
            nonlocal last
            if frame.is_error_frame or message_of(frame) is not MESSAGES[name]:
                return None
            last = decode(frame)
            return last if all(last[key] == value for key, value in want.items()) else None

        try:
            return self.take(f"{name} says {want}", wanted)
        except AssertionError as error:
            raise AssertionError(f"{error}; the last one said {last}") from None

    def frames(self, count: int, name: str) -> list[can.Message]:
        """All frames up to the one that is the `count`-th of a message."""
        seen: list[can.Message] = []

        def wanted(frame: can.Message) -> bool:
            nonlocal count
            seen.append(frame)
            count -= not frame.is_error_frame and message_of(frame) is MESSAGES[name]
            return count == 0

        self.take(f"{name} comes {count} times", wanted)
        return seen

    def _beat(self) -> None:
        if self.command is not None and time.monotonic() >= self._due:
            self._due = time.monotonic() + _PERIOD
            self.drive(**self.command)


class Packets:
    """Puts the packets of a message to all together; the answer comes with the last one."""

    def __init__(self, pgn: int) -> None:
        self.pgn = pgn
        self.head: Values | None = None
        self.parts: list[bytes] = []

    def __call__(self, frame: can.Message) -> bytes | None:
        message = message_of(frame)
        if message is MESSAGES["TP_CM_BAM"] and (head := decode(frame))["AnnouncedPGN"] == self.pgn:
            assert head["ControlByte"] == "BAM" and head["PacketCount"] == -(-head["MessageSize"] // 7), head
            self.head, self.parts = head, []
        if message is MESSAGES["TP_DT_BAM"] and self.head is not None:
            self.parts.append(bytes(frame.data[1:]))
            assert frame.data[0] == len(self.parts), frame
            if len(self.parts) == self.head["PacketCount"]:
                whole, size = b"".join(self.parts), self.head["MessageSize"]
                assert set(whole[size:]) <= {0xFF}, whole
                return whole[:size]
        return None


def message_of(frame: can.Message) -> Message:
    return _IDS[(frame.arbitration_id, frame.is_extended_id)]


def decode(frame: can.Message) -> Values:
    """What it says, in the words of the file."""
    values = message_of(frame).decode(bytes(frame.data))
    return {name: value.name if isinstance(value, NamedSignalValue) else value for name, value in values.items()}


def crc8(data: bytes) -> int:
    """CRC-8 SAE J1850."""
    crc = 0xFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ 0x1D if crc & 0x80 else crc << 1) & 0xFF
    return crc ^ 0xFF
