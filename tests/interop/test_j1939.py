"""J1939: parameter groups of several senders, values that stand for none, and messages of several packets."""

from __future__ import annotations

from typing import Any

import cantools
import pytest

from canplant import Bus
from conftest import Listen
from slcan import Frame

ENGINE, TEMPERATURES, TORQUE, LONG = 0xF004, 0xFEEE, 0x0000, 0xFEE3
SENDERS = {"left": 0x21, "right": 0x22}

DBC = """VERSION ""

NS_ :

BS_:

BU_: Vector__XXX

BO_ 2364540158 EEC1: 8 Vector__XXX
 SG_ Mode : 0|4@1+ (1,0) [0|15] "" Vector__XXX
 SG_ Torque : 16|8@1+ (1,-125) [-125|125] "%" Vector__XXX
 SG_ Speed : 24|16@1+ (0.125,0) [0|8031.875] "rpm" Vector__XXX
 SG_ Source : 40|8@1+ (1,0) [0|255] "" Vector__XXX

BO_ 2566844158 ET1: 8 Vector__XXX
 SG_ Coolant : 0|8@1+ (1,-40) [-40|210] "degC" Vector__XXX
 SG_ Oil : 16|16@1+ (0.03125,-273) [-273|1735] "degC" Vector__XXX
 SG_ Hours : 32|32@1+ (0.05,0) [0|210554060.75] "h" Vector__XXX

BO_ 2348810494 TSC1: 8 Vector__XXX
 SG_ Control : 0|2@1+ (1,0) [0|3] "" Vector__XXX
 SG_ Priority : 4|2@1+ (1,0) [0|3] "" Vector__XXX
 SG_ Limit : 8|16@1+ (0.125,0) [0|8031.875] "rpm" Vector__XXX

BO_ 2566841342 EC1: 39 Vector__XXX
 SG_ Speed1 : 0|16@1+ (0.125,0) [0|8031.875] "rpm" Vector__XXX
 SG_ Torque1 : 16|8@1+ (1,-125) [-125|125] "%" Vector__XXX
 SG_ Gain : 136|16@1+ (0.0007813,0) [0|50.2] "" Vector__XXX
 SG_ Moment : 152|16@1+ (1,0) [0|64255] "Nm" Vector__XXX
 SG_ Across : 54|12@1+ (1,0) [0|4095] "" Vector__XXX
 SG_ Turned : 183|16@0- (1,0) [-32768|32767] "" Vector__XXX
 SG_ Last : 304|8@1+ (0.1,0) [0|25] "" Vector__XXX

BA_DEF_ "ProtocolType" STRING ;
BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "ProtocolType" "";
BA_DEF_DEF_ "VFrameFormat" "J1939PG";
BA_ "ProtocolType" "J1939";
BA_ "VFrameFormat" BO_ 2364540158 3;
BA_ "VFrameFormat" BO_ 2566844158 3;
BA_ "VFrameFormat" BO_ 2348810494 3;
BA_ "VFrameFormat" BO_ 2566841342 3;
"""
FILE = cantools.database.load_string(DBC, "dbc")


@pytest.fixture
def bus(listen: Listen) -> Bus:
    """Two devices of one model, which differ in their addresses."""
    return listen(DBC, "", {name: {"source_address": source} for name, source in SENDERS.items()})


def group(pgn: int, source: int, data: bytes, priority: int = 6, destination: int = 0) -> Frame:
    return Frame(priority << 26 | pgn << 8 | destination << 8 | source, data, extended=True)


def packets(pgn: int, source: int, data: bytes) -> list[Frame]:
    """A message of several packets for everybody (BAM)."""
    parts = [data[at : at + 7].ljust(7, b"\xff") for at in range(0, len(data), 7)]
    head = bytes([32, *len(data).to_bytes(2, "little"), len(parts), 0xFF, *pgn.to_bytes(3, "little")])
    frames = [group(0xEC00, source, head, 7, 0xFF)]
    return frames + [group(0xEB00, source, bytes([count, *part]), 7, 0xFF) for count, part in enumerate(parts, 1)]


def decoded(message: str, data: bytes) -> dict[str, Any]:
    """By the names of the signals."""
    return FILE.get_message_by_name(message).decode(data)  # type: ignore[return-value]


def check(bus: Bus, device: str, message: str, data: bytes) -> None:
    """Whether a message is, signal by signal, what cantools says."""
    rows = bus.rows(f"{device}/{message}/*")
    wanted = decoded(message, data)
    assert len(rows) == len(wanted)
    for name, value in wanted.items():
        row = rows[f"{device}/{message}/{name}"]
        assert row["quality"] == "good" and row["value"] == pytest.approx(value, rel=1e-12, abs=1e-9), (row, value)


