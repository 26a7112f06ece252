"""HTTP without an SDK: who may speak, and the sessions of case D07."""

from __future__ import annotations

from typing import Any

import pytest

from bridge import Web, call, handshake, meta, parse, request
from conftest import Serve
from plant import Site, boiler
from plc import HOLDING, Plc

EMPTY = Site().connect("plc", 9)


@pytest.fixture
def url(serve: Serve) -> str:
    return serve(EMPTY, http=True).url()


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("Host", "plant.example.com"),
        ("Host", "127.0.0.1.example.com"),
        ("Host", "10.0.0.1"),
        ("Origin", "https://example.com"),
        ("Origin", "http://localhost.example.com"),
        ("Origin", "null"),
    ],
)
def test_wrong_host_and_origin_are_forbidden(url: str, web: Any, header: str, value: str, era: str) -> None:
    client: Web = web(url, era)
    first = request(1, "initialize", handshake()) if era == "legacy" else request(1, "tools/list", era=era)
    status, _, body = client.post(first, **{header: value})
    assert status == 403, body
    for method in ("GET", "DELETE", "OPTIONS"):
        other: Web = web(url, era)
        other.connection.request(method, other.path, headers={header: value, "Accept": "text/event-stream"})
        assert other.connection.getresponse().status == 403, method


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "LOCALHOST"])
def test_own_host_and_origin_are_served(url: str, web: Any, host: str) -> None:
    port = url.split(":")[2].split("/")[0]
    client: Web = web(url, "modern")
    status, _, body = client.post(
        request(1, "tools/list", era="modern"), Host=f"{host}:{port}", Origin=f"http://{host}:{port}"
    )
    assert status == 200, body


def test_a_forbidden_write_touches_nothing(serve: Serve, web: Any, plc: Plc) -> None:
    url = serve(boiler(plc.port), http=True).url()
    client: Web = web(url, "modern")
    message = call(1, "write_tag", {"tag": "boiler/setpoint", "value": "50"}, "modern")
    status, _, _ = client.post(message, Origin="https://example.com")
    assert status == 403
    # Whether the connection outlives a refusal is the server's business.
    client = web(url, "modern")
    while True:
        answer = client.call(message)["result"]["structuredContent"]
        if answer["outcome"] == "confirmed":
            break
        assert answer["outcome"] == "not_sent", answer
    assert [write.values for write in plc.writes] == [(500,)]
    assert plc.get(HOLDING, 10) == [500]


def test_d07_unknown_and_missing_sessions(url: str, web: Any) -> None:
    client: Web = web(url)
    client.session = "11111111-aaaa"
    for method in ("POST", "GET", "DELETE"):
        other: Web = web(url)
        other.session = client.session
        headers = other.headers(None)
        if method == "GET":
            headers["Accept"] = "text/event-stream"
        data = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}' if method == "POST" else None
        other.connection.request(method, other.path, data, headers)
        assert other.connection.getresponse().status == 404, method
    client.session = None
    status, _, body = client.post(request(1, "tools/list"), MCP_Protocol_Version="2025-11-25")
    assert status == 400, body


def test_d07_initialize_with_an_old_id(url: str, web: Any) -> None:
    client: Web = web(url)
    status, headers, _ = client.post(request(1, "initialize", handshake()), Mcp_Session_Id="11111111-aaaa")
    fresh = {name.lower(): value for name, value in headers.items()}.get("mcp-session-id")
    assert status == 200 and fresh and fresh != "11111111-aaaa"


def test_d07_delete_ends_a_session(url: str, web: Any) -> None:
    client: Web = web(url)
    client.initialize()
    other: Web = web(url)
    other.session = client.session
    other.connection.request("DELETE", other.path, headers=other.headers(None))
    assert other.connection.getresponse().status in (200, 202, 204)
    status, _, body = client.post(request(1, "tools/list"))
    assert status == 404, body


def test_d07_ids_differ(url: str, web: Any) -> None:
    seen = set()
    client: Web = web(url)
    for _ in range(100):
        status, headers, _ = client.post(request(1, "initialize", handshake()))
        assert status == 200
        seen.add({name.lower(): value for name, value in headers.items()}["mcp-session-id"])
    assert len(seen) == 100
    assert all(len(id) >= 22 and id.isascii() and id.isprintable() for id in seen)


def test_d07_a_get_that_wants_no_events(url: str, web: Any) -> None:
    client: Web = web(url)
    client.initialize()
    headers = client.headers(None) | {"Accept": "application/json"}
    client.connection.request("GET", client.path, headers=headers)
    assert client.connection.getresponse().status in (405, 406)


def test_d07_modern_has_no_sessions(url: str, web: Any) -> None:
    client: Web = web(url, "modern")
    message = request(1, "tools/list", era="modern")
    status, headers, body = client.post(message, Mcp_Session_Id="11111111-aaaa")
    assert status == 200, body
    assert "mcp-session-id" not in {name.lower() for name in headers}
    # The header and the body must name one version.
    status, _, body = client.post(message, MCP_Protocol_Version="2025-11-25")
    assert status == 400, body
    assert parse(body)[0]["error"]["code"] == -32020
    status, _, body = client.post(request(2, "no/such/method", era="modern"))
    assert status == 404, body
    assert parse(body)[0]["error"]["code"] == -32601
    for method in ("GET", "DELETE"):
        other: Web = web(url, "modern")
        headers = {"MCP-Protocol-Version": "2026-07-28", "Accept": "text/event-stream"}
        other.connection.request(method, other.path, headers=headers)
        assert other.connection.getresponse().status == 405, method


def test_d07_types_of_content(url: str, web: Any) -> None:
    client: Web = web(url, "modern")
    message = request(1, "tools/list", {"_meta": meta("2026-07-28")})
    status, _, _ = client.post(message, Content_Type="text/plain")
    assert status == 415
    other: Web = web(url, "modern")
    status, _, _ = other.post(message, Accept="text/html")
    assert status == 406


def test_d07_a_body_beyond_all_measure(url: str, web: Any) -> None:
    client: Web = web(url, "modern")
    body = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (5 * 1024 * 1024) + b'"}'
    try:
        status, _, _ = client.post(body)
    except (BrokenPipeError, ConnectionResetError):
        pass
    else:
        assert status in (400, 413)
    after: Web = web(url, "modern")
    assert "result" in after.call(request(1, "tools/list", era="modern"))
