"""The PLC goes away and comes back."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime, timezone
from pathlib import Path

import anyio
import pytest

from conftest import Save
from peers import Peer, Way, connect
from plant import boiler
from plc import HOLDING, INPUT, Plc
from waiting import until_async

pytestmark = pytest.mark.anyio

Connected = AbstractAsyncContextManager[Peer]


async def lost(bridge: Peer) -> None:
    async def bad() -> bool:
        return {row["quality"] for row in (await bridge.tags("*")).values()} == {"bad"}

    await until_async("all tags are bad", bad)


async def test_two_devices_share_one_connection(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        await bridge.write("boiler/setpoint", "50")
        await bridge.write("chiller/setpoint", "50")
        assert (plc.accepted, plc.open) == (1, 1)


async def test_a_stopped_plc_leaves_value_and_time(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [654, 42])
    async with peer as bridge:
        await bridge.all_good("*")
        before = await bridge.tags("*")
        plc.stop()
        stopped = datetime.now(timezone.utc)
        await lost(bridge)
        rows = await bridge.tags("*")
        for path, row in rows.items():
            assert (row["quality"], row["reason"]) == ("bad", "not_connected"), path
            assert row["value"] == before[path]["value"], path
            taken = datetime.fromisoformat(row["source_time"])
            assert datetime.fromisoformat(before[path]["source_time"]) <= taken <= stopped, path
        later = await bridge.tags("*")
        assert {path: row["source_time"] for path, row in later.items()} == {
            path: row["source_time"] for path, row in rows.items()
        }
        assert all(later[path]["age_ms"] >= rows[path]["age_ms"] for path in rows)
        assert (await bridge.resource("fieldbridge://tags/boiler/temperature"))["reason"] == "not_connected"
        device = (await bridge.answer("list_devices"))["devices"][0]
        assert device["state"] == "not_connected"
        assert device["tags"] == {"good": 0, "uncertain": 0, "bad": 7}


async def test_tools_answer_while_the_plc_is_down(peer: Connected, plc: Plc) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        plc.stop()
        await lost(bridge)
        # A write fails at once: well before its own deadline of five seconds.
        with anyio.fail_after(3):
            answer = await bridge.write("boiler/setpoint", "50")
            await bridge.answer("list_tags")
            await bridge.answer("list_devices")
        assert answer["outcome"] == "not_sent"
        # Nor is it sent later.
        plc.start()
        await bridge.all_good("*")
        assert plc.writes == []
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "confirmed"


async def test_good_only_after_a_good_read(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    plc.set(INPUT, 0, [200])
    async with connect(tmp_path, save(boiler(plc.port, timeout_ms=200)), way) as bridge:
        await bridge.value("boiler/temperature", 20.0)
        plc.stop()
        await lost(bridge)
        plc.set(INPUT, 0, [300])
        plc.muted = True
        accepted, asked = plc.accepted, len(plc.requests)
        plc.start()

        async def connected() -> bool:
            rows = await bridge.tags("*")
            assert not [row for row in rows.values() if row["quality"] == "good"], "good, yet nothing was read"
            return plc.accepted > accepted and len(plc.requests) > asked + 1

        await until_async("it is connected and asks, but gets no answer", connected)
        assert (await bridge.tag("boiler/temperature"))["value"] == 20.0
        plc.muted = False

        async def good() -> bool:
            row = await bridge.tag("boiler/temperature")
            assert row["quality"] != "good" or row["value"] == 30.0, "good with the value of before"
            return row["quality"] == "good"

        await until_async("the tag is good again", good)
        await bridge.all_good("*")


async def test_a_silent_plc_makes_tags_bad(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    plc.set(INPUT, 0, [200])
    async with connect(tmp_path, save(boiler(plc.port, timeout_ms=100)), way) as bridge:
        await bridge.all_good("*")
        plc.muted = True

        async def silent() -> bool:
            row = await bridge.tag("boiler/temperature")
            assert row["value"] == 20.0
            return row.get("reason") in ("device_silent", "not_connected")

        await until_async("the tag is bad", silent)
        plc.muted = False
        await bridge.all_good("*")


async def test_a_write_without_an_answer_is_unknown(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    async with connect(tmp_path, save(boiler(plc.port, timeout_ms=200)), way) as bridge:
        await bridge.all_good("*")
        plc.muted = True
        answer = await bridge.write("boiler/setpoint", "50")
        assert answer["outcome"] == "unknown"
        plc.muted = False
        await bridge.value("boiler/setpoint", 50.0)
        assert [request.values for request in plc.writes] == [(500,)], "sent once, and never again"


async def test_a_plc_that_comes_late(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    plc.stop()
    async with connect(tmp_path, save(boiler(plc.port)), way) as bridge:
        rows = await bridge.tags("*")
        assert {row["quality"] for row in rows.values()} == {"bad"}
        assert {row["value"] for row in rows.values()} == {None}
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "not_sent"
        plc.set(HOLDING, 10, [333])
        plc.start()
        await bridge.value("boiler/setpoint", 33.3)
        assert plc.accepted == 1
