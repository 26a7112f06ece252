"""SocketCAN: frames in both directions, against can-utils and python-can."""

from __future__ import annotations

import threading

import can
import pytest

import kernel
from bridge import Message
from cansite import message, tag, writable
from conftest import Candumps, Serve
from kernel import send
from mqtt import Plant

TAGS = [
    tag("speed", "181", 8, "int16", scale=0.5),
    tag("state", "181", 0, "uint8", 4),
    tag("oil", "18FF0021", 7, "uint16", bits={"start": 7, "length": 16, "order": "motorola"}),
    tag("last", "182", 504, "uint8"),
    tag("wide", "18FF0022", 64, "uint32"),
]


def counts(plant: Plant) -> Message:
    return plant.device("d")["connection_counts"]


def test_frames_of_11_and_29_bits_are_values(serve: Serve) -> None:
    plant = serve(TAGS)
    plant.wait_online("d")
    send("181#02E8030000000000")
    plant.wait("d/speed", value=500, quality="good")
    plant.wait("d/state", value=2, quality="good")
    send("181#F3FEFF")
    plant.wait("d/speed", value=-1, quality="good")
    plant.wait("d/state", value=3, quality="good")
    send("18FF0021#1234")
    plant.wait("d/oil", value=0x1234, quality="good")
    assert plant.device("d")["state"] == "online"


def test_frames_of_can_fd_are_values(serve: Serve) -> None:
    plant = serve(TAGS, fd=True)
    plant.wait_online("d")
    send("182##0" + "00" * 63 + "2A")
    plant.wait("d/last", value=42, quality="good")
    send("182##1" + "00" * 63 + "2B")
    plant.wait("d/last", value=43, quality="good")
    send("18FF0022##1" + "00" * 8 + "78563412")
    plant.wait("d/wide", value=0x12345678, quality="good")


def test_frames_of_can_fd_say_nothing_where_they_are_not_asked_for(serve: Serve) -> None:
    plant = serve(TAGS)
    plant.wait_online("d")
    send("181##1020100", "18FF0021#0001")
    plant.wait("d/oil", value=1, quality="good")
    assert plant.tag("d/speed")["reason"] == "never_read"
    assert (counts(plant)["messages"], counts(plant)["garbled"]) == (1, 1)


def test_frames_that_nobody_wants_stay_in_the_kernel(serve: Serve) -> None:
    plant = serve(TAGS)
    plant.wait_online("d")
    # The same numbers with 29 bits, with 11 bits, and as remote frames; then many others.
    send("00000181#01", "021#0001", "181#R", "18FF0021#R2")
    kernel.run("cangen", "vcan0", "-g", "0", "-I", "180", "-L", "8", "-n", "1000")
    send("181#02E803")
    plant.wait("d/speed", value=500, quality="good")
    assert (counts(plant)["messages"], counts(plant)["dropped"], counts(plant)["garbled"]) == (1, 0, 0)


def test_more_frames_than_the_kernel_has_filters_for(serve: Serve) -> None:
    plant = serve([tag(f"t{number}", f"{number:03X}", 0, "uint8") for number in range(0x100, 0x100 + 513)])
    plant.wait_online("d")
    send("7FF#01", "100#07", "300#08")
    plant.wait("d/t768", value=8, quality="good")
    assert (plant.tag("d/t256")["value"], plant.tag("d/t257")["reason"]) == (7, "never_read")
    assert (counts(plant)["messages"], counts(plant)["dropped"]) == (3, 1)


DBC = (
    'VERSION ""\nNS_ :\nBS_:\nBU_: A B\n'
    'BO_ 2364540158 EEC1: 8 A\n SG_ Speed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" B\n'
    'BO_ 2348810494 TSC1: 8 B\n SG_ Wanted : 8|16@1+ (0.125,0) [0|8031.875] "rpm" A\n'
    'BO_ 2566834942 Long: 20 A\n SG_ Last : 152|8@1+ (1,0) [0|250] "" B\n'
    'BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";\n'
    'BA_DEF_DEF_ "VFrameFormat" "J1939PG";\n'
)


