"""CAN: adapters that speak slcan, at a serial port and behind TCP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import can
import pytest

from can_peers import PtyPort, SlcanPeer, TcpPort
from cansite import message, tag, writable, write_site
from conftest import Run
from mqtt import Plant, Row
from waiting import until

TAGS = [
    tag("speed", "181", 8, "int16", scale=0.5),
    tag("oil", "18FF0021", 0, "uint16"),
    tag("last", "182", 504, "uint8"),
    tag("wide", "18FF0022", 64, "uint32"),
    writable("mode", "201", 0, "uint8", 4),
    writable("valve", "18FF0030", 0, "uint16"),
    writable("long", "202", 64, "uint32"),
    writable("fast", "18FF0031", 0, "uint8"),
]
MESSAGES = [
    message("201", 4),
    message("18FF0030", 8),
    message("202", 12),
    message("18FF0031", 64, {"fd": True, "brs": True}),
]
SEND = {"send_ids": ["200-20F", "18FF0030-18FF0031"], "fd": True}


@pytest.fixture(params=["pty", "tcp"])
def adapter(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SlcanPeer]:
    peer = SlcanPeer(PtyPort(tmp_path) if request.param == "pty" else TcpPort())
    yield peer
    peer.close()


Attach = Callable[..., Plant]


@pytest.fixture
def attach(run: Run, tmp_path: Path) -> Attach:
    """The bridge on an adapter."""

    def start(adapter: SlcanPeer, sends: bool = True, **keys: Any) -> Plant:
        connection = {**adapter.port.place, **(SEND if sends else {}), **keys}
        tags = TAGS if sends else TAGS[:2]
        path = write_site(tmp_path, connection, tags, MESSAGES if sends else [])
        plant = Plant(run("serve", "--config", str(path), "--log-format", "json", pipe=True))
        plant.wait_online("d")
        adapter.wait_ready()
        return plant

    return start


def counts(plant: Plant) -> Row:
    return plant.device("d")["connection_counts"]


SPOILER = "?" * 158
"""What makes an unfinished line none."""
OPENINGS = {
    "as it is by default": ({}, ["C", "S6", "O"]),
    "10 kbit/s": ({"bitrate": 10_000}, ["C", "S0", "O"]),
    "125 kbit/s": ({"bitrate": 125_000}, ["C", "S4", "O"]),
    "1 Mbit/s": ({"bitrate": 1_000_000}, ["C", "S8", "O"]),
    "CAN FD": ({"data_bitrate": 2_000_000, "fd": True}, ["C", "S6", "Y2", "O"]),
    "listening": ({"listen_only": True, "bitrate": 250_000}, ["C", "S5", "L"]),
}


@pytest.mark.parametrize("case", OPENINGS)
def test_the_channel_is_opened_and_closed(attach: Attach, adapter: SlcanPeer, case: str) -> None:
    keys, commands = OPENINGS[case]
    plant = attach(adapter, sends=False, **keys)
    assert adapter.heard == [SPOILER, *commands]
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")
    plant.bridge.stop()
    adapter.wait("the channel is closed", lambda: not adapter.is_ready)
    assert adapter.heard == [SPOILER, *commands, "C"]
    assert adapter.frames == []


def test_nothing_is_the_matter_where_closing_what_is_closed_was_refused(attach: Attach, adapter: SlcanPeer) -> None:
    plant = attach(adapter)
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")
    device = plant.device("d")
    assert "link_detail" not in device, device
    assert device["connection_counts"]["exceptions"] == 0, device


@pytest.mark.parametrize("timestamps", [False, True], ids=["", "timestamps"])
@pytest.mark.parametrize("lower", [False, True], ids=["", "lower"])
@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_frames_are_values(attach: Attach, adapter: SlcanPeer, timestamps: bool, lower: bool, pieces: int) -> None:
    plant = attach(adapter)
    adapter.timestamps, adapter.lower, adapter.pieces = timestamps, lower, pieces
    adapter.hear("t181300FEFF", "T18FF00212CDAB", f"d182F{'00' * 63}2A", f"B18FF00229{'00' * 8}EFBEADDE")
    plant.wait("d/speed", value=-1, quality="good")
    plant.wait("d/oil", value=0xABCD, quality="good")
    plant.wait("d/last", value=42, quality="good")
    plant.wait("d/wide", value=0xDEADBEEF, quality="good")
    adapter.hear(f"b182F{'00' * 63}2B", f"D18FF00229{'00' * 8}01000000", "t181300E803")
    plant.wait("d/last", value=43, quality="good")
    plant.wait("d/wide", value=1, quality="good")
    plant.wait("d/speed", value=500, quality="good")
    assert (counts(plant)["messages"], counts(plant)["garbled"]) == (7, 0)


JUNK = {
    "text": b"CANable firmware ready\r",
    "digits that are none": b"t18130GE803\r",
    "too few digits": b"t181300E8\r",
    "too many digits": b"t181300E80300\r",
    "an identifier beyond 11 bits": b"t8011AA\r",
    "an identifier beyond 29 bits": b"T200000001AA\r",
    "a length beyond 8": b"t1819000000000000000000\r",
    "bytes beyond ASCII": b"t181\xff\x00\x80\r",
    "a line without end": b"x" * 5000 + b"\r",
}


@pytest.mark.parametrize("junk", JUNK)
def test_bad_text_in_between_is_counted_and_passed_over(attach: Attach, adapter: SlcanPeer, junk: str) -> None:
    plant = attach(adapter)
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")
    adapter.say(JUNK[junk], 700)
    adapter.hear("t181300E903")
    plant.wait("d/speed", value=500.5, quality="good")
    assert (counts(plant)["messages"], counts(plant)["garbled"]) == (2, 1)
    assert plant.device("d")["link"] == "connected"


def test_answers_and_versions_between_frames_say_nothing(attach: Attach, adapter: SlcanPeer) -> None:
    plant = attach(adapter)
    adapter.say(b"\r\r\nV1013\rNA123\rF00\rz\rZ\r\n")
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")
    assert (counts(plant)["messages"], counts(plant)["garbled"]) == (1, 0)


@pytest.mark.parametrize("line", [b"\a", b"t181300E803\a"], ids=["alone", "behind a frame"])
def test_a_bell_is_told(attach: Attach, adapter: SlcanPeer, line: bytes) -> None:
    plant = attach(adapter)
    adapter.hear("t181300E703")
    plant.wait("d/speed", value=499.5, quality="good")
    before = counts(plant)["exceptions"]
    adapter.say(line)
    until("the bell is counted", lambda: counts(plant)["exceptions"] == before + 1)
    plant.wait_link("d", "the adapter refused what it was told")
    adapter.hear("t181300E903")
    plant.wait("d/speed", value=500.5, quality="good")


def test_frames_of_can_fd_say_nothing_where_they_are_not_asked_for(attach: Attach, adapter: SlcanPeer) -> None:
    plant = attach(adapter, sends=False)
    adapter.hear("d181300E803", "T18FF00212CDAB")
    plant.wait("d/oil", value=0xABCD, quality="good")
    assert plant.tag("d/speed")["reason"] == "never_read"


WRITES = {
    "mode": ("5", "t201405000000"),
    "valve": ("4660", "T18FF003083412000000000000"),
    "long": ("305419896", "d2029000000000000000078563412"),
    "fast": ("171", "B18FF0031FAB" + "00" * 63),
}


@pytest.mark.parametrize("answers", [True, False], ids=["", "an adapter that answers nothing"])
def test_writes_leave_byte_for_byte(attach: Attach, adapter: SlcanPeer, answers: bool) -> None:
    adapter.answers = answers
    plant = attach(adapter)
    for count, (name, (value, frame)) in enumerate(WRITES.items(), 1):
        answer = plant.write(f"d/{name}", value)
        assert answer["outcome"] == "sent", answer
        assert "acknowledged_by" not in answer, answer
        assert adapter.wait_frames(count)[-1] == frame
    rows = plant.tool("write_tags", {"writes": [{"tag": f"d/{name}", "value": "1"} for name in ("mode", "valve")]})
    assert [row["outcome"] for row in rows["writes"]] == ["sent", "sent"], rows
    assert sorted(adapter.wait_frames(6)[4:]) == ["T18FF003080100000000000000", "t201401000000"]
    plant.bridge.stop()
    adapter.wait("the channel is closed", lambda: not adapter.is_ready)
    assert len(adapter.frames) == 6, "nothing is sent twice"


def test_a_frame_that_the_adapter_refuses_is_told(attach: Attach, adapter: SlcanPeer) -> None:
    plant = attach(adapter)
    before = counts(plant)["exceptions"]
    adapter.refuse_frames = True
    answer = plant.write("d/mode", "5")
    # It waits for no answer, so it knows only where that comes first.
    assert answer["outcome"] in ("sent", "unknown"), answer
    until("the bell is counted", lambda: counts(plant)["exceptions"] == before + 1)
    plant.wait_link("d", "the adapter refused what it was told")
    row = plant.wait("d/mode", quality="uncertain", reason="stale")
    assert "refused" in row["detail"], row
    adapter.refuse_frames = False
    assert plant.write("d/mode", "6")["outcome"] == "sent"
    plant.wait("d/mode", value=6, quality="good")


def test_an_adapter_that_refuses_to_open_is_not_connected(run: Run, tmp_path: Path, adapter: SlcanPeer) -> None:
    adapter.refuse_opening = True
    path = write_site(tmp_path, {**adapter.port.place, **SEND, "reconnect_max_ms": 200}, TAGS, MESSAGES)
    plant = Plant(run("serve", "--config", str(path), "--log-format", "json", pipe=True))
    plant.wait_link("d", "the adapter refuses to open the channel")
    assert plant.write("d/mode", "5")["outcome"] == "not_sent"
    adapter.refuse_opening = False
    adapter.wait_ready()
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")


@pytest.mark.parametrize("line", ["t2014", "t2014050000", "t20140500000", "t201405000000"])
def test_a_line_that_another_left_unfinished_becomes_no_frame(attach: Attach, tmp_path: Path, line: str) -> None:
    adapter = SlcanPeer(PtyPort(tmp_path))
    path = Path(adapter.port.place["port"])
    until("the adapter is there", path.exists)
    with path.open("r+b", buffering=0) as port:
        port.write(b"S6\rO\r" + line.encode())
        adapter.wait_ready()
        plant = attach(adapter)
        adapter.hear("t181300E803")
        plant.wait("d/speed", value=500, quality="good")
        assert adapter.frames == [] and line + SPOILER in adapter.heard, adapter.heard
    adapter.close()


@pytest.mark.parametrize("how", ["close", "reset"])
def test_an_adapter_that_goes_away_comes_back(attach: Attach, adapter: SlcanPeer, how: str) -> None:
    plant = attach(adapter)
    for round in (1, 2):
        adapter.hear("t181300E803")
        plant.wait("d/speed", value=500, quality="good")
        adapter.leave(how)
        plant.wait("d/speed", quality="bad", reason="not_connected")
        assert plant.device("d")["state"] == "not_connected"
        assert plant.write("d/mode", "5")["outcome"] == "not_sent"
        adapter.come()
        adapter.wait_ready()
        assert adapter.heard == [SPOILER, "C", "S6", "O"]
        plant.wait("d/speed", quality="uncertain", reason="stale", value=500)
        assert adapter.frames == [], "nothing of before is sent late"
    assert plant.write("d/mode", "6")["outcome"] == "sent"
    assert adapter.wait_frames(1) == ["t201406000000"]


def test_an_adapter_that_is_not_there_yet(run: Run, tmp_path: Path, adapter: SlcanPeer) -> None:
    adapter.leave()
    path = write_site(tmp_path, {**adapter.port.place, **SEND}, TAGS, MESSAGES)
    plant = Plant(run("serve", "--config", str(path), "--log-format", "json", pipe=True))
    plant.wait("d/speed", quality="bad", reason="not_connected")
    assert plant.write("d/mode", "5")["outcome"] == "not_sent"
    adapter.come()
    adapter.wait_ready()
    adapter.hear("t181300E803")
    plant.wait("d/speed", value=500, quality="good")


def test_a_node_with_python_can(attach: Attach, adapter: SlcanPeer) -> None:
    """Two adapters on one bus: ours, and that of a node which reads and writes with python-can."""
    other = SlcanPeer(TcpPort())
    adapter.twin, other.twin = other.hear, adapter.hear
    plant = attach(adapter)
    channel = f"socket://127.0.0.1:{other.port.place['address'].rpartition(':')[2]}"
    with can.Bus(interface="slcan", channel=channel, bitrate=500_000, sleep_after_open=0) as bus:
        other.wait_ready()
        bus.send(can.Message(arbitration_id=0x181, is_extended_id=False, data=b"\0\xe8\3"))
        plant.wait("d/speed", value=500, quality="good")
        bus.send(can.Message(arbitration_id=0x18FF0021, data=b"\xcd\xab"))
        plant.wait("d/oil", value=0xABCD, quality="good")
        for brs in (False, True):
            payload = bytes(63) + bytes([10 + brs])
            frame = can.Message(0, 0x182, is_extended_id=False, is_fd=True, bitrate_switch=brs, data=payload)
            bus.send(frame)
            plant.wait("d/last", value=10 + brs, quality="good")
        wanted = {
            "fast": (0x18FF0031, True, True, True, b"\x07" + bytes(63)),
            "long": (0x202, False, True, False, bytes(8) + b"\x07\0\0\0"),
            "valve": (0x18FF0030, True, False, False, b"\x07" + bytes(7)),
            "mode": (0x201, False, False, False, b"\x07\0\0\0"),
        }
        for name, parts in wanted.items():
            assert plant.write(f"d/{name}", "7")["outcome"] == "sent"
            got = until("python-can hears it", lambda: bus.recv(0.1))
            seen = (got.arbitration_id, got.is_extended_id, got.is_fd, got.bitrate_switch, bytes(got.data))
            assert seen == parts, name
    other.close()
