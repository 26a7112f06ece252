"""What there is, as the official client sees it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from datetime import datetime

import pytest
from mcp.shared.exceptions import MCPError

from peers import Peer
from plant import PATHS
from plc import DISCRETE, HOLDING, INPUT, Plc

pytestmark = pytest.mark.anyio

Connected = AbstractAsyncContextManager[Peer]


async def test_tools_are_announced_with_schemas_and_annotations(peer: Connected) -> None:
    async with peer as bridge:
        tools = {tool.name: tool for tool in (await bridge.client.list_tools()).tools}
        assert set(tools) == {"list_tags", "read_tags", "list_devices", "write_tag", "write_tags"}
        for name, tool in tools.items():
            assert tool.description and tool.output_schema, name
            assert tool.annotations is not None, name
            assert tool.annotations.read_only_hint is not name.startswith("write_tag"), name
        write = tools["write_tag"].annotations
        assert write is not None and write.destructive_hint is not None and write.idempotent_hint is True
        properties = tools["write_tag"].input_schema["properties"]
        assert {"tag", "value", "expect", "dry_run", "reason"} == set(properties)
        assert properties["value"]["type"] == "string"


async def test_server_introduces_itself(peer: Connected) -> None:
    async with peer as bridge:
        info = bridge.client.server_info
        assert info is not None and info.name and len(info.name) <= 20
        instructions = bridge.client.instructions
        assert instructions and len(instructions.strip().splitlines()) <= 15
        capabilities = bridge.client.server_capabilities
        assert capabilities.tools is not None
        assert capabilities.resources is not None and capabilities.resources.subscribe is True


async def test_resources_are_all_tags_and_devices(peer: Connected) -> None:
    async with peer as bridge:
        uris, cursor = [], None
        while True:
            page = await bridge.client.list_resources(cursor=cursor)
            uris += [resource.uri for resource in page.resources]
            if not (cursor := page.next_cursor):
                break
        tags = [f"fieldbridge://tags/{path}" for path in PATHS]
        devices = ["fieldbridge://devices/boiler", "fieldbridge://devices/chiller"]
        assert sorted(uris) == sorted(tags + devices)


async def test_templates_are_listed(peer: Connected) -> None:
    async with peer as bridge:
        templates = (await bridge.client.list_resource_templates()).resource_templates
        assert {template.uri_template for template in templates} == {
            "fieldbridge://tags/{+path}",
            "fieldbridge://devices/{device}",
        }


async def test_list_tags_filters(peer: Connected) -> None:
    async with peer as bridge:

        async def listed(**arguments: object) -> list[str]:
            return [row["tag"] for row in (await bridge.answer("list_tags", **arguments))["tags"]]

        assert sorted(await listed()) == sorted(PATHS)
        assert sorted(await listed(device="chiller")) == ["chiller/flow", "chiller/setpoint"]
        assert sorted(await listed(filter="*/setpoint")) == ["boiler/setpoint", "chiller/setpoint"]
        assert sorted(await listed(writable=True)) == [
            "boiler/counter",
            "boiler/pump",
            "boiler/setpoint",
            "boiler/speed",
            "chiller/setpoint",
        ]


async def test_paging_visits_each_tag_once(peer: Connected) -> None:
    async with peer as bridge:
        for tool, arguments in (("list_tags", {}), ("read_tags", {"tags": ["*"]})):
            seen: list[str] = []
            more: dict[str, str] = {}
            while True:
                page = await bridge.answer(tool, **arguments, limit=2, **more)
                assert len(page["tags"]) <= 2
                seen += [row["tag"] for row in page["tags"]]
                if not (cursor := page.get("next_cursor")):
                    break
                more = {"cursor": cursor}
            assert sorted(seen) == sorted(PATHS), tool


async def test_devices_are_listed_with_their_states(peer: Connected) -> None:
    async with peer as bridge:
        await bridge.all_good("*")
        rows = (await bridge.answer("list_devices"))["devices"]
        assert [row["device"] for row in rows] == ["boiler", "chiller"]
        assert rows[0]["tags"] == {"good": 7, "uncertain": 0, "bad": 0}
        assert rows[1]["tags"] == {"good": 2, "uncertain": 0, "bad": 0}


async def test_values_of_every_table_are_read(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [0x10000 - 125, 42])
    plc.set(DISCRETE, 3, [1])
    plc.set(HOLDING, 10, [213, 0x10000 - 7, 1, 2])
    plc.set(HOLDING, 10, [777, 0x4247, 0xEB85], unit=2)
    async with peer as bridge:
        await bridge.all_good("*")
        rows = await bridge.tags("*")
        assert {path: row["value"] for path, row in rows.items()} == {
            "boiler/temperature": -12.5,
            "boiler/level": 42,
            "boiler/alarm": True,
            "boiler/setpoint": 21.3,
            "boiler/speed": -7,
            "boiler/counter": 65538,
            "boiler/pump": False,
            "chiller/setpoint": 777,
            "chiller/flow": 49.98,
        }
        row = rows["boiler/temperature"]
        assert row["unit"] == "°C"
        assert datetime.fromisoformat(row["source_time"]).utcoffset() is not None
        assert row["age_ms"] >= 0
        assert "reason" not in row


async def test_a_value_outside_its_range_is_bad_and_kept(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [1501])
    async with peer as bridge:
        await bridge.all_good("boiler/level")
        row = await bridge.tag("boiler/temperature")
        assert (row["quality"], row["reason"], row["value"]) == ("bad", "out_of_range", 150.1)


async def test_resources_are_read(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [654])
    async with peer as bridge:
        await bridge.all_good("*")
        tag = await bridge.resource("fieldbridge://tags/boiler/temperature")
        assert (tag["tag"], tag["value"], tag["quality"]) == ("boiler/temperature", 65.4, "good")
        device = await bridge.resource("fieldbridge://devices/chiller")
        assert device["device"] == "chiller"


async def test_what_is_not_there_is_said(peer: Connected) -> None:
    async with peer as bridge:
        for uri in ("fieldbridge://tags/boiler/nothing", "fieldbridge://devices/nothing", "other://thing"):
            with pytest.raises(MCPError):
                await bridge.client.read_resource(uri)
        with pytest.raises(MCPError):
            await bridge.client.call_tool("no_such_tool", {})
        result = await bridge.call("read_tags", tags=["boiler/temperatur"])
        assert result.is_error
        assert "boiler/temperature" in str(result.structured_content)
