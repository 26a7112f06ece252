"""What `scan can` finds on a bus and in a log, and what `replay` makes of a log."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest

from bridge import Bridge
from canplant import write_site
from conftest import Run
from mqtt import Plant
from slcan import Adapter, Frame
from waiting import until

DBC = """VERSION ""

NS_ :

BS_:

BU_: Vector__XXX

BO_ 257 Fast: 8 Vector__XXX
 SG_ Count : 0|16@1+ (1,0) [0|0] "" Vector__XXX
 SG_ Level : 16|16@1- (0.1,0) [-100|100] "m" Vector__XXX

BO_ 514 Slow: 4 Vector__XXX
 SG_ State : 0|2@1+ (1,0) [0|0] "" Vector__XXX

BO_ 2566844926 Group: 8 Vector__XXX
 SG_ Speed : 8|16@1+ (0.01,0) [0|0] "km/h" Vector__XXX

BO_ 771 Never: 8 Vector__XXX
 SG_ N : 0|8@1+ (1,0) [0|0] "" Vector__XXX

BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG";
BA_DEF_DEF_ "VFrameFormat" "StandardCAN";
BA_ "VFrameFormat" BO_ 2566844926 3;
VAL_ 514 State 0 "off" 1 "on" ;
"""
SITE: dict[str, Any] = {"devices": {"d": {"source_address": 0x21}}}
ROUNDS = 40


def frames(count: int) -> list[Frame]:
    """What is on the bus in the `count`-th turn: one message each time, the others each tenth."""
    fast = [Frame(0x101, bytes([count, 0, *(count * 10).to_bytes(2, "little"), 0, 0, 0, 0]))]
    if count % 10:
        return fast
    return fast + [
        Frame(0x202, bytes([count // 10 % 2, 0, 0, 0])),
        Frame(0x18FEF121, bytes([255, count, 1, 0, 0, 0, 0, 0]), extended=True),
        Frame(0x345, bytes([count, 0xAA, 255 - count])[: 2 + (count > 0)]),
        Frame(0x456, bytes([count]) * 12, fd=True),
    ]


def write_log(folder: Path) -> Path:
    """As candump writes it, a turn each 10 ms."""
    lines = []
    for count in range(ROUNDS):
        for frame in frames(count):
            number = f"{frame.id:08X}" if frame.extended else f"{frame.id:03X}"
            mark = "##0" if frame.fd else "#"
            lines.append(f"({1000 + count / 100:.6f}) can0 {number}{mark}{frame.data.hex().upper()}\n")
    path = folder / "bus.log"
    path.write_text("".join(lines), encoding="utf-8")
    return path


def columns(line: str) -> list[str]:
    return re.split(r" {2,}", line.strip())


def table(text: str) -> dict[str, dict[str, str]]:
    """The rows of a table by their identifiers."""
    head, *rows = text.partition("\n\n")[0].splitlines()
    names = columns(head)
    assert names[0] == "ID", text
    return {columns(row)[0]: dict(zip(names, columns(row), strict=True)) for row in rows}


FOUND = {
    "101": ("Fast", ROUNDS, "8", "0 2 3"),
    "202": ("Slow", ROUNDS // 10, "4", "0"),
    "18FEF121": ("Group from 33", ROUNDS // 10, "8", "1"),
    "345": ("-", ROUNDS // 10, "2 to 3", "0 2"),
    "456": ("-", ROUNDS // 10, "12 FD", " ".join(map(str, range(12)))),
}
"""Message, frames, length and changed bytes of each identifier."""


def check_found(text: str) -> dict[str, dict[str, str]]:
    rows = table(text)
    assert list(rows) == sorted(FOUND, key=lambda number: (len(number), number)), text
    for number, (message, count, length, changes) in FOUND.items():
        row = rows[number]
        assert (row["MESSAGE"], row["FRAMES"], row["LENGTH"], row["CHANGES"]) == (message, str(count), length, changes), row
    last = {frame.id: frame for count in range(ROUNDS) for frame in frames(count)}
    assert {int(number, 16): row["LAST"] for number, row in rows.items()} == {
        number: frame.data.hex().upper() for number, frame in last.items()
    }
    assert "2 identifiers in no DBC file" in text and "not heard: Never (303)" in text, text
    return rows


def mean(row: dict[str, str]) -> float:
    """Milliseconds between two frames."""
    found = re.match(r"([\d.]+) ms \(", row["INTERVAL"])
    assert found, row
    return float(found.group(1))


def check_draft(run: Run, folder: Path, draft: Path) -> None:
    """Whether a site with the draft and its file beside it is good."""
    text = draft.read_text(encoding="utf-8")
    (folder / "devices" / "test" / "model.toml").write_text(text, encoding="utf-8")
    checked = run("check", "--config", str(folder / "config" / "site.toml"))
    assert checked.wait() == 0, checked.log.text()
    tags = {line.split()[0] for line in checked.out.decode().splitlines() if line.startswith("d/")}
    wanted = {"Fast/Count", "Fast/Level", "Slow/State", "Group/Speed", "id-345/byte-0", "id-345/byte-2"}
    assert tags == {f"d/{name}" for name in wanted} | {f"d/id-456/byte-{byte}" for byte in range(12)}, text


def test_a_bus_is_looked_at_and_nothing_is_sent(run: Run, tmp_path: Path, adapter: Adapter) -> None:
    write_site(tmp_path, DBC, adapter.address, **SITE)
    dbc, draft = tmp_path / "devices" / "test" / "model.dbc", tmp_path / "draft.toml"
    place = f"slcan-tcp://{adapter.address}"
    scan = run("scan", "can", "--connection", place, "--dbc", str(dbc), "--seconds", "2", "--draft", str(draft))
    adapter.wait_ready()
    started = time.monotonic()
    for count in range(ROUNDS):
        # The pace of the bus.
        time.sleep(max(0.0, started + count / 100 - time.monotonic()))
        adapter.send(*frames(count))
    took = (time.monotonic() - started) * 1000
    assert scan.wait() == 0, scan.log.text()
    assert adapter.heard[1:4] == ["C", "S6", "L"] and not adapter.frames, "it listens only"
    rows = check_found(scan.out.decode())
    for number, row in rows.items():
        gaps = FOUND[number][1] - 1
        usual = took / (ROUNDS - 1) * (1 if number == "101" else 10)
        # Each end of all the time may be a little late.
        assert abs(mean(row) - usual) < 100 / gaps, (row, usual)
        rate = float(row["PER SECOND"])
        assert abs(rate - FOUND[number][1] / 2) <= 0.1 * rate, row
    check_draft(run, tmp_path, draft)


def test_the_same_of_a_log(run: Run, tmp_path: Path) -> None:
    write_site(tmp_path, DBC, "127.0.0.1:1", **SITE)
    dbc, draft = tmp_path / "devices" / "test" / "model.dbc", tmp_path / "draft.toml"
    place = f"candump://{write_log(tmp_path)}"
    scan = run("scan", "can", "--connection", place, "--dbc", str(dbc), "--seconds", "20", "--draft", str(draft))
    assert scan.wait() == 0, scan.log.text()
    rows = check_found(scan.out.decode())
    # A log has its own time.
    assert rows["101"]["INTERVAL"] == "10.0 ms (10.0 to 10.0)", rows
    for number in ("202", "18FEF121", "345", "456"):
        assert rows[number]["INTERVAL"] == "100.0 ms (100.0 to 100.0)", rows
    assert float(rows["101"]["PER SECOND"]) == pytest.approx(ROUNDS / 0.39, abs=0.1), rows
    check_draft(run, tmp_path, draft)


def test_nothing_is_known_without_a_file(run: Run, tmp_path: Path) -> None:
    scan = run("scan", "can", "--connection", f"candump://{write_log(tmp_path)}")
    assert scan.wait() == 0, scan.log.text()
    rows = table(scan.out.decode())
    assert {number: row["MESSAGE"] for number, row in rows.items()} == {
        **dict.fromkeys(("101", "202", "345", "456"), "-"),
        "18FEF121": "? PGN 65265 from 33",
    }


# Logs in the place of the bus.


def replay(run: Run, folder: Path, adapter: Adapter, *arguments: str) -> Plant:
    """Serves a site, of which a message is written, from the log."""
    profile = (
        '[[messages]]\nmessage = "Slow"\nsend = {}\n[[tags]]\nname = "State"\nsignal = "Slow.State"\naccess = "read-write"\n'
    )
    site = write_site(folder, DBC, adapter.address, profile, send_ids=["202"], **SITE)
    log = write_log(folder)
    bridge: Bridge = run("replay", str(log), "--config", str(site), "--stdio", "--log-format", "json", *arguments, pipe=True)
    return Plant(bridge)


LAST = ROUNDS - 1
END = {"d/Fast/Count": LAST, "d/Fast/Level": LAST, "d/State": 1, "d/Group/Speed": (256 + LAST // 10 * 10) / 100}


@pytest.mark.parametrize("speed", ["0", "1", "20"])
def test_a_log_feeds_the_site(run: Run, tmp_path: Path, adapter: Adapter, speed: str) -> None:
    plant = replay(run, tmp_path, adapter, "--speed", speed)
    for place, value in END.items():
        plant.wait(place, value=value, quality="good")
    assert plant.tag("d/State")["label"] == "on"
    row = plant.wait_link("d", "the log is over")
    count = sum(len(frames(count)) for count in range(ROUNDS))
    counts = row["connection_counts"]
    assert (row["state"], counts["messages"], counts["garbled"]) == ("online", count, 0), row
    assert plant.tag("d/Never/N")["reason"] == "never_read"
    assert not adapter.heard, "the bus is not connected to"


def test_a_log_is_replayed_at_its_own_pace(run: Run, tmp_path: Path, adapter: Adapter) -> None:
    """Ten times as slow it takes 3.9 s; what is in between is seen."""
    plant = replay(run, tmp_path, adapter, "--speed", "0.1")
    seen: list[tuple[float, int]] = []

    def looked() -> bool:
        value = plant.tag("d/Fast/Count")["value"]
        if value is not None and (not seen or value != seen[-1][1]):
            seen.append((time.monotonic(), value))
        return len(seen) >= 12

    until("twelve turns are seen", looked)
    values = [value for _, value in seen]
    assert values == sorted(values) and values[-1] < LAST, values
    took = seen[-1][0] - seen[0][0]
    assert took == pytest.approx((values[-1] - values[0]) / 10, abs=0.25), seen


def test_a_log_begins_again(run: Run, tmp_path: Path, adapter: Adapter) -> None:
    plant = replay(run, tmp_path, adapter, "--repeat", "--speed", "2")
    before = -1

    def turned() -> bool:
        nonlocal before
        last, before = before, plant.tag("d/Fast/Count")["value"] or 0
        return before < last

    for _ in range(2):
        until("the count begins again", turned)
    row = plant.device("d")
    assert row["connection_counts"]["messages"] > sum(len(frames(count)) for count in range(ROUNDS)), row
    assert "link_detail" not in row, row


def test_nothing_is_written_to_a_log(run: Run, tmp_path: Path, adapter: Adapter) -> None:
    plant = replay(run, tmp_path, adapter, "--speed", "0")
    plant.wait("d/State", value=1)
    for answer in (plant.write("d/State", "off"), plant.write("d/State", "off", dry_run=True)):
        assert (answer["outcome"], answer["rule"]) == ("rejected", "mode"), answer
    plant.wait("d/State", value=1, quality="good")
    assert not adapter.heard and not adapter.frames