def untouched(bus: Bus, *globs: str) -> None:
    rows = bus.rows(*globs)
    assert rows and all(row["reason"] == "never_read" for row in rows.values()), rows


FIRST = bytes.fromhex("F17DA5DC0510F0FF")
OTHER = bytes.fromhex("0301640A2B00F4FF")


def test_each_sender_is_a_device_of_its_own(bus: Bus) -> None:
    bus.hear(group(ENGINE, 0x21, FIRST, 3), group(ENGINE, 0x23, OTHER, 3))
    check(bus, "left", "EEC1", FIRST)
    untouched(bus, "right/*")
    bus.hear(group(ENGINE, 0x22, OTHER, 3), group(TEMPERATURES, 0x22, bytes(8)))
    check(bus, "left", "EEC1", FIRST)
    check(bus, "right", "EEC1", OTHER)
    check(bus, "right", "ET1", bytes(8))
    untouched(bus, "left/ET1/*", "*/TSC1/*", "*/EC1/*")


def test_priority_says_nothing_of_the_message(bus: Bus) -> None:
    for priority, data in ((0, FIRST), (7, OTHER)):
        bus.hear(group(ENGINE, 0x21, data, priority))
        check(bus, "left", "EEC1", data)


@pytest.mark.parametrize("destination", [0, 0x55, 0xFE, 0xFF])
def test_a_message_for_one_counts_whomever_it_is_for(bus: Bus, destination: int) -> None:
    data = bytes.fromhex("01100E0000000000")
    bus.hear(group(TORQUE, 0x22, data, 3, destination))
    check(bus, "right", "TSC1", data)
    untouched(bus, "left/*", "right/EEC1/*")


def test_pages_of_groups_are_told_apart(bus: Bus) -> None:
    """The data page, and what is a destination in others, are parts of the number."""
    bus.hear(group(0x1_0000 | ENGINE, 0x21, FIRST), group(ENGINE + 1, 0x21, FIRST), group(0x1_0000, 0x21, FIRST))
    untouched(bus, "left/*", "right/*")


# Raw numbers of 1, 2 and 4 bytes; the highest byte alone tells of them.
NONE = {
    "FF_FFFF_FFFFFFFF": ("not_available",) * 3,
    "FE_FE00_FE000000": ("device_error",) * 3,
    "FE_FEFF_FEFFFFFF": ("device_error",) * 3,
    "FF_FF00_FF000000": ("not_available",) * 3,
    "FA_FAFF_FAFFFFFF": (None,) * 3,
    "00_FEFA_00FFFFFF": (None, "device_error", None),
}


@pytest.mark.parametrize("case", NONE)
def test_the_highest_numbers_stand_for_no_value(bus: Bus, case: str) -> None:
    coolant, oil, hours = (bytes.fromhex(part)[::-1] for part in case.split("_"))
    good = bytes([90, 0, 0, 0x30, 0, 1, 0, 0])
    bus.hear(group(TEMPERATURES, 0x21, good))
    check(bus, "left", "ET1", good)
    data = coolant + b"\xff" + oil + hours
    bus.hear(group(TEMPERATURES, 0x21, data))
    for name, reason in zip(("Coolant", "Oil", "Hours"), NONE[case]):
        row = bus.tag(f"left/ET1/{name}")
        if reason:
            assert (row["value"], row["quality"], row["reason"]) == (None, "bad", reason), row
        else:
            value = decoded("ET1", data)[name]
            assert (row["quality"], row["value"]) == ("good", pytest.approx(value, rel=1e-12)), row


def test_bits_and_nibbles_stand_for_no_value_where_all_are_set(bus: Bus) -> None:
    # Of two bits 3 is not available and 2 an error, of four 15 and 14.
    for control, mode, reason in ((3, 15, "not_available"), (2, 14, "device_error"), (1, 13, None)):
        bus.hear(group(TORQUE, 0x21, bytes([control, *bytes(7)])), group(ENGINE, 0x21, bytes([mode, *bytes(7)])))
        for path, value in (("left/TSC1/Control", control), ("left/EEC1/Mode", mode)):
            row = bus.tag(path)
            wanted = (None, "bad", reason) if reason else (value, "good", None)
            assert (row["value"], row["quality"], row.get("reason")) == wanted, row


LONG_DATA = bytes((37 * place + 11) % 251 for place in range(39))


def test_a_message_of_several_packets(bus: Bus) -> None:
    frames = packets(LONG, 0x21, LONG_DATA)
    assert len(frames) == 7
    bus.hear(*frames[:-1])
    untouched(bus, "left/EC1/*")
    bus.hear(frames[-1])
    check(bus, "left", "EC1", LONG_DATA)
    untouched(bus, "right/*")


