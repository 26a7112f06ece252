"""Random DBC files with all that signals can be, and random payloads for them."""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from random import Random
from typing import Literal

import cantools
from cantools.database.can import Message as Oracle

from slcan import Frame

Number = Literal["unsigned", "signed", "float"]
Ranges = list[tuple[int, int]]
ONE, ZERO = Decimal(1), Decimal(0)
FACTORS = ["0.1", "0.01", "0.5", "-0.25", "2", "10", "-1", "0.001", "0.0078125", "3.3", "-0.7", "1E-05"]
OFFSETS = ["-40", "100", "0.5", "-273.15", "-32", "1000000", "-0.001"]


@dataclass
class Signal:
    name: str
    start: int
    length: int
    is_motorola: bool
    number: Number = "unsigned"
    factor: Decimal = ONE
    offset: Decimal = ZERO
    span: tuple[Decimal, Decimal] | None = None
    words: dict[int, str] = field(default_factory=dict)
    initial: int = 0
    selects: bool = False
    by: Signal | None = None
    """The multiplexer that selects it, and by which of its raw numbers."""
    ranges: Ranges = field(default_factory=list)

    @property
    def bits(self) -> list[int]:
        """Places of its bits in the payload, the most significant one first."""
        places, at = [], self.start
        for _ in range(self.length):
            places.append(at)
            at = at + 1 if not self.is_motorola else at + 15 if at % 8 == 0 else at - 1
        return places if self.is_motorola else places[::-1]

    @property
    def is_scaled(self) -> bool:
        return self.factor != 1 or self.offset != 0

    def limits(self) -> tuple[int, int]:
        """Lowest and highest raw number of a whole number."""
        if self.number == "signed":
            return -(1 << self.length - 1), (1 << self.length - 1) - 1
        return 0, (1 << self.length) - 1

    def value(self, raw: int | float) -> Decimal:
        return Decimal(raw) * self.factor + self.offset

    def put(self, payload: bytearray, raw: int | float) -> None:
        if isinstance(raw, float):
            raw = int.from_bytes(struct.pack(">f" if self.length == 32 else ">d", raw), "big")
        for count, bit in enumerate(reversed(self.bits)):
            byte, mask = bit // 8, 1 << bit % 8
            payload[byte] = payload[byte] | mask if raw >> count & 1 else payload[byte] & ~mask

    def line(self) -> str:
        mark = (f"m{self.ranges[0][0]}" if self.by else "") + ("M" if self.selects else "")
        low, high = self.span or (0, 0)
        return (
            f" SG_ {self.name} {mark} : {self.start}|{self.length}@{int(not self.is_motorola)}"
            f"{'+' if self.number == 'unsigned' else '-'} ({self.factor},{self.offset}) [{low}|{high}] \"u\" Vector__XXX\n"
        )


@dataclass
class Message:
    name: str
    id: int
    is_extended: bool
    length: int
    is_fd: bool
    signals: list[Signal] = field(default_factory=list)

    @property
    def number(self) -> int:
        """The identifier as DBC files write it."""
        return self.id | 0x8000_0000 if self.is_extended else self.id

    def head(self) -> str:
        return f"BO_ {self.number} {self.name}: {self.length} Vector__XXX\n"

    def has_ranges(self) -> bool:
        """Whether marks alone cannot say what selects what."""
        selected = [signal.ranges for signal in self.signals if signal.by]
        is_single = all(len(ranges) == 1 and ranges[0][0] == ranges[0][1] for ranges in selected)
        return sum(signal.selects for signal in self.signals) > 1 or not is_single

    def is_there(self, signal: Signal, raws: Mapping[str, int | float]) -> bool:
        """Whether a frame with these raw numbers has the signal."""
        if signal.by is None:
            return True
        return self.is_there(signal.by, raws) and any(
            low <= raws[signal.by.name] <= high for low, high in signal.ranges
        )

    def selectors(self, names: Collection[str]) -> set[str]:
        """All that must have some number for these signals to be there."""
        found: set[str] = set()
        for signal in self.signals:
            by = signal.by if signal.name in names else None
            while by:
                found.add(by.name)
                by = by.by
        return found

    def frame(self, data: bytes) -> Frame:
        return Frame(self.id, data, self.is_extended, self.is_fd)


