"""Case D03: order of the handshake, versions, batches, garbage lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bridge import Bridge, Web, call, meta, parse, request
from conftest import CASES, Serve
from plant import Site

FILES = CASES / "files"
EMPTY = Site().connect("plc", 9)
NOT_FOUND, INVALID_REQUEST, PARSE_ERROR, UNSUPPORTED = -32601, -32600, -32700, -32022

Answers = dict[Any, dict[str, Any]]


@pytest.fixture(params=["answer by answer", "all at once"])
def play(request: pytest.FixtureRequest, serve: Serve) -> Any:
    """Pipes a file in: each line once the requests before it are answered, or all lines in one piece."""

    def run(name: str) -> tuple[Answers, list[dict[str, Any]]]:
        bridge = serve(EMPTY)
        lines = (FILES / name).read_bytes().splitlines(keepends=True)
        asked = [json.loads(line).get("id") for line in lines]
        if request.param == "all at once":
            bridge.write(b"".join(lines))
        for line, id in zip(lines, asked, strict=True):
            if request.param != "all at once":
                bridge.write(line)
            if id is not None:
                bridge.answer(id)
        return finish(bridge)

    return run


def finish(bridge: Bridge) -> tuple[Answers, list[dict[str, Any]]]:
    """Checks that it lives to the end of its input; gives the answers by id, and all messages."""
    assert bridge.process.poll() is None, bridge.log.text()
    bridge.end_input()
    assert bridge.wait() == 0
    messages = bridge.messages()
    answers = [message for message in messages if "method" not in message]
    by_id = {(type(message.get("id")).__name__, message.get("id")): message for message in answers}
    assert len(by_id) == len([m for m in answers if m.get("id") is not None]) + (("NoneType", None) in by_id)
    return {message.get("id"): message for message in answers}, messages


def is_list(answer: dict[str, Any]) -> bool:
    return len(answer["result"]["tools"]) == 5


def test_1_early_set_level(play: Any) -> None:
    answers, _ = play("D03_early_setlevel.jsonl")
    assert answers[1]["result"]["protocolVersion"] == "2025-11-25"
    assert "result" in answers[2] or answers[2]["error"]["code"] == NOT_FOUND
    assert is_list(answers[3])


def test_2_list_before_initialized(play: Any) -> None:
    answers, _ = play("D03_list_before_initialized.jsonl")
    assert "error" in answers[2] or is_list(answers[2])
    assert is_list(answers[3])


def test_3_discover_after_initialize(play: Any) -> None:
    answers, _ = play("D03_discover_after_initialize.jsonl")
    if "error" in answers[2]:
        assert answers[2]["error"]["code"] == NOT_FOUND
    else:
        assert "supportedVersions" in answers[2]["result"]
    assert is_list(answers[3])


def test_4_discover_first(play: Any) -> None:
    answers, _ = play("D03_discover_first.jsonl")
    assert "error" in answers[1] or "supportedVersions" in answers[1]["result"]
    assert answers[2]["result"]["protocolVersion"] == "2025-11-25"
    assert is_list(answers[3])


def test_5_modern(play: Any) -> None:
    answers, _ = play("D03_modern.jsonl")
    assert "2026-07-28" in answers[1]["result"]["supportedVersions"]
    assert is_list(answers[2])
    assert answers[2]["result"]["resultType"] == "complete"
    assert answers[3]["error"]["code"] == UNSUPPORTED
    assert "2026-07-28" in answers[3]["error"]["data"]["supported"]


def test_6_unknown_version(play: Any) -> None:
    answers, _ = play("D03_unknown_version.jsonl")
    assert answers[1]["result"]["protocolVersion"] in {
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2025-11-25",
    }
    assert is_list(answers[2])


def test_7_old_version(play: Any) -> None:
    answers, _ = play("D03_old_version.jsonl")
    assert answers[1]["result"]["protocolVersion"] == "2024-11-05"
    assert is_list(answers[2])


def test_8_no_handshake(play: Any) -> None:
    answers, _ = play("D03_no_handshake.jsonl")
    assert "error" in answers[1] or is_list(answers[1])
    assert answers[2]["result"] == {}
    assert "protocolVersion" in answers[3]["result"]
    assert is_list(answers[4])


def test_9_unknown_notification(play: Any) -> None:
    answers, messages = play("D03_unknown_notification.jsonl")
    assert [message.get("id") for message in messages] == [1, 2], messages
    assert answers[2]["result"] == {}


def test_10_double_initialize(play: Any) -> None:
    answers, _ = play("D03_double_init.jsonl")
    assert "error" in answers[2] or "protocolVersion" in answers[2]["result"]
    assert is_list(answers[3])


def test_11_garbage(serve: Serve) -> None:
    bridge = serve(EMPTY)
    bridge.write((FILES / "D03_garbage.txt").read_bytes())
    bridge.answer(11)
    assert bridge.process.poll() is None
    bridge.end_input()
    assert bridge.wait() == 0
    messages = [json.loads(line) for line in bridge.out.splitlines()]
    batches = [message for message in messages if isinstance(message, list)]
    plain = [message for message in messages if isinstance(message, dict)]
    assert not batches, "2025-03-26 was never agreed on, so no batch is answered as one"
    answers = {message["id"]: message for message in plain if message.get("id") is not None}
    assert answers[10]["result"]["protocolVersion"] == "2025-11-25"
    assert is_list(answers[11])
    assert answers["abc"]["id"] == "abc"
    assert set(answers) <= {"abc", 10, 11}, answers
    nameless = [message for message in plain if message.get("id") is None]
    assert {message["error"]["code"] for message in nameless} <= {PARSE_ERROR, INVALID_REQUEST}, nameless
    # The array of two requests is one line: one error at most.
    assert len(nameless) <= 8


def test_11_a_batch_is_one_error(serve: Serve) -> None:
    bridge = serve(EMPTY)
    bridge.initialize()
    bridge.send([request(1, "ping"), request(2, "ping")])  # type: ignore[arg-type]
    bridge.ask(3, "ping")
    bridge.end_input()
    assert bridge.wait() == 0
    others = [message for message in bridge.messages() if message.get("id") not in (0, 3)]
    (error,) = others
    assert (error.get("id"), error["error"]["code"]) == (None, INVALID_REQUEST)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_12_http_batch(serve: Serve, web: Any, era: str) -> None:
    client: Web = web(serve(EMPTY, http=True).url(), era)
    if era == "legacy":
        client.initialize()
    status, _, body = client.post([request(1, "ping"), request(2, "ping")])
    assert status == 400, body
    (error,) = parse(body)
    assert error["error"]["code"] == INVALID_REQUEST


def test_13_http_unknown_version(serve: Serve, web: Any) -> None:
    client: Web = web(serve(EMPTY, http=True).url())
    client.initialize()
    status, _, body = client.post(request(1, "tools/list"), MCP_Protocol_Version="1999-01-01")
    assert status == 400, body
    # The session survives it.
    assert is_list(client.call(request(2, "tools/list")))


def test_http_serves_both_eras_at_one_endpoint(serve: Serve, web: Any) -> None:
    url = serve(EMPTY, http=True).url()
    legacy, modern = web(url, "legacy"), web(url, "modern")
    legacy.initialize()
    for id in range(1, 4):
        assert is_list(legacy.call(request(id, "tools/list")))
        answer = modern.call(request(id, "tools/list", era="modern"))
        assert is_list(answer) and answer["result"]["resultType"] == "complete"


def test_http_modern_refuses_a_version_that_it_does_not_know(serve: Serve, web: Any) -> None:
    client: Web = web(serve(EMPTY, http=True).url(), "modern")
    message = request(1, "tools/list", {"_meta": meta("1900-01-01")})
    status, _, body = client.post(message, MCP_Protocol_Version="1900-01-01")
    assert status == 400, body
    (error,) = parse(body)
    assert error["error"]["code"] == UNSUPPORTED
    assert "2026-07-28" in error["error"]["data"]["supported"]


def test_a_tool_that_is_not_there_is_an_error_of_the_protocol(serve: Serve) -> None:
    bridge = serve(EMPTY)
    bridge.initialize()
    message = call(1, "no_such_tool")
    assert "error" in bridge.ask(1, message["method"], message["params"])
