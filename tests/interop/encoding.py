"""Values as registers, by Python's struct: types, orders, and what else a tag says of its registers."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

_FORMATS = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
}
NUMBERS: dict[str, list[Any]] = {
    "int16": [-5, 32767, -32768],
    "uint16": [4862, 65535, 0],
    "bcd16": [1234, 9999, 7],
    "float16": [49.96875, -65504.0, 2**-24],
    "int32": [-1234567, 2**31 - 1, -(2**31)],
    "uint32": [4023233417, 2**32 - 1, 0],
    "bcd32": [98765432, 99999999, 1],
    "float32": [49.98, 3.4028234663852886e38, 1.401298464324817e-45],
    "int48": [-12345678901234, 2**47 - 1, -(2**47)],
    "uint48": [0x0123456789AB, 2**48 - 1, 1],
    "int64": [-1234567890123456789, 2**63 - 1, -(2**63)],
    "uint64": [0x0123456789ABCDEF, 2**64 - 1, 2**53 + 1],
    "float64": [49.98, -1e300, 5e-324],
}
"""Numbers of every type that takes whole registers; none of them looks the same in two orders."""
SHORT = ("ABCD", "CDAB", "BADC", "DCBA")
ORDERS = {
    2: (*SHORT, "AB", "BA"),
    4: SHORT,
    6: (*SHORT, "ABCDEF", "EFCDAB", "BADCFE", "FEDCBA"),
    8: (
        *SHORT,
        *("ABCDEFGH", "GHEFCDAB", "BADCFEHG", "HGFEDCBA"),
        *("CDABGHEF", "EFGHABCD", "DCBAHGFE", "FEHGBADC"),
    ),
}
"""Orders by the bytes of a value."""
SWAPS = {
    (2, ("byte",)): "BA",
    (4, ("byte",)): "BADC",
    (4, ("word",)): "CDAB",
    (4, ("byte", "word")): "DCBA",
    (8, ("byte",)): "BADCFEHG",
    (8, ("word",)): "CDABGHEF",
    (8, ("dword",)): "EFGHABCD",
    (8, ("word", "dword")): "GHEFCDAB",
    (8, ("byte", "word", "dword")): "HGFEDCBA",
}
"""The order that flags stand for."""


def plain(kind: str, value: Any) -> bytes:
    """The bytes of a number, the most significant first."""
    if kind.endswith("int48"):
        return value.to_bytes(6, "big", signed=kind == "int48")
    if kind.startswith("bcd"):
        return bytes.fromhex(f"{value:0{int(kind[3:]) // 4}d}")
    return struct.pack(f">{_FORMATS[kind]}", value)


def registers(data: bytes, order: str) -> list[int]:
    """Bytes in the order of a value as registers in the order of the wire."""
    width = len(data)
    if len(order) == width:
        data = bytes(data["ABCDEFGH".index(letter)] for letter in order)
    else:
        if order in ("CDAB", "DCBA"):
            data = b"".join(data[at : at + 2] for at in range(width - 2, -1, -2))
        if order in ("BADC", "DCBA"):
            data = b"".join(data[at : at + 2][::-1] for at in range(0, width, 2))
    return [value for (value,) in struct.iter_unpack(">H", data)]


def same(kind: str, served: Any, value: Any) -> bool:
    """Whether the bridge serves `value`: 64-bit integers as text, a float without the noise of widening."""
    if isinstance(value, list):
        fits = isinstance(served, list) and len(served) == len(value)
        return fits and all(same(kind, one, other) for one, other in zip(served, value))
    if kind in ("int64", "uint64"):
        return served == str(value)
    if kind in ("float16", "float32"):
        exact = type(served) in (int, float) and plain(kind, served) == plain(kind, value)
        return exact and len(repr(served)) <= 14
    if kind in ("bool", "text"):
        return served is value if kind == "bool" else served == value
    return type(served) in (int, float) and served == value


def written(value: Any) -> str:
    """How a value is given to `write_tag`."""
    if isinstance(value, str):
        return value
    return json.dumps(value)


@dataclass(frozen=True)
class Case:
    """A tag that takes whole registers, and what they hold for each of its values."""

    name: str
    kind: str
    keys: dict[str, Any]
    pairs: list[tuple[Any, list[int]]]

    @property
    def width(self) -> int:
        return len(self.pairs[0][1])

    def pair(self, step: int) -> tuple[Any, list[int]]:
        return self.pairs[step % len(self.pairs)]


def _number(kind: str, order: str, name: str, keys: dict[str, Any]) -> Case:
    pairs = [(value, registers(plain(kind, value), order)) for value in NUMBERS[kind]]
    return Case(f"{kind}-{name}", kind, {"type": kind, **keys}, pairs)


def _array(kind: str, order: str, *values: list[Any]) -> Case:
    pairs = [(row, [word for value in row for word in registers(plain(kind, value), order)]) for row in values]
    keys = {"type": kind, "byte_order": order, "count": len(values[0])}
    return Case(f"{kind}-array-{order}", kind, keys, pairs)


def _bytes(kind: str, *values: list[int]) -> Case:
    """An array of 8-bit numbers: two a register, the first in the high byte."""
    pairs = [(row, registers(struct.pack(f">{len(row)}{_FORMATS[kind]}", *row), "ABCD")) for row in values]
    return Case(f"{kind}-array", kind, {"type": kind, "count": len(values[0])}, pairs)


def _text(name: str, codec: str, length: int, fill: bytes, *values: str, **keys: Any) -> Case:
    wide = length + length % 2
    pairs = []
    for value in values:
        data = value.encode(codec)
        data += fill * ((length - len(data)) // len(fill))
        pairs.append((value, registers(data.ljust(wide, b"\0"), "ABCD")))
    return Case(f"text-{name}", "text", {"type": "text", "length": length, **keys}, pairs)


def _numbers() -> list[Case]:
    found = []
    for kind in NUMBERS:
        width = len(plain(kind, NUMBERS[kind][0]))
        found += [_number(kind, order, order, {"byte_order": order}) for order in ORDERS[width]]
        if kind in ("uint16", "uint32", "uint64"):
            found += [
                _number(kind, order, "-".join(flags), {"swap": list(flags)})
                for (wide, flags), order in SWAPS.items()
                if wide == width
            ]
    return found


CASES = [
    *_numbers(),
    _array("int16", "ABCD", [1, -2, 32767], [-32768, 0, 5]),
    _array("uint32", "CDAB", [4023233417, 1], [0, 2**32 - 1]),
    _array("float32", "ABCD", [49.98, -17.75, 0.001], [0.5, 1e-30, -2.25]),
    _array("uint64", "ABCD", [2**53 + 1, 2**64 - 1], [0, 1]),
    _bytes("uint8", [1, 2, 254, 255], [0, 128, 7, 9]),
    _bytes("int8", [1, -2, 127, -128], [-1, 0, 5, -5]),
    _text("ascii", "ascii", 8, b"\0", "Pump 7", "Burner 1", ""),
    _text("odd", "ascii", 7, b"\0", "Pump 12", "A"),
    _text("space", "ascii", 8, b" ", "Pump 7", "Burner 1", padding="space"),
    _text("latin1", "latin-1", 8, b"\0", "21 °C", "Öl", encoding="latin1"),
    _text("utf-8", "utf-8", 10, b"\0", "Kühlung", "Ω", encoding="utf-8"),
    _text("utf-16", "utf-16-be", 10, b"\0\0", "Ölω", "Pumpe", encoding="utf-16"),
]
"""Every type in every order, and arrays and texts."""