@dataclass
class Dbc:
    messages: list[Message]

    def text(self) -> str:
        parts = ['VERSION ""\n\nNS_ :\n\nBS_:\n\nBU_: Vector__XXX\n\n']
        parts += [message.head() + "".join(signal.line() for signal in message.signals) for message in self.messages]
        parts.append(
            'BA_DEF_ BO_ "VFrameFormat" ENUM "StandardCAN","ExtendedCAN","reserved","J1939PG",'
            + ",".join(['"reserved"'] * 10)
            + ',"StandardCAN_FD","ExtendedCAN_FD";\nBA_DEF_DEF_ "VFrameFormat" "StandardCAN";\n'
        )
        for message in self.messages:
            parts.append(f'BA_ "VFrameFormat" BO_ {message.number} {message.is_extended + 14 * message.is_fd};\n')
        parts.append('BA_DEF_ SG_ "GenSigStartValue" FLOAT -1E+18 1E+18;\nBA_DEF_DEF_ "GenSigStartValue" 0;\n')
        every = [(message, signal) for message in self.messages for signal in message.signals]
        for message, signal in every:
            if signal.initial:
                start = f'BA_ "GenSigStartValue" SG_ {message.number} {signal.name} {signal.initial};\n'
                parts.append(start)
        for message, signal in every:
            if signal.words:
                words = " ".join(f'{raw} "{word}"' for raw, word in signal.words.items())
                parts.append(f"VAL_ {message.number} {signal.name} {words} ;\n")
        for message, signal in every:
            if signal.number == "float":
                parts.append(f"SIG_VALTYPE_ {message.number} {signal.name} : {signal.length // 32};\n")
        for message, signal in every:
            if signal.by and message.has_ranges():
                ranges = ", ".join(f"{low}-{high}" for low, high in signal.ranges)
                parts.append(f"SG_MUL_VAL_ {message.number} {signal.name} {signal.by.name} {ranges};\n")
        return "\n".join(parts)

    def oracles(self) -> dict[str, Oracle]:
        """The messages as cantools reads them."""
        database = cantools.database.load_string(self.text(), "dbc", strict=True)
        return {message.name: message for message in database.messages}  # type: ignore[union-attr]

    def apart(self) -> Dbc:
        """The same with a message for each signal, `Message_Signal`, that has nothing but that, always."""
        every = [(message, signal) for message in self.messages for signal in message.signals]
        single = (replace(signal, by=None, ranges=[], selects=False) for _, signal in every)
        return Dbc(
            [
                Message(f"{message.name}_{signal.name}", number, True, message.length, message.is_fd, [signal])
                for number, ((message, _), signal) in enumerate(zip(every, single))
            ]
        )


def dbc(random: Random) -> Dbc:
    """A file of 24 messages."""
    layouts = ["plain"] * 10 + ["big"] * 4 + ["pages"] * 5 + ["nested"] * 5
    standard = random.sample(range(0x7FF), len(layouts))
    # Below the marker.
    extended = random.sample(range(0x1F00_0000), len(layouts))
    messages = []
    for count, layout in enumerate(layouts):
        is_extended, is_fd = random.random() < 0.4, layout == "big" or random.random() < 0.25
        length = random.choice([12, 24, 64, 64]) if layout == "big" else 8
        if layout == "nested" and random.random() < 0.4:
            is_fd, length = True, 64
        ids = extended if is_extended else standard
        message = Message(f"M{count}_{layout}", ids[count], is_extended, length, is_fd)
        _Filler(random, message).fill(layout)
        messages.append(message)
    return Dbc(messages)