def test_parameter_groups_of_j1939_pass_the_filters(serve: Serve) -> None:
    plant = serve(
        [], profile={"dbc": "node.dbc", "all_signals": True}, files={"node.dbc": DBC}, device={"source_address": 5}
    )
    plant.wait_online("d")
    # Of another sender; then of ours, with another priority than the file has.
    send("0CF00400#FFFFFF0010FFFFFF", "18F00405#FFFFFF4020FFFFFF")
    plant.wait("d/EEC1/Speed", value=1032, quality="good")
    # One with a destination, whoever that is.
    send("0C00AB05#FE0010FFFFFFFFFF")
    plant.wait("d/TSC1/Wanted", value=512, quality="good")
    # A message of three packets, announced to all.
    send("1CECFF05#20140003FFCAFE00", "1CEBFF05#0100010203040506")
    send("1CEBFF05#0207080910111213", "1CEBFF05#03141516171819FF")
    plant.wait("d/Long/Last", value=0x19, quality="good")
    assert (counts(plant)["messages"], counts(plant)["dropped"]) == (6, 0)


COMMANDS = [
    writable("speed", "201", 8, "int16", scale=0.5, write={"min": -1000, "max": 1000}),
    writable("mode", "201", 0, "uint8", 4),
    writable("valve", "18FF0030", 0, "uint16"),
    writable("wide", "202", 64, "uint32"),
    writable("fast", "18FF0031", 0, "uint8"),
]
MESSAGES = [
    message("201", 4),
    message("18FF0030", 8),
    message("202", 12),
    message("18FF0031", 64, {"fd": True, "brs": True}),
]
SEND = ["200-20F", "18FF0030", "18FF0031"]


@pytest.fixture
def plant(serve: Serve) -> Plant:
    plant = serve(COMMANDS, MESSAGES, send_ids=SEND, fd=True)
    plant.wait_online("d")
    return plant


WRITES = {
    "speed": ("-0.5", "201#00FFFF00"),
    "mode": ("5", "201#05000000"),
    "valve": ("4660", "18FF0030#3412000000000000"),
    "wide": ("305419896", "202##0000000000000000078563412"),
    "fast": ("171", "18FF0031##1AB" + "00" * 63),
}


@pytest.mark.parametrize("name", WRITES)
def test_candump_sees_what_is_written(plant: Plant, candump: Candumps, name: str) -> None:
    value, frame = WRITES[name]
    watch = candump()
    answer = plant.write(f"d/{name}", value)
    assert (answer["outcome"], answer["acknowledged_by"]) == ("written", "bus"), answer
    assert watch.wait(1) == [frame]
    # What came back is what is read.
    assert plant.wait(f"d/{name}", quality="good")["value"] == float(value)
    send("7FF#")
    assert watch.until("7FF#") == [frame], "once"


def test_writes_of_one_call_share_a_frame(plant: Plant, candump: Candumps) -> None:
    watch = candump()
    writes = [{"tag": f"d/{name}", "value": value} for name, value in (("speed", "1"), ("valve", "2"), ("mode", "3"))]
    rows = plant.tool("write_tags", {"writes": writes})["writes"]
    assert [(row["outcome"], row["acknowledged_by"]) for row in rows] == [("written", "bus")] * 3, rows
    send("7FF#")
    assert sorted(watch.until("7FF#")) == ["18FF0030#0200000000000000", "201#03020000"]


