"""Updates arrive at who subscribed, and at nobody else."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from peers import Peer
from plc import INPUT, Plc
from waiting import until_async

pytestmark = pytest.mark.anyio

Connected = AbstractAsyncContextManager[Peer]
TEMPERATURE = "fieldbridge://tags/boiler/temperature"
LEVEL = "fieldbridge://tags/boiler/level"
BOILER = "fieldbridge://devices/boiler"


async def heard(updates: list[str], uri: str, times: int = 1) -> None:
    async def enough() -> bool:
        return updates.count(uri) >= times

    await until_async(f"{uri} was updated {times} times; came: {updates}", enough)


async def test_a_change_reaches_the_subscriber(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [200, 10])
    async with peer as bridge:
        await bridge.value("boiler/temperature", 20.0)
        async with bridge.subscribed(TEMPERATURE) as updates:
            for register in (300, 410, 520):
                before = updates.count(TEMPERATURE)
                plc.set(INPUT, 0, [register])
                await heard(updates, TEMPERATURE, before + 1)

                async def told() -> bool:
                    # The first update may still be that of the subscription's start.
                    return (await bridge.resource(TEMPERATURE))["value"] == register / 10

                await until_async(f"the value of {register} is read", told)


async def test_only_what_was_subscribed_is_told(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [200, 10])
    async with peer as bridge:
        await bridge.value("boiler/level", 10)
        async with bridge.subscribed(TEMPERATURE) as updates:
            plc.set(INPUT, 1, [11])
            await bridge.value("boiler/level", 11)
            plc.set(INPUT, 0, [333])
            await bridge.value("boiler/temperature", 33.3)
            await heard(updates, TEMPERATURE)
            # The level changed before: its update would have come first.
            assert set(updates) == {TEMPERATURE}


async def test_the_end_of_a_subscription_ends_its_updates(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [200, 10])
    async with peer as bridge:
        await bridge.value("boiler/level", 10)
        async with bridge.subscribed(LEVEL) as updates:
            plc.set(INPUT, 1, [11])
            await heard(updates, LEVEL)
        async with bridge.subscribed(TEMPERATURE) as updates:
            plc.set(INPUT, 1, [12])
            await bridge.value("boiler/level", 12)
            plc.set(INPUT, 0, [444])
            await bridge.value("boiler/temperature", 44.4)
            await heard(updates, TEMPERATURE)
            assert set(updates) == {TEMPERATURE}


async def test_a_spelling_is_repeated(peer: Connected, plc: Plc) -> None:
    spelled = "fieldbridge://tags/boiler/tem%70erature"
    plc.set(INPUT, 0, [200])
    async with peer as bridge:
        await bridge.value("boiler/temperature", 20.0)
        async with bridge.subscribed(spelled) as updates:
            plc.set(INPUT, 0, [300])
            await heard(updates, spelled)
            assert set(updates) == {spelled}


async def test_a_device_is_updated_on_its_states_alone(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [200])
    async with peer as bridge:
        await bridge.all_good("*")
        async with bridge.subscribed(BOILER, TEMPERATURE) as updates:
            plc.set(INPUT, 0, [300])
            await bridge.value("boiler/temperature", 30.0)
            await heard(updates, TEMPERATURE)
            start = updates.count(BOILER)
            for register in (400, 500):
                before = updates.count(TEMPERATURE)
                plc.set(INPUT, 0, [register])
                await bridge.value("boiler/temperature", register / 10)
                await heard(updates, TEMPERATURE, before + 1)
            assert updates.count(BOILER) == start, "values are no change of state"
            plc.stop()
            await heard(updates, BOILER, start + 1)


async def test_loss_and_return_of_the_link_are_told(peer: Connected, plc: Plc) -> None:
    plc.set(INPUT, 0, [200])
    async with peer as bridge:
        await bridge.value("boiler/temperature", 20.0)
        async with bridge.subscribed(TEMPERATURE) as updates:
            plc.set(INPUT, 0, [300])
            await heard(updates, TEMPERATURE)
            await bridge.value("boiler/temperature", 30.0)
            before = len(updates)
            plc.stop()

            async def lost() -> bool:
                return (await bridge.tag("boiler/temperature"))["quality"] == "bad"

            await until_async("the tag is bad", lost)
            await heard(updates, TEMPERATURE, before + 1)
            before = len(updates)
            plc.start()
            await bridge.value("boiler/temperature", 30.0)
            await heard(updates, TEMPERATURE, before + 1)
