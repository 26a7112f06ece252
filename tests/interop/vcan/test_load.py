"""SocketCAN: more frames than can be read, or sent; and frames that are sent again and again."""

from __future__ import annotations

import signal
from functools import reduce
from itertools import pairwise

import pytest

import kernel
from cansite import message, tag, writable
from conftest import Candumps, Serve
from kernel import send
from mqtt import Plant
from waiting import until

FLOOD = 60_000
"""More frames than the buffer of the program holds, which is some 20,000."""


def test_a_burst_that_overruns_is_told(serve: Serve) -> None:
    plant = serve([tag("count", "181", 0, "uint32"), tag("other", "182", 0, "uint8")])
    plant.wait_online("d")
    send("182#07")
    plant.wait("d/other", value=7, quality="good")
    plant.bridge.signal(signal.SIGSTOP)
    kernel.run("cangen", "vcan0", "-g", "0", "-I", "181", "-L", "8", "-D", "i", "-n", str(FLOOD))
    plant.bridge.signal(signal.SIGCONT)

    def told() -> dict[str, int] | None:
        counts = plant.device("d")["connection_counts"]
        return counts if counts["messages"] + counts["lost"] >= 1 + FLOOD else None

    counts = until("all frames were read or are known to be lost", told)
    assert counts["messages"] + counts["lost"] == 1 + FLOOD, "each is one or the other"
    assert counts["lost"] > 0 and counts["messages"] > 10_000, counts
    device = plant.wait_link("d", f"{counts['lost']} frames were lost")
    assert device["link"] == "connected", device
    # What is lost is the end of the burst.
    for name in ("count", "other"):
        row = plant.wait(f"d/{name}", quality="uncertain", reason="stale")
        assert row["detail"] == "frames were lost: it may have been among them", row
    assert plant.tag("d/count")["value"] < FLOOD - counts["lost"]
    assert plant.tag("d/other")["value"] == 7
    send("181#15CD5B07")
    plant.wait("d/count", value=123456789, quality="good")
    plant.wait("d/other", value=7, quality="uncertain")
    assert plant.device("d")["connection_counts"]["lost"] == counts["lost"]


TAGS = [writable("speed", "201", 8, "int16"), writable("mode", "201", 0, "uint8", 4)]


def sender(serve: Serve, **more: object) -> Plant:
    tags = [{**row, "write": {"timeout_ms": 1000}} for row in TAGS]
    plant = serve(tags, [message("201", 4, **more)], send_ids=["201"])  # type: ignore[arg-type]
    plant.wait_online("d")
    return plant


SLOW = ("8bit", 16, 32)
"""A frame in 16 seconds, and two that wait."""
FAST = ("1mbit", 1600, 1600)
"""The queue notices with the next frame."""


def fill() -> list[str]:
    """Closes the queue, fills it, and tells what leaves in the end."""
    kernel.tbf("add", *SLOW)
    frames: list[str] = []
    while kernel.fits(f"123#{len(frames):02X}"):
        frames.append(f"123#{len(frames):02X}")
        assert len(frames) < 10, "there is room without end"
    return frames


def test_a_write_waits_for_room_and_is_not_sent_at_its_deadline(serve: Serve, candump: Candumps) -> None:
    plant = sender(serve)
    watch = candump()
    frames = fill()
    answer = plant.write("d/mode", "1")
    assert answer["outcome"] == "not_sent", answer
    assert "no room" in answer["message"], answer
    kernel.tbf("change", *FAST)
    send("7FF#")
    assert watch.until("7FF#") == frames, "what was answered as not sent never leaves"
    assert plant.write("d/mode", "2")["outcome"] == "written"
    assert watch.wait(len(frames) + 2)[-1] == "201#02000000"


def test_a_write_waits_for_room_and_leaves_when_there_is_some(serve: Serve, candump: Candumps) -> None:
    plant = sender(serve)
    watch = candump()
    frames = fill()
    numbers = [plant.start_write("d/mode", "1"), plant.start_write("d/speed", "2")]
    plant.bridge.log.wait("both are on their way", lambda text: text.count("write intended") == 2)
    kernel.tbf("change", *FAST)
    answers = [plant.finish(number) for number in numbers]
    assert [(row["outcome"], row.get("acknowledged_by")) for row in answers] == [("written", "bus")] * 2, answers
    assert watch.wait(len(frames) + 2) == [*frames, "201#01000000", "201#01020000"]
    assert plant.device("d")["link"] == "connected"


