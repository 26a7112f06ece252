"""MQTT: the families of devices with a shipped profile, by their messages and from a site of a few lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import CASES, Ask
from mosquitto import Mosquitto
from mqtt import Plant, device, site
from waiting import until


def vector(number: str) -> dict[str, Any]:
    """A vector of B15, by its number."""
    cases = json.loads((CASES / "cases.json").read_text(encoding="utf-8"))
    (found,) = (one for one in cases["vectors"] if one["id"] == f"B15-{number}")
    return found


DEVICES = {
    "shed": ("tasmota/plug", {"device": "shed"}),
    "plug3": ("zigbee2mqtt/bulb", {"device": "plug_3"}),
    "pm5": ("shelly/gen2-switch", {"device": "pm-5"}),
    "boiler": ("homie/boiler", {"device": "boiler"}),
}


@pytest.fixture
def plant(ask: Ask, broker: Mosquitto) -> Plant:
    rows = [device(name, profile=profile, captures=captures) for name, (profile, captures) in DEVICES.items()]
    plant = ask(site(broker.address, "\n".join(rows), client_id="bridge-7"))
    plant.wait_online("shed")
    broker.wait("Sending SUBACK to bridge-7")
    return plant


def publish(broker: Mosquitto, number: str) -> None:
    case = vector(number)
    broker.publish(case["topic"], case["payload_utf8"])


READ = {
    "01": {"shed/power": 47, "shed/voltage": 228, "shed/energy": 88.417},
    "02": {"shed/on": True},
    "06": {"plug3/on": False},
    "14": {"pm5/on": True, "pm5/power": 6.4, "pm5/energy": 1733.905, "pm5/temperature": 38.5},
    "15": {"pm5/power": 9.25},
    "20": {"boiler/temperature": 48.25},
    "21": {"boiler/pump": True},
}
"""What each vector makes of which tags."""


@pytest.mark.parametrize("number", READ)
def test_values(plant: Plant, broker: Mosquitto, number: str) -> None:
    publish(broker, number)
    for path, value in READ[number].items():
        row = plant.wait(path, quality="good", value=value)
        assert "reason" not in row, row


def test_a_partial_update_leaves_the_rest(plant: Plant, broker: Mosquitto) -> None:
    publish(broker, "14")
    plant.wait("pm5/power", value=6.4)
    publish(broker, "15")
    plant.wait("pm5/power", value=9.25)
    for path, value in {"pm5/on": True, "pm5/voltage": 229.3}.items():
        row = plant.tag(path)
        assert (row["value"], row["quality"]) == (value, "good"), row


AVAILABLE = {
    "03": ("shed", "offline"),
    "07": ("plug3", "online"),
    "17": ("boiler", "online"),
    "18": ("boiler", "offline"),
    "19": ("boiler", "online"),
}


@pytest.mark.parametrize("number", AVAILABLE)
def test_availability(plant: Plant, broker: Mosquitto, number: str) -> None:
    name, state = AVAILABLE[number]
    publish(broker, number)
    until(f"{name} is {state}", lambda: plant.device(name)["state"] == state)
    if state == "offline":
        row = plant.wait(f"{name}/on" if name == "shed" else f"{name}/pump", reason="device_offline")
        assert row["quality"] == "bad", row


def test_large_lists_and_our_own_commands_are_no_state(plant: Plant, broker: Mosquitto) -> None:
    publish(broker, "06")
    plant.wait("plug3/on", value=False)
    broker.publish("zigbee2mqtt/plug_3/set", '{"state":"ON"}')
    publish(broker, "09")
    broker.publish("zigbee2mqtt/bridge/devices", "[" + ",".join(["{}"] * 100_000) + "]", "-r")
    publish(broker, "06")
    row = plant.tag("plug3/on")
    assert (row["value"], row["quality"]) == (False, "good"), row


WRITES = {
    "tasmota": ("shed/on", "off", "cmnd/shed/POWER", "OFF", "stat/shed/POWER", "OFF"),
    "zigbee2mqtt": ("plug3/on", "on", "zigbee2mqtt/plug_3/set", {"state": "ON"}, "zigbee2mqtt/plug_3", '{"state":"ON"}'),
    "homie": ("boiler/temperature", "50", "homie/boiler/tank/temp/set", "50", "homie/boiler/tank/temp", "50"),
}


@pytest.mark.parametrize("family", WRITES)
def test_writes_are_confirmed_by_the_state(plant: Plant, broker: Mosquitto, family: str) -> None:
    path, value, topic, payload, state, told = WRITES[family]
    watch = broker.subscriber(topic)
    number = plant.start_write(path, value)
    (got,) = watch.wait(1)
    assert got[:3] == (topic, 1, False), got
    assert (json.loads(got[3]) if isinstance(payload, dict) else got[3]) == payload
    broker.publish(state, told)
    answer = plant.finish(number)
    assert answer["outcome"] == "confirmed", answer
    watch.close()


def test_a_shelly_answers_itself(plant: Plant, broker: Mosquitto) -> None:
    watch = broker.subscriber("pm-5/rpc")
    number = plant.start_write("pm5/on", "on")
    sent = json.loads(watch.wait(1)[0][3])
    want = json.loads(vector("16")["payload_utf8"])
    assert sent == {**want, "id": sent["id"]}
    broker.publish("bridge-7/rpc", json.dumps({"id": sent["id"], "src": "pm-5", "result": {"was_on": False}}))
    broker.publish("pm-5/status/switch:0", '{"output":true}')
    answer = plant.finish(number)
    assert (answer["outcome"], answer["acknowledged_by"]) == ("confirmed", "device"), answer
    watch.close()
