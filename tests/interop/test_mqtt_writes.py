"""MQTT: what is written, as mosquitto_sub sees it, and what is told of it."""

from __future__ import annotations

import json

import pytest

from conftest import Ask, Broker
from mosquitto import Mosquitto
from mqtt import SWITCH, device, site, switch

VERSIONS = ("5", "3.1.1")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("retain", [False, True])
def test_payload_qos_and_retain_are_the_tags(
    ask: Ask, broker: Mosquitto, version: str, qos: int, retain: bool
) -> None:
    plug = broker.subscriber("cmnd/#", options=("-V", "mqttv5", "--retain-as-published"))
    tag = switch(qos=qos, retain=retain, confirm_ms=0)
    plant = ask(site(broker.address, device("plug", tag), version=version))
    plant.wait_online("plug")
    for value, word in (("on", "ON"), ("off", "OFF")):
        answer = plant.write("plug/on", value)
        assert answer["outcome"] == ("sent" if qos == 0 else "written"), answer
        assert answer.get("acknowledged_by") == (None if qos == 0 else "broker"), answer
        assert plug.wait(1 if value == "on" else 2)[-1] == ("cmnd/plug/POWER", qos, retain, word)
    plug.close()
    late = broker.subscriber("cmnd/#", "end")
    broker.publish("end", "x")
    kept = [("cmnd/plug/POWER", qos, True, "OFF")] if retain else []
    assert sorted(late.wait(1 + len(kept))) == [*kept, ("end", 1, False, "x")]
    late.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_the_state_topic_confirms_or_differs(ask: Ask, broker: Mosquitto, version: str) -> None:
    plug = broker.subscriber("cmnd/#")
    plant = ask(site(broker.address, device("plug", switch(confirm_ms=1000)), version=version))
    plant.wait_online("plug")
    broker.wait("Sending SUBACK", 2)
    number = plant.start_write("plug/on", "on")
    plug.wait(1)
    broker.publish("stat/plug/POWER", "ON")
    answer = plant.finish(number)
    assert (answer["outcome"], answer["value"]) == ("confirmed", True), answer
    number = plant.start_write("plug/on", "off")
    plug.wait(2)
    broker.publish("stat/plug/POWER", "ON")
    answer = plant.finish(number)
    assert (answer["outcome"], answer["value"]) == ("differs", True), answer
    assert plant.write("plug/on", "off")["outcome"] == "written"
    plug.close()


def test_nobody_listens(ask: Ask, broker: Mosquitto) -> None:
    plant = ask(site(broker.address, device("plug", SWITCH)))
    plant.wait_online("plug")
    answer = plant.write("plug/on", "on")
    assert (answer["outcome"], answer["code"]) == ("refused", 16), answer
    assert "nobody listens on cmnd/plug/POWER" in answer["message"], answer


def test_a_forbidden_topic(ask: Ask, brokers: Broker) -> None:
    """mosquitto takes the message of a client of 3.1.1 and drops it; one of 5 it tells."""
    broker = brokers(acl="topic read #\n")
    plant = ask(site(broker.address, device("plug", SWITCH)))
    plant.wait_online("plug")
    answer = plant.write("plug/on", "on")
    assert (answer["outcome"], answer["code"]) == ("refused", 0x87), answer
    assert "not authorized" in answer["message"], answer


def test_json_and_answers(ask: Ask, broker: Mosquitto) -> None:
    tag = (
        'name = "on"\ntype = "bool"\ntopic = "{p}/status/switch:0"\npath = "output"\naccess = "read-write"\n'
        "[devices.tags.write]\ntopic = \"{p}/rpc\"\nconfirm_ms = 0\n"
        "payload = '{\"id\": \"{id}\", \"src\": \"{client}\", \"method\": \"Switch.Set\", \"params\": {\"on\": \"{value}\"}}'\n"
        'response = { topic = "{client}/rpc", id = "id", error = "error" }'
    )
    rpc = broker.subscriber("pm-5/rpc")
    plant = ask(site(broker.address, device("sw", tag, captures={"p": "pm-5"}), client_id="bridge-7"))
    plant.wait_online("sw")
    broker.wait("Sending SUBACK", 2)
    for answer, outcome in (({"result": {"was_on": False}}, "written"), ({"error": {"code": -103}}, "refused")):
        number = plant.start_write("sw/on", "on")
        sent = json.loads(rpc.wait(1 if outcome == "written" else 2)[-1][3])
        assert sent == {"id": sent["id"], "src": "bridge-7", "method": "Switch.Set", "params": {"on": True}}
        broker.publish("bridge-7/rpc", json.dumps({"id": sent["id"], "src": "pm-5", "dst": "bridge-7", **answer}))
        row = plant.finish(number)
        assert (row["outcome"], row["acknowledged_by"]) == (outcome, "device"), row
    assert "-103" in row["message"], row
    rpc.close()


def test_the_reading_is_what_the_device_tells(ask: Ask, broker: Mosquitto) -> None:
    """What was written is not what is read: only a message of the device is."""
    plug = broker.subscriber("cmnd/#")
    plant = ask(site(broker.address, device("plug", switch(confirm_ms=0))))
    plant.wait_online("plug")
    assert plant.write("plug/on", "on")["outcome"] == "written"
    row = plant.tag("plug/on")
    assert (row["value"], row["quality"]) == (None, "bad"), row
    plug.close()
