"""What goes over each transport: frames, units, broadcasts, parts of registers, and a peer that comes back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from conftest import Play, Save
from devices import KINDS, Kind
from peers import WAYS, connect
from plant import Site, boiler, tag, writable
from plc import COIL, HOLDING, INPUT, Plc, Request
from waiting import until, until_async

pytestmark = pytest.mark.anyio

WAY = WAYS[0]
BUSES = [Kind("pymodbus", transport) for transport in ("rtu", "rtu-tcp")]
"""Where one peer is many units, and a broadcast reaches all of them."""


@pytest.mark.parametrize("kind", KINDS, ids=str)
async def test_a_write_is_one_frame(tmp_path: Path, save: Save, play: Play, kind: Kind) -> None:
    device = play(kind)
    tags = [
        writable("setpoint", "holding", 10, "uint16"),
        writable("counter", "holding", 12, "uint32"),
        writable("pump", "coil", 2, "bool"),
    ]
    site = Site().connect("plc", device.place).device("boiler", tags)
    async with connect(tmp_path, save(site), WAY) as bridge:
        await bridge.all_good("*")
        for path, value in (("setpoint", "725"), ("counter", "4023233417"), ("pump", "on")):
            assert (await bridge.write(f"boiler/{path}", value))["outcome"] == "confirmed"
    assert device.writes == [
        Request(6, 1, 10, (725,)),
        Request(16, 1, 12, (0xEFCD, 0xAB89)),
        Request(5, 1, 2, (1,)),
    ]
    if line := getattr(device, "line", None):
        # Nor was there one that the peer did not take for a frame.
        for frame in ("0106000A02D5", "0110000C000204EFCDAB89", "01050002FF00"):
            assert line.heard.count(bytes.fromhex(frame)) == 1


@pytest.mark.parametrize("part", ["auto", "mask", "read-modify-write"])
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.transport in ("tcp", "rtu")], ids=str)
async def test_a_part_of_a_register_leaves_the_rest(
    tmp_path: Path, save: Save, play: Play, kind: Kind, part: str
) -> None:
    device = play(kind)
    tags = [
        _part("flag", "bool", bit=3),
        _part("mode", "uint16", bits=[4, 7]),
        _part("offset", "int8", byte="high"),
    ]
    site = Site().connect("plc", device.place).device("boiler", tags, scan_ms=3_600_000, writes={"part": part})
    async with connect(tmp_path, save(site), WAY) as bridge:
        await bridge.all_good("*")
        for before, path, value, after in (
            (0x0000, "flag", "on", 0x0008),
            (0xFFFF, "flag", "off", 0xFFF7),
            (0xA5A5, "mode", "6", 0xA565),
            (0x5A5A, "offset", "-2", 0xFE5A),
        ):
            # The bridge has not read this when it writes.
            device.set(HOLDING, 20, [before])
            answer = await bridge.write(f"boiler/{path}", value)
            assert answer["outcome"] == "confirmed", answer
            assert [f"{word:04X}" for word in device.get(HOLDING, 20)] == [f"{after:04X}"]
    function = 6 if part == "read-modify-write" else 22
    assert [request.function for request in device.writes] == [function] * 4


def _part(name: str, kind: str, **where: Any) -> dict[str, Any]:
    found = writable(name, "holding", 20, kind)
    found["register"] |= where
    return found


async def test_parts_of_a_register_are_read(tmp_path: Path, save: Save, plc: Plc) -> None:
    tags = [
        *(_part(f"bit-{bit}", "bool", bit=bit) for bit in range(16)),
        _part("low", "uint8", byte="low"),
        _part("high", "int8", byte="high"),
        _part("middle", "uint16", bits=[4, 11]),
        _part("all", "uint16", bits=[0, 15]),
    ]
    site = Site().connect("plc", plc.port).device("boiler", tags)
    async with connect(tmp_path, save(site), WAY) as bridge:
        for word in (0x8001, 0xFE5A):
            plc.set(HOLDING, 20, [word])
            wanted = {f"boiler/bit-{bit}": bool(word >> bit & 1) for bit in range(16)} | {
                "boiler/low": word & 0xFF,
                "boiler/high": (word >> 8) - 256,
                "boiler/middle": word >> 4 & 0xFF,
                "boiler/all": word,
            }

            async def read() -> bool:
                rows = await bridge.tags("*")
                return {path: row["value"] for path, row in rows.items()} == wanted

            await until_async(f"{word:04X} is read", read)


@pytest.mark.parametrize("kind", [Kind("pymodbus", "tcp"), *BUSES], ids=str)
async def test_a_silent_unit_holds_up_no_other(tmp_path: Path, save: Save, play: Play, kind: Kind) -> None:
    plc = play(kind, (1, 2))
    assert isinstance(plc, Plc)
    async with connect(tmp_path, save(boiler(plc.place, timeout_ms=100)), WAY) as bridge:
        await bridge.all_good("*")
        plc.silent.add(2)

        async def silent() -> bool:
            row = await bridge.tag("chiller/setpoint")
            return row.get("reason") == "device_silent"

        await until_async("the unit is silent", silent)
        for level in (11, 12, 13):
            plc.set(INPUT, 1, [level])
            await bridge.value("boiler/level", level)
        assert (await bridge.tag("chiller/setpoint"))["reason"] == "device_silent"
        plc.silent.clear()
        await bridge.all_good("*")


@pytest.mark.parametrize("kind", [Kind("pymodbus", "tcp"), *BUSES, Kind("libmodbus", "rtu")], ids=str)
async def test_a_broadcast_reaches_all_units(tmp_path: Path, save: Save, play: Play, kind: Kind) -> None:
    units = (1,) if kind.player == "libmodbus" else (1, 2)
    device = play(kind, units)
    everyone = [writable("setpoint", "holding", 10, "uint16"), writable("pump", "coil", 2, "bool")]
    only: dict[str, Any] = {"broadcast": True} if kind.transport == "tcp" else {}
    site = Site().connect("plc", device.place).device("all", everyone, unit_id=0, **only)
    for unit in units:
        site.device(f"unit-{unit}", [tag("setpoint", "holding", 10, "uint16")], unit_id=unit)
    async with connect(tmp_path, save(site), WAY) as bridge:
        await bridge.all_good("unit-*")
        answer = await bridge.write("all/setpoint", "725")
        assert answer["outcome"] == "sent", answer
        for unit in units:
            await bridge.value(f"unit-{unit}/setpoint", 725)
        assert (await bridge.write("all/pump", "on"))["outcome"] == "sent"
        until("all pumps are on", lambda: [device.get(COIL, 2, unit=unit) for unit in units] == [[True]] * len(units))
    assert device.writes == [Request(6, 0, 10, (725,)), Request(5, 0, 2, (1,))]
    # What nobody answers is never read.
    assert [request for request in device.requests if request.unit == 0] == device.writes


@pytest.mark.parametrize("transport", ["tls", "rtu-tcp"])
async def test_a_plc_that_stops_comes_back(tmp_path: Path, save: Save, play: Play, transport: str) -> None:
    plc = play(Kind("pymodbus", transport), (1, 2))
    assert isinstance(plc, Plc)
    async with connect(tmp_path, save(boiler(plc.place, reconnect_max_ms=500)), WAY) as bridge:
        await bridge.all_good("*")
        assert (plc.accepted, plc.open) == (1, 1)
        plc.stop()

        async def lost() -> bool:
            return {row.get("reason") for row in (await bridge.tags("*")).values()} == {"not_connected"}

        await until_async("it is lost", lost)
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "not_sent"
        plc.set(HOLDING, 10, [333])
        plc.start()
        await bridge.value("boiler/setpoint", 33.3)
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "confirmed"
        assert plc.writes == [Request(6, 1, 10, (500,))]