def test_a_frame_of_can_fd_does_not_fit_an_interface_of_classic_can(plant: Plant, candump: Candumps) -> None:
    kernel.down()
    kernel.ip("link set vcan0 mtu 16")
    kernel.up()
    plant.wait_online("d")
    watch = candump()
    answer = plant.write("d/wide", "1")
    assert answer["outcome"] == "not_sent", answer
    assert "mtu of 72" in answer["message"], answer
    assert plant.write("d/mode", "1")["outcome"] == "written"
    send("7FF#")
    assert watch.until("7FF#") == ["201#01000000"]


def test_python_can_in_both_directions(serve: Serve) -> None:
    tags = [row for row in TAGS if row["name"] in ("oil", "last")] + COMMANDS
    plant = serve(tags, MESSAGES, send_ids=SEND, fd=True)
    plant.wait_online("d")
    with can.Bus(interface="socketcan", channel="vcan0", fd=True) as bus:
        for brs in (False, True):
            payload = bytes(63) + bytes([10 + brs])
            frame = can.Message(arbitration_id=0x182, is_extended_id=False, is_fd=True, bitrate_switch=brs, data=payload)
            bus.send(frame)
            plant.wait("d/last", value=10 + brs, quality="good")
            assert bus.recv(0) is None, "the bridge sends nothing by itself"
        bus.send(can.Message(arbitration_id=0x18FF0021, is_extended_id=True, data=b"\x43\x21"))
        plant.wait("d/oil", value=0x4321, quality="good")
        wanted = {
            "fast": (0x18FF0031, True, True, True, b"\x07" + bytes(63)),
            "wide": (0x202, False, True, False, bytes(8) + b"\x07\0\0\0"),
            "valve": (0x18FF0030, True, False, False, b"\x07" + bytes(7)),
            "mode": (0x201, False, False, False, b"\x07\0\0\0"),
        }
        for name, parts in wanted.items():
            assert plant.write(f"d/{name}", "7")["outcome"] == "written"
            got = bus.recv(5)
            assert got is not None, name
            seen = (got.arbitration_id, got.is_extended_id, got.is_fd, got.bitrate_switch, bytes(got.data))
            assert seen == parts, name
        assert bus.recv(0) is None


def test_a_device_reports_what_was_written(serve: Serve) -> None:
    """A drive that takes its speed, but 100 at most."""
    write = {"feedback": "actual", "confirm_ms": 1000}
    tags = [writable("speed", "201", 0, "int16", write=write), tag("actual", "181", 0, "int16")]
    plant = serve(tags, [message("201", 2)], send_ids=["201"])
    plant.wait_online("d")

    def drive(bus: can.BusABC) -> None:
        while got := bus.recv(5):
            if got.arbitration_id == 0x7FF:
                return
            actual = min(int.from_bytes(got.data, "little"), 100)
            bus.send(can.Message(arbitration_id=0x181, is_extended_id=False, data=actual.to_bytes(2, "little")))

    filters = [{"can_id": 0x201, "can_mask": 0x7FF}, {"can_id": 0x7FF, "can_mask": 0x7FF}]
    with can.Bus(interface="socketcan", channel="vcan0", can_filters=filters) as bus:
        thread = threading.Thread(target=drive, args=[bus])
        thread.start()
        try:
            answer = plant.write("d/speed", "77")
            assert (answer["outcome"], answer["value"], answer["acknowledged_by"]) == ("confirmed", 77, "bus"), answer
            answer = plant.write("d/speed", "101")
            assert (answer["outcome"], answer["value"], answer["acknowledged_by"]) == ("differs", 100, "bus"), answer
        finally:
            send("7FF#")
            thread.join()


def test_who_only_listens_sends_nothing(serve: Serve, candump: Candumps) -> None:
    plant = serve(TAGS, listen_only=True)
    plant.wait_online("d")
    watch = candump("-n", "1")
    for name in ("speed", "oil"):
        answer = plant.write(f"d/{name}", "1")
        assert answer["outcome"] == "rejected", answer
    send("181#02E803")
    plant.wait("d/speed", value=500, quality="good")
    assert watch.finish() == ["181#02E803"], "no frame came before"
