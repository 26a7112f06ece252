"""What the bridge makes of DBC files and frames, beside what cantools makes of them."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from decimal import Decimal
from math import isfinite
from pathlib import Path
from random import Random
from typing import Any

import pytest
from cantools.database import DecodeError
from cantools.database.can import Message as Oracle

import randomdbc
from canplant import Bus, write_site
from conftest import Listen, Run
from mqtt import Row
from plant import lines
from randomdbc import Dbc, Message, Signal
from slcan import Adapter, Frame

Raws = dict[str, int | float]

SEEDS = range(8)
BATCHES = 9


def path(message: Message, signal: Signal) -> str:
    return f"d/{message.name}/{signal.name}"


# From frames to values.


@dataclass
class Heard:
    """What the frames of one file said so far, in the words of cantools."""

    dbc: Dbc
    files: dict[str, Oracle] = field(init=False)
    apart: dict[str, Oracle] = field(init=False)
    """Each signal in a message of its own, for frames of which cantools says nothing: their multiplexer selects nothing."""
    told: dict[str, tuple[Signal, Any, Any, Any]] = field(default_factory=dict)
    """Raw number, value and word of each signal, by its path."""

    def __post_init__(self) -> None:
        self.files, self.apart = self.dbc.oracles(), self.dbc.apart().oracles()

    def take(self, message: Message, data: bytes) -> set[str]:
        """Notes what a frame says, and of which signals it does."""
        raws, values, words = {}, {}, {}
        for signal in message.signals:
            oracle = self.apart[f"{message.name}_{signal.name}"]
            raws |= oracle.decode(data, decode_choices=False, scaling=False)  # type: ignore[arg-type]
            values |= oracle.decode(data, decode_choices=False)  # type: ignore[arg-type]
            words |= oracle.decode(data)  # type: ignore[arg-type]
        there = [signal for signal in message.signals if message.is_there(signal, raws)]
        try:
            whole = self.files[message.name].decode(data, decode_choices=False)
        except DecodeError:
            pass  # A multiplexer selects nothing.
        else:
            wanted = {signal.name: values[signal.name] for signal in there}
            assert repr(sorted(whole.items())) == repr(sorted(wanted.items())), "cantools agrees with itself"
        for signal in there:
            name = signal.name
            self.told[path(message, signal)] = signal, raws[name], values[name], words[name]
        return {path(message, signal) for signal in there}


def is_same(signal: Signal, raw: int | float, wanted: int | float, got: Any) -> bool:
    if isinstance(got, str):
        assert signal.length > 48, "only numbers of 64 bits come as texts"
        got = Decimal(got)
    if signal.number == "float":
        if signal.length == 32 and not signal.is_scaled:
            return struct.pack("<f", got) == struct.pack("<f", wanted)
        # The decimal that a float of 32 bits shows is scaled, not what its bits are to the last digit.
        part, least = (1.2e-7, 1.5e-45) if signal.length == 32 else (1e-9, 1e-323)
        most = max(abs(raw * float(signal.factor)), abs(float(signal.offset)))
        return abs(float(got) - wanted) <= part * most + least * max(1, abs(float(signal.factor)))
    exact = signal.value(raw)
    if isinstance(wanted, int):
        return wanted == exact == got
    # cantools computes in doubles, which is exact to a part of what it adds up.
    most = max(abs(raw * float(signal.factor)), abs(float(signal.offset)))
    return abs(float(got) - wanted) <= 1e-9 * most and float(got) == float(exact)


def check(heard: Heard, place: str, row: Row) -> None:
    """Whether the bridge says of a tag what cantools does."""
    if place not in heard.told:
        assert (row["value"], row["quality"], row["reason"]) == (None, "bad", "never_read"), row
        return
    signal, raw, value, word = heard.told[place]
    label = str(word) if signal.words and not isinstance(word, (int, float)) else None
    assert label == signal.words.get(raw), (row, raw)  # type: ignore[arg-type]
    if not isfinite(value):
        assert (row["value"], row["quality"], row["reason"]) == (None, "bad", "decode_error"), row
        return
    assert row["value"] is not None and is_same(signal, raw, value, row["value"]), (row, raw, value)
    if signal.span and not float(signal.span[0]) <= float(signal.value(raw)) <= float(signal.span[1]):
        assert (row["quality"], row["reason"], row.get("label", label)) == ("bad", "out_of_range", label), (row, raw)
        assert row["detail"] == label if label else "outside" in row["detail"], row
    else:
        assert (row["quality"], row.get("label")) == ("good", label), (row, raw)


@pytest.mark.parametrize("seed", SEEDS)
def test_frames_mean_what_cantools_says(listen: Listen, seed: int) -> None:
    random = Random(seed)
    dbc = randomdbc.dbc(random)
    heard = Heard(dbc)
    bus = listen(dbc.text())
    print(f"seed {seed}\n{dbc.text()}")
    before: dict[str, Row] = {}
    count = 0
    for _ in range(BATCHES):
        frames, there = [], set()
        for message in random.sample(dbc.messages * 2, 2 * len(dbc.messages)):
            data = randomdbc.payload(random, message)
            there |= heard.take(message, data)
            frames.append(message.frame(data))
        bus.hear(*frames)
        count += len(frames)
        print("\n".join(map(str, frames)))
        rows = bus.rows("d/*")
        assert set(rows) == {path(message, signal) for message in dbc.messages for signal in message.signals}
        for place, row in rows.items():
            check(heard, place, row)
            if place not in there and place in before:
                age = row.pop("age_ms", 0)
                assert age >= before[place].pop("age_ms", 0) and row == before[place], (row, before[place])
        before = rows
    assert count >= 400, "all tests together send thousands"
    counts = bus.device("d")["connection_counts"]
    # With the marker behind each batch.
    assert (counts["messages"], counts["garbled"], counts["dropped"]) == (count + BATCHES, 0, 0), counts


# From values to frames.


def writable(dbc: Dbc) -> str:
    """What a profile says where every message is sent, and every signal written."""
    text = ""
    for message in dbc.messages:
        # What one page said is nothing on another.
        send = {"others": "initial"} if any(signal.by for signal in message.signals) else {}
        text += "[[messages]]\n" + lines({"message": message.name, "send": send})
        for signal in message.signals:
            keys = {"name": f"{message.name}/{signal.name}", "signal": f"{message.name}.{signal.name}"}
            text += "[[tags]]\n" + lines({**keys, "access": "read-write"})
    return text


def raw_for(random: Random, signal: Signal) -> int | float:
    """A raw number that may be written."""
    if signal.number == "float":
        raw = randomdbc.nice(random) / (1 if signal.length == 32 or signal.is_scaled else 3)
        return raw if not signal.span or signal.span[0] <= signal.value(raw) <= signal.span[1] else 0.0
    low, high = signal.limits()
    if signal.span:
        # Ends are doubles, which do not have all digits of the long ones.
        away = 8 if signal.length <= 48 else 4
        low, high = low + (high - low) // away, high - (high - low) // away
    named = [raw for raw in signal.words if low <= raw <= high]
    return random.choice(named) if named and random.random() < 0.5 else random.choice([low, high, random.randint(low, high)])


def text_for(random: Random, signal: Signal, raw: int | float) -> str:
    """As somebody would write it."""
    if raw in signal.words and random.random() < 0.7:
        return signal.words[raw]  # type: ignore[index]
    if isinstance(raw, float) and not signal.is_scaled:
        return repr(raw)
    return f"{signal.value(raw):{random.choice('fe')}}"


def check_sent(heard: Heard, message: Message, raws: Raws, texts: dict[str, str], frame: Frame) -> None:
    """Whether a frame is the one that cantools makes."""
    oracle = heard.files[message.name]
    data = oracle.encode(raws, scaling=False, strict=False)  # type: ignore[arg-type]
    signals = [signal for signal in message.signals if signal.name in raws]
    # It computes in doubles, which have too few digits for the others.
    if all(signal.length <= 48 if signal.number != "float" else not signal.is_scaled for signal in signals):
        values: dict[str, Any] = {signal.name: float(signal.value(raws[signal.name])) for signal in signals}
        values |= {name: text for name, text in texts.items() if text.startswith("word")}
        assert oracle.encode(values, strict=False) == data, "cantools agrees with itself"
    got = bytearray(frame.data)
    for signal in (signal for signal in signals if signal.number == "float" and signal.is_scaled):
        # The bridge takes them for doubles on their way, which differ in the last digits.
        raw = raws[signal.name]
        held = heard.apart[f"{message.name}_{signal.name}"].decode(frame.data, scaling=False)[signal.name]  # type: ignore[index]
        most = max(abs(signal.value(raw)), abs(signal.offset))
        assert abs((held - raw) * float(signal.factor)) <= 1e-15 * float(most), (signal, raw, held)  # type: ignore[operator]
        signal.put(got, raw)
    kind = oracle.frame_id, oracle.is_extended_frame, oracle.is_fd
    assert (frame.id, frame.extended, frame.fd, frame.brs) == (*kind, False), (message, frame)
    assert bytes(got) == data, (message, raws, texts)


def write(random: Random, bus: Bus, message: Message, raws: Raws) -> tuple[Frame, dict[str, str]]:
    """Writes these raw numbers in one call; the frame that was sent, and the texts that were written."""
    texts = {s.name: text_for(random, s, raws[s.name]) for s in message.signals if s.name in raws}
    writes = list(texts.items())
    random.shuffle(writes)
    answers = bus.write_all({f"d/{message.name}/{name}": text for name, text in writes})
    assert [answer["outcome"] for answer in answers] == ["sent"] * len(writes), (texts, answers)
    bus.sent += 1
    (frame,) = bus.adapter.sent(bus.sent)[bus.sent - 1 :]
    return frame, texts


@pytest.mark.parametrize("seed", SEEDS)
def test_writes_make_the_frames_that_cantools_makes(listen: Listen, seed: int) -> None:
    random = Random(seed)
    dbc = randomdbc.dbc(random)
    heard = Heard(dbc)
    bus = listen(dbc.text(), writable(dbc), send_ids=["000-7FF", "00000000-1FFFFFFF"])
    print(f"seed {seed}\n{dbc.text()}")
    bus.adapter.wait_ready()
    bus.wait_online("d")
    for message in dbc.messages:
        if any(signal.by for signal in message.signals):
            pages = list(randomdbc.pages(message))
            for page in random.sample(pages, min(6, len(pages))):
                whole = {s.name: raw_for(random, s) for s in message.signals if message.is_there(s, page)} | page
                frame, texts = write(random, bus, message, whole)
                check_sent(heard, message, whole, texts, frame)
                rest = {name: raw for name, raw in whole.items() if name not in page}
                if set(page) <= message.selectors(rest):
                    # The multiplexers are left to the bridge.
                    frame, texts = write(random, bus, message, rest)
                    check_sent(heard, message, whole, texts, frame)
        else:
            whole = {signal.name: signal.raw_initial or 0 for signal in heard.files[message.name].signals}
            for part in (0.5, 1, 0.3):
                some = random.sample(message.signals, max(1, int(part * len(message.signals))))
                raws = {signal.name: raw_for(random, signal) for signal in some}
                whole |= raws
                frame, texts = write(random, bus, message, raws)
                check_sent(heard, message, whole, texts, frame)
        # What was sent last is what the tags hold.
        there = heard.take(message, frame.data)
        bus.hear()
        for place, row in bus.rows(f"d/{message.name}/*").items():
            if place in there:
                check(heard, place, row)
    assert len(bus.adapter.frames) == bus.sent, "nothing else was sent"


def few(message: str, **signals: str) -> str:
    """A file of one message of 8 bytes with the number 256; a signal is what stands behind its name."""
    rows = "".join(f" SG_ {name} {text} X\n" for name, text in signals.items())
    return f'VERSION ""\n\nNS_ :\n\nBS_:\n\nBU_: X\n\nBO_ 256 {message}: 8 X\n{rows}\n'


def sent(**tags: dict[str, Any]) -> str:
    """What a profile says of the message `M` and these signals of it, which are written."""
    text = "[[messages]]\n" + lines({"message": "M", "send": {"others": "initial"}})
    for name, keys in tags.items():
        text += "[[tags]]\n" + lines({"name": name, "signal": f"M.{name}", "access": "read-write", **keys})
    return text


def outcomes(bus: Bus, **writes: str) -> list[str]:
    bus.adapter.wait_ready()
    bus.wait_online("d")
    return [answer["outcome"] for answer in bus.write_all({f"d/{name}": text for name, text in writes.items()})]


def test_a_write_is_sent_however_late_tcp_acknowledges(run: Run, tmp_path: Path) -> None:
    adapter = Adapter(answers=False)
    try:
        dbc = few("M", A=': 0|8@1+ (1,0) [0|0] ""')
        profile = sent(A={"write": {"timeout_ms": 1000}})
        path = write_site(tmp_path, dbc, adapter.address, profile, send_ids=["100"])
        bus = Bus(run("serve", "--config", str(path), "--log-format", "json", pipe=True), adapter)
        for count in range(30):
            assert outcomes(bus, A=str(count)) == ["sent"], count
        assert [frame.data[0] for frame in adapter.sent(30)] == list(range(30))
        assert adapter.clients == 1, "it stays connected"
    finally:
        adapter.close()


MULTIPLEXED = few(
    "M",
    S='M : 0|8@1+ (1,0) [0|0] ""',
    A='m1 : 8|8@1+ (1,0) [0|0] ""',
    B='m2 : 16|8@1+ (1,0) [0|0] ""',
    C='m3 : 24|8@1+ (1,0) [0|0] ""',
)
RANGES = "SG_MUL_VAL_ 256 A S 1-1, 5-5;\nSG_MUL_VAL_ 256 B S 2-3, 5-5;\nSG_MUL_VAL_ 256 C S 3-4;\n"


def test_a_multiplexer_that_is_not_written_is_what_suits_all(listen: Listen) -> None:
    bus = listen(MULTIPLEXED + RANGES, sent(A={}, B={}, C={}), send_ids=["100"])
    assert outcomes(bus, B="7", C="8") == ["sent", "sent"]
    assert bus.adapter.sent(1)[0] == Frame(0x100, bytes([3, 0, 7, 8, 0, 0, 0, 0]))
    assert sorted(outcomes(bus, A="7", C="8")) == ["not_sent", "rejected"], "no number suits both"
    assert outcomes(bus, A="7", B="8") == ["sent", "sent"]
    assert bus.adapter.sent(2)[1] == Frame(0x100, bytes([5, 7, 8, 0, 0, 0, 0, 0]))


def test_ends_of_ranges_have_the_digits_of_a_double(listen: Listen) -> None:
    low, high = (1 << 52) + 1, (1 << 53) - 1
    bus = listen(few("M", A=f': 0|64@1+ (1,0) [{low}|{high}] ""'), sent(A={}), send_ids=["100"])
    for value, is_in in ((low - 1, False), (low, True), (high, True), (high + 1, False)):
        bus.hear(Frame(0x100, value.to_bytes(8, "little")))
        row = bus.tag("d/A")
        assert (row["value"], row["quality"]) == (str(value), "good" if is_in else "bad"), row
        assert outcomes(bus, A=str(value)) == ["sent" if is_in else "rejected"], value


def test_words_of_floats_are_those_of_their_numbers(listen: Listen) -> None:
    dbc = few("M", A=': 0|32@1- (1,0) [0|0] ""') + 'VAL_ 256 A 0 "zero" 1 "one" ;\nSIG_VALTYPE_ 256 A : 1;\n'
    bus = listen(dbc, sent(A={}), send_ids=["100"])
    for value, word in ((0.0, "zero"), (1.0, "one"), (2.0, None)):
        bus.hear(Frame(0x100, struct.pack("<fi", value, 0)))
        row = bus.tag("d/A")
        assert (row["value"], row.get("label")) == (value, word), row
    assert outcomes(bus, A="one") == ["sent"]
    assert bus.adapter.sent(1)[0].data[:4] == struct.pack("<f", 1)
