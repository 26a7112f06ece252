"""The simulator as other masters see it, and the bridge beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pymodbus.client import ModbusTcpClient
from pymodbus.framer import FramerType

import mbpoll
from bridge import Bridge
from conftest import Run, Save
from peers import WAYS, connect
from plant import Site, tag, writable
from plc import COIL, DISCRETE, HOLDING, INPUT
from registers import serial
from waiting import until

pytestmark = pytest.mark.anyio

TCP = re.compile(r"Modbus TCP at (127\.0\.0\.1:\d+)")
METER = [15, 0, 0, 6, 9, 17, 22]
"""The holding registers of the simulated meter."""
RTU_TCP = re.compile(r"RTU over TCP at (127\.0\.0\.1:\d+)")


def address(simulator: Bridge, pattern: re.Pattern[str]) -> str:
    found: str = simulator.log.wait(f"{pattern.pattern} is served", pattern.search).group(1)
    return found


@pytest.fixture
def place(run: Run) -> dict[str, Any]:
    """Where the simulator serves Modbus TCP."""
    simulator = run("simulate", "--modbus", "127.0.0.1:0")
    return {"driver": "modbus-tcp", "address": address(simulator, TCP)}


@pytest.fixture
def port(tmp_path: Path, run: Run) -> str:
    """The port of a line that the simulator's meter hangs on."""
    port = tmp_path / "meter"
    run("simulate", "--modbus-rtu", str(port))
    until("the simulator has made the port", port.exists)
    return str(port)


def test_mbpoll_over_tcp(place: dict[str, Any]) -> None:
    reads_every_table(mbpoll.Master(place))
    reads_what_it_wrote(mbpoll.Master(place))


def test_mbpoll_on_a_line(port: str) -> None:
    poll = mbpoll.Master(serial(port))
    assert poll.read(INPUT, 28) == [0x0142]
    assert poll.read(HOLDING, 0, 7) == METER
    poll.write(HOLDING, 0, 30)
    poll.write(HOLDING, 3, 0, 7, 12, 24)
    assert poll.read(HOLDING, 0, 7) == [30, 0, 0, 0, 7, 12, 24]
    with pytest.raises(mbpoll.Failed, match="Illegal data value"):
        poll.write(HOLDING, 0, 61)
    with pytest.raises(mbpoll.Failed, match="Illegal data address"):
        poll.read(INPUT, 5000)
    # Nobody else is on the line.
    with pytest.raises(mbpoll.Failed, match="timed out"):
        mbpoll.Master(serial(port), unit=9).read(HOLDING, 0)


def reads_every_table(poll: mbpoll.Master) -> None:
    (temperature, pressure) = poll.read(INPUT, 0, 2)
    assert 0 < temperature < 1500 and 0 < pressure < 1000
    assert poll.read(DISCRETE, 0, 2)[1] == 0
    assert poll.read(HOLDING, 10, 2) == [650, 80]
    assert poll.read(COIL, 0, 2) == [1, 1]
    with pytest.raises(mbpoll.Failed, match="Illegal data address"):
        poll.read(HOLDING, 5000)


def reads_what_it_wrote(poll: mbpoll.Master) -> None:
    poll.write(HOLDING, 10, 725)
    poll.write(HOLDING, 10, 700, 60)
    assert poll.read(HOLDING, 10, 2) == [700, 60]
    poll.write(COIL, 0, 0)
    poll.write(COIL, 0, 0, 0)
    assert poll.read(COIL, 0, 2) == [0, 0]


def test_pymodbus_by_rtu_over_tcp(run: Run) -> None:
    simulator = run("simulate", "--modbus-rtu-tcp", "127.0.0.1:0")
    port = int(address(simulator, RTU_TCP).rsplit(":", 1)[1])
    with ModbusTcpClient("127.0.0.1", port=port, framer=FramerType.RTU) as client:
        assert client.read_holding_registers(0, count=7).registers == METER
        client.write_registers(3, [0, 7, 12, 24])
        assert client.read_holding_registers(3, count=4).registers == [0, 7, 12, 24]


async def test_the_bridge_on_a_line(tmp_path: Path, save: Save, port: str) -> None:
    tags = [tag("firmware", "input", 28, "uint16"), writable("interval", "holding", 0, "uint16")]
    site = Site().connect("plc", serial(port)).device("meter", tags)
    async with connect(tmp_path, save(site), WAYS[0]) as bridge:
        await bridge.all_good("*")
        assert (await bridge.write("meter/interval", "30"))["outcome"] == "confirmed"
        assert (await bridge.write("meter/interval", "61"))["outcome"] == "refused"
    # A line has one master at a time: the bridge has let go of the port.
    assert mbpoll.Master(serial(port)).read(HOLDING, 0) == [30]


async def test_mbpoll_and_the_bridge_agree(tmp_path: Path, save: Save, place: dict[str, Any]) -> None:
    site = Site().connect("plc", place).device("boiler", [], profile="demo/boiler")
    poll = mbpoll.Master(place)
    async with connect(tmp_path, save(site), WAYS[0]) as bridge:
        await bridge.all_good("*")
        assert (await bridge.write("boiler/setpoint", "72.5"))["outcome"] == "confirmed"
        assert poll.read(HOLDING, 10) == [725]
        poll.write(HOLDING, 10, 615)
        await bridge.value("boiler/setpoint", 61.5)
        assert (await bridge.write("boiler/pump", "off"))["outcome"] == "confirmed"
        assert poll.read(COIL, 0) == [0]
        poll.write(COIL, 0, 1)
        await bridge.value("boiler/pump", True)
        # What moves by itself is read until both have read the same.
        for path, address, scale in (("temperature", 0, 10), ("pressure", 1, 100)):
            for _ in range(20):
                (raw,) = poll.read(INPUT, address)
                if (await bridge.tag(f"boiler/{path}"))["value"] == raw / scale:
                    break
            else:
                raise AssertionError(f"{path} never agreed")