class _Filler:
    """Gives a message its signals."""

    def __init__(self, random: Random, message: Message) -> None:
        self.random = random
        self.message = message
        self.count = 0

    def fill(self, layout: str) -> None:
        free = set(range(8 * self.message.length))
        if layout in ("plain", "big"):
            self.signals(self.random.randint(3, 7) if layout == "plain" else self.random.randint(8, 20), free)
            return
        roots = 2 if layout == "nested" and self.message.length > 8 and self.random.random() < 0.5 else 1
        selectors = [selector for _ in range(roots) if (selector := self.selector(free))]
        self.signals(self.random.randint(0, 2), free, longest=12)
        share = sorted(free)
        for count, selector in enumerate(selectors):
            # Two multiplexers side by side have a half each of what is left.
            half = set(share[count * len(share) // roots : (count + 1) * len(share) // roots])
            self.pages(selector, half, layout == "nested", depth=1)

    def pages(self, selector: Signal, free: set[int], is_nested: bool, depth: int) -> None:
        pages = self.ranges(selector, is_nested)
        if is_nested and len(pages) > 2:
            # What is on two pages.
            self.signals(1, free, selector, sorted(pages[0] + pages[1]), longest=8)
        for place, page in enumerate(pages):
            rest = set(free)
            is_deep = is_nested and depth < 3 and place == len(pages) - 1
            inner = self.selector(rest, selector, page) if is_deep else None
            self.signals(self.random.randint(1, 3), rest, selector, page, longest=16 if is_deep else 64)
            if inner:
                self.pages(inner, rest, is_nested, depth + 1)

    def ranges(self, selector: Signal, is_nested: bool) -> list[Ranges]:
        """Raw numbers of each page, none on two."""
        most = (1 << selector.length) - 1
        count = min(self.random.randint(2, 4), most + 1)
        if not is_nested:
            return [[(number, number)] for number in sorted(self.random.sample(range(most + 1), count))]
        ends = sorted(self.random.sample(range(most + 1), min(2 * count, (most + 1) // 2 * 2)))
        spans = list(zip(ends[::2], ends[1::2]))
        pages = [[span] for span in spans]
        if len(pages) > 3:
            # A page of two ranges.
            pages[1] += pages.pop(2)
        return pages

    def selector(self, free: set[int], by: Signal | None = None, ranges: Ranges | None = None) -> Signal | None:
        signal = self.place(free, self.random.randint(2, 6))
        if signal is None:
            return None
        signal.selects, signal.by, signal.ranges = True, by, ranges or []
        self.message.signals.append(signal)
        return signal

    def signals(
        self, count: int, free: set[int], by: Signal | None = None, ranges: Ranges | None = None, longest: int = 64
    ) -> None:
        for _ in range(count):
            most = self.random.choice([1, 8, 8, 16, 16, 32, 48, 64])
            length = min(longest, self.random.randint((most + 1) // 2, most))
            number: Number = self.random.choice(["unsigned", "unsigned", "signed"])
            if longest == 64 and self.random.random() < 0.2:
                number, length = "float", self.random.choice([32, 64])
            if signal := self.place(free, length):
                signal.number, signal.by, signal.ranges = number, by, ranges or []
                self.dress(signal)
                self.message.signals.append(signal)

    def place(self, free: set[int], length: int) -> Signal | None:
        """A signal where there is room for it, which it takes."""
        self.count += 1
        name, is_motorola = f"S{self.count}", self.random.random() < 0.5
        for start in self.random.sample(range(8 * self.message.length), 8 * self.message.length):
            signal = Signal(name, start, length, is_motorola)
            if free.issuperset(signal.bits):
                free.difference_update(signal.bits)
                return signal
        return None

    def dress(self, signal: Signal) -> None:
        """Factor, offset, words and range."""
        random = self.random
        if random.random() < 0.6:
            signal.factor = Decimal(random.choice(FACTORS))
        if random.random() < 0.4:
            signal.offset = Decimal(random.choice(OFFSETS))
        if signal.number == "float":
            if random.random() < 0.3:
                signal.span = Decimal(-1_000_000), Decimal(1_000_000)
            return
        low, high = signal.limits()
        if not signal.by and random.random() < 0.3:
            signal.initial = random.randint(max(low, -(1 << 50)), min(high, 1 << 50))
        if random.random() < 0.35:
            near = {low, high, 0, 1, 2, 3, random.randint(low, high)}
            # A word has 63 bits of a number at most.
            raws = [raw for raw in near if low <= raw <= min(high, (1 << 63) - 1)]
            signal.words = {raw: f"word {count}" for count, raw in enumerate(raws)}
        if random.random() < 0.35:
            ends = signal.value(low + (high - low) // 8), signal.value(high - (high - low) // 8)
            # A range of one value is none in DBC files.
            signal.span = (min(ends), max(ends)) if ends[0] != ends[1] else None


def payload(random: Random, message: Message) -> bytes:
    """Random bits; most multiplexers have a number that means something, and most floats are of usual sizes."""
    kind = random.random()
    data = bytearray(random.randbytes(message.length))
    if kind < 0.08:
        data = bytearray(message.length) if kind < 0.04 else bytearray(b"\xff" * message.length)
    for signal in message.signals:
        if signal.number == "float" and random.random() < 0.7:
            signal.put(data, nice(random))
    for signal in message.signals:
        if signal.selects and random.random() < 0.85:
            signal.put(data, pick(random, message, signal))
    return bytes(data)


def pick(random: Random, message: Message, selector: Signal) -> int:
    """A number of a multiplexer that selects something."""
    pages = [ranges for other in message.signals if other.by is selector for ranges in other.ranges]
    return random.randint(*random.choice(pages)) if pages else 0


def nice(random: Random) -> float:
    """A float that 32 bits hold exactly."""
    return random.randint(-(1 << 20), 1 << 20) / (1 << random.randint(0, 10))


def pages(message: Message) -> Iterator[dict[str, int]]:
    """The raw numbers of all multiplexers, for each way in which they can select something."""

    def next_(chosen: dict[str, int], rest: list[Signal]) -> Iterator[dict[str, int]]:
        if not rest:
            yield chosen
            return
        first, *others = rest
        if not message.is_there(first, chosen):
            yield from next_(chosen, others)
            return
        starts = sorted({other.ranges[0][0] for other in message.signals if other.by is first}) or [0]
        for start in starts:
            yield from next_({**chosen, first.name: start}, others)

    yield from next_({}, [signal for signal in message.signals if signal.selects])
