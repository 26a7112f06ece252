"""The simulator as other masters see it, and the bridge beside them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import mbpoll
from bridge import Bridge
from conftest import Run, Save
from peers import WAYS, connect
from plant import Site
from plc import COIL, DISCRETE, HOLDING, INPUT

pytestmark = pytest.mark.anyio

_ADDRESS = re.compile(r"Modbus TCP at (127\.0\.0\.1:\d+)")


@pytest.fixture
def place(run: Run) -> dict[str, Any]:
    """Where the simulator serves Modbus TCP."""
    simulator: Bridge = run("simulate", "--modbus", "127.0.0.1:0")
    address = simulator.log.wait("Modbus TCP is served", _ADDRESS.search).group(1)
    return {"driver": "modbus-tcp", "address": address}


def test_mbpoll_reads_every_table(place: dict[str, Any]) -> None:
    poll = mbpoll.Master(place)
    (temperature, pressure) = poll.read(INPUT, 0, 2)
    assert 0 < temperature < 1500 and 0 < pressure < 1000
    assert poll.read(DISCRETE, 0, 2)[1] == 0
    assert poll.read(HOLDING, 10, 2) == [650, 80]
    assert poll.read(COIL, 0, 2) == [1, 1]
    with pytest.raises(mbpoll.Failed, match="Illegal data address"):
        poll.read(HOLDING, 5000)


def test_mbpoll_reads_what_mbpoll_wrote(place: dict[str, Any]) -> None:
    poll = mbpoll.Master(place)
    poll.write(HOLDING, 10, 725)
    poll.write(HOLDING, 10, 700, 60)
    assert poll.read(HOLDING, 10, 2) == [700, 60]
    poll.write(COIL, 0, 0)
    poll.write(COIL, 0, 0, 0)
    assert poll.read(COIL, 0, 2) == [0, 0]


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
