"""The simulated CAN devices as python-can and cantools see them, and the bridge beside these."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import can
import pytest
import serial

from cansim import ENGINE, TOLD, WAYS, Node, Packets, Simulator, crc8, decode, message_of
from conftest import Ask, Run
from mqtt import Plant, Row
from waiting import until

COMPONENT, NOT_THERE = 65259, 65024
COUNTERS = ("AliveCounter", "MessageCount")
ABSENT = {
    *("EngDemandPercentTorque", "EngFuelTemp1", "EngTurboOilTemp1", "EngIntercoolerTemp"),
    *("EngIntercoolerThermostatOpening", "EngExtCrankcaseBlowbyPressure1", "EngCrankcasePressure1"),
    *("EngCoolantPressure1", "EngInstFuelEconomy", "EngAvgFuelEconomy"),
}
"""What the engine has no sensors for."""

ENGINE_NAMES = {message.name for message in ENGINE.messages}

Simulate = Callable[..., Simulator]
Join = Callable[[Simulator, str], Node]


@pytest.fixture
def simulate(run: Run, tmp_path: Path) -> Simulate:
    """Starts the simulator, with these faults."""
    return lambda *faults, **more: Simulator(run, tmp_path / "can", *faults, **more)


@pytest.fixture
def join() -> Iterator[Join]:
    """Attaches a node to the bus; all leave with the test."""
    joined: list[can.BusABC] = []

    def connect(simulator: Simulator, way: str) -> Node:
        joined.append(simulator.connect(way))
        return Node(joined[-1])

    yield connect
    for bus in joined:
        bus.shutdown()


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def node(simulate: Simulate, join: Join, way: str) -> Node:
    """A node on a bus on which nothing goes wrong."""
    return join(simulate(), way)


# The devices and python-can.


def test_every_message_comes_and_decodes(node: Node, way: str) -> None:
    """Lengths, ranges, words, counters and check sums are those of the files; how often they come as well."""
    node.request(COMPONENT)
    node.request(NOT_THERE)
    frames = node.frames(62, "DriveStatus")
    counts = Counter(message_of(frame).name for frame in frames)
    flexible = {name for name, message in TOLD.items() if message.is_fd}
    assert set(counts) == set(TOLD) - (flexible if way == "socketcand" else set()), counts
    heard: set[str] = set()
    last: dict[tuple[str, str], int] = {}
    for frame in frames:
        heard |= is_as_the_file_says(frame)
        name, values = message_of(frame).name, decode(frame)
        for counter in set(COUNTERS) & set(values):
            wraps = 16 if counter == "AliveCounter" else 1 << 32
            before = last.get((name, counter))
            assert before is None or values[counter] == (before + 1) % wraps, frame
            last[name, counter] = values[counter]
    wanted = {signal.name for name in counts for signal in TOLD[name].signals}
    assert wanted - heard == ABSENT, (wanted - heard) ^ ABSENT
    # What one device sends is counted by what it sends most often: both were held up alike.
    for file, name in (("PumpDrive", "DriveStatus"), ("Battery", "BatteryStatus"), ("Engine", "EEC1")):
        for other in (message for message in TOLD.values() if file in message.senders and message.name in counts):
            if other.cycle_time:
                due = counts[name] * TOLD[name].cycle_time / other.cycle_time
                assert abs(counts[other.name] - due) < 2, (other.name, counts[other.name], due)


def is_as_the_file_says(frame: can.Message) -> set[str]:
    """The signals that a frame has values for."""
    message, data = message_of(frame), bytes(frame.data)
    assert len(data) == message.length and frame.is_fd == message.is_fd, frame
    raw = message.decode(data, scaling=False, decode_choices=False)
    values = message.decode(data, decode_choices=False)
    heard = set()
    for name, value in values.items():
        signal = message.get_signal_by_name(name)
        # J1939: error and not available begin there.
        if message.name in ENGINE_NAMES and signal.length >= 8 and raw[name] >= 0xFB << (signal.length - 8):
            if not name.startswith("PacketByte"):
                assert name in ABSENT, (name, frame)
                continue
        assert signal.minimum - 1e-9 <= value <= signal.maximum + 1e-9, (name, value)
        assert not signal.choices or raw[name] in signal.choices, (name, value)
        heard.add(name)
    if "Checksum" in values:
        assert data[7] == crc8(data[:7]), frame
    return heard


@pytest.mark.parametrize("way", ["slcan", "slcan-tcp"])
def test_the_adapter_says_who_it_is(node: Node) -> None:
    assert node.bus.get_version(5) == (10, 13)  # type: ignore[attr-defined]
    assert node.bus.get_serial_number(5) == "F1B1"  # type: ignore[attr-defined]


def test_the_pump_obeys_good_commands_only(node: Node) -> None:
    first = node.see("DriveStatus")
    assert (first["State"], first["Speed"], first["Enabled"]) == ("ready", 0, "no"), first
    node.command = {"Enable": 1, "SpeedSetpoint": 300}
    node.see("DriveStatus", State="running", Speed=300, SpeedReference=300, Enabled="yes")
    node.command = None
    node.drive(Enable=1, SpeedSetpoint=300)
    for wrong in ({"stands": True}, {"garbles": True}):
        for _ in range(2):
            node.drive(Enable=1, SpeedSetpoint=100, **wrong)
            assert node.see("DriveStatus")["SpeedReference"] == 300, wrong
        node.drive(Enable=1, SpeedSetpoint=300)
    node.drive(Enable=1, SpeedSetpoint=100)
    node.see("DriveStatus", State="running", SpeedReference=100)
    node.command = {"Enable": 0}
    node.see("DriveStatus", State="ready", Speed=0, Enabled="no")
    assert node.see("DriveFaults")["FaultCount"] == 0


def test_a_pump_without_commands_fails_until_it_is_reset(node: Node) -> None:
    node.command = {"Enable": 1, "SpeedSetpoint": 300}
    node.see("DriveStatus", State="running", Speed=300)
    # What it does not obey is no command.
    node.command = {**node.command, "garbles": True}
    node.see("DriveFaults", FaultCode="command lost", LastFault="none", FaultCount=1)
    node.command = {"Enable": 1, "SpeedSetpoint": 300}
    for _ in range(5):
        assert node.see("DriveStatus", Enabled="yes")["State"] == "fault"
    node.command = {"Reset": 1}
    node.see("DriveFaults", FaultCode="none", LastFault="command lost", FaultCount=1)
    node.command = {"Enable": 1, "SpeedSetpoint": 300}
    node.see("DriveStatus", State="running", Speed=300)


def test_the_battery_closes_and_opens_its_contactor(node: Node) -> None:
    node.see("BatteryStatus", ContactorState="open", AcceptedCommand="none")
    node.say("BatteryCommand", ContactorCommand="close")
    for state in ("precharging", "closed"):
        node.see("BatteryStatus", ContactorState=state, AcceptedCommand="close")
    node.say("BatteryCommand", ContactorCommand="open")
    node.see("BatteryStatus", ContactorState="open", AcceptedCommand="open")


def test_the_engine_holds_a_speed(node: Node) -> None:
    node.see("EEC1", EngSpeed=650, EngTorqueMode="low idle governor", SrcAddrssOfCntrllngDvcForEngCtrl=0)
    rest = {"EngRqedSpeedCtrlConditions": 3, "OverrideCtrlModePriority": 0, "EngRqedTorque_TorqueLimit": 125}
    node.say("TSC1", EngOverrideCtrlMode=1, EngRqedSpeed_SpeedLimit=800, **rest)
    node.see("EEC1", EngSpeed=800, EngTorqueMode="speed control", SrcAddrssOfCntrllngDvcForEngCtrl=0xF9)
    node.say("TSC1", EngOverrideCtrlMode=0, EngRqedSpeed_SpeedLimit=800, **rest)
    node.see("EEC1", EngSpeed=650, EngTorqueMode="low idle governor", SrcAddrssOfCntrllngDvcForEngCtrl=0)


def test_the_engine_says_who_it_is_in_several_packets(node: Node) -> None:
    node.request(COMPONENT)
    assert node.take("the engine says who it is", Packets(COMPONENT)) == b"FIELD*DIESEL 6*SN004711*UNIT 0*"
    node.request(NOT_THERE)
    refused = node.see("ACKM", AcknowledgedPGN=NOT_THERE)
    assert (refused["Acknowledgement"], refused["AddressAcknowledged"]) == ("negative", 0xF9), refused


def test_what_a_host_sends_before_it_leaves_is_on_the_bus(simulate: Simulate, join: Join) -> None:
    simulator = simulate()
    node = join(simulator, "slcan-tcp")
    for count in range(5):
        host = Node(simulator.connect("socketcand"))
        host.see("DriveStatus")
        host.send(0x201, bytes([0, count]))
        host.bus.shutdown()
        node.take("its frame comes", lambda frame: frame.arbitration_id == 0x201 and frame.data == bytes([0, count]))


# What goes wrong.


def of(frames: list[can.Message], name: str) -> list[can.Message]:
    return [frame for frame in frames if not frame.is_error_frame and message_of(frame).name == name]


def test_error_frames_are_told_where_the_protocol_has_them(simulate: Simulate, join: Join) -> None:
    simulator = simulate("error-frames=10")
    frames = join(simulator, "socketcand").frames(20, "DriveStatus")
    assert 6 <= sum(frame.is_error_frame for frame in frames) <= 16
    with serial.serial_for_url(f"socket://{simulator.places['slcan-tcp']}", timeout=0.05) as adapter:
        adapter.write(b"O\r")
        told = bytearray()

        def flagged() -> bool:
            adapter.write(b"F\r")
            told.extend(adapter.read(4096))
            return b"\rF80\r" in told

        until("the adapter flags an error on the bus", flagged)


def test_a_message_is_left_out(simulate: Simulate, join: Join) -> None:
    frames = join(simulate("missing=181"), "socketcand").frames(2, "DriveFaults")
    assert len(of(frames, "DriveTemperatures")) >= 2 and not of(frames, "DriveStatus")


def test_every_third_message_is_left_out(simulate: Simulate, join: Join) -> None:
    frames = join(simulate("missing=181/3"), "socketcand").frames(9, "DriveStatus")
    alive = [decode(frame)["AliveCounter"] for frame in of(frames, "DriveStatus")]
    steps = [(after - before) % 16 for before, after in zip(alive, alive[1:])]
    assert steps in ([1, 2] * 4, [2, 1] * 4), alive


def test_a_counter_stands_still(simulate: Simulate, join: Join) -> None:
    node = join(simulate("stuck-counter=181"), "socketcand")
    node.command = {"Enable": 1, "SpeedSetpoint": 300}
    node.see("DriveStatus", Speed=300)
    frames = node.frames(8, "DriveStatus")
    assert len({decode(frame)["AliveCounter"] for frame in of(frames, "DriveStatus")}) == 1
    assert len({decode(frame)["AliveCounter"] for frame in of(frames, "BatteryStatus")}) > 1
    assert all(frame.data[7] == crc8(frame.data[:7]) for frame in of(frames, "DriveStatus"))


def test_a_message_is_short(simulate: Simulate, join: Join, way: str) -> None:
    frames = join(simulate("short=181=4"), way).frames(1, "DriveFaults")
    lengths = {message_of(frame).name: len(frame.data) for frame in frames}
    assert lengths["DriveStatus"] == 4
    assert all(length == TOLD[name].length for name, length in lengths.items() if name != "DriveStatus")


def test_a_device_is_silent(simulate: Simulate, join: Join) -> None:
    frames = join(simulate("silence=pump-drive"), "socketcand").frames(12, "BatteryStatus")
    assert not any("PumpDrive" in message_of(frame).senders for frame in frames)
    assert len(of(frames, "EEC1")) > 15


# The bridge beside them.

STATUS = ("state", "speed", "torque", "reference", "enabled")
OTHERS = ("fault", "temperature/motor", "temperature/heat-sink")


def rows(plant: Plant, *globs: str) -> dict[str, Row]:
    """All tags that are meant, by their paths."""
    found: dict[str, Row] = {}
    more: Row = {}
    while True:
        answer = plant.tool("read_tags", {"tags": list(globs), "limit": 1000, **more})
        found |= {row["tag"]: row for row in answer["tags"]}
        if "next_cursor" not in answer:
            return found
        more = {"cursor": answer["next_cursor"]}


def without(way: str) -> dict[str, str]:
    """The tags that never are good, and why."""
    engine = {name: message.name for message in ENGINE.messages for name in (s.name for s in message.signals)}
    flash = [name for name in engine if name.startswith("Flash")]
    reasons = {f"engine-{way}/{engine[name]}/{name}": "not_available" for name in (*ABSENT, *flash)}
    # The last packet is not full.
    reasons |= {f"engine-{way}/TP_DT_BAM/PacketByte{number}": "not_available" for number in (4, 5, 6, 7)}
    # Nobody sends these to the devices, or not from the engine's address.
    silent = {f"engine-{way}/{engine[name]}/{name}" for name in engine if engine[name] in ("TSC1", "RQST")}
    silent |= {f"pump-drive-{way}/{name}" for name in ("run", "setpoint", "reset")}
    silent.add(f"battery-{way}/BatteryCommand/ContactorCommand")
    if way == "socketcand":
        flexible = (message for message in TOLD.values() if message.is_fd)
        silent |= {f"battery-{way}/{message.name}/{s.name}" for message in flexible for s in message.signals}
    return reasons | dict.fromkeys(silent, "never_read")


def test_all_tags_of_all_devices_have_a_value_or_a_reason(simulate: Simulate, join: Join, ask: Ask) -> None:
    simulator = simulate()
    plant = ask(simulator.site(*WAYS))
    node = join(simulator, "socketcand")
    for way in WAYS:
        plant.wait(f"pump-drive-{way}/state", quality="good", label="ready")
    node.request(COMPONENT)
    node.request(NOT_THERE)
    wanted = {path: reason for way in WAYS for path, reason in without(way).items()}
    last: dict[str, str] = {}

    def as_wanted() -> bool:
        nonlocal last
        last = {path: row.get("reason", "") for path, row in rows(plant, "*").items() if row["quality"] != "good"}
        return last == wanted

    try:
        until("all others are good", as_wanted)
    except AssertionError as error:
        raise AssertionError(f"{error}: {set(last.items()) ^ set(wanted.items())}") from None
    # The same bus three times.
    for path in ("battery-{}/BatteryStatus/StateOfCharge", "engine-{}/LFE1/EngFuelRate", "pump-drive-{}/speed"):
        values = {plant.tag(path.format(way))["value"] for way in WAYS}
        assert len(values) == 1, (path, values)


def test_a_write_turns_the_pump_and_the_end_stops_it(simulate: Simulate, join: Join, ask: Ask, way: str) -> None:
    simulator = simulate()
    node = join(simulator, "slcan-tcp" if way == "socketcand" else "socketcand")
    plant = ask(simulator.site(way))
    pump = f"pump-drive-{way}"
    plant.wait(f"{pump}/state", quality="good", label="ready")
    for speed in (100, 200, 300):
        wanted = {"run": "run", "setpoint": str(speed)}
        writes = [{"tag": f"{pump}/{tag}", "value": value} for tag, value in wanted.items()]
        answers = plant.tool("write_tags", {"writes": writes})["writes"]
        assert [answer["outcome"] for answer in answers] == ["confirmed"] * 2, answers
        # Nobody tells that the frame was on the bus.
        assert not any("acknowledged_by" in answer for answer in answers), answers
    row = plant.device(pump)
    assert row["connection_counts"]["sessions"] == 1, (row, plant.bridge.log.text())
    plant.wait(f"{pump}/speed", quality="good", value=300)
    frames = node.frames(20, "DriveCommand")
    commands = [decode(frame) for frame in of(frames, "DriveCommand")]
    # What was sent before the first whole command may be among them.
    assert commands[-1]["Enable"] == "run" and commands[-1]["SpeedSetpoint"] == 300, commands[-1]
    counters = [command["CommandCounter"] for command in commands]
    assert all((after - before) % 16 == 1 for before, after in zip(counters, counters[1:])), counters
    assert all(frame.data[7] == crc8(frame.data[:7]) for frame in of(frames, "DriveCommand"))
    assert decode(of(frames, "DriveStatus")[-1])["State"] == "running"
    plant.bridge.stop()
    last = node.see("DriveCommand", Enable="stop")
    assert last["SpeedSetpoint"] == 0, last
    ends = node.see("DriveStatus", State="stopping")
    assert ends["SpeedReference"] == 0, ends
    node.see("DriveStatus", State="ready", Speed=0)
    for _ in range(2):
        faults = node.see("DriveFaults")
        assert (faults["FaultCode"], faults["FaultCount"]) == ("none", 0), faults


@pytest.mark.parametrize("way", ["slcan", "slcan-tcp"])
def test_nothing_is_told_against_an_adapter_that_does_all_it_should(simulate: Simulate, ask: Ask, way: str) -> None:
    plant = ask(simulate().site(way))
    plant.wait(f"pump-drive-{way}/state", quality="good")
    row = plant.device(f"pump-drive-{way}")
    assert "link_detail" not in row and row["connection_counts"]["exceptions"] == 0, row


def test_a_bridge_that_is_killed_lets_the_pump_fail(simulate: Simulate, join: Join, ask: Ask) -> None:
    """It sends no last frame."""
    simulator = simulate()
    node = join(simulator, "socketcand")
    plant = ask(simulator.site("slcan"))
    plant.wait("pump-drive-slcan/state", quality="good", label="ready")
    assert plant.write("pump-drive-slcan/run", "run")["outcome"] == "confirmed"
    plant.bridge.process.kill()
    plant.bridge.wait()
    node.see("DriveFaults", FaultCode="command lost", FaultCount=1)


def judged(plant: Plant, way: str, tags: tuple[str, ...], **want: str) -> None:
    """Waits until all of these tags of the pump are so."""
    for tag in tags:
        plant.wait(f"pump-drive-{way}/{tag}", **want)


def test_a_counter_that_stands_still_makes_its_message_stale(simulate: Simulate, ask: Ask, way: str) -> None:
    plant = ask(simulate("stuck-counter=181").site(way))
    judged(plant, way, STATUS, quality="uncertain", reason="stale")
    row = plant.tag(f"pump-drive-{way}/state")
    assert "stands still" in row["detail"] and row["label"] == "ready", row
    judged(plant, way, OTHERS, quality="good")


def test_a_short_message_is_a_decode_error(simulate: Simulate, ask: Ask, way: str) -> None:
    plant = ask(simulate("short=181=4").site(way))
    judged(plant, way, STATUS, quality="bad", reason="decode_error")
    judged(plant, way, OTHERS, quality="good")


@pytest.mark.parametrize(("length", "bad"), [(4, ()), (3, ("heat-sink",)), (1, ("heat-sink", "motor"))])
def test_without_a_check_sum_only_what_lies_beyond_the_end_is_bad(
    simulate: Simulate, ask: Ask, length: int, bad: tuple[str, ...]
) -> None:
    plant = ask(simulate(f"short=281={length}").site("slcan-tcp"))
    for name in ("heat-sink", "motor"):
        want = {"quality": "bad", "reason": "decode_error"} if name in bad else {"quality": "good"}
        plant.wait(f"pump-drive-slcan-tcp/temperature/{name}", **want)


def replay(simulate: Simulate, ask: Ask, way: str, fault: str) -> Plant:
    """The bridge once the simulator, all well before, is back with a fault."""
    simulator = simulate()
    plant = ask(simulator.site(way))
    judged(plant, way, STATUS + OTHERS, quality="good")
    simulator.process.stop()
    judged(plant, way, STATUS + OTHERS, quality="bad", reason="not_connected")
    simulate(fault, places=simulator.places)
    return plant


def test_a_message_that_is_left_out_is_stale(simulate: Simulate, ask: Ask) -> None:
    way = "slcan-tcp"
    plant = replay(simulate, ask, way, "missing=181")
    judged(plant, way, OTHERS, quality="good")
    judged(plant, way, STATUS, quality="uncertain", reason="stale")
    assert plant.tag(f"pump-drive-{way}/state")["label"] == "ready"


def test_a_device_that_is_silent_from_the_start_is_waited_for(simulate: Simulate, ask: Ask, way: str) -> None:
    plant = replay(simulate, ask, way, "silence=pump-drive")
    plant.wait(f"battery-{way}/BatteryStatus/Voltage", quality="good")
    judged(plant, way, STATUS + OTHERS, quality="uncertain", reason="stale")
    states = {name: plant.device(f"{name}-{way}")["state"] for name in ("pump-drive", "battery")}
    assert states == {"pump-drive": "waiting", "battery": "online"}


def test_a_device_falls_silent(simulate: Simulate, join: Join, ask: Ask) -> None:
    """The node is the drive, for one message."""
    simulator = simulate("silence=pump-drive")
    node, plant = join(simulator, "slcan-tcp"), ask(simulator.site("socketcand"))
    plant.wait("battery-socketcand/BatteryStatus/Voltage", quality="good")
    assert plant.device("pump-drive-socketcand")["state"] == "waiting"
    node.say("DriveTemperatures", MotorTemperature=61.5, HeatSinkTemperature=40, AmbientTemperature=20)
    plant.wait("pump-drive-socketcand/temperature/motor", quality="good", value=61.5)
    assert plant.device("pump-drive-socketcand")["state"] == "online"
    plant.wait("pump-drive-socketcand/temperature/motor", quality="uncertain", reason="stale", value=61.5)
    until("the pump is silent", lambda: plant.device("pump-drive-socketcand")["state"] == "silent")


def test_error_frames_are_told_of_the_link(simulate: Simulate, ask: Ask) -> None:
    plant = ask(simulate("error-frames=10").site("socketcand"))
    row = plant.wait_link("pump-drive-socketcand", "bus error")
    assert row["link"] == "connected" and row["connection_counts"]["errors"] > 0, row
    judged(plant, "socketcand", STATUS, quality="good")


# The demo.


def test_the_demo_runs_its_pump(run: Run) -> None:
    plant = Plant(run("demo", "--stdio", pipe=True))
    wanted = {f"pump/{name}" for name in (*STATUS, *OTHERS, "run", "setpoint", "reset")}
    assert set(rows(plant, "pump/*")) == wanted
    for name in STATUS + OTHERS:
        plant.wait(f"pump/{name}", quality="good")
    writes = [{"tag": "pump/run", "value": "run"}, {"tag": "pump/setpoint", "value": "300"}]
    for answer in plant.tool("write_tags", {"writes": writes})["writes"]:
        assert (answer["outcome"], answer["acknowledged_by"]) == ("confirmed", "bus"), answer
    plant.wait("pump/speed", quality="good", value=300)
    plant.wait("pump/state", quality="good", label="running")
    assert plant.write("pump/run", "stop")["outcome"] == "confirmed"
    plant.wait("pump/state", quality="good", label="ready")
    assert plant.tag("pump/fault")["label"] == "none"
