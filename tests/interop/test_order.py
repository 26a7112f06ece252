"""Two writes to one tag, sent back to back: the later call wins, whatever the tasks in between do."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from bridge import Bridge, Message, Web, call
from conftest import Serve
from plant import Site, writable
from plc import HOLDING, Plc
from waiting import until

PAIRS = 500
FIRST = 1000
"""Every write of a run has a value of its own, from here on."""
SENT = ("confirmed", "differs", "written", "refused", "unknown")


def site(port: int) -> Site:
    tags = [writable("setpoint", "holding", 10, "uint16"), writable("other", "holding", 11, "uint16")]
    return Site().connect("plc", port).device("boiler", tags, scan_ms=20)


def write(id: int, value: int, era: str) -> Message:
    return call(id, "write_tag", {"tag": "boiler/setpoint", "value": str(value)}, era)


@dataclass
class Trial:
    """What went in: for each pair the values of its first and second call, in the order of their ids."""

    bridge: Bridge
    plc: Plc
    pairs: list[tuple[int, int]]
    ends: list[int]
    """What the PLC held after both calls of a pair were answered."""
    outcomes: dict[int, str]

    def judge(self, ordered: bool) -> None:
        log = {int(record["requested"]): record for record in self.bridge.log.writes()}
        assert sorted(log) == sorted(value for pair in self.pairs for value in pair)
        stamps = {value: record["stamp"] for value, record in log.items()}
        assert len(set(stamps.values())) == 2 * PAIRS
        wire = [request.values[0] for request in self.plc.writes]
        assert {(request.function, request.unit, request.address) for request in self.plc.writes} == {(6, 1, 10)}
        assert len(wire) == len(set(wire)), "a write went over the wire twice"
        if ordered:
            wrong = [pair for pair in self.pairs if stamps[pair[0]] > stamps[pair[1]]]
            assert not wrong, "stamps do not follow the order of arrival"
        for pair, end in zip(self.pairs, self.ends, strict=True):
            older, newer = sorted(pair, key=stamps.__getitem__)
            assert end == newer, f"the device ended with {end}: the older of {pair}"
            assert log[newer]["outcome"] == "confirmed", log[newer]
            if log[older]["outcome"] == "rejected":
                assert log[older]["rule"] == "superseded", log[older]
                assert older not in wire
            else:
                assert log[older]["outcome"] == "confirmed", log[older]
        for value, record in log.items():
            assert record["outcome"] == self.outcomes[value], "log and answer differ"
            assert (value in wire) is (record["outcome"] in SENT)
        order = [stamps[value] for value in wire]
        assert all(before < after for before, after in pairwise(order)), "the wire saw stamps out of order"


def trial(bridge: Bridge, plc: Plc, send: Any, read: Any, ready: Any) -> Trial:
    until("the tag is good", ready)
    run = Trial(bridge, plc, [], [], {})
    for number in range(PAIRS):
        ids = (2 * number + 1, 2 * number + 2)
        pair = (FIRST + ids[0], FIRST + ids[1])
        send(ids, pair)
        for id, value in zip(ids, pair, strict=True):
            run.outcomes[value] = read(id)["result"]["structuredContent"]["outcome"]
        run.pairs.append(pair)
        run.ends.append(plc.get(HOLDING, 10)[0])
    return run


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_500_pairs_over_stdio(serve: Serve, plc: Plc, era: str) -> None:
    bridge = serve(site(plc.port))
    if era == "legacy":
        bridge.initialize()

    def ready() -> bool:
        params = call(0, "read_tags", {"tags": ["boiler/*"]}, era)["params"]
        id = f"ready-{len(bridge.messages())}"
        rows = bridge.ask(id, "tools/call", params)["result"]["structuredContent"]["tags"]
        return all(row["quality"] == "good" for row in rows)

    def send(ids: tuple[int, int], pair: tuple[int, int]) -> None:
        bridge.send(*(write(id, value, era) for id, value in zip(ids, pair, strict=True)))

    run = trial(bridge, plc, send, bridge.answer, ready)
    bridge.end_input()
    assert bridge.wait() == 0
    run.judge(ordered=True)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_500_pairs_over_http(serve: Serve, web: Any, plc: Plc, era: str) -> None:
    bridge = serve(site(plc.port), http=True)
    url = bridge.url()
    clients: tuple[Web, Web] = (web(url, era), web(url, era))
    if era == "legacy":
        clients[0].initialize()
        clients[1].session = clients[0].session
    asked: dict[int, Web] = {}

    def ready() -> bool:
        answer = clients[0].call(call("ready", "read_tags", {"tags": ["boiler/*"]}, era))
        return all(row["quality"] == "good" for row in answer["result"]["structuredContent"]["tags"])

    def send(ids: tuple[int, int], pair: tuple[int, int]) -> None:
        for client, id, value in zip(clients, ids, pair, strict=True):
            asked[id] = client
            client.start(write(id, value, era))

    def read(id: int) -> Message:
        return asked.pop(id).result(id)

    run = trial(bridge, plc, send, read, ready)
    bridge.stop()
    # Two sockets have no order between them: only the stamps tell which call came later.
    run.judge(ordered=False)


@pytest.mark.parametrize("calls", [50, 200])
def test_a_storm_of_writes_ends_with_the_last(serve: Serve, plc: Plc, calls: int) -> None:
    """Not two calls but many in one piece: more than may wait are turned away, and say so."""
    bridge = serve(site(plc.port))
    bridge.initialize()
    until("it reads", lambda: plc.requests)
    values = range(FIRST + 1, FIRST + 1 + calls)
    bridge.send(*(write(value, value, "legacy") for value in values))
    answers = {value: bridge.answer(value)["result"]["structuredContent"] for value in values}
    wire = [write.values[0] for write in plc.writes]
    assert wire == sorted(set(wire)), "out of order, or twice"
    assert wire == [value for value in values if answers[value]["outcome"] == "confirmed"]
    for value in set(values) - set(wire):
        answer = answers[value]
        assert (answer["outcome"], answer.get("rule")) in (("rejected", "superseded"), ("not_sent", None))
    waited = [value for value in values if answers[value]["outcome"] != "not_sent"]
    assert plc.get(HOLDING, 10) == [waited[-1]]
    if calls == 50:
        assert waited == list(values)


def test_writes_to_two_tags_do_not_supersede_each_other(serve: Serve, plc: Plc) -> None:
    bridge = serve(site(plc.port))
    bridge.initialize()
    until("it reads", lambda: plc.requests)
    for turn in range(50):
        ids = (2 * turn + 1, 2 * turn + 2)
        calls = [
            call(id, "write_tag", {"tag": f"boiler/{tag}", "value": str(FIRST + id)})
            for id, tag in zip(ids, ("setpoint", "other"), strict=True)
        ]
        bridge.send(*calls)
        for id in ids:
            assert bridge.answer(id)["result"]["structuredContent"]["outcome"] == "confirmed"
        assert plc.get(HOLDING, 10, 2) == [FIRST + id for id in ids]
    assert len(plc.writes) == 100
