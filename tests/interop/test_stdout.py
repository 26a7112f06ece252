"""Case D01: stdout carries protocol only."""

from __future__ import annotations

import json
import os
import select
import socket

import pytest

from bridge import Bridge, call
from conftest import CASES, Run, Serve
from faulty import Faulty
from plant import Site, boiler, tag
from plc import Plc
from waiting import until

INPUT = (CASES / "files" / "D01_stdio.jsonl").read_bytes()
REQUESTS = (1, 2, 3, 4)


def clean(out: bytes) -> list[dict]:
    """The messages of a stdout on which nothing else may be."""
    assert not out.startswith(b"\xef\xbb\xbf")
    assert b"\r" not in out
    assert out.endswith(b"\n")
    lines = out.decode("utf-8").removesuffix("\n").split("\n")
    messages = [json.loads(line) for line in lines]
    assert all(isinstance(message, dict) and message["jsonrpc"] == "2.0" for message in messages)
    return messages


def play(bridge: Bridge) -> bytes:
    """Pipes the case's file in and returns all of stdout."""
    bridge.write(INPUT)
    for id in REQUESTS:
        bridge.answer(id)
    bridge.end_input()
    assert bridge.wait() == 0
    answers = [message for message in clean(bridge.out) if "id" in message]
    assert sorted(message["id"] for message in answers) == list(REQUESTS)
    assert not [message for message in answers if "error" in message]
    return bridge.out


def still_serves(bridge: Bridge, id: int = 100) -> None:
    assert "result" in bridge.ask(id, "ping")
    assert "tools" in bridge.ask(id + 1, "tools/list")["result"]


def test_1_a_normal_run(serve: Serve, plc: Plc) -> None:
    play(serve(boiler(plc.port)))


def test_2_loud_settings_change_nothing(serve: Serve, plc: Plc) -> None:
    quiet = play(serve(boiler(plc.port)))
    loud = serve(
        boiler(plc.port),
        "-v",
        env={"RUST_LOG": "trace", "CLICOLOR_FORCE": "1", "RUST_BACKTRACE": "1"},
    )
    assert sorted(play(loud).splitlines()) == sorted(quiet.splitlines())
    assert loud.log.text()


def test_2_human_logs_in_colour_stay_on_stderr(run: Run, save, plc: Plc) -> None:
    bridge = run(
        "serve",
        "--config",
        str(save(boiler(plc.port))),
        "-v",
        pipe=True,
        env={"RUST_LOG": "trace", "CLICOLOR_FORCE": "1", "RUST_BACKTRACE": "1"},
    )
    assert b"\x1b" not in play(bridge)
    assert bridge.log.text()


