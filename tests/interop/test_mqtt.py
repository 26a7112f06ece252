"""MQTT: what comes in from a mosquitto, and what is told of it when the broker or the device goes."""

from __future__ import annotations

import json

import pytest

from conftest import Ask, Broker, Save
from mosquitto import Listener, Mosquitto
from mqtt import NUMBER, SWITCH, Plant, device, number, site
from waiting import until

VERSIONS = ("5", "3.1.1")


@pytest.fixture(params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    return request.param


def messages(plant: Plant, name: str = "d") -> int:
    """Messages that the link of a device took in."""
    return plant.device(name)["connection_counts"]["messages"]


# Age: B07.


def test_retained_is_of_unknown_age_until_a_live_message(ask: Ask, broker: Mosquitto, version: str) -> None:
    broker.publish("s/1", '{"v":99}', "-r")
    plant = ask(site(broker.address, device("d", NUMBER), version=version))
    row = plant.wait("d/v", quality="uncertain", reason="retained", value=99)
    assert row.get("age_ms") is None and row.get("source_time") is None, row
    # To a running subscriber the same message comes without the retain bit.
    broker.publish("s/1", '{"v":100}', "-r")
    row = plant.wait("d/v", quality="good", value=100)
    assert "reason" not in row and row["age_ms"] >= 0, row


def test_the_payloads_own_time_makes_the_age(ask: Ask, broker: Mosquitto) -> None:
    tag = number("s/2", time={"path": "ts", "clock": "rfc3339"}, stale_after_ms=60_000)
    broker.publish("s/2", '{"v":1,"ts":"2026-01-01T00:00:00Z"}', "-r")
    plant = ask(site(broker.address, device("d", tag)))
    row = plant.wait("d/v", value=1)
    assert row["quality"] == "uncertain", row
    assert row["source_time"].startswith("2026-01-01T00:00:00"), row
    broker.publish("s/2", '{"v":2,"ts":"2026-01-01T00:00:00Z"}')
    row = plant.wait("d/v", value=2, quality="uncertain", reason="stale")
    assert row["age_ms"] > 60_000, row


LWT = [{"topic": "a/LWT", "online": ["online", "Online", "true", "1", "ready"], "offline": ["offline", "Offline"]}]


def test_a_retained_offline_beats_retained_values(ask: Ask, broker: Mosquitto) -> None:
    broker.publish("s/1", '{"v":5}', "-r")
    broker.publish("a/LWT", "Offline", "-r")
    plant = ask(site(broker.address, device("d", NUMBER, availability=LWT)))
    row = plant.wait("d/v", quality="bad", reason="device_offline")
    assert "a/LWT" in row["detail"], row
    assert plant.device("d")["state"] == "offline"


def test_data_after_an_offline_mark_win(ask: Ask, broker: Mosquitto) -> None:
    broker.publish("a/LWT", "offline", "-r")
    plant = ask(site(broker.address, device("d", NUMBER, availability=LWT)))
    until("it is known to be offline", lambda: plant.device("d")["state"] == "offline")
    broker.publish("s/1", '{"v":6}')
    plant.wait("d/v", quality="good", value=6)
    row = plant.device("d")
    assert row["state"] == "online" and "a/LWT" in row["detail"], row


def test_a_device_that_fell_silent_is_stale(ask: Ask, broker: Mosquitto) -> None:
    broker.publish("a/LWT", "online", "-r")
    tag = number("s/1", interval_ms=100)
    plant = ask(site(broker.address, device("d", tag, availability=LWT)))
    broker.publish("s/1", '{"v":7}')
    plant.wait("d/v", quality="uncertain", reason="stale", value=7)
    assert plant.device("d")["state"] == "online"


@pytest.mark.parametrize("word", ["Online", "online", "true", "1", "ready", '{"state":"online"}'])
def test_words_of_availability_are_a_setting(ask: Ask, broker: Mosquitto, word: str) -> None:
    path = {"path": "state"} if word.startswith("{") else {}
    plant = ask(site(broker.address, device("d", NUMBER, availability=[{**LWT[0], **path}])))
    plant.wait_online("d")
    broker.publish("a/LWT", word.replace("online", "offline") if path else "offline")
    until("it is offline", lambda: plant.device("d")["state"] == "offline")
    broker.publish("a/LWT", word)
    until("it is online", lambda: plant.device("d")["state"] == "online")


def test_a_last_will_makes_its_tags_bad(ask: Ask, broker: Mosquitto) -> None:
    plant = ask(site(broker.address, device("d", NUMBER, availability=LWT)))
    plant.wait_online("d")
    will = ("--will-topic", "a/LWT", "--will-payload", "Offline", "--will-retain", "--will-qos", "1")
    node = broker.subscriber("cmnd/#", options=will)
    broker.publish("s/1", '{"v":8}')
    plant.wait("d/v", quality="good", value=8)
    # Killed, it sends no DISCONNECT: the broker tells of its end.
    node.close()
    row = plant.wait("d/v", quality="bad", reason="device_offline")
    assert row["value"] is None or row["value"] == 8, row
    # It is back, and tells nothing yet.
    broker.publish("a/LWT", "Online", "-r")
    plant.wait("d/v", quality="uncertain", reason="stale")


def test_overlapping_filters_give_one_update_a_message(ask: Ask, broker: Mosquitto, version: str) -> None:
    """mosquitto sends a message once for each subscription that it fits."""
    both = (
        'name = "v"\ntype = "float64"\ntopic = "s/1"\npath = "v"',
        'name = "any"\ntype = "float64"\ntopic = "s/+"\npath = "v"',
        'name = "all"\ntype = "float64"\ntopic = "s/#"\npath = "v"',
    )
    plant = ask(site(broker.address, device("d", *both), version=version))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    for value in range(1, 6):
        broker.publish("s/1", json.dumps({"v": value}))
    for name in ("v", "any", "all"):
        plant.wait(f"d/{name}", quality="good", value=5)
    counters = plant.device("d")["connection_counts"]
    assert counters["messages"] - counters["dropped"] == 5, counters


# Sessions: B09.


def test_it_subscribes_again_after_a_restart(ask: Ask, brokers: Broker, version: str) -> None:
    broker = brokers(persistence=False)
    keys = {"version": version, "client_id": "bridge", "session": "persistent"}
    plant = ask(site(broker.address, device("d", NUMBER), **keys))
    broker.wait("Sending SUBACK to bridge")
    broker.publish("s/1", '{"v":1}')
    plant.wait("d/v", quality="good", value=1)
    broker.kill()
    row = plant.wait("d/v", quality="bad", reason="not_connected")
    assert row["value"] == 1, row
    broker.start()
    broker.wait("Sending SUBACK to bridge")
    plant.wait("d/v", quality="uncertain", reason="stale", value=1)
    broker.publish("s/1", '{"v":2}')
    plant.wait("d/v", quality="good", value=2)


def test_a_kept_session_brings_what_was_missed_once_and_in_order(ask: Ask, brokers: Broker, version: str) -> None:
    """The broker keeps the session on disk, and messages come while only the bridge's link is down."""
    gate, inner = Listener(), Listener()
    broker = brokers(gate, inner, persistence=True)
    keys = {"version": version, "client_id": "bridge", "session": "persistent"}
    plant = ask(site(broker.address, device("d", NUMBER), **keys))
    broker.wait("Sending SUBACK to bridge")
    # mosquitto 2.0.11 saves no session of version 5 that began with a clean start: the next one does not.
    broker.kill()
    broker.start()
    broker.wait("Sending SUBACK to bridge")
    broker.publish("s/1", '{"v":1}')
    plant.wait("d/v", quality="good", value=1)
    before = messages(plant)
    broker.stop()
    plant.wait("d/v", quality="bad", reason="not_connected")
    # Only on its other port for now: the bridge stays away.
    text = broker.config.read_text(encoding="utf-8")
    broker.config.write_text(text.replace("\n".join(gate.lines()), ""), encoding="utf-8")
    broker.start(ports=(inner.port,))
    for value in (2, 3, 4):
        broker.publish("s/1", json.dumps({"v": value}), "-p", str(inner.port))
    broker.stop()
    broker.config.write_text(text, encoding="utf-8")
    broker.start()
    plant.wait("d/v", quality="good", value=4)
    assert messages(plant) == before + 3
    assert "Received SUBSCRIBE from bridge" not in broker.log()


def test_a_broker_that_is_down_at_start(ask: Ask, brokers: Broker) -> None:
    broker = brokers(start=False)
    plant = ask(site(broker.address, device("d", NUMBER)))
    plant.wait("d/v", quality="bad", reason="not_connected")
    broker.start()
    broker.publish("s/1", '{"v":3}', "-r")
    plant.wait("d/v", value=3)


def test_a_write_while_down_is_never_sent(ask: Ask, brokers: Broker) -> None:
    broker = brokers()
    keys = {"client_id": "bridge", "session": "persistent"}
    plant = ask(site(broker.address, device("plug", SWITCH), **keys))
    broker.wait("Sending SUBACK to bridge")
    broker.stop()
    plant.wait("plug/on", reason="not_connected")
    assert plant.write("plug/on", "on")["outcome"] == "not_sent"
    broker.start()
    broker.wait("Sending SUBACK to bridge")
    plug = broker.subscriber("cmnd/#")
    # What it had kept it would have sent before it answers this.
    assert plant.write("plug/on", "off")["outcome"] == "written"
    assert broker.count("Received PUBLISH from bridge") == 1
    plug.close()


@pytest.mark.parametrize("password", ["wrong", None])
def test_a_wrong_password_is_named_and_not_shown(ask: Ask, brokers: Broker, password: str | None, version: str) -> None:
    broker = brokers(users={"bridge": "right-secret"})
    login = {"username": "bridge", "password_env": "BROKER_PASSWORD"} if password else {}
    text = site(broker.address, device("d", NUMBER), version=version, reconnect_max_ms=600_000, **login)
    plant = ask(text, env={"BROKER_PASSWORD": "bad-secret"})
    row = plant.wait_link("d", "refuses us", "not authorized")
    assert row["link"] != "connected"
    plant.wait("d/v", quality="bad", reason="not_connected")
    plant.bridge.log.wait("the log names the refusal", lambda log: "not authorized" in log)
    assert "bad-secret" not in plant.bridge.log.text()
    # Tried once: the next try is ten minutes away.
    assert broker.count("New client connected") == 0
    assert broker.count("not authorised") == 1, broker.log()


def test_a_right_password_from_a_file(ask: Ask, brokers: Broker, save: Save) -> None:
    broker = brokers(users={"bridge": "right-secret"})
    login = {"username": "bridge", "password_file": "secret"}
    text = site(broker.address, device("d", NUMBER), **login)
    (save(text).parent / "secret").write_text("right-secret\n", encoding="utf-8")
    ask(text).wait_online("d")


def test_another_client_of_its_id(ask: Ask, broker: Mosquitto, version: str) -> None:
    """This mosquitto does not say why it closes; the bridge gets its place back when the other one is gone."""
    keys = {"client_id": "bridge", "version": version, "session": "persistent"}
    plant = ask(site(broker.address, device("d", NUMBER), **keys))
    broker.wait("Sending SUBACK to bridge")
    broker.publish("s/1", '{"v":1}')
    plant.wait("d/v", quality="good", value=1)
    other = broker.subscriber("x", options=("-i", "bridge", "-V", "mqttv5"))
    other.close()
    broker.wait("already connected, closing old connection")
    plant.wait_online("d")
    broker.publish("s/1", '{"v":2}')
    plant.wait("d/v", quality="good", value=2)


def test_what_the_broker_hides_is_never_good(ask: Ask, brokers: Broker) -> None:
    """mosquitto grants a subscription that its access list forbids, and keeps the messages back."""
    broker = brokers(acl="topic readwrite s/#\ntopic write x/#\n")
    other = 'name = "hidden"\ntype = "float64"\ntopic = "x/1"'
    plant = ask(site(broker.address, device("d", NUMBER, other)))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    broker.publish("x/1", "3")
    broker.publish("s/1", '{"v":3}')
    plant.wait("d/v", quality="good", value=3)
    assert (plant.tag("d/hidden")["quality"], plant.tag("d/hidden")["reason"]) == ("bad", "never_read")


# Payloads: B03, B05.


def test_one_bad_field_leaves_its_siblings_alone(ask: Ask, broker: Mosquitto) -> None:
    tags = [f'name = "{name}"\ntype = "float64"\ntopic = "room/1"\npath = "{name}"' for name in "th"]
    plant = ask(site(broker.address, device("d", *tags)))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    for payload, expected in (('{"t":20.1,"h":40}', 40), ('{"t":nan,"h":41}', 41), ('{"t":20.3,"h":42}', 42)):
        broker.publish("room/1", payload)
        plant.wait("d/h", quality="good", value=expected)
        row = plant.tag("d/t")
        if "nan" in payload:
            assert (row["value"], row["quality"]) == (None, "bad"), row
        else:
            assert row["quality"] == "good", row
    assert plant.tag("d/t")["value"] == 20.3
    # The raw bytes that left are strict JSON.
    assert b"NaN" not in plant.bridge.out
    assert broker.count("New client connected from 127.0.0.1:") - 3 == 1, broker.log()


@pytest.mark.parametrize("version", VERSIONS)
def test_large_payloads(ask: Ask, broker: Mosquitto, version: str) -> None:
    """Each size arrives; what is too large costs itself alone, also where it is retained."""
    other = 'name = "other"\ntype = "float64"\ntopic = "s/other"'
    limit = 1_048_576
    plant = ask(site(broker.address, device("d", NUMBER, other), version=version, client_id="bridge"))
    plant.wait_online("d")
    broker.wait("Sending SUBACK to bridge")
    for size in (10_200, 10_240, 10_241, 11_409, 65_535, limit):
        head = '{"v":%d,"pad":"' % size
        broker.publish("s/1", head + "x" * (size - len(head) - 2) + '"}')
        plant.wait("d/v", quality="good", value=size)
    for size in (limit + 39, 2 * limit, 8 * limit):
        broker.publish("s/1", "x" * size, "-r")
        broker.publish("s/other", str(size))
        plant.wait("d/other", quality="good", value=size)
    assert plant.tag("d/v")["value"] in (limit, None)
    broker.publish("s/1", "[" * 10_000 + "1" + "]" * 10_000)
    plant.wait("d/v", quality="bad", reason="decode_error")
    assert broker.count("as bridge") == 1, broker.log()


def test_a_retained_payload_that_is_too_large(ask: Ask, broker: Mosquitto, version: str) -> None:
    other = 'name = "other"\ntype = "float64"\ntopic = "s/other"'
    broker.publish("s/1", "x" * 3_000_000, "-r")
    broker.publish("s/other", "1", "-r")
    plant = ask(site(broker.address, device("d", NUMBER, other), version=version, client_id="bridge"))
    plant.wait("d/other", value=1, reason="retained")
    broker.publish("s/other", "2")
    plant.wait("d/other", value=2, quality="good")
    assert broker.count("as bridge") == 1, broker.log()


# Quality of service.


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_each_quality_of_service_brings_each_message_once(ask: Ask, broker: Mosquitto, version: str, qos: int) -> None:
    plant = ask(site(broker.address, device("d", number("s/1", qos=qos)), version=version))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    for value in range(20):
        broker.publish("s/1", json.dumps({"v": value}), "-q", "2")
    plant.wait("d/v", quality="good", value=19)
    assert messages(plant) == 20


# WebSocket, and our own availability.


def test_over_a_websocket(ask: Ask, brokers: Broker, version: str) -> None:
    broker = brokers(Listener(), Listener(websocket=True))
    address = f"127.0.0.1:{broker.listeners[1].port}"
    plant = ask(site(address, device("d", NUMBER), driver="mqtt-ws", version=version))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    broker.publish("s/1", '{"v":4}')
    plant.wait("d/v", quality="good", value=4)


def test_it_tells_whether_it_is_there(ask: Ask, broker: Mosquitto, version: str) -> None:
    watch = broker.subscriber("bridge/status")
    keys = {"version": version, "announce": {"topic": "bridge/status"}}
    plant = ask(site(broker.address, device("d", NUMBER), **keys))
    assert watch.wait(1) == [("bridge/status", 1, False, "online")]
    plant.bridge.process.kill()
    assert watch.wait(2)[1:] == [("bridge/status", 1, False, "offline")]
    second = ask(site(broker.address, device("d", NUMBER), **keys))
    assert watch.wait(3)[2][3] == "online"
    second.bridge.process.terminate()
    second.bridge.process.wait(20)
    assert [row[3] for row in watch.wait(4)] == ["online", "offline", "online", "offline"]
    assert "disconnected" in broker.log()
    watch.close()
    late = broker.subscriber("bridge/status")
    assert late.wait(1) == [("bridge/status", 1, True, "offline")]
    late.close()
