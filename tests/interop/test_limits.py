"""Case D05: limits that real clients have, with ten tags and with five thousand."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import jsonschema
import pytest

from bridge import Bridge, Message, Web, call, request
from conftest import Serve
from plant import Site, tag, writable
from plc import Plc

KIB = 1024
INVALID_PARAMS = -32602
TOOL = re.compile(r"[a-zA-Z][a-zA-Z0-9_-]{0,39}")
PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
COMBINED = {
    "anyOf",
    "oneOf",
    "allOf",
    "not",
    "if",
    "$ref",
    "$defs",
    "definitions",
    "$schema",
    "$dynamicRef",
    "$id",
    "nullable",
    "const",
}
TYPES = {"string", "number", "integer", "boolean", "array", "object"}
FORMATS = {"date-time", "date", "time", "uri", "email"}
DEVICES = 50


def big(port: int, tags: int) -> Site:
    """`tags` tags over fifty devices (or one), every tenth writable."""
    devices = min(DEVICES, max(1, tags // 10))
    site = Site().connect("plc", port)
    for device in range(devices):
        rows = [
            (writable if number % 10 == 0 else tag)(
                f"area-{number // 10}/value-{number}",
                "holding",
                number,
                "uint16",
                unit="°C",
                description=f"Temperature {number} of line {device}, measured behind the heat exchanger",
            )
            for number in range(tags // devices)
        ]
        site.device(f"line-{device:02}", rows, unit_id=device + 1, scan_ms=1000)
    return site


@dataclass
class Talk:
    """A conversation over either transport, and every tool answer that it brought."""

    ask: Callable[[str, Message | None], Message]
    answers: list[tuple[str, Message, int]] = field(default_factory=list)

    def tools(self) -> list[Message]:
        return self.ask("tools/list", None)["result"]["tools"]

    def call(self, tool: str, **arguments: Any) -> Message:
        message = call(0, tool, arguments)
        result = self.ask(message["method"], message["params"])["result"]
        size = sum(len(content["text"].encode()) for content in result["content"])
        self.answers.append((tool, result, size))
        return result


@pytest.fixture(params=[10, 5000])
def tags(request: pytest.FixtureRequest) -> int:
    return request.param


@pytest.fixture
def many() -> Iterator[Plc]:
    server = Plc(units=range(1, DEVICES + 1))
    server.start()
    yield server
    server.close()


@pytest.fixture(params=["stdio", "http"])
def talk(request: pytest.FixtureRequest, serve: Serve, web: Any, many: Plc, tags: int) -> Talk:
    ids = count(1)
    site = big(many.port, tags)
    if request.param == "http":
        client: Web = web(serve(site, http=True).url())
        client.initialize()
        return Talk(lambda method, params: client.call(_request(next(ids), method, params)))
    bridge: Bridge = serve(site)
    bridge.initialize()
    return Talk(lambda method, params: bridge.ask(next(ids), method, params))


def _request(id: int, method: str, params: Message | None) -> Message:
    return request(id, method, params)


def schemas(schema: Message) -> Iterator[Message]:
    """`schema` and every schema inside it."""
    yield schema
    for inner in schema.get("properties", {}).values():
        yield from schemas(inner)
    if isinstance(schema.get("items"), dict):
        yield from schemas(schema["items"])


def test_1_names(talk: Talk) -> None:
    names = [tool["name"] for tool in talk.tools()]
    assert all(TOOL.fullmatch(name) for name in names)
    assert all(len(f"mcp__fieldbridge__{name}") <= 64 for name in names)
    assert len({name.lower() for name in names}) == len(names)


def test_2_tool_count(talk: Talk, tags: int) -> None:
    assert len(talk.tools()) == 5


def test_3_to_6_input_schemas(talk: Talk) -> None:
    for tool in talk.tools():
        top = tool["inputSchema"]
        assert top["type"] == "object"
        assert isinstance(top["properties"], dict)
        assert set(top.get("required", [])) <= set(top["properties"])
        for schema in schemas(top):
            assert not COMBINED & set(schema), (tool["name"], schema)
            assert isinstance(schema["type"], str) and schema["type"] in TYPES, (tool["name"], schema)
            assert schema.get("format", "date-time") in FORMATS, (tool["name"], schema)
            assert all(isinstance(word, str) for word in schema.get("enum", []))
            assert len(schema.get("enum", [])) <= 20
            for name, inner in schema.get("properties", {}).items():
                assert PROPERTY.fullmatch(name)
                assert inner.get("description"), (tool["name"], name)


def test_7_and_10_answers_validate_and_are_short(talk: Talk, tags: int) -> None:
    tools = {tool["name"]: tool for tool in talk.tools()}
    writable_tag = talk.call("list_tags", writable=True)["structuredContent"]["tags"][0]["tag"]
    some = talk.call("read_tags", tags=[writable_tag])["structuredContent"]["tags"]
    assert len(some) == 1
    for tool, arguments in (
        ("list_devices", {}),
        ("list_tags", {}),
        ("list_tags", {"limit": 1000}),
        ("list_tags", {"filter": "temperature 3 "}),
        ("list_tags", {"device": "line-00"}),
        ("read_tags", {"tags": ["*"]}),
        ("read_tags", {"tags": ["*"], "limit": 1000}),
        ("read_tags", {"tags": [writable_tag, "line-00/none", "nothing"]}),
        ("write_tag", {"tag": writable_tag, "value": "7"}),
        ("write_tag", {"tag": writable_tag, "value": "7", "dry_run": True}),
        ("write_tag", {"tag": writable_tag, "value": "8", "expect": "9"}),
        ("write_tags", {"writes": [{"tag": writable_tag, "value": "7"}]}),
        ("write_tags", {"writes": [{"tag": writable_tag, "value": "7"}], "dry_run": True}),
        # Errors.
        ("list_tags", {"device": "nothing"}),
        ("list_tags", {"cursor": "nonsense"}),
        ("list_tags", {"limit": 0}),
        ("list_tags", {"unknown": 1}),
        ("list_tags", {"filter": "["}),
        ("list_devices", {"cursor": "nonsense"}),
        ("read_tags", {}),
        ("read_tags", {"tags": []}),
        ("read_tags", {"tags": "line-00/*"}),
        ("read_tags", {"tags": ["nothing"]}),
        ("read_tags", {"tags": [f"nothing-{number}" for number in range(100)]}),
        ("read_tags", {"tags": ["x" * 50_000]}),
        ("write_tag", {}),
        ("write_tag", {"tag": writable_tag}),
        ("write_tag", {"tag": writable_tag, "value": [1]}),
        ("write_tag", {"tag": writable_tag, "value": None}),
        ("write_tag", {"tag": writable_tag, "value": "99999"}),
        ("write_tag", {"tag": writable_tag, "value": "x" * 50_000}),
        ("write_tag", {"tag": "nothing", "value": "1"}),
        ("write_tags", {}),
        ("write_tags", {"writes": []}),
        ("write_tags", {"writes": [{"tag": writable_tag}]}),
        ("write_tags", {"writes": [{"tag": writable_tag, "value": "7"}, {"tag": "nothing", "value": "1"}]}),
        ("write_tags", {"writes": [{"tag": writable_tag, "value": "7"}] * 2}),
        ("write_tags", {"writes": [{"tag": "x" * 900, "value": "y" * 900}] * 32}),
        ("write_tag", {"tag": "line-00/area-0/value-1", "value": "1"}),
    ):
        talk.call(tool, **arguments)
    failures = [result for _, result, _ in talk.answers if result.get("isError")]
    assert len(failures) >= 18
    for tool, result, size in talk.answers:
        jsonschema.validate(result["structuredContent"], tools[tool]["outputSchema"])
        (content,) = result["content"]
        assert json.loads(content["text"]) == result["structuredContent"]
        assert size < 25 * KIB, (tool, size)


def test_7_null_values_validate(serve: Serve) -> None:
    bridge = serve(big(9, 10))
    bridge.initialize()
    ids = count(1)
    talk = Talk(lambda method, params: bridge.ask(next(ids), method, params))
    tools = {tool["name"]: tool for tool in talk.tools()}
    result = talk.call("read_tags", tags=["*"])
    rows = result["structuredContent"]["tags"]
    assert len(rows) == 10
    assert all("value" in row and row["value"] is None for row in rows)
    talk.call("write_tag", tag=rows[0]["tag"], value="7")
    talk.call("list_devices")
    for tool, result, _ in talk.answers:
        jsonschema.validate(result["structuredContent"], tools[tool]["outputSchema"])


def test_10_big_answers_say_that_there_is_more(talk: Talk, tags: int) -> None:
    for tool, arguments in (("list_tags", {}), ("read_tags", {"tags": ["*"]})):
        first = talk.call(tool, **arguments)["structuredContent"]
        assert ("next_cursor" in first) is (tags > len(first["tags"])), tool
        seen, more = [row["tag"] for row in first["tags"]], first.get("next_cursor")
        while more:
            page = talk.call(tool, **arguments, limit=1000, cursor=more)["structuredContent"]
            assert page["tags"]
            seen += [row["tag"] for row in page["tags"]]
            more = page.get("next_cursor")
        assert len(seen) == len(set(seen)) == tags
    assert all(size < 25 * KIB for _, _, size in talk.answers)


def test_8_order_is_the_same_after_a_restart(serve: Serve, tags: int) -> None:
    lists = []
    for _ in range(2):
        bridge = serve(big(9, tags))
        bridge.initialize()
        lists += [json.dumps(bridge.ask(id, "tools/list")["result"]) for id in (1, 2)]
        bridge.end_input()
        assert bridge.wait() == 0
    assert len(set(lists)) == 1


def test_9_sizes(talk: Talk, tags: int) -> None:
    answer = talk.ask("tools/list", None)
    assert len(json.dumps(answer, ensure_ascii=False).encode()) < 32 * KIB
    assert all(0 < len(tool["description"].encode()) < KIB for tool in talk.tools())
    uris: list[str] = []
    pages = 0
    more: Message | None = None
    while True:
        page = talk.ask("resources/list", more)
        assert len(json.dumps(page, ensure_ascii=False).encode()) < 256 * KIB
        pages += 1
        uris += [resource["uri"] for resource in page["result"]["resources"]]
        if not (cursor := page["result"].get("nextCursor")):
            break
        more = {"cursor": cursor}
    devices = min(DEVICES, max(1, tags // 10))
    assert len(uris) == len(set(uris)) == tags + devices
    assert (pages > 1) is (tags == 5000)
    for method in ("resources/list", "resources/templates/list", "tools/list"):
        answer = talk.ask(method, {"cursor": "no cursor of ours"})
        assert answer["error"]["code"] == INVALID_PARAMS, method
    templates = talk.ask("resources/templates/list", None)
    assert len(json.dumps(templates)) < 32 * KIB


def test_9_tools_do_not_depend_on_the_tags(serve: Serve) -> None:
    lists = []
    for number in (10, 5000):
        bridge = serve(big(9, number))
        bridge.initialize()
        lists.append(bridge.ask(1, "tools/list")["result"])
    assert lists[0] == lists[1]


def test_11_annotations(talk: Talk) -> None:
    for tool in talk.tools():
        hints = tool["annotations"]
        if tool["name"] in ("write_tag", "write_tags"):
            assert hints["readOnlyHint"] is False
            assert "destructiveHint" in hints
            assert hints["idempotentHint"] is True
        else:
            assert hints["readOnlyHint"] is True


def test_12_server_name(serve: Serve) -> None:
    bridge = serve(big(9, 10))
    result = bridge.initialize()["result"]
    assert len(result["serverInfo"]["name"]) <= 20
    assert len(result["instructions"].strip().splitlines()) <= 15
