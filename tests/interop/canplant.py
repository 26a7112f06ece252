"""Sites with one CAN bus behind an slcan adapter, and what the bridge says of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bridge import Bridge
from mqtt import Plant, Row
from plant import lines
from slcan import Adapter, Frame

MARKER = 0x1F00_FFF0
"""Identifier of the frames behind which all others have been taken."""


def write_site(
    folder: Path,
    dbc: str | bytes,
    address: str,
    profile: str = "",
    devices: dict[str, dict[str, Any]] | None = None,
    **connection: Any,
) -> Path:
    """Writes a site whose devices have all signals of a DBC file, and the marker; `profile` is more of their profile."""
    model = folder / "devices" / "test"
    model.mkdir(parents=True, exist_ok=True)
    (folder / "config").mkdir(exist_ok=True)
    (model / "model.dbc").write_bytes(dbc.encode() if isinstance(dbc, str) else dbc)
    head = {"protocol": "can", "vendor": "test", "model": "model", "dbc": "model.dbc", "all_signals": True}
    (model / "model.toml").write_text(lines(head) + profile, encoding="utf-8")
    bus = {"name": "bus", "driver": "slcan-tcp", "address": address, "fd": True, **connection}
    text = '[site]\nname = "test"\nwrites = "allow"\n[[connections]]\n' + lines(bus)
    for name, keys in (devices or {"d": {}}).items():
        text += "[[devices]]\n" + lines({"name": name, "connection": "bus", "profile": "test/model", **keys})
    text += (
        '[[devices]]\nname = "marker"\nconnection = "bus"\n[[devices.tags]]\nname = "count"\n'
        f'frame = "{MARKER:08X}"\nbits = {{ start = 0 }}\ntype = "uint32"\n'
    )
    path = folder / "config" / "site.toml"
    path.write_text(text, encoding="utf-8")
    return path


class Bus(Plant):
    """The bridge and the bus that it listens on."""

    def __init__(self, bridge: Bridge, adapter: Adapter) -> None:
        super().__init__(bridge)
        self.adapter = adapter
        self.sent = 0
        """Frames that it was told to send."""
        self._count = 0

    def hear(self, *frames: Frame) -> None:
        """Sends frames and waits until all have been taken."""
        self._count += 1
        marker = Frame(MARKER, self._count.to_bytes(4, "little"), extended=True)
        self.adapter.send(*frames, marker)
        self.wait("marker/count", value=self._count)

    def rows(self, *globs: str) -> dict[str, Row]:
        """All tags that are meant, by their paths."""
        rows: dict[str, Row] = {}
        more: dict[str, Any] = {}
        while True:
            answer = self.tool("read_tags", {"tags": list(globs), "limit": 1000, **more})
            rows |= {row["tag"]: row for row in answer["tags"]}
            if "next_cursor" not in answer:
                return rows
            more = {"cursor": answer["next_cursor"]}

    def write_all(self, writes: dict[str, str]) -> list[Row]:
        """How writes of one call ended."""
        wanted = [{"tag": tag, "value": value} for tag, value in writes.items()]
        return self.tool("write_tags", {"writes": wanted})["writes"]
