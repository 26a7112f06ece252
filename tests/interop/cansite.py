"""Sites with one CAN bus and a device whose tags name their frames and bits themselves."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from plant import lines

Table = dict[str, Any]

PROFILE = {"protocol": "can", "vendor": "test", "model": "node"}


def tag(name: str, frame: str, start: int, kind: str, length: int | None = None, **more: Any) -> Table:
    bits = {"start": start} if length is None else {"start": start, "length": length}
    return {"name": name, "frame": frame, "bits": bits, "type": kind, **more}


def writable(name: str, frame: str, start: int, kind: str, length: int | None = None, **more: Any) -> Table:
    return tag(name, frame, start, kind, length, access="read-write", **more)


def message(frame: str, length: int, send: Table | None = None, **more: Any) -> Table:
    """A message that is sent."""
    return {"frame": frame, "length": length, "send": send or {}, **more}


def write_site(
    folder: Path,
    connection: Table,
    tags: Iterable[Table],
    messages: Iterable[Table] = (),
    profile: Table | None = None,
    **device: Any,
) -> Path:
    """Writes the site file and the profile of its device `d`, of which `profile` is more."""
    model = folder / "devices" / "test" / "node.toml"
    model.parent.mkdir(parents=True, exist_ok=True)
    text = lines(PROFILE | (profile or {}))
    model.write_text(text + "".join(f"[[messages]]\n{lines(keys)}" for keys in messages), encoding="utf-8")
    connection = {"name": "bus", "reconnect_min_ms": 20, "reconnect_max_ms": 200, **connection}
    text = '[site]\nname = "test"\nwrites = "allow"\n[[connections]]\n' + lines(connection)
    text += "[[devices]]\n" + lines({"name": "d", "connection": "bus", "profile": "test/node", **device})
    text += "".join(f"[[devices.tags]]\n{lines(keys)}" for keys in tags)
    path = folder / "config" / "site.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