def test_packets_of_two_senders_are_mixed(bus: Bus) -> None:
    other = LONG_DATA[::-1]
    pairs = zip(packets(LONG, 0x21, LONG_DATA), packets(LONG, 0x22, other))
    # Single frames of the same senders come between.
    bus.hear(*(frame for pair in pairs for frame in (*pair, group(ENGINE, 0x21, FIRST))))
    check(bus, "left", "EC1", LONG_DATA)
    check(bus, "right", "EC1", other)
    check(bus, "left", "EEC1", FIRST)


@pytest.mark.parametrize("fault", ["lost", "twice", "order", "short", "size"])
def test_packets_that_do_not_make_a_message(bus: Bus, fault: str) -> None:
    good = packets(LONG, 0x21, LONG_DATA)
    bad = packets(LONG, 0x21, bytes(39))
    if fault == "lost":
        del bad[3]
    elif fault == "twice":
        bad.insert(3, bad[3])
    elif fault == "order":
        bad[3], bad[4] = bad[4], bad[3]
    elif fault == "short":
        bad[3] = Frame(bad[3].id, bad[3].data[:5], extended=True)
    else:
        bad[0] = Frame(bad[0].id, bad[0].data[:3] + b"\x09" + bad[0].data[4:], extended=True)
    bus.hear(*good)
    bus.hear(*bad)
    check(bus, "left", "EC1", LONG_DATA)
    assert bus.device("left")["connection_counts"]["garbled"] == 1
    bus.hear(*packets(LONG, 0x21, LONG_DATA[::-1]))
    check(bus, "left", "EC1", LONG_DATA[::-1])


def test_a_message_that_is_shorter_has_only_some_of_its_signals(bus: Bus) -> None:
    bus.hear(*packets(LONG, 0x21, LONG_DATA[:21]))
    wanted = FILE.get_message_by_name("EC1").decode(LONG_DATA[:21], allow_truncated=True)
    assert {"Speed1", "Gain", "Moment"} <= set(wanted) and "Last" not in wanted
    for place, row in bus.rows("left/EC1/*").items():
        name = place.rpartition("/")[2]
        if name in wanted:
            assert (row["quality"], row["value"]) == ("good", pytest.approx(wanted[name])), row  # type: ignore[index]
        else:
            assert (row["quality"], row["reason"]) == ("bad", "decode_error"), row


def test_numbers_that_have_a_word_of_their_own_are_values(listen: Listen) -> None:
    """As of SPN 695 and 899: 2 is torque control, 14 another mode."""
    words = 'VAL_ 2348810494 Control 0 "off" 1 "speed" 2 "torque" 3 "limit" ;\nVAL_ 2364540158 Mode 13 "low" 14 "other" ;\n'
    bus = listen(DBC + words, "", {name: {"source_address": source} for name, source in SENDERS.items()})
    wanted = {(1, 13): ("speed", "low"), (2, 14): ("torque", "other"), (3, 13): ("limit", "low")}
    for (control, mode), labels in wanted.items():
        bus.hear(group(TORQUE, 0x21, bytes([control, *bytes(7)])), group(ENGINE, 0x21, bytes([mode, *bytes(7)])))
        rows = bus.tag("left/TSC1/Control"), bus.tag("left/EEC1/Mode")
        assert [(row["value"], row.get("label")) for row in rows] == list(zip((control, mode), labels)), rows


def test_what_is_written_goes_to_the_device_from_our_own_address(listen: Listen) -> None:
    """What is not known in it is all ones, which cantools calls padding."""
    profile = '[[messages]]\nmessage = "TSC1"\nsend = {}\n'
    for name in ("Control", "Priority", "Limit"):
        profile += f'[[tags]]\nname = "{name}"\nsignal = "TSC1.{name}"\naccess = "read-write"\n'
    devices = {name: {"source_address": source} for name, source in SENDERS.items()}
    bus = listen(DBC, profile, devices, source_address=0xF9, send_ids=["0C0021F9", "0C0022F9"])
    bus.adapter.wait_ready()
    bus.wait_online("left")
    message = FILE.get_message_by_name("TSC1")
    for count, (device, source) in enumerate(SENDERS.items(), 1):
        values = {"Control": 1, "Priority": 1, "Limit": 800.125 * count}
        answers = bus.write_all({f"{device}/{name}": str(value) for name, value in values.items()})
        assert [answer["outcome"] for answer in answers] == ["sent"] * 3, answers
        data = message.encode(values, padding=True)  # type: ignore[arg-type]
        assert bus.adapter.sent(count)[-1] == group(TORQUE, 0xF9, data, 3, source)
    refused = bus.write("left/Control", "3")
    assert refused["outcome"] == "rejected" and len(bus.adapter.frames) == 2, "it would stand for no value"
