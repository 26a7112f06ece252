"""Legacy sessions over HTTP whose client opens its stream late, or never reads it."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from bridge import Message, Web, call, request
from conftest import Serve
from plant import Site, tag
from plc import HOLDING, Plc
from waiting import DEADLINE, until

TAGS = 200
DEEP = "/".join(8 * ["a-segment-that-is-sixty-four-characters-long-as-the-longest-may-be"[:64]])
"""Long paths make for long messages, which no buffer of the kernel holds many of."""

SAMPLE = (1, 100, TAGS - 1)
"""Tags of every request that reads the device."""


def path(number: int) -> str:
    return f"{DEEP}/r{number}"


def uri(number: int) -> str:
    return f"fieldbridge://tags/boiler/{path(number)}"


class Session:
    """A legacy session: calls go over one connection, the stream over another."""

    def __init__(self, web: Callable[..., Web], url: str) -> None:
        self._web = web
        self._url = url
        self._ids = count(1)
        self.client = web(url)
        self.client.initialize()

    def ask(self, method: str, params: Message) -> Message:
        answer = self.client.call(request(next(self._ids), method, params))
        assert "result" in answer, answer
        return answer["result"]

    def subscribe(self, *numbers: int) -> None:
        for number in numbers:
            self.ask("resources/subscribe", {"uri": uri(number)})

    def values(self, *numbers: int) -> list[Any]:
        """The values of tags; `None` where one is not good."""
        params = call(0, "read_tags", {"tags": [f"boiler/{path(number)}" for number in numbers]})["params"]
        rows = self.ask("tools/call", params)["structuredContent"]["tags"]
        return [row["value"] if row["quality"] == "good" else None for row in rows]

    def open(self, buffer: int | None = None) -> http.client.HTTPResponse:
        """Opens the stream of server messages, on request with a small buffer of the kernel's."""
        stream = self._web(self._url)
        stream.session = self.client.session
        connection = stream.connection
        if buffer is not None:
            connection.sock = socket.socket()
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
            connection.sock.settimeout(DEADLINE)
            connection.sock.connect((connection.host, connection.port))
        headers = stream.headers(None) | {"Accept": "text/event-stream"}
        connection.request("GET", stream.path, headers=headers)
        response = connection.getresponse()
        assert response.status == 200
        return response


def updates(stream: http.client.HTTPResponse) -> Iterator[str]:
    """The URIs of the updates on a stream, as they come."""
    while line := stream.readline():
        data = line.decode().removeprefix("data:").strip()
        if line.startswith(b"data:") and data:
            message = json.loads(data)
            assert message["method"] == "notifications/resources/updated", message
            yield message["params"]["uri"]


@pytest.fixture
def session(serve: Serve, web: Any, plc: Plc) -> Session:
    tags = [tag(path(number), "holding", number, "uint16") for number in range(TAGS)]
    # Every change is told at once: nothing but the client holds updates up.
    site = Site(server={"notify_min_ms": 0}).connect("plc", plc.port).device("boiler", tags, scan_ms=20)
    session = Session(web, serve(site, http=True).url())
    until("all tags are good", lambda: None not in session.values(*SAMPLE))
    return session


def change(session: Session, plc: Plc, value: int) -> None:
    """Changes all registers and waits until the bridge has read them."""
    plc.set(HOLDING, 0, [value] * TAGS)
    until(f"all tags are {value}", lambda: set(session.values(*SAMPLE)) == {value})


def test_a_stream_that_opens_late_hears_of_what_changed(session: Session, plc: Plc) -> None:
    session.subscribe(3, 5, 7)
    for value in range(1, 31):
        change(session, plc, value)
    heard = updates(session.open())
    assert {next(heard) for _ in range(3)} == {uri(3), uri(5), uri(7)}
    # And of what changes from now on.
    plc.set(HOLDING, 5, [4711])
    assert uri(5) in (next(heard) for _ in range(100))


def test_a_stream_that_breaks_off_is_made_good_by_the_next(session: Session, plc: Plc) -> None:
    session.subscribe(3)
    first = session.open()
    change(session, plc, 1)
    assert next(updates(first)) == uri(3)
    first.close()
    change(session, plc, 2)
    assert next(updates(session.open())) == uri(3)


def test_a_client_that_does_not_read_its_stream_blocks_nobody(session: Session, plc: Plc) -> None:
    session.subscribe(*range(1, TAGS))
    stream = session.open(buffer=4096)
    rounds = 100
    # Far more than fits between the two.
    for value in range(1, rounds + 1):
        change(session, plc, value)
    # It wakes up. Had the updates been piled up, this one would come behind all of them.
    session.subscribe(0)
    plc.set(HOLDING, 0, [4711])
    until("the change is read", lambda: session.values(0) == [4711])
    heard = []
    for update in updates(stream):
        heard.append(update)
        if update == uri(0):
            break
    assert len(heard) < rounds * TAGS / 2, "updates were piled up instead of merged"
    # Those that came in between may be missing, but of each tag at least one is there.
    missing = {uri(number) for number in range(TAGS)} - set(heard)
    while missing:
        missing.discard(next(updates(stream)))
