"""The official Python client, over both transports and in both eras."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
from mcp import Client
from mcp.client.session import IncomingMessage
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp.types import CallToolResult, ResourceUpdatedNotification, TextResourceContents

import bridge
from bridge import ERAS, Bridge, Log, Message
from waiting import until_async


@dataclass(frozen=True)
class Way:
    """How a client speaks to the bridge."""

    transport: str
    era: str

    def __str__(self) -> str:
        return f"{self.transport}-{self.era}"


WAYS = [Way(transport, era) for transport in ("stdio", "http") for era in ("legacy", "modern")]


@dataclass
class Peer:
    """A connected client, and the log of the bridge that serves it."""

    client: Client
    way: Way
    log: Log
    _inbox: list[str] = field(default_factory=list)

    async def call(self, tool: str, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def answer(self, tool: str, **arguments: Any) -> Message:
        """The structured answer of a call that must succeed."""
        result = await self.call(tool, **arguments)
        assert not result.is_error, result
        return structured(result)

    async def write(self, tag: str, value: Any, **arguments: Any) -> Message:
        """The structured answer of `write_tag`, checked for the mark of failure that its outcome asks for."""
        result = await self.call("write_tag", tag=tag, value=value, **arguments)
        answer = structured(result)
        good = answer["outcome"] in ("confirmed", "written", "sent", "pending", "dry_run")
        assert bool(result.is_error) is not good, result
        return answer

    async def tag(self, path: str) -> Message:
        (row,) = (await self.answer("read_tags", tags=[path]))["tags"]
        assert row["tag"] == path
        return row

    async def tags(self, *paths: str) -> dict[str, Message]:
        rows: dict[str, Message] = {}
        page: Message = {}
        while True:
            page = await self.answer("read_tags", tags=list(paths), **page)
            rows |= {row["tag"]: row for row in page["tags"]}
            if "next_cursor" not in page:
                return rows
            page = {"cursor": page["next_cursor"]}

    async def resource(self, uri: str) -> Message:
        (content,) = (await self.client.read_resource(uri)).contents
        assert isinstance(content, TextResourceContents)
        assert content.uri == uri
        return json.loads(content.text)

    async def all_good(self, *paths: str) -> None:
        async def good() -> bool:
            rows = await self.tags(*paths)
            return all(row["quality"] == "good" for row in rows.values())

        await until_async(f"{paths} are good", good)

    async def value(self, path: str, value: Any) -> Message:
        """The first good reading of `path` that has `value`."""

        async def same() -> Message | None:
            row = await self.tag(path)
            return row if row["quality"] == "good" and row["value"] == value else None

        return await until_async(f"{path} is {value!r}", same)

    @asynccontextmanager
    async def subscribed(self, *uris: str) -> AsyncIterator[list[str]]:
        """The URIs of all updates that arrive, in their order, while `uris` are subscribed."""
        async with AsyncExitStack() as stack:
            if self.way.era == "legacy":
                self._inbox.clear()
                for uri in uris:
                    await self.client.subscribe_resource(uri)
                yield self._inbox
                for uri in uris:
                    await self.client.unsubscribe_resource(uri)
                return
            heard: list[str] = []
            stream = await stack.enter_async_context(self.client.listen(resource_subscriptions=list(uris)))
            assert stream.honored.resource_subscriptions == list(uris)

            async def listen() -> None:
                async for event in stream:
                    assert isinstance(event, ResourceUpdated), event
                    heard.append(event.uri)

            group = await stack.enter_async_context(anyio.create_task_group())
            group.start_soon(listen)
            yield heard
            group.cancel_scope.cancel()


def structured(result: CallToolResult) -> Message:
    """The structured answer, which must stand in the text as well."""
    assert result.structured_content is not None, result
    (text,) = result.content
    assert text.type == "text"
    assert json.loads(text.text) == result.structured_content
    return result.structured_content


@asynccontextmanager
async def connect(folder: Path, config: Path, way: Way) -> AsyncIterator[Peer]:
    """Starts the bridge on a site and a client on the bridge; ends both in good order."""
    async with AsyncExitStack() as stack:
        arguments = ["serve", "--config", str(config), "--log-format", "json"]
        inbox: list[str] = []

        async def hear(message: IncomingMessage) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                inbox.append(message.params.uri)

        server: Any
        if way.transport == "stdio":
            log = Log(folder / "client-stderr.log")
            errlog = stack.enter_context(log.path.open("w", encoding="utf-8"))
            server = stdio_client(StdioServerParameters(command=bridge.PROGRAM, args=arguments), errlog=errlog)
        else:
            process = Bridge(folder, *arguments, "--http", "127.0.0.1:0")
            stack.callback(process.close)
            log = process.log
            server = process.url()
        mode = "legacy" if way.era == "legacy" else "auto"
        async with AsyncExitStack() as session:
            client = Client(server, mode=mode, message_handler=hear, read_timeout_seconds=20)
            try:
                await session.enter_async_context(client)
            except Exception as error:
                raise AssertionError(f"the bridge does not serve; its log:\n{log.text()}") from error
            assert client.protocol_version == ERAS[way.era]
            yield Peer(client, way, log, inbox)
        if way.transport == "http":
            process.stop()
