"""Values of every type and order, read and written, over every transport and with every PLC."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from conftest import Play, Save
from devices import KINDS, Kind
from encoding import CASES, NUMBERS, ORDERS, Case, plain, registers, same, written
from peers import WAYS, Peer, Way, connect
from plant import Site, tag, writable
from plc import COIL, DISCRETE, HOLDING, INPUT, Plc, Request
from registers import Device
from waiting import until_async

pytestmark = pytest.mark.anyio

PLACED: list[tuple[int, Case]] = []
"""The cases, each with the address of its first register."""
for _case in CASES:
    PLACED.append((sum(case.width for _, case in PLACED), _case))
BITS = [[True, False, True, True, False, False, False, True, True, False], [False] * 9 + [True]]
"""Values of coils and discrete inputs: ten of them, which is no whole number of bytes."""
COILS, WORD = 32, 500
STEPS = max(len(case.pairs) for case in CASES)


def site(device: Device) -> Site:
    tags = [writable(case.name, "holding", address, **_keys(case)) for address, case in PLACED]
    # Input registers are read by a function of their own.
    tags += [tag(f"input-{case.name}", "input", address, **_keys(case)) for address, case in PLACED[::7]]
    tags += [
        writable("coil", "coil", 3, "bool"),
        writable("coils", "coil", COILS, "bool", count=len(BITS[0])),
        tag("discretes", "discrete", COILS, "bool", count=len(BITS[0])),
        writable("word", "holding", WORD, "bool"),
    ]
    # A line takes longer than a scan for so many registers.
    return Site().connect("plc", device.place).device("values", tags, stale_after_ms=10_000)


def _keys(case: Case) -> dict[str, Any]:
    keys = dict(case.keys)
    return {"kind": keys.pop("type"), **keys}


@pytest.fixture(params=list(enumerate(KINDS)), ids=lambda pair: str(pair[1]))
def pair(request: pytest.FixtureRequest) -> tuple[Kind, Way]:
    """Every PLC at every transport, and in turn the ways of a client."""
    number, kind = request.param
    return kind, WAYS[number % len(WAYS)]


async def all_read(bridge: Peer, wanted: dict[str, tuple[str, Any]]) -> None:
    """Waits until the bridge serves what is wanted; tells what is wrong where it never does."""
    wrong: dict[str, Any] = {}

    async def read() -> bool:
        rows = await bridge.tags("values/*")
        wrong.clear()
        for path, (kind, value) in wanted.items():
            row = rows[path]
            if row["quality"] != "good" or not same(kind, row["value"], value):
                wrong[path] = (row, value)
        return not wrong

    try:
        await until_async("all values are read", read)
    except AssertionError:
        raise AssertionError(f"read, and wanted: {wrong}") from None


async def test_every_value_is_read(tmp_path: Path, save: Save, pair: tuple[Kind, Way], play: Play) -> None:
    kind, way = pair
    device = play(kind)
    async with connect(tmp_path, save(site(device)), way) as bridge:
        for step in range(STEPS):
            wanted: dict[str, tuple[str, Any]] = {}
            for address, case in PLACED:
                value, encoded = case.pair(step)
                device.set(HOLDING, address, encoded)
                wanted[f"values/{case.name}"] = (case.kind, value)
            for address, case in PLACED[::7]:
                value, encoded = case.pair(step + 1)
                device.set(INPUT, address, encoded)
                wanted[f"values/input-{case.name}"] = (case.kind, value)
            bits = BITS[step % 2]
            for table in (COIL, DISCRETE):
                device.set(table, COILS, bits)
            device.set(COIL, 3, [step % 2 == 0])
            device.set(HOLDING, WORD, [step % 2])
            wanted |= {f"values/{name}": ("bool", bits) for name in ("coils", "discretes")}
            wanted["values/coil"] = ("bool", step % 2 == 0)
            wanted["values/word"] = ("bool", step % 2 == 1)
            await all_read(bridge, wanted)


async def test_every_value_is_written(tmp_path: Path, save: Save, pair: tuple[Kind, Way], play: Play) -> None:
    kind, way = pair
    device = play(kind)
    async with connect(tmp_path, save(site(device)), way) as bridge:
        await bridge.all_good("values/word")
        sent = []

        async def write(name: str, kind: str, value: Any, request: Request) -> None:
            answer = await bridge.write(f"values/{name}", written(value))
            assert answer["outcome"] == "confirmed", answer
            assert same(kind, answer["value"], value), answer
            sent.append(request)

        for address, case in PLACED:
            for value, encoded in case.pairs:
                code = 6 if case.width == 1 else 16
                await write(case.name, case.kind, value, Request(code, 1, address, tuple(encoded)))
                assert device.get(HOLDING, address, case.width) == encoded, (case, value)
        for bits in BITS:
            await write("coils", "bool", bits, Request(15, 1, COILS, tuple(map(int, bits))))
            assert device.get(COIL, COILS, len(bits)) == bits
        for value in (True, False):
            await write("coil", "bool", value, Request(5, 1, 3, (int(value),)))
            assert device.get(COIL, 3) == [value]
            await write("word", "bool", value, Request(6, 1, WORD, (int(value),)))
            assert device.get(HOLDING, WORD) == [value]
        # Each went over the wire once, whole, and nothing else did.
        assert device.writes == sent


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_no_number_is_served_as_null(tmp_path: Path, save: Save, plc: Plc, value: float) -> None:
    floats = [
        (address, case)
        for address, case in PLACED
        if case.kind.startswith("float") and "count" not in case.keys
    ]
    assert len(floats) == sum(len(ORDERS[len(plain(kind, 0.0))]) for kind in NUMBERS if kind.startswith("float"))
    for address, case in floats:
        plc.set(HOLDING, address, registers(plain(case.kind, value), case.keys["byte_order"]))
    async with connect(tmp_path, save(site(plc)), WAYS[0]) as bridge:
        await bridge.all_good("values/int16-ABCD")
        rows = await bridge.tags(*(f"values/{case.name}" for _, case in floats))
        assert len(rows) == len(floats)
        for row in rows.values():
            assert (row["value"], row["quality"], row["reason"]) == (None, "bad", "decode_error"), row
