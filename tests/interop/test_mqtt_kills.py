"""MQTT under load while the broker is killed again and again: `KILLS` says how often, `.ci/long/kills` 100 times."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import struct
import threading
import time
from collections import Counter

from conftest import Ask, Broker
from mqtt import Plant, device, site
from waiting import until

KILLS = int(os.environ.get("KILLS", "20"))
READ = 20
WRITES_A_KILL = 10
_RECEIVED = re.compile(r"Received PUBLISH from bridge \(d(\d), q1, r0, m\d+, 'cmnd/(\d+)'")


class Load(threading.Thread):
    """Publishes ever greater numbers on topics, QoS 0, over a socket of its own, and comes back when that breaks."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.number = 0
        self.stopped = False

    def run(self) -> None:
        while not self.stopped:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1) as link:
                link.sendall(b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04load")
                while not self.stopped:
                    self.number += 1
                    link.sendall(b"".join(_publish(f"t/{tag}", str(self.number)) for tag in range(READ)))
                    time.sleep(0.002)
            time.sleep(0.002)


def _publish(topic: str, payload: str) -> bytes:
    body = struct.pack(">H", len(topic)) + topic.encode() + payload.encode()
    return bytes([0x30, len(body)]) + body


class Writer(threading.Thread):
    """Writes each tag once, one after another, and keeps how that ended."""

    def __init__(self, plant: Plant, tags: list[str]) -> None:
        super().__init__(daemon=True)
        self.plant = plant
        self.tags = tags
        self.numbers: list[int] = []

    def run(self) -> None:
        for tag in self.tags:
            self.numbers.append(self.plant.start_write(f"d/{tag}", "1"))
            time.sleep(0.003)


def rows(plant: Plant) -> list[dict]:
    return plant.tool("read_tags", {"tags": [f"d/t{tag}" for tag in range(READ)]})["tags"]


def test_nothing_is_lost_stale_or_doubled(ask: Ask, brokers: Broker) -> None:
    broker = brokers(persistence=True)
    read = [f'name = "t{tag}"\ntype = "uint32"\ntopic = "t/{tag}"' for tag in range(READ)]
    count = KILLS * WRITES_A_KILL
    write = [
        f'name = "c{tag}"\ntype = "uint8"\naccess = "read-write"\nwrite = {{ topic = "cmnd/{tag}", confirm_ms = 0 }}'
        for tag in range(count)
    ]
    keys = {"client_id": "bridge", "session": "persistent", "reconnect_max_ms": 50}
    plant = ask(site(broker.address, device("d", *read, *write), **keys))
    plant.wait_online("d")
    load = Load(broker.port)
    load.start()
    listener = broker.subscriber("cmnd/+")
    seen = Counter[int]()
    again = 0
    outcomes: Counter[str] = Counter()
    floor = 0
    for kill in range(KILLS):

        def is_fresh(floor: int = floor) -> bool:
            found = rows(plant)
            good = [row for row in found if row["quality"] == "good"]
            old = [row for row in good if row["value"] <= floor]
            assert not old, f"stale shown as good after kill {kill}: {old}"
            return len(good) == READ

        until(f"all tags are good after {kill} kills", is_fresh)
        part = Writer(plant, [f"c{tag}" for tag in range(kill * WRITES_A_KILL, (kill + 1) * WRITES_A_KILL)])
        part.start()
        broker.wait("from bridge (d0", 1 + kill % 3)
        broker.kill()
        part.join(20)
        # What came before its end is older than all that comes after.
        floor = load.number
        until("the loss is seen", lambda: all(row["reason"] == "not_connected" for row in rows(plant) if "reason" in row))
        assert {row["quality"] for row in rows(plant)} == {"bad"}
        log = broker.log()
        for dup, tag in _RECEIVED.findall(log):
            seen[int(tag)] += 1
            again += int(dup)
        for number in part.numbers:
            outcomes[plant.finish(number)["outcome"]] += 1
        listener.close()
        broker.start()
        listener = broker.subscriber("cmnd/+")
    until("all tags are good at the end", lambda: all(row["quality"] == "good" for row in rows(plant)))
    for dup, tag in _RECEIVED.findall(broker.log()):
        seen[int(tag)] += 1
        again += int(dup)
    load.stopped = True
    listener.close()
    print(f"{KILLS} kills: outcomes {dict(outcomes)}; {len(seen)} commands reached the broker")
    assert sum(outcomes.values()) == count
    assert again == 0 and not [tag for tag, times in seen.items() if times > 1], seen
    # A command that the broker took is one that it had.
    assert outcomes["written"] <= len(seen) <= outcomes["written"] + outcomes["unknown"], (outcomes, len(seen))
    assert outcomes["written"] and set(outcomes) <= {"written", "unknown", "not_sent"}, outcomes
