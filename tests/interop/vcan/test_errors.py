"""SocketCAN: error frames, by which controllers tell of their bus."""

from __future__ import annotations

import pytest

from cansite import message, tag, writable
from conftest import Candumps, Serve
from kernel import send
from mqtt import Plant

TAGS = [tag("speed", "181", 8, "int16", scale=0.5), writable("mode", "201", 0, "uint8")]
BUS_OFF = "20000040#0000000000000000"
RESTARTED = "20000100#0000000000000000"


@pytest.fixture
def plant(serve: Serve) -> Plant:
    plant = serve(TAGS, [message("201", 1)], send_ids=["201"])
    plant.wait_online("d")
    send("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    return plant


def go_off(plant: Plant) -> None:
    send(BUS_OFF)
    for name in ("speed", "mode"):
        row = plant.wait(f"d/{name}", quality="bad", reason="not_connected")
        assert row["detail"] == "bus-off", row
    device = plant.wait_link("d", "bus-off")
    assert device["state"] == "not_connected", device


def test_nothing_is_good_and_nothing_is_sent_while_the_controller_is_bus_off(plant: Plant, candump: Candumps) -> None:
    watch = candump()
    go_off(plant)
    answer = plant.write("d/mode", "1")
    assert answer["outcome"] == "not_sent", answer
    assert "bus-off" in answer["message"], answer
    send("7FF#")
    assert watch.until("7FF#") == [], "nor any later"
    assert plant.device("d")["link_detail"] == "bus-off"


def test_a_controller_that_was_restarted_takes_part_again(plant: Plant) -> None:
    go_off(plant)
    send(RESTARTED)
    row = plant.wait("d/speed", quality="uncertain", reason="stale")
    assert row["value"] == 500, row
    plant.wait("d/mode", quality="bad", reason="never_read")
    device = plant.device("d")
    assert (device["state"], device.get("link_detail")) == ("waiting", None), device
    assert plant.write("d/mode", "1")["outcome"] == "written"
    send("181#00E903")
    plant.wait("d/speed", value=500.5, quality="good")
    assert plant.device("d")["state"] == "online"


def test_a_frame_tells_that_the_controller_takes_part_again(plant: Plant) -> None:
    go_off(plant)
    send("181#00E903")
    plant.wait("d/speed", value=500.5, quality="good")
    plant.wait("d/mode", quality="bad", reason="never_read")
    device = plant.device("d")
    assert (device["state"], device.get("link_detail")) == ("online", None), device
    assert plant.write("d/mode", "1")["outcome"] == "written"


STATES = {
    "20000004#0004000000000000": "receive error warning",
    "20000004#0008000000000000": "transmit error warning",
    "20000004#0010000000000000": "receive error-passive",
    "20000004#0030000000000000": "receive error-passive, transmit error-passive",
}


@pytest.mark.parametrize("frame", STATES)
def test_a_state_of_the_controller_is_told_until_it_is_over(plant: Plant, frame: str) -> None:
    send(frame)
    device = plant.wait_link("d", STATES[frame])
    assert (device["link"], device["state"]) == ("connected", "online"), device
    assert device["connection_counts"]["errors"] == 1, device
    assert plant.tag("d/speed")["quality"] == "good"
    assert plant.write("d/mode", "1")["outcome"] == "written"
    assert plant.device("d")["link_detail"] == STATES[frame], "a frame does not end it"
    send("20000004#0040000000000000", "181#000200")
    plant.wait("d/speed", value=1, quality="good")
    assert "link_detail" not in plant.device("d")


EVENTS = {
    "20000020#0000000000000000": "no other node acknowledges",
    "20000002#0300000000000000": "lost arbitration",
    "20000088#0000020000000000": "protocol violation, bus error",
    "20000001#0000000000000000": "transmit time-out",
}


@pytest.mark.parametrize("frame", EVENTS)
def test_what_happens_on_the_bus_is_told_and_makes_no_value_doubtful(plant: Plant, frame: str) -> None:
    send(frame)
    device = plant.wait_link("d", EVENTS[frame])
    assert (device["state"], device["connection_counts"]["errors"]) == ("online", 1), device
    assert plant.tag("d/speed")["quality"] == "good"


def test_frames_that_the_controller_lost_make_values_doubtful(plant: Plant) -> None:
    send("20000004#0001000000000000")
    row = plant.wait("d/speed", quality="uncertain", reason="stale")
    assert (row["value"], row["detail"]) == (500, "frames were lost: it may have been among them"), row
    plant.wait_link("d", "receive buffer overflow")
    send("181#000200")
    plant.wait("d/speed", value=1, quality="good")
