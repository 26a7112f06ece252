"""Cases A11 and A15: late answers, cut frames and garbage headers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bridge import Bridge, call
from conftest import Serve
from faulty import Faulty
from plant import Site, tag
from waiting import until

REGISTERS = {0: 0x0102, 1: 0x0304, 2: 0x0506, 3: 0x0708}
GOOD = {f"boiler/r{address}": value for address, value in REGISTERS.items()}


@dataclass
class Reader:
    """Reads tags over a raw pipe."""

    bridge: Bridge
    calls: int = 0

    def rows(self, *tags: str) -> dict[str, dict[str, Any]]:
        self.calls += 1
        message = call(self.calls, "read_tags", {"tags": list(tags)})
        answer = self.bridge.ask(self.calls, message["method"], message["params"])
        return {row["tag"]: row for row in answer["result"]["structuredContent"]["tags"]}


@pytest.fixture
def reader(serve: Serve) -> Iterator[Any]:
    def start(site: Site) -> Reader:
        bridge = serve(site)
        bridge.initialize()
        return Reader(bridge)

    yield start


def four(port: int) -> Site:
    """Four registers that one request reads. The long time-out lets nothing pass by waiting.

    An answer in pieces takes 85 ms, and a value counts its age from the request: three scans must be longer.
    """
    tags = [tag(f"r{address}", "holding", address, "uint16") for address in REGISTERS]
    return Site().connect("plc", port, timeout_ms=30_000).device("boiler", tags, scan_ms=100)


def all_good(reader: Reader) -> bool:
    rows = reader.rows("boiler/*")
    for path, row in rows.items():
        assert row["value"] in (None, GOOD[path]), f"{path} has another's value: {row}"
    return all(row["quality"] == "good" and row["value"] == GOOD[path] for path, row in rows.items())


WHOLE = bytes.fromhex("00210000000B0103080102030405060708")


def cut(frame: bytes, *at: int) -> list[bytes]:
    ends = [*at, len(frame)]
    return [frame[start:end] for start, end in zip([0, *at], ends, strict=True)]


CUTS = {
    "1 a byte a segment": (0.005, range(1, 17)),
    "2 the last byte late": (0.08, [16]),
    "3 header and body apart": (0.02, [7]),
    "4 the header itself cut": (0.02, [3]),
}


@pytest.mark.parametrize("name", CUTS)
def test_a15_frames_cut_anywhere(reader: Any, name: str) -> None:
    pause, places = CUTS[name]

    def answer(request: bytes) -> list[bytes]:
        assert request[6:] == bytes.fromhex("010300000004")
        return cut(request[:2] + WHOLE[2:], *places)

    with Faulty(answer, pause=pause) as device:
        bridge = reader(four(device.port))
        until("all registers are read", lambda: all_good(bridge))
        until("they are read again", lambda: len(device.requests) > 5 and all_good(bridge))
        assert device.accepted == 1


BROKEN = {
    "5 half a frame, then the end": ("00210000000B0103", True),
    "6 protocol id 1": ("0021000100050103020001", False),
    "7 length 0": ("0021000000000103020001", False),
    "8 length 65535": ("00210000FFFF0103020001", False),
    "9 an HTTP server": ("485454502F312E31203430302042616420526571756573740D0A0D0A", False),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a15_streams_that_cannot_be_trusted(reader: Any, name: str) -> None:
    text, closes = BROKEN[name]
    frame = bytes.fromhex(text)
    with Faulty() as device:
        device.registers.update(REGISTERS)

        def once(request: bytes) -> list[bytes] | None:
            device.answer = device.honest
            return [frame if name[0] == "9" else request[:2] + frame[2:]]

        device.answer = once
        bridge = reader(four(device.port))
        if closes:
            until("the half frame is out", lambda: device.answered == 1)
            device.drop()
        # The time-out is 30 s: whoever waits for the rest of the frame is too late.
        until("all registers are read over a new connection", lambda: all_good(bridge), 10)
        assert device.accepted == 2
        log = bridge.bridge.log.text()
        assert "panicked" not in log
        if name[0] == "9":
            assert "HTTP server" in log, log


def test_a11_a_late_answer_is_nobody_elses(reader: Any) -> None:
    """The case's own two registers: the answer to the first comes after its time-out, before that to the second."""
    late: list[bytes] = []
    with Faulty() as device:

        def answer(request: bytes) -> list[bytes]:
            address = int.from_bytes(request[8:10], "big")
            segments = device.honest(request)
            if address == 100 and not late:
                late.extend(segments)
                return []
            if late and len(late) == 1:
                late.append(b"")
                return [late[0], *segments]
            return segments

        device.registers.update({100: 0x1111, 1200: 0x2222})
        device.answer = answer
        tags = [tag("first", "holding", 100, "uint16"), tag("second", "holding", 1200, "uint16")]
        site = Site().connect("plc", device.port, timeout_ms=200).device("boiler", tags, scan_ms=50)
        bridge = reader(site)
        wanted = {"boiler/first": 0x1111, "boiler/second": 0x2222}

        def right() -> bool:
            rows = bridge.rows("boiler/*")
            for path, row in rows.items():
                assert row["value"] in (None, wanted[path]), row
            return len(late) == 2 and all(row["quality"] == "good" for row in rows.values())

        until("both are good", right)


def test_a11_a_thousand_reads_of_a_device_that_is_late_at_random(reader: Any) -> None:
    chance = random.Random(11)
    held: list[bytes] = []
    with Faulty() as device:

        def answer(request: bytes) -> list[bytes]:
            segments = device.honest(request)
            if chance.random() < 0.04:
                held.extend(segments)
                return []
            segments = [*held, *segments]
            held.clear()
            return segments

        addresses = range(0, 10_000, 1000)
        device.registers.update({address: address for address in addresses})
        device.answer = answer
        tags = [tag(f"r{address}", "holding", address, "uint16") for address in addresses]
        site = Site().connect("plc", device.port, timeout_ms=50).device("boiler", tags, scan_ms=10)
        bridge = reader(site)
        good: set[str] = set()

        def enough() -> bool:
            for path, row in bridge.rows("boiler/*").items():
                address = int(path.removeprefix("boiler/r"))
                assert row["value"] in (None, address), row
                if row["quality"] == "good":
                    good.add(path)
            return len(device.requests) >= 1000 and len(good) == len(addresses)

        until("a thousand reads were made", enough, 60)
