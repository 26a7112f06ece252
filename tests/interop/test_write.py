"""Writes: what goes over the wire, and what the answer says."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from pymodbus.client import ModbusTcpClient

from conftest import Save
from peers import WAYS, Peer, Way, connect
from plant import boiler
from plc import COIL, HOLDING, Plc, Request
from waiting import until

pytestmark = pytest.mark.anyio

Connected = AbstractAsyncContextManager[Peer]


async def rejected(bridge: Peer, plc: Plc, rule: str, tag: str, value: Any, **arguments: Any) -> dict[str, Any]:
    """Checks that a write is rejected by `rule` and that the PLC sees nothing of it."""
    before = plc.writes
    answer = await bridge.write(tag, value, **arguments)
    assert (answer["outcome"], answer.get("rule")) == ("rejected", rule), answer
    assert plc.writes == before
    return answer


async def test_a_write_is_confirmed_and_held(peer: Connected, plc: Plc) -> None:
    plc.set(HOLDING, 10, [500])
    async with peer as bridge:
        await bridge.all_good("*")
        answer = await bridge.write("boiler/setpoint", "72.5", reason="a test")
        assert answer["outcome"] == "confirmed"
        assert (answer["tag"], answer["requested"], answer["value"], answer["previous"], answer["unit"]) == (
            "boiler/setpoint",
            72.5,
            72.5,
            50,
            "°C",
        )
        assert answer["acknowledged_by"] == "device"
        assert plc.get(HOLDING, 10) == [725]
        assert plc.writes == [Request(6, 1, 10, (725,))]
        # The read-back is in the store: the very next reading has it.
        row = await bridge.tag("boiler/setpoint")
        assert (row["value"], row["quality"]) == (72.5, "good")


async def test_each_table_and_width_has_its_function(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        for tag, value in (
            ("boiler/pump", "on"),
            ("boiler/speed", "-2"),
            ("boiler/counter", "4023233417"),
            ("boiler/pump", "off"),
        ):
            assert (await bridge.write(tag, value))["outcome"] == "confirmed", tag
        assert plc.writes == [
            Request(5, 1, 2, (1,)),
            Request(6, 1, 11, (0xFFFE,)),
            Request(16, 1, 12, (0xEFCD, 0xAB89)),
            Request(5, 1, 2, (0,)),
        ]
        with ModbusTcpClient("127.0.0.1", port=plc.port) as client:
            assert client.read_coils(2, count=1, device_id=1).bits[0] is False
            registers = client.read_holding_registers(12, count=2, device_id=1).registers
        decoded = ModbusTcpClient.convert_from_registers(registers, ModbusTcpClient.DATATYPE.UINT32)
        assert decoded == 4023233417


async def test_values_may_be_numbers_and_booleans(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        for value, register in ((72.5, 725), (30, 300), ("25", 250), ("2.5e1", 250)):
            answer = await bridge.write("boiler/setpoint", value)
            assert answer["outcome"] == "confirmed", value
            assert plc.get(HOLDING, 10) == [register]
        for value, bit in ((True, 1), ("false", 0), ("true", 1), (False, 0)):
            assert (await bridge.write("boiler/pump", value))["outcome"] == "confirmed", value
            assert plc.get(COIL, 2) == [bit]


async def test_what_the_device_really_holds_is_answered(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        answer = await bridge.write("boiler/setpoint", "21.37")
        assert (answer["outcome"], answer["requested"], answer["value"]) == ("confirmed", 21.37, 21.4)
        assert plc.get(HOLDING, 10) == [214]


@pytest.mark.parametrize("value", ["95.1", "19.9", "1000", "0", 95.01, "95.04", "19.96", "1e3"])
async def test_outside_the_limits_nothing_is_sent(peer: Connected, plc: Plc, value: Any) -> None:
    plc.set(HOLDING, 10, [500])
    async with peer as bridge:
        await bridge.value("boiler/setpoint", 50.0)
        answer = await rejected(bridge, plc, "limits", "boiler/setpoint", value)
        assert "20" in answer["message"] and "95" in answer["message"]
        assert plc.get(HOLDING, 10) == [500]
        assert (await bridge.tag("boiler/setpoint"))["value"] == 50.0
        # The limits themselves may be written.
        for allowed, register in (("95", 950), ("20.0", 200)):
            assert (await bridge.write("boiler/setpoint", allowed))["outcome"] == "confirmed"
            assert plc.get(HOLDING, 10) == [register]


async def test_what_the_raw_type_cannot_hold_is_rejected(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        for tag, value in (
            ("boiler/speed", "32768"),
            ("boiler/speed", "-32769"),
            ("chiller/setpoint", "65536"),
            ("chiller/setpoint", "-1"),
            ("boiler/counter", "4294967296"),
        ):
            await rejected(bridge, plc, "raw_range", tag, value)


async def test_what_is_no_value_of_the_type_is_rejected(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        for tag, value in (
            ("boiler/setpoint", "warm"),
            ("boiler/setpoint", "NaN"),
            ("boiler/setpoint", ""),
            ("boiler/setpoint", "0x10"),
            ("boiler/setpoint", "72,5"),
            ("boiler/pump", "maybe"),
            ("boiler/pump", "2"),
        ):
            await rejected(bridge, plc, "type", tag, value)


async def test_read_only_and_unknown_tags_are_rejected(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        await rejected(bridge, plc, "access", "boiler/temperature", "20")
        await rejected(bridge, plc, "access", "boiler/alarm", "off")
        answer = await rejected(bridge, plc, "tag", "boiler/setpiont", "50")
        assert "boiler/setpoint" in answer["message"]


async def test_expect_guards_a_write(peer: Connected, plc: Plc) -> None:
    plc.set(HOLDING, 10, [500])
    async with peer as bridge:
        await bridge.value("boiler/setpoint", 50.0)
        answer = await rejected(bridge, plc, "expectation", "boiler/setpoint", "60", expect="40")
        assert answer["value"] == 50
        answer = await bridge.write("boiler/setpoint", "60", expect="50.0")
        assert answer["outcome"] == "confirmed"
        assert plc.get(HOLDING, 10) == [600]


async def test_expect_looks_at_the_device_and_not_at_the_store(tmp_path: Path, save: Save, plc: Plc) -> None:
    site = boiler(plc.port)
    for keys, _ in site.devices:
        keys["scan_ms"] = 3_600_000
    plc.set(HOLDING, 10, [500])
    async with connect(tmp_path, save(site), WAYS[0]) as bridge:
        await bridge.value("boiler/setpoint", 50.0)
        plc.set(HOLDING, 10, [400])
        await rejected(bridge, plc, "expectation", "boiler/setpoint", "60", expect="50")
        answer = await bridge.write("boiler/setpoint", "60", expect="40")
        assert (answer["outcome"], answer["previous"]) == ("confirmed", 40)


async def test_a_dry_run_sends_nothing(peer: Connected, plc: Plc) -> None:
    plc.set(HOLDING, 10, [500])
    async with peer as bridge:
        await bridge.value("boiler/setpoint", 50.0)
        answer = await bridge.write("boiler/setpoint", "60", dry_run=True)
        assert answer["outcome"] == "dry_run"
        await rejected(bridge, plc, "limits", "boiler/setpoint", "99", dry_run=True)
        assert plc.writes == []
        assert plc.get(HOLDING, 10) == [500]


@pytest.mark.parametrize(("mode", "rule"), [("off", "mode"), ("confirm", "confirmation")])
async def test_a_site_that_forbids_writing(
    tmp_path: Path, save: Save, plc: Plc, way: Way, mode: str, rule: str
) -> None:
    site = boiler(plc.port)
    site.writes = mode
    async with connect(tmp_path, save(site), way) as bridge:
        await bridge.all_good("*")
        await rejected(bridge, plc, rule, "boiler/setpoint", "50")


async def test_units_are_kept_apart(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        assert (await bridge.write("chiller/setpoint", "7"))["outcome"] == "confirmed"
        assert (plc.get(HOLDING, 10, unit=1), plc.get(HOLDING, 10, unit=2)) == ([0], [7])
        assert plc.writes == [Request(6, 2, 10, (7,))]
        assert {request.unit for request in plc.requests} == {1, 2}


async def test_the_device_may_refuse(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    site = boiler(plc.port)
    site.devices[0][1].append(
        {
            "name": "hole",
            "register": {"table": "holding", "address": 60000},
            "type": "uint16",
            "access": "read-write",
        }
    )
    async with connect(tmp_path, save(site), way) as bridge:
        await bridge.all_good("boiler/setpoint")
        answer = await bridge.write("boiler/hole", "1")
        assert (answer["outcome"], answer["code"]) == ("refused", 2)
        row = await bridge.tag("boiler/hole")
        assert (row["quality"], row["reason"], row["value"]) == ("bad", "device_refused", None)
        assert (await bridge.tag("boiler/setpoint"))["quality"] == "good"


async def test_every_write_is_logged(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        await bridge.write("boiler/setpoint", "50", reason="warm up")
        await bridge.write("boiler/setpoint", "99")
        until("both are logged", lambda: len(bridge.log.writes()) == 2)
        first, second = bridge.log.writes()
        assert first["stamp"] < second["stamp"]
        assert (first["tag"], first["outcome"], first["reason"]) == ("boiler/setpoint", "confirmed", "warm up")
        assert (second["requested"], second["outcome"], second["rule"]) == ("99", "rejected", "limits")
        assert first["caller"]
