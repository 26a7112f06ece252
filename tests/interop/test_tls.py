"""Modbus security: whom the bridge trusts, and to whom it shows itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from certs import Authority
from conftest import Play, Save
from devices import Kind
from peers import WAYS, connect
from plant import boiler
from plc import HOLDING, Plc
from waiting import until_async

pytestmark = pytest.mark.anyio

WAY = WAYS[0]


@pytest.fixture
def plc(play: Play) -> Plc:
    """A PLC with the units of the boiler plant, which asks for certificates."""
    device = play(Kind("pymodbus", "tls"), (1, 2))
    assert isinstance(device, Plc)
    return device


@pytest.fixture
def other(tmp_path: Path) -> Authority:
    """An authority that the PLC has never heard of."""
    return Authority(tmp_path / "other")


Change = Callable[[dict[str, Any], Authority], dict[str, Any]]


def _without(keys: dict[str, Any], _: Authority) -> dict[str, Any]:
    return {"ca": keys["ca"]}


def _stranger(keys: dict[str, Any], other: Authority) -> dict[str, Any]:
    return {**other.keys, "ca": keys["ca"]}


WRONG: dict[str, tuple[Change, str]] = {
    "authority": (lambda keys, other: {**keys, "ca": other.keys["ca"]}, "certificate"),
    "name": (lambda keys, _: {**keys, "server_name": "plc.test"}, "certificate"),
    "no-certificate": (_without, "certificate"),
    "certificate-of-a-stranger": (_stranger, "certificate"),
}
"""What may be wrong with the `tls` table, and a word of what is told of it."""


@pytest.mark.parametrize("wrong", WRONG)
async def test_nothing_is_exchanged_without_trust(
    tmp_path: Path, save: Save, plc: Plc, other: Authority, wrong: str
) -> None:
    change, word = WRONG[wrong]
    place = {**plc.place, "tls": change(plc.place["tls"], other)}
    async with connect(tmp_path, save(boiler(place, reconnect_min_ms=50, reconnect_max_ms=100)), WAY) as bridge:
        tried: set[str] = set()

        async def refused() -> bool:
            row = await bridge.tag("boiler/setpoint")
            assert row["quality"] == "bad", row
            tried.add(row.get("detail", ""))
            return row["reason"] == "not_connected" and word in row.get("detail", "").lower()

        try:
            await until_async(f"it tells of the {word}", refused)
        except AssertionError:
            raise AssertionError(f"it told only: {tried}") from None
        assert (await bridge.write("boiler/setpoint", "50"))["outcome"] == "not_sent"
    assert plc.requests == []


async def test_with_the_right_ones_it_is_good(tmp_path: Path, save: Save, plc: Plc) -> None:
    plc.set(HOLDING, 10, [500])
    async with connect(tmp_path, save(boiler(plc.place)), WAY) as bridge:
        await bridge.value("boiler/setpoint", 50)
        assert (await bridge.write("boiler/setpoint", "60"))["outcome"] == "confirmed"
    assert plc.get(HOLDING, 10) == [600]


async def test_paths_are_taken_from_the_site_and_names_from_the_key(
    tmp_path: Path, save: Save, play: Play
) -> None:
    plc = play(Kind("pymodbus", "tls"), (1, 2))
    assert isinstance(plc, Plc) and plc.authority is not None
    keys = {key: str(Path(path).relative_to(tmp_path)) for key, path in plc.authority.keys.items()}
    place = {**plc.place, "tls": {**keys, "server_name": "127.0.0.1"}}
    async with connect(tmp_path, save(boiler(place)), WAY) as bridge:
        await bridge.all_good("*")


async def test_a_peer_without_tls_is_refused(tmp_path: Path, save: Save, plc: Plc, play: Play) -> None:
    bare = play(Kind("pymodbus", "tcp"), (1, 2))
    assert isinstance(bare, Plc)
    place = {**bare.place, "driver": "modbus-tls", "tls": plc.place["tls"]}
    async with connect(tmp_path, save(boiler(place, timeout_ms=200)), WAY) as bridge:

        async def refused() -> bool:
            row = await bridge.tag("boiler/setpoint")
            assert row["quality"] == "bad", row
            return bare.accepted > 0 and row["reason"] == "not_connected" and "TLS" in row.get("detail", "")

        await until_async("it tells that there is no TLS", refused)
    assert bare.requests == []
