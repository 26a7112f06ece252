"""A serial port that is pulled out, plugged in again, or not there yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from conftest import Play, Save
from devices import Kind
from line import Line
from peers import WAYS, Peer, connect
from plant import Site, boiler
from plc import HOLDING, INPUT, Plc, Request
from waiting import until, until_async

pytestmark = pytest.mark.anyio

WAY = WAYS[0]


@pytest.fixture
def plc(play: Play) -> Plc:
    """A PLC with the units of the boiler plant on a line."""
    device = play(Kind("pymodbus", "rtu"), (1, 2))
    assert isinstance(device, Plc)
    return device


@pytest.fixture
def line(plc: Plc) -> Line:
    assert plc.line is not None
    return plc.line


@pytest.fixture
def plant(plc: Plc) -> Callable[..., Site]:
    """The boiler plant on the line, with the speed and parity that Modbus has by default."""

    def make(**connection: int) -> Site:
        place = {key: value for key, value in plc.place.items() if key not in ("baud", "parity")}
        return boiler(place, reconnect_min_ms=50, reconnect_max_ms=200, **connection)

    return make


async def lost(bridge: Peer, detail: str) -> None:
    async def bad() -> bool:
        rows = (await bridge.tags("*")).values()
        return all(row.get("reason") == "not_connected" and detail in row.get("detail", "") for row in rows)

    await until_async(f"all tags are bad and tell of {detail}", bad)


async def test_it_is_pulled_out_and_comes_back(
    tmp_path: Path, save: Save, plc: Plc, line: Line, plant: Callable[..., Site]
) -> None:
    plc.set(INPUT, 0, [654])
    async with connect(tmp_path, save(plant()), WAY) as bridge:
        await bridge.value("boiler/temperature", 65.4)
        await bridge.all_good("*")
        for temperature in (700, 710):
            line.unplug()
            await lost(bridge, str(line.near))
            assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "not_sent"
            plc.set(INPUT, 0, [temperature])
            line.plug()
            await bridge.value("boiler/temperature", temperature / 10)
            await bridge.all_good("*")
        assert plc.writes == []
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "confirmed"
        assert plc.writes == [Request(6, 1, 10, (500,))]


async def test_it_is_not_there_yet(
    tmp_path: Path, save: Save, plc: Plc, line: Line, plant: Callable[..., Site]
) -> None:
    line.unplug()
    async with connect(tmp_path, save(plant()), WAY) as bridge:
        await lost(bridge, str(line.near))
        plc.set(INPUT, 0, [200])
        line.plug()
        await bridge.value("boiler/temperature", 20)


async def test_a_write_under_way_is_unknown_and_never_repeated(
    tmp_path: Path, save: Save, plc: Plc, line: Line, plant: Callable[..., Site]
) -> None:
    async with connect(tmp_path, save(plant(timeout_ms=1000)), WAY) as bridge:
        await bridge.all_good("*")
        plc.hangs = True
        answers = []

        async def write() -> None:
            answers.append(await bridge.write("boiler/setpoint", "50"))

        async def sent() -> bool:
            return bool(plc.writes)

        async with anyio.create_task_group() as group:
            group.start_soon(write)
            await until_async("the write was sent", sent)
            line.unplug()
        assert [answer["outcome"] for answer in answers] == ["unknown"]
        plc.hangs = plc.muted = False
        line.plug()
        await bridge.value("boiler/setpoint", 50)
        assert plc.writes == [Request(6, 1, 10, (500,))]


async def test_the_port_is_let_go(
    tmp_path: Path, save: Save, plc: Plc, line: Line, plant: Callable[..., Site]
) -> None:
    async with connect(tmp_path, save(plant()), WAY) as bridge:
        await bridge.all_good("*")
        assert line.held
    until("nobody has it open", lambda: not line.held)
