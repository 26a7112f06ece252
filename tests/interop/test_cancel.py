"""Case D09 over stdio, where cancelling is a notification: did the valve move?"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from bridge import Bridge, Message, call
from conftest import CASES, Serve
from faulty import Faulty
from plant import Site, tag, writable
from waiting import until

FILE = CASES / "files" / "D09_cancel.jsonl"


@pytest.fixture
def slow() -> Iterator[Faulty]:
    """Answers writes only once its gate is open."""
    gate = threading.Event()
    with Faulty() as device:

        def answer(request: bytes) -> list[bytes]:
            if request[7] == 6:
                gate.wait(20)
            return device.honest(request)

        device.answer = answer
        device.gate = gate  # type: ignore[attr-defined]
        yield device
        gate.set()


def writes(device: Faulty) -> list[bytes]:
    return [request for request in device.requests if request[7] in (5, 6, 15, 16)]


def started(serve: Serve, device: Faulty) -> Bridge:
    tags = [writable("sp", "holding", 10, "uint16"), tag("pv", "holding", 11, "uint16")]
    site = Site().connect("plc", device.port, timeout_ms=10_000).device("slow", tags, scan_ms=50)
    bridge = serve(site)
    until("it reads", lambda: device.answered > 1)
    return bridge


def cancelled(id: int | str | None) -> Message:
    params = {} if id is None else {"requestId": id}
    return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}


def answered(bridge: Bridge) -> list[Any]:
    """The ids of all answers, once the input has ended."""
    bridge.end_input()
    assert bridge.wait() == 0, bridge.log.text()
    return [message.get("id") for message in bridge.messages()]


def test_1_and_3_cancel_while_the_device_is_slow(serve: Serve, slow: Faulty) -> None:
    bridge = started(serve, slow)
    text = FILE.read_text().replace("WRITE_TOOL", "write_tag").replace("slow.sp", "slow/sp")
    for line in text.splitlines():
        bridge.write(line.encode() + b"\n")
        message = json.loads(line)
        if message.get("id") == 2:
            until("the write is on the wire", lambda: writes(slow))
        elif "id" in message:
            bridge.answer(message["id"])
    slow.gate.set()  # type: ignore[attr-defined]
    until("the write is logged", bridge.log.writes)
    (record,) = bridge.log.writes()
    assert record["outcome"] in ("confirmed", "unknown")
    ids = answered(bridge)
    assert sorted(ids) == [1, 3, 4], "a cancelled call is not answered"
    assert len(writes(slow)) == 1


def test_2_cancel_in_the_queue(serve: Serve, slow: Faulty) -> None:
    bridge = started(serve, slow)
    bridge.initialize()
    bridge.send(call(1, "write_tag", {"tag": "slow/sp", "value": "50"}))
    until("the first is on the wire", lambda: writes(slow))
    bridge.send(call(2, "write_tag", {"tag": "slow/sp", "value": "60"}), cancelled(2))
    bridge.ask(3, "ping")
    slow.gate.set()  # type: ignore[attr-defined]
    bridge.answer(1)
    # A later write is a barrier: by then the cancelled one would have been sent.
    last = call(4, "write_tag", {"tag": "slow/sp", "value": "70"})
    assert bridge.ask(4, last["method"], last["params"])["result"]["structuredContent"]["outcome"] == "confirmed"
    assert 2 not in answered(bridge)
    assert [request[-2:] for request in writes(slow)] == [b"\x00\x32", b"\x00\x46"]


def test_3_to_5_cancelling_nothing(serve: Serve, slow: Faulty) -> None:
    bridge = started(serve, slow)
    bridge.initialize()
    bridge.send(call(2, "write_tag", {"tag": "slow/sp", "value": "50"}))
    until("the write is on the wire", lambda: writes(slow))
    bridge.send(cancelled(999), cancelled(None), cancelled(0), cancelled("2"))
    slow.gate.set()  # type: ignore[attr-defined]
    assert bridge.answer(2)["result"]["structuredContent"]["outcome"] == "confirmed"
    bridge.send(cancelled(2))
    assert "result" in bridge.ask(3, "ping")
    assert answered(bridge) == [0, 2, 3]
    assert len(writes(slow)) == 1


def test_10_a_ping_among_a_hundred_slow_calls(serve: Serve, slow: Faulty) -> None:
    bridge = started(serve, slow)
    bridge.initialize()
    bridge.send(*(call(id, "write_tag", {"tag": "slow/sp", "value": str(id)}) for id in range(1, 101)))
    until("a write is on the wire", lambda: writes(slow))
    for id in range(200, 220):
        assert "result" in bridge.ask(id, "ping")
    slow.gate.set()  # type: ignore[attr-defined]
    outcomes = [bridge.answer(id)["result"]["structuredContent"]["outcome"] for id in range(1, 101)]
    # More than may wait are turned away at once.
    assert set(outcomes) <= {"confirmed", "rejected", "not_sent"}
    waited = [id for id, outcome in enumerate(outcomes, 1) if outcome != "not_sent"]
    assert slow.registers[10] == waited[-1]
    assert len(writes(slow)) == outcomes.count("confirmed")
