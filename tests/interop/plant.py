"""Site files for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


def toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    if isinstance(value, (str, Path)):
        return json.dumps(str(value), ensure_ascii=False)
    return str(value)


def lines(keys: dict[str, Any]) -> str:
    return "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())


def tag(name: str, table: str, address: int, kind: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "register": {"table": table, "address": address}, "type": kind, **more}


def writable(name: str, table: str, address: int, kind: str, **more: Any) -> dict[str, Any]:
    return tag(name, table, address, kind, access="read-write", **more)


@dataclass
class Site:
    """A site of connections and devices, as the text of its file."""

    writes: str = "allow"
    server: dict[str, Any] = field(default_factory=dict)
    connections: list[dict[str, Any]] = field(default_factory=list)
    devices: list[tuple[dict[str, Any], list[dict[str, Any]]]] = field(default_factory=list)

    def connect(self, name: str, place: int | dict[str, Any], host: str = "127.0.0.1", **more: Any) -> Site:
        """A connection to a place by its keys, or over TCP to a port."""
        if isinstance(place, int):
            place = {"driver": "modbus-tcp", "address": f"{host}:{place}"}
        self.connections.append({"name": name, **place, **more})
        return self

    def device(
        self, name: str, tags: Iterable[dict[str, Any]], connection: str = "plc", unit_id: int = 1, **more: Any
    ) -> Site:
        keys = {"name": name, "connection": connection, "unit_id": unit_id, "scan_ms": 50, "stale_after_ms": 2000, **more}
        self.devices.append((keys, list(tags)))
        return self

    def text(self) -> str:
        parts = ["[site]\n" + lines({"name": "interop", "writes": self.writes})]
        parts += ["[server]\n" + lines(self.server)]
        parts += ["[[connections]]\n" + lines(keys) for keys in self.connections]
        for keys, tags in self.devices:
            parts.append("[[devices]]\n" + lines(keys))
            parts += ["[[devices.tags]]\n" + lines(keys) for keys in tags]
        return "\n".join(parts)


def boiler(place: int | dict[str, Any], **connection: Any) -> Site:
    """The plant of most tests: two units behind one connection."""
    tags = [
        tag("temperature", "input", 0, "int16", scale=0.1, unit="°C", range=[-50.0, 150.0]),
        tag("level", "input", 1, "uint16", unit="%"),
        tag("alarm", "discrete", 3, "bool"),
        writable(
            "setpoint", "holding", 10, "uint16", scale=0.1, unit="°C", write={"min": 20.0, "max": 95.0}
        ),
        writable("speed", "holding", 11, "int16"),
        writable("counter", "holding", 12, "uint32"),
        writable("pump", "coil", 2, "bool"),
    ]
    chiller = [
        writable("setpoint", "holding", 10, "uint16"),
        tag("flow", "holding", 11, "float32"),
    ]
    return (
        Site()
        .connect("plc", place, **{"timeout_ms": 1000, **connection})
        .device("boiler", tags, unit_id=1)
        .device("chiller", chiller, unit_id=2)
    )


PATHS = [
    *(f"boiler/{name}" for name in ("temperature", "level", "alarm", "setpoint", "speed", "counter", "pump")),
    *(f"chiller/{name}" for name in ("setpoint", "flow")),
]
"""The paths of the tags of `boiler`."""
