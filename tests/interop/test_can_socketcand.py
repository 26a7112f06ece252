"""CAN: interfaces of another machine, behind socketcand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import can
import pytest

from can_peers import SocketcandPeer
from cansite import message, tag, writable, write_site
from conftest import Run
from mqtt import Plant, Row
from waiting import until

TAGS = [
    tag("speed", "181", 8, "int16", scale=0.5),
    tag("oil", "18FF0021", 0, "uint16"),
    writable("mode", "201", 0, "uint8", 4),
    writable("valve", "18FF0030", 0, "uint16"),
]
MESSAGES = [message("201", 4), message("18FF0030", 8)]


@pytest.fixture
def server() -> Iterator[SocketcandPeer]:
    peer = SocketcandPeer()
    yield peer
    peer.close()


Attach = Callable[..., Plant]


@pytest.fixture
def start(run: Run, tmp_path: Path) -> Attach:
    def start(server: SocketcandPeer, **keys: Any) -> Plant:
        connection = {**server.place, "send_ids": ["201", "18FF0030"], **keys}
        path = write_site(tmp_path, connection, TAGS, MESSAGES)
        return Plant(run("serve", "--config", str(path), "--log-format", "json", pipe=True))

    return start


@pytest.fixture
def attach(start: Attach) -> Attach:
    def attach(server: SocketcandPeer, **keys: Any) -> Plant:
        plant = start(server, **keys)
        plant.wait_online("d")
        server.wait_ready()
        return plant

    return attach


def counts(plant: Plant) -> Row:
    return plant.device("d")["connection_counts"]


@pytest.mark.parametrize("spaced", [False, True], ids=["", "spaced"])
@pytest.mark.parametrize("lower", [False, True], ids=["", "lower"])
@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_frames_are_values(attach: Attach, server: SocketcandPeer, spaced: bool, lower: bool, pieces: int) -> None:
    server.spaced, server.lower, server.pieces = spaced, lower, pieces
    plant = attach(server)
    assert server.heard == ["< open can0 >", "< rawmode >"]
    server.hear("181#00FEFF", "18FF0021#CDAB", "7FF#", "181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    plant.wait("d/oil", value=0xABCD, quality="good")
    assert (counts(plant)["messages"], counts(plant)["garbled"], counts(plant)["dropped"]) == (4, 0, 1)


JUNK = {
    "text": b"socketcand 0.6.1\n",
    "a message that was cut": b"< frame 181 17962508",
    "digits that are none": b"< frame 181 1796250821.681584 00G803 >",
    "half a byte": b"< frame 181 1796250821.681584 00E80 >",
    "too many bytes": b"< frame 181 1796250821.681584 000102030405060708 >",
    "no time": b"< frame 181 >",
    "an identifier beyond 11 bits": b"< frame 801 1796250821.681584 00 >",
    "bytes beyond ASCII": b"< frame \xff\x00\x80 1796250821.681584 00 >",
    "a message without end": b"< " + b"x" * 5000 + b" >",
}


@pytest.mark.parametrize("junk", JUNK)
def test_bad_text_in_between_is_counted_and_passed_over(attach: Attach, server: SocketcandPeer, junk: str) -> None:
    plant = attach(server)
    server.hear("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    server.say(JUNK[junk], 700)
    server.hear("181#00E903")
    plant.wait("d/speed", value=500.5, quality="good")
    assert (counts(plant)["messages"], counts(plant)["garbled"]) == (2, 1)
    assert plant.device("d")["link"] == "connected"


def test_messages_of_other_modes_say_nothing(attach: Attach, server: SocketcandPeer) -> None:
    plant = attach(server)
    server.say(b"< ok >< stat 0 0 0 0 >\n< echo >< rtr 181 1796250821.681584 3 >")
    server.hear("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    assert counts(plant)["garbled"] == 0


WRITES = {
    "mode": ("10", "< send 201 4 a 0 0 0 >"),
    "valve": ("4660", "< send 18FF0030 8 34 12 0 0 0 0 0 0 >"),
}


def test_writes_leave_byte_for_byte(attach: Attach, server: SocketcandPeer) -> None:
    plant = attach(server)
    for count, (name, (value, text)) in enumerate(WRITES.items(), 1):
        answer = plant.write(f"d/{name}", value)
        assert answer["outcome"] == "sent", answer
        assert "acknowledged_by" not in answer, answer
        assert server.wait_frames(count)[-1] == text
    plant.bridge.stop()
    assert len(server.frames) == 2, "nothing is sent twice"


def test_an_error_of_the_server_is_told(attach: Attach, server: SocketcandPeer) -> None:
    plant = attach(server)
    server.hear("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    server.say(b"< error could not send frame >")
    plant.wait_link("d", "could not send frame")
    assert plant.tag("d/speed")["quality"] == "good"


def test_a_controller_that_is_bus_off(attach: Attach, server: SocketcandPeer) -> None:
    """Raw mode tells the class of an error frame alone."""
    plant = attach(server)
    server.hear("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    server.say(b"< error 00000040 1796250821.681584 >")
    row = plant.wait("d/speed", quality="bad", reason="not_connected")
    assert row["detail"] == "bus-off", row
    plant.wait_link("d", "bus-off")
    assert plant.write("d/mode", "1")["outcome"] == "not_sent"
    server.say(b"< error 00000100 1796250821.681584 >")
    plant.wait("d/speed", quality="uncertain", reason="stale")
    server.hear("181#00E903")
    plant.wait("d/speed", value=500.5, quality="good")
    assert server.frames == []


def not_there(plant: Plant, *words: str) -> None:
    plant.wait("d/speed", quality="bad", reason="not_connected")
    device = plant.wait_link("d", *words)
    assert device["link"] in ("backing_off", "connecting"), device
    assert device["state"] == "not_connected", device
    assert plant.write("d/mode", "1")["outcome"] == "not_sent"


def test_an_interface_that_the_server_does_not_have(start: Attach, server: SocketcandPeer) -> None:
    plant = start(server, interface="can7")
    not_there(plant, "can7", "could not open bus")
    server.interface = "can7"
    plant.wait_online("d")
    server.wait_ready()
    server.hear("181#00E803")
    plant.wait("d/speed", value=500, quality="good")
    assert "link_detail" not in plant.device("d")


@pytest.mark.parametrize("greeting", [b"", b"SSH-2.0-OpenSSH_9.2\r\n"], ids=["nothing", "another server"])
def test_a_server_that_is_no_socketcand(start: Attach, server: SocketcandPeer, greeting: bytes) -> None:
    server.greeting = greeting
    plant = start(server, timeout_ms=200)
    not_there(plant, "no socketcand answers within 200 ms")
    assert server.heard == [], "nothing is said before its greeting"


@pytest.mark.parametrize("how", ["close", "reset"])
def test_a_server_that_goes_away_comes_back(attach: Attach, server: SocketcandPeer, how: str) -> None:
    plant = attach(server)
    for _ in range(2):
        server.hear("181#00E803")
        plant.wait("d/speed", value=500, quality="good")
        server.leave(how)
        not_there(plant)
        server.come()
        server.wait_ready()
        assert server.heard == ["< open can0 >", "< rawmode >"]
        plant.wait("d/speed", quality="uncertain", reason="stale", value=500)
        assert server.frames == [], "nothing of before is sent late"
    assert plant.write("d/mode", "6")["outcome"] == "sent"
    assert server.wait_frames(1) == ["< send 201 4 6 0 0 0 >"]


def test_a_node_with_python_can(attach: Attach, server: SocketcandPeer) -> None:
    """Two clients on one bus: the bridge, and a node which reads and writes with python-can."""
    other = SocketcandPeer()
    server.twin, other.twin = other.hear, server.hear
    plant = attach(server)
    port = int(other.place["address"].rpartition(":")[2])
    with can.Bus(interface="socketcand", host="127.0.0.1", port=port, channel="can0") as bus:
        bus.send(can.Message(arbitration_id=0x181, is_extended_id=False, data=b"\0\xe8\3"))
        plant.wait("d/speed", value=500, quality="good")
        bus.send(can.Message(arbitration_id=0x18FF0021, data=b"\xcd\xab"))
        plant.wait("d/oil", value=0xABCD, quality="good")
        for name, id, payload in (("mode", 0x201, b"\x07\0\0\0"), ("valve", 0x18FF0030, b"\x07" + bytes(7))):
            assert plant.write(f"d/{name}", "7")["outcome"] == "sent"
            got = until("python-can hears it", lambda: bus.recv(0.1))
            assert (got.arbitration_id, got.is_extended_id, bytes(got.data)) == (id, id > 0x7FF, payload), name
    other.close()
