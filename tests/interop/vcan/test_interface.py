"""SocketCAN: an interface that goes down, goes away, or is not there yet."""

from __future__ import annotations

import pytest

import kernel
from cansite import message, tag, writable
from conftest import Candumps, Serve
from kernel import send
from mqtt import Plant

TAGS = [tag("speed", "181", 8, "int16", scale=0.5), writable("mode", "201", 0, "uint8")]


def start(serve: Serve) -> Plant:
    return serve(TAGS, [message("201", 1)], send_ids=["201"])


def not_there(plant: Plant, why: str) -> None:
    """All says that there is no bus, and why."""
    for name in ("speed", "mode"):
        plant.wait(f"d/{name}", quality="bad", reason="not_connected", detail=f"vcan0: {why}")
    device = plant.wait_link("d", why)
    assert (device["link"], device["state"]) == ("backing_off", "not_connected"), device
    answer = plant.write("d/mode", "1")
    assert answer["outcome"] == "not_sent", answer


GONE = {
    "down": (kernel.down, "the interface is down"),
    "deleted": (kernel.remove, "there is no such interface"),
}


@pytest.mark.parametrize("how", GONE)
def test_it_goes_and_comes_back(serve: Serve, candump: Candumps, how: str) -> None:
    go, why = GONE[how]
    plant = start(serve)
    plant.wait_online("d")
    for value in (500, 501):
        send("181#00" + (2 * value).to_bytes(2, "little").hex())
        plant.wait("d/speed", value=value, quality="good")
        go()
        not_there(plant, why)
        if not kernel.exists():
            kernel.add()
            not_there(plant, "the interface is down")
        kernel.up()
        plant.wait_online("d")
        row = plant.wait("d/speed", quality="uncertain", reason="stale")
        assert (row["value"], row["detail"]) == (value, "no frame since the connection came back"), row
        device = plant.device("d")
        assert (device["state"], device.get("link_detail")) == ("waiting", None), device
        # A frame of others changes nothing of it.
        watch = candump()
        send("7FF#")
        watch.until("7FF#")
        assert plant.tag("d/speed")["quality"] == "uncertain"
    send("181#000200")
    plant.wait("d/speed", value=1, quality="good")
    watch = candump()
    assert plant.write("d/mode", "7")["outcome"] == "written"
    send("7FF#")
    assert watch.until("7FF#") == ["201#07"], "nothing of before is sent late"


@pytest.mark.parametrize("how", GONE)
def test_it_is_not_there_when_the_program_starts(serve: Serve, how: str) -> None:
    go, why = GONE[how]
    go()
    plant = start(serve)
    not_there(plant, why)
    if not kernel.exists():
        kernel.add()
    kernel.up()
    plant.wait_online("d")
    plant.wait("d/speed", quality="bad", reason="never_read")
    send("181#000200")
    plant.wait("d/speed", value=1, quality="good")
    assert plant.write("d/mode", "7")["outcome"] == "written"


def test_an_interface_that_is_none_of_can(serve: Serve) -> None:
    plant = serve([tag("speed", "181", 8, "int16")], interface="lo")
    device = plant.wait_link("d", "it is no CAN interface")
    assert (device["link"], device["state"]) == ("backing_off", "not_connected"), device
