"""Frames as slcan writes them, and an adapter that takes and gives them."""

from __future__ import annotations

from dataclasses import dataclass

from can_peers import LENGTHS, SlcanPeer, TcpPort


@dataclass(frozen=True)
class Frame:
    id: int
    data: bytes
    extended: bool = False
    fd: bool = False
    brs: bool = False

    def line(self) -> str:
        """As the adapter and its client write it, without the end."""
        kind = ("b" if self.brs else "d") if self.fd else "t"
        head = f"{kind.upper()}{self.id:08X}" if self.extended else f"{kind}{self.id:03X}"
        return f"{head}{LENGTHS.index(len(self.data)):X}{self.data.hex().upper()}"

    @classmethod
    def of(cls, line: str) -> Frame:
        kind, extended = line[0].lower(), line[0].isupper()
        assert kind in "tdb", line
        digits = 8 if extended else 3
        number, code, data = line[1 : 1 + digits], line[1 + digits], bytes.fromhex(line[2 + digits :])
        assert LENGTHS[int(code, 16)] == len(data), line
        return cls(int(number, 16), data, extended, fd=kind != "t", brs=kind == "b")

    def __str__(self) -> str:
        return self.line()


class Adapter(SlcanPeer):
    """An adapter behind TCP, in frames rather than lines."""

    def __init__(self, answers: bool = True) -> None:
        port = TcpPort()
        self.address: str = port.place["address"]
        super().__init__(port, answers)

    def send(self, *frames: Frame) -> None:
        """Frames from the bus, in one piece."""
        self.hear(*(frame.line() for frame in frames))

    def sent(self, count: int) -> list[Frame]:
        """What the client has sent, once that is so many frames."""
        return [Frame.of(line) for line in self.wait_frames(count)]