@pytest.mark.parametrize("host", ["no-such-host.invalid", "127.0.0.1"])
def test_3_driver_trouble(serve: Serve, host: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    # Nobody listens there any more: the host is unknown, or the connection is refused.
    bridge = serve(Site().connect("plc", port, host=host).device("boiler", [tag("a", "holding", 0, "uint16")]))
    bridge.initialize()

    def down() -> bool:
        devices = bridge.ask(f"devices-{len(bridge.messages())}", *_call("list_devices"))
        (row,) = devices["result"]["structuredContent"]["devices"]
        return bool(row.get("link_detail"))

    until("the device's link is known to be down", down)
    answer = bridge.ask(50, *_call("read_tags", {"tags": ["boiler/a"]}))["result"]["structuredContent"]
    (row,) = answer["tags"]
    assert (row["value"], row["quality"]) == (None, "bad")
    still_serves(bridge)
    bridge.end_input()
    assert bridge.wait() == 0
    clean(bridge.out)


GARBAGE = {
    "nothing": b"",
    "one byte": b"\x00",
    "half a header": b"\x00\x01\x00",
    "header alone": b"\x00\x01\x00\x00\x00\x03\x01",
    "empty answer": b"\x00\x01\x00\x00\x00\x02\x01\x03",
    "exception without code": b"\x00\x01\x00\x00\x00\x02\x01\x83",
    "odd bytes": b"\x00\x01\x00\x00\x00\x06\x01\x03\x03\x00\x01\x02",
    "count beyond the frame": b"\x00\x01\x00\x00\x00\x05\x01\x03\xff\x00\x01",
    "length 1": b"\x00\x01\x00\x00\x00\x01\x01",
    "no utf-8": b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7\xf6",
    "zeros": bytes(64),
    "text": b"SSH-2.0-OpenSSH_9.6\r\n",
}


@pytest.mark.parametrize("echo", [False, True], ids=["foreign-id", "own-id"])
@pytest.mark.parametrize("name", GARBAGE)
def test_4_short_and_garbage_frames(serve: Serve, name: str, echo: bool) -> None:
    data = GARBAGE[name]

    def answer(request: bytes) -> list[bytes] | None:
        if not data:
            return None
        return [request[:2] + data[2:] if echo and len(data) > 2 else data]

    with Faulty(answer) as device:
        site = Site().connect("plc", device.port, timeout_ms=100)
        bridge = serve(site.device("boiler", [tag("a", "holding", 0, "uint16", scan_ms=20)]))
        bridge.initialize()
        until("it asked several times", lambda: len(device.requests) >= 3)
        rows = bridge.ask(50, *_call("read_tags", {"tags": ["boiler/a"]}))["result"]["structuredContent"]
        assert (rows["tags"][0]["value"], rows["tags"][0]["quality"]) == (None, "bad")
        still_serves(bridge)
        # The device comes to its senses, and so does the tag.
        device.answer = device.honest
        device.registers[0] = 4711

        def good() -> bool:
            row = bridge.ask(f"read-{len(bridge.messages())}", *_call("read_tags", {"tags": ["boiler/a"]}))
            (row,) = row["result"]["structuredContent"]["tags"]
            return row["quality"] == "good" and row["value"] == 4711

        until("the tag is good", good)
        bridge.end_input()
        assert bridge.wait() == 0
        clean(bridge.out)
        assert "panicked" not in bridge.log.text()


BROKEN = {
    "no TOML": "[site\nname = ",
    "unknown key": '[site]\nname = "a"\nwriets = "off"\n',
    "coerced number": (
        '[site]\nname = "a"\n[[connections]]\nname = "plc"\ndriver = "modbus-tcp"\n'
        'address = "127.0.0.1:502"\ntimeout_ms = 10.6\n'
    ),
    "two on one address": (
        '[site]\nname = "a"\n'
        '[[connections]]\nname = "a"\ndriver = "modbus-tcp"\naddress = "127.0.0.1:502"\n'
        '[[connections]]\nname = "b"\ndriver = "modbus-tcp"\naddress = "127.0.0.1:502"\n'
    ),
}


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("command", ["serve", "check"])
def test_5_a_broken_configuration(run: Run, save, command: str, name: str) -> None:
    path = save(BROKEN[name])
    bridge = run(command, "--config", str(path), pipe=True)
    assert bridge.wait() == 2
    assert bridge.out == b""
    text = bridge.log.text()
    assert str(path) in text
    if name == "unknown key":
        assert "wriets" in text and "`writes`" in text


def test_5_a_missing_configuration(run: Run, tmp_path) -> None:
    bridge = run("serve", "--config", str(tmp_path / "nowhere.toml"), pipe=True)
    assert bridge.wait() == 2
    assert bridge.out == b""
    assert "nowhere.toml" in bridge.log.text()


def test_5_every_problem_comes_at_once(run: Run, save) -> None:
    text = (
        '[site]\nname = "a"\nwrites = "maybe"\n'
        '[[connections]]\nname = "plc"\ndriver = "modbus-udp"\naddress = "127.0.0.1:502"\n'
        '[[devices]]\nname = "boiler"\nconnection = "plk"\nunit_id = 300\n'
    )
    bridge = run("check", "--config", str(save(text)), pipe=True)
    assert bridge.wait() == 2
    log = bridge.log.text()
    for part in ("maybe", "modbus-udp", "plk", "300"):
        assert part in log, part


@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_6_help_and_version(run: Run, flag: str) -> None:
    bridge = run(flag, pipe=True)
    assert bridge.wait() == 0
    assert b"fieldbridge" in bridge.out


def test_7_a_client_that_ignores_stderr(serve: Serve, plc: Plc) -> None:
    reader, writer = os.pipe()
    bridge = serve(boiler(plc.port), "-v", env={"RUST_LOG": "trace"}, stderr=writer)
    bridge.initialize()
    ids = iter(range(1, 1_000_000))

    def full() -> bool:
        for _ in range(50):
            bridge.ask(next(ids), *_call("read_tags", {"tags": ["*"]}))
        return not select.select([], [writer], [], 0)[1]

    until("the pipe of stderr is full", full)
    for _ in range(500):
        answer = bridge.ask(next(ids), *_call("read_tags", {"tags": ["*"]}))
        assert len(answer["result"]["structuredContent"]["tags"]) == 9
    assert "result" in bridge.ask(next(ids), *_call("write_tag", {"tag": "boiler/setpoint", "value": "50"}))
    assert plc.writes[-1].values == (500,)
    bridge.end_input()
    assert bridge.wait() == 0
    clean(bridge.out)
    os.close(reader)
    os.close(writer)


def test_8_the_bundled_simulator(run: Run) -> None:
    bridge = run("demo", "--stdio", "--http", "127.0.0.1:0", pipe=True)
    play(bridge)
    assert bridge.log.text(), "its banner is on stderr"


def _call(tool: str, arguments: dict | None = None) -> tuple[str, dict]:
    message = call(0, tool, arguments)
    return message["method"], message["params"]
