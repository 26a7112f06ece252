"""Start, stop and reload of the process."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest

from bridge import Bridge, Web, call, request
from conftest import Run, Save, Serve
from plant import Site, boiler, tag, writable
from plc import HOLDING, Plc, Request
from waiting import until

SIGNALS = [signal.SIGINT, signal.SIGTERM]


@dataclass
class Tools:
    """Calls tools over a raw pipe."""

    bridge: Bridge
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        message = call(next(self.ids), tool, arguments)
        answer = self.bridge.ask(message["id"], message["method"], message["params"])
        return answer["result"]["structuredContent"]

    def rows(self, *tags: str) -> dict[str, dict[str, Any]]:
        return {row["tag"]: row for row in self.call("read_tags", tags=list(tags))["tags"]}

    def paths(self) -> list[str]:
        return [row["tag"] for row in self.call("list_tags")["tags"]]

    def all_good(self, *tags: str) -> bool:
        rows = self.rows(*tags).values()
        return bool(rows) and all(row["quality"] == "good" for row in rows)


def tools(bridge: Bridge) -> Tools:
    bridge.initialize()
    return Tools(bridge)


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


# Stop


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_http_and_frees_the_port(serve: Serve, web: Any, plc: Plc, number: signal.Signals) -> None:
    bridge = serve(boiler(plc.port), http=True)
    url = bridge.url()
    client: Web = web(url)
    client.initialize()
    # A client that listens to its stream holds nothing up.
    stream: Web = web(url)
    stream.session = client.session
    headers = stream.headers(None) | {"Accept": "text/event-stream"}
    stream.connection.request("GET", stream.path, headers=headers)
    answer = stream.connection.getresponse()
    assert answer.status == 200
    until("the PLC is connected", lambda: plc.open == 1)
    bridge.signal(number)
    assert bridge.wait() == 0, bridge.log.text()
    answer.read()
    until("the link is closed", lambda: plc.open == 0)
    assert not listens(port_of(url))
    with socket.create_server(("127.0.0.1", port_of(url))):
        pass
    assert bridge.out == b""


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_stdio(serve: Serve, plc: Plc, number: signal.Signals) -> None:
    bridge = serve(boiler(plc.port))
    bridge.initialize()
    until("the PLC is connected", lambda: plc.open == 1)
    bridge.signal(number)
    assert bridge.wait() == 0, bridge.log.text()
    until("the link is closed", lambda: plc.open == 0)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_while_the_plc_is_silent(serve: Serve, plc: Plc, number: signal.Signals) -> None:
    plc.muted = True
    bridge = serve(boiler(plc.port, timeout_ms=60_000))
    bridge.initialize()
    until("it waits for an answer", lambda: plc.requests)
    bridge.send(call(1, "write_tag", {"tag": "boiler/setpoint", "value": "50"}))
    bridge.ask(2, "ping")
    bridge.signal(number)
    assert bridge.wait(10) == 0, bridge.log.text()


def test_the_end_of_stdin_ends_stdio(serve: Serve, plc: Plc) -> None:
    bridge = serve(boiler(plc.port))
    bridge.initialize()
    until("the PLC is connected", lambda: plc.open == 1)
    bridge.end_input()
    assert bridge.wait() == 0, bridge.log.text()
    until("the link is closed", lambda: plc.open == 0)


def test_the_end_of_stdin_before_any_message(serve: Serve, plc: Plc) -> None:
    bridge = serve(boiler(plc.port))
    bridge.end_input()
    assert bridge.wait() == 0, bridge.log.text()
    assert bridge.out == b""


def test_the_end_of_stdin_leaves_no_call_unanswered(serve: Serve, plc: Plc) -> None:
    bridge = serve(boiler(plc.port))
    served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    bridge.send(call("last", "write_tag", {"tag": "boiler/setpoint", "value": "50"}))
    bridge.end_input()
    assert bridge.wait() == 0, bridge.log.text()
    # What left for the device is logged with its end, answered or not.
    assert [record["outcome"] for record in bridge.log.writes()] == ["confirmed"] * len(plc.writes)


def test_http_alone_never_reads_stdin(serve: Serve, web: Any, plc: Plc) -> None:
    """`serve` gives it /dev/null, as systemd and Docker do."""
    bridge = serve(boiler(plc.port), http=True)
    url = bridge.url()
    for era in ("legacy", "modern", "legacy"):
        client: Web = web(url, era)
        if era == "legacy":
            client.initialize()
        assert "result" in client.call(request(1, "tools/list", era=era))
    assert bridge.process.poll() is None
    bridge.stop()


def test_http_alone_leaves_an_open_stdin_alone(run: Run, save: Save, web: Any, plc: Plc) -> None:
    bridge = run("serve", "--config", str(save(boiler(plc.port))), "--http", "127.0.0.1:0", pipe=True)
    client: Web = web(bridge.url())
    bridge.send(request(1, "ping"))
    bridge.end_input()
    client.initialize()
    assert "result" in client.call(request(1, "tools/list"))
    assert bridge.process.poll() is None
    bridge.stop()
    assert bridge.out == b""


def test_both_transports_at_once(run: Run, save: Save, web: Any, plc: Plc) -> None:
    path = save(boiler(plc.port))
    bridge = run("serve", "--config", str(path), "--http", "127.0.0.1:0", "--stdio", pipe=True)
    client: Web = web(bridge.url())
    client.initialize()
    served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    message = call(1, "write_tag", {"tag": "boiler/setpoint", "value": "50"})
    assert client.call(message)["result"]["structuredContent"]["outcome"] == "confirmed"
    assert served.rows("boiler/setpoint")["boiler/setpoint"]["value"] == 50
    assert plc.accepted == 1
    bridge.end_input()
    assert bridge.wait() == 0


# Start


def test_a_used_port_is_a_clear_error(run: Run, save: Save, plc: Plc) -> None:
    path = save(boiler(plc.port))
    first = run("serve", "--config", str(path), "--http", "127.0.0.1:0")
    port = port_of(first.url())
    second = run("serve", "--config", str(path), "--http", f"127.0.0.1:{port}")
    assert second.wait() == 1
    log = second.log.text()
    assert f"127.0.0.1:{port}" in log and "in use" in log.lower(), log
    assert "panicked" not in log
    assert second.out == b""
    first.stop()


@pytest.mark.parametrize("address", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0"])
def test_no_address_but_loopback_is_served(run: Run, save: Save, plc: Plc, address: str) -> None:
    path = save(boiler(plc.port))
    bridge = run("serve", "--config", str(path), "--http", address)
    assert bridge.wait() in (1, 2)
    assert "loopback" in bridge.log.text()
    assert plc.accepted == 0, "it refused before it touched the plant"
    text = path.read_text().replace("[[connections]]", f'[server]\nhttp = "{address}"\n[[connections]]', 1)
    bridge = run("serve", "--config", str(save(text)))
    assert bridge.wait() == 2
    assert "loopback" in bridge.log.text()


def test_the_environment_is_the_second_layer(serve: Serve, plc: Plc) -> None:
    served = tools(serve(boiler(plc.port), env={"FIELDBRIDGE__SITE__WRITES": "off"}))
    until("all is good", lambda: served.all_good("*"))
    assert served.call("write_tag", tag="boiler/setpoint", value="50")["rule"] == "mode"
    assert plc.writes == []


def test_check_says_what_there_is(run: Run, save: Save, plc: Plc) -> None:
    bridge = run("check", "--config", str(save(boiler(plc.port))))
    assert bridge.wait() == 0
    summary = bridge.out.decode() + bridge.log.text()
    for word in ("plc", "boiler", "chiller", f"127.0.0.1:{plc.port}"):
        assert word in summary, summary
    assert plc.accepted == 0


# Reload


def two_plants(first: Plc, second: Plc) -> Site:
    """The boiler plant, and a well with a connection of its own."""
    well = [writable("pump", "coil", 0, "bool"), tag("level", "input", 0, "uint16")]
    return boiler(first.port).connect("well", second.port).device("well", well, "well")


@pytest.fixture
def second() -> Iterator[Plc]:
    server = Plc()
    server.start()
    yield server
    server.close()


@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
def test_a_reload_applies_and_leaves_other_links_alone(
    serve: Serve, save: Save, web: Any, plc: Plc, second: Plc, http: bool
) -> None:
    plc.set(HOLDING, 20, [4711])
    bridge = serve(two_plants(plc, second), http=http)
    served: Any
    if http:
        client: Web = web(bridge.url())
        client.initialize()
        served = Tools(_OverHttp(client))  # type: ignore[arg-type]
    else:
        served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    site = two_plants(plc, second)
    tags = site.devices[0][1]
    tags.append(tag("added", "holding", 20, "uint16"))
    tags[3]["write"] = {"min": 30, "max": 40}
    del site.devices[1][1][1]
    save(site)
    bridge.signal(signal.SIGHUP)

    def added() -> bool:
        assert served.all_good("well/*"), "a tag of an unchanged connection suffered"
        return "boiler/added" in served.paths()

    until("the added tag is listed", added)
    until("the added tag is good", lambda: served.all_good("*"))
    assert served.rows("boiler/added")["boiler/added"]["value"] == 4711
    assert "chiller/flow" not in served.paths()
    assert served.call("write_tag", tag="boiler/setpoint", value="50")["rule"] == "limits"
    assert served.call("write_tag", tag="boiler/setpoint", value="35")["outcome"] == "confirmed"
    assert served.call("write_tag", tag="chiller/setpoint", value="5")["outcome"] == "confirmed"
    assert served.call("write_tag", tag="well/pump", value="on")["outcome"] == "confirmed"
    assert plc.writes == [Request(6, 1, 10, (350,)), Request(6, 2, 10, (5,))]
    assert (second.accepted, second.open) == (1, 1)
    assert plc.open == 1
    bridge.stop()


class _OverHttp:
    """Looks like a bridge to `Tools`."""

    def __init__(self, client: Web) -> None:
        self.client = client

    def ask(self, id: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return self.client.call(request(id, method, params))


def test_an_invalid_reload_changes_nothing(serve: Serve, save: Save, plc: Plc) -> None:
    bridge = serve(boiler(plc.port))
    served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    before = served.paths()
    text = boiler(plc.port).text()
    text = text.replace('writes = "allow"', 'writes = "perhaps"').replace('type = "int16"', 'type = "int17"')
    text = text.replace('unit_id = 2', 'unit_id = 999')
    save(text)
    mark = len(bridge.log.text())
    bridge.signal(signal.SIGHUP)
    for word in ("perhaps", "int17", "999"):
        bridge.log.wait(f"{word} is wrong", lambda log: word in log[mark:])
    assert served.paths() == before
    assert served.call("write_tag", tag="boiler/setpoint", value="50")["outcome"] == "confirmed"
    assert served.all_good("*")
    assert plc.accepted == 1
    # Mended, it applies.
    site = boiler(plc.port)
    site.writes = "off"
    save(site)
    bridge.signal(signal.SIGHUP)
    until(
        "the mended file applies",
        lambda: served.call("write_tag", tag="boiler/setpoint", value="50").get("rule") == "mode",
    )
    assert bridge.process.poll() is None


def test_a_reload_that_exchanges_registers(serve: Serve, save: Save, plc: Plc) -> None:
    def site(first: int, second: int) -> Site:
        tags = [writable("a", "holding", first, "uint16"), writable("b", "holding", second, "uint16")]
        return Site().connect("plc", plc.port).device("boiler", tags, scan_ms=20)

    plc.set(HOLDING, 0, [111, 222])
    bridge = serve(site(0, 1))
    served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    places = [(0, 1), (1, 0)]
    for turn in range(1, 11):
        before = len(plc.writes)
        save(site(*places[turn % 2]))
        mark = len(bridge.log.text())
        bridge.signal(signal.SIGHUP)
        bridge.log.wait("the new file is in force", lambda log: "configuration in force" in log[mark:])
        right = {"boiler/a": (111, 222)[places[turn % 2][0]], "boiler/b": (111, 222)[places[turn % 2][1]]}

        def settled() -> bool:
            rows = served.rows("boiler/a", "boiler/b")
            for path, row in rows.items():
                assert row["quality"] != "good" or row["value"] == right[path], (turn, row, right)
            return all(row["quality"] == "good" for row in rows.values())

        until("both are good", settled)
        answer = served.call("write_tag", tag="boiler/a", value=str(right["boiler/a"]))
        assert answer["outcome"] == "confirmed"
        written = plc.writes[before:]
        assert written == [Request(6, 1, places[turn % 2][0], (right["boiler/a"],))]


def test_a_reload_that_moves_the_connection(serve: Serve, save: Save, plc: Plc) -> None:
    other = Plc(units=(1, 2))
    other.start()
    try:
        plc.set(HOLDING, 11, [1])
        other.set(HOLDING, 11, [2])
        bridge = serve(boiler(plc.port))
        served = tools(bridge)
        until("all is good", lambda: served.all_good("*"))
        assert served.rows("boiler/speed")["boiler/speed"]["value"] == 1
        save(boiler(other.port))
        bridge.signal(signal.SIGHUP)
        until("the other is read", lambda: served.rows("boiler/speed")["boiler/speed"]["value"] == 2)
        until("the first is left", lambda: plc.open == 0)
        assert served.call("write_tag", tag="boiler/speed", value="3")["outcome"] == "confirmed"
        assert (plc.writes, other.writes) == ([], [Request(6, 1, 11, (3,))])
        assert other.accepted == 1
    finally:
        other.close()


def test_a_reload_of_the_same_file_is_harmless(serve: Serve, plc: Plc) -> None:
    bridge = serve(boiler(plc.port))
    served = tools(bridge)
    until("all is good", lambda: served.all_good("*"))
    for _ in range(20):
        os.kill(bridge.pid, signal.SIGHUP)
        assert len(served.paths()) == 9
    until("all is good", lambda: served.all_good("*"))
    assert (plc.accepted, plc.open) == (1, 1)
    bridge.end_input()
    assert bridge.wait() == 0