def test_a_frame_that_does_not_leave_the_queue_is_unknown(serve: Serve, candump: Candumps) -> None:
    plant = sender(serve)
    watch = candump()
    kernel.tbf("add", *SLOW)
    send("123#00")
    answer = plant.write("d/mode", "1")
    assert answer["outcome"] == "unknown", answer
    assert "may still leave" in answer["message"], answer
    assert watch.texts() == ["123#00"]
    assert plant.tag("d/mode")["reason"] == "never_read"
    kernel.tbf("change", *FAST)
    send("7FF#")
    assert watch.until("7FF#") == ["123#00", "201#01000000"]
    plant.wait("d/mode", value=1, quality="good")
    assert plant.write("d/speed", "2")["outcome"] == "written"
    assert watch.wait(4)[-1] == "201#01020000"


def crc(data: bytes) -> int:
    """CRC-8 of SAE J1850."""
    value = 0xFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value << 1) ^ 0x1D if value & 0x80 else value << 1
        value &= 0xFF
    return value ^ 0xFF


CHECKSUMS = {
    "sum": lambda data: sum(data) & 0xFF,
    "xor": lambda data: reduce(int.__xor__, data),
    "crc-8-sae-j1850": crc,
}
PERIOD, LIMIT = 0.05, 0.5


@pytest.mark.parametrize("method", CHECKSUMS)
def test_a_message_is_sent_again_and_again_until_its_time_is_over(
    serve: Serve, candump: Candumps, method: str
) -> None:
    assert crc(b"123456789") == 0x4B
    plant = sender(
        serve,
        send={"period_ms": 50, "limit_ms": 500},
        counter={"bits": {"start": 4, "length": 4}},
        checksum={"byte": 3, "method": method},
    )
    watch = candump()
    number = plant.start_write("d/mode", "5")
    assert plant.finish(number)["outcome"] == "written"
    plant.bridge.log.wait("its time is over", "no longer sent again and again: its time is over")
    plant.bridge.log.wait("it began", "sent again and again from now on")
    send("7FF#")
    count = len(watch.until("7FF#"))
    frames = watch.frames()[:count]
    for place, frame in enumerate(frames):
        head = bytes([5 | (place % 16) << 4, 0, 0])
        assert frame.text == f"201#{head.hex().upper()}{CHECKSUMS[method](head):02X}", place
    times = [frame.time - frames[0].time for frame in frames]
    # What a slow machine misses is not caught up.
    assert LIMIT / PERIOD * 0.7 <= count <= LIMIT / PERIOD, times
    assert times[-1] < LIMIT + PERIOD, times
    assert sorted(later - earlier for earlier, later in pairwise(times))[count // 2] == pytest.approx(PERIOD, abs=0.01)
    assert plant.write("d/speed", "1")["outcome"] == "written"
    head = bytes([5 | (count % 16) << 4, 1, 0])
    assert watch.wait(count + 2)[count + 1] == f"201#{head.hex().upper()}{CHECKSUMS[method](head):02X}", "it goes on"


def test_a_message_without_a_limit_ends_with_the_program(serve: Serve, candump: Candumps) -> None:
    plant = sender(serve, send={"period_ms": 20})
    watch = candump()
    assert plant.write("d/mode", "5")["outcome"] == "written"
    watch.wait(30)
    assert plant.write("d/speed", "1")["outcome"] == "written"
    until("the new value is sent again and again", lambda: watch.texts().count("201#05010000") >= 10)
    plant.bridge.stop()
    send("7FF#")
    seen = watch.until("7FF#")
    first = seen.index("201#05010000")
    assert set(seen[:first]) == {"201#05000000"} and set(seen[first:]) == {"201#05010000"}, seen


def test_what_was_sent_again_and_again_does_not_begin_again_with_the_interface(
    serve: Serve, candump: Candumps
) -> None:
    plant = sender(serve, send={"period_ms": 20})
    watch = candump()
    assert plant.write("d/mode", "5")["outcome"] == "written"
    watch.wait(5)
    kernel.down()
    plant.wait_link("d", "the interface is down")
    kernel.up()
    plant.wait_online("d")
    # Were it sent, some would come between these.
    watch = candump()
    send("7FE#")
    kernel.run("cangen", "vcan0", "-g", "50", "-I", "7FD", "-L", "0", "-n", "10")
    send("7FF#")
    assert {text.split("#")[0] for text in watch.until("7FF#")} == {"7FE", "7FD"}
