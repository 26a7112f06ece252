"""Numbers wider than a register, against pymodbus's own encoder."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any, Literal

import pytest
from pymodbus.client import ModbusTcpClient

from conftest import Save
from peers import Way, connect
from plant import Site, writable
from plc import HOLDING, Plc, Request
from waiting import until_async

pytestmark = pytest.mark.anyio

TYPES = ModbusTcpClient.DATATYPE
KINDS: dict[str, tuple[Any, list[Any]]] = {
    "int16": (TYPES.INT16, [-5, 32767, -32768]),
    "uint16": (TYPES.UINT16, [4862, 65535, 0]),
    "int32": (TYPES.INT32, [-1234567, 2**31 - 1, -(2**31)]),
    "uint32": (TYPES.UINT32, [4023233417, 2**32 - 1, 0]),
    "int64": (TYPES.INT64, [-1234567890123456789, 2**63 - 1, -(2**63)]),
    "uint64": (TYPES.UINT64, [0x0123456789ABCDEF, 2**64 - 1, 2**53 + 1]),
    "float32": (TYPES.FLOAT32, [49.98, -17.75, 0.001, 3.4028234663852886e38, 1.401298464324817e-45]),
    "float64": (TYPES.FLOAT64, [49.98, -1e300, 1 / 3, 5e-324]),
}
ORDERS = ("ABCD", "CDAB", "BADC", "DCBA")
CASES = [
    (kind, order)
    for kind in KINDS
    for order in ORDERS
    if KINDS[kind][0].value[1] > 1 or order in ("ABCD", "BADC")
]


def registers(kind: str, order: str, value: Any) -> list[int]:
    """What pymodbus makes of `value`; it knows the order of words, we exchange the bytes."""
    words: Literal["big", "little"] = "little" if order in ("CDAB", "DCBA") else "big"
    plain = ModbusTcpClient.convert_to_registers(value, KINDS[kind][0], word_order=words)
    if order in ("BADC", "DCBA"):
        return [struct.unpack("<H", struct.pack(">H", word))[0] for word in plain]
    return plain


def text(value: Any) -> str:
    return repr(value)


def same(kind: str, served: Any, value: Any) -> bool:
    """Whether the bridge serves `value`: 64-bit integers as text, a float32 without the noise of widening."""
    if kind in ("int64", "uint64"):
        return served == str(value)
    if kind == "float32":
        narrow = struct.unpack(">f", struct.pack(">f", value))[0]
        return struct.unpack(">f", struct.pack(">f", served))[0] == narrow and len(repr(served)) <= 14
    return type(served) in (int, float) and served == value


def site(port: int) -> Site:
    tags = [
        writable(f"{kind}-{order}", "holding", 4 * number, kind, byte_order=order)
        for number, (kind, order) in enumerate(CASES)
    ]
    return Site().connect("plc", port).device("values", tags)


async def test_every_type_and_order(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    async with connect(tmp_path, save(site(plc.port)), way) as bridge:
        for step in range(max(len(values) for _, values in KINDS.values())):
            wanted = {}
            for number, (kind, order) in enumerate(CASES):
                values = KINDS[kind][1]
                wanted[f"values/{kind}-{order}"] = (kind, value := values[step % len(values)])
                plc.set(HOLDING, 4 * number, registers(kind, order, value))
            async def read_anew() -> bool:
                rows = await bridge.tags("values/*")
                return all(
                    rows[path]["quality"] == "good" and same(kind, rows[path]["value"], value)
                    for path, (kind, value) in wanted.items()
                )

            try:
                await until_async("all values are read", read_anew)
            except AssertionError:
                rows = await bridge.tags("values/*")
                wrong = {
                    path: (rows[path], value)
                    for path, (kind, value) in wanted.items()
                    if not same(kind, rows[path]["value"], value) or rows[path]["quality"] != "good"
                }
                raise AssertionError(f"read, and wanted: {wrong}") from None


async def test_every_type_and_order_is_written(tmp_path: Path, save: Save, plc: Plc, way: Way) -> None:
    async with connect(tmp_path, save(site(plc.port)), way) as bridge:
        await bridge.all_good("values/*")
        for number, (kind, order) in enumerate(CASES):
            for value in KINDS[kind][1]:
                answer = await bridge.write(f"values/{kind}-{order}", text(value))
                assert answer["outcome"] == "confirmed", answer
                assert same(kind, answer["value"], value), answer
                encoded = registers(kind, order, value)
                assert plc.get(HOLDING, 4 * number, len(encoded)) == encoded, (kind, order, value)
                code = 6 if len(encoded) == 1 else 16
                assert plc.writes[-1] == Request(code, 1, 4 * number, tuple(encoded))
        assert len(plc.writes) == sum(len(KINDS[kind][1]) for kind, _ in CASES)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
async def test_no_number_is_served_as_null(
    tmp_path: Path, save: Save, plc: Plc, way: Way, value: float
) -> None:
    numbers = [number for number, (kind, _) in enumerate(CASES) if kind in ("float32", "float64")]
    for number in numbers:
        plc.set(HOLDING, 4 * number, registers(*CASES[number], value))
    async with connect(tmp_path, save(site(plc.port)), way) as bridge:
        await bridge.all_good("values/int16-ABCD")
        rows = await bridge.tags("values/float*")
        assert len(rows) == len(numbers)
        for row in rows.values():
            assert (row["value"], row["quality"], row["reason"]) == (None, "bad", "decode_error"), row
