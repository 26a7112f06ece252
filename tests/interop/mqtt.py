"""Sites with MQTT devices, and what the bridge says of them."""

from __future__ import annotations

from typing import Any

from bridge import Bridge, call
from plant import lines
from waiting import until

Row = dict[str, Any]


def site(address: str, devices: str, **keys: Any) -> str:
    """A site whose connection `broker` leads to `address`; `keys` are more of its keys."""
    keys = {"driver": "mqtt", "reconnect_min_ms": 20, "reconnect_max_ms": 200, "address": address, **keys}
    head = lines({"site": {"name": "test", "writes": "allow"}})
    return f'{head}[[connections]]\nname = "broker"\n{lines(keys)}{devices}'


def device(name: str, *tags: str, **keys: Any) -> str:
    """A device on the connection `broker`; `tags` are tables in TOML."""
    head = "[[devices]]\n" + lines({"name": name, "connection": "broker", **keys})
    return head + "".join(f"[[devices.tags]]\n{tag}\n" for tag in tags)


def number(topic: str, **keys: Any) -> str:
    """A number `v` in JSON."""
    return lines({"name": "v", "type": "float64", "topic": topic, "path": "v", **keys})


def switch(**write: Any) -> str:
    """The switch of a plug, with these keys of its `write`."""
    keys = {
        "name": "on",
        "type": "bool",
        "topic": "stat/plug/POWER",
        "words": {"ON": True, "OFF": False},
        "access": "read-write",
        "write": {"topic": "cmnd/plug/POWER", **write},
    }
    return lines(keys)


NUMBER = number("s/1")
SWITCH = switch(confirm_ms=3000)


class Plant:
    """The bridge, asked over its stdio."""

    def __init__(self, bridge: Bridge) -> None:
        self.bridge = bridge
        self._id = 0
        bridge.initialize()

    def tool(self, name: str, arguments: Row) -> Row:
        self._id += 1
        self.bridge.send(call(self._id, name, arguments))
        return self.bridge.answer(self._id)["result"]["structuredContent"]

    def tag(self, path: str) -> Row:
        (row,) = self.tool("read_tags", {"tags": [path]})["tags"]
        return row

    def device(self, name: str) -> Row:
        rows = self.tool("list_devices", {})["devices"]
        return next(row for row in rows if row["device"] == name)

    def write(self, path: str, value: str, **more: Any) -> Row:
        return self.tool("write_tag", {"tag": path, "value": value, **more})

    def start_write(self, path: str, value: str) -> int:
        self._id += 1
        self.bridge.send(call(self._id, "write_tag", {"tag": path, "value": value}))
        return self._id

    def finish(self, number: int) -> Row:
        return self.bridge.answer(number)["result"]["structuredContent"]

    def wait(self, path: str, **want: Any) -> Row:
        """Waits until a tag's row has all of these."""
        last: Row = {}

        def found() -> Row | None:
            nonlocal last
            last = self.tag(path)
            return last if all(last.get(key) == value for key, value in want.items()) else None

        try:
            return until(f"{path} is {want}", found)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {last}; the log:\n{self.bridge.log.text()}") from None

    def wait_link(self, name: str, *words: str) -> Row:
        """Waits until the detail of a device's link has these words."""
        last: Row = {}

        def found() -> Row | None:
            nonlocal last
            last = self.device(name)
            return last if all(word in last.get("link_detail", "") for word in words) else None

        try:
            return until(f"the link of {name} tells {words}", found)
        except AssertionError as error:
            raise AssertionError(f"{error}; it is {last}; the log:\n{self.bridge.log.text()}") from None

    def wait_online(self, name: str) -> Row:
        return until(f"{name} is connected", lambda: self._connected(name))

    def _connected(self, name: str) -> Row | None:
        row = self.device(name)
        return row if row["link"] == "connected" else None
