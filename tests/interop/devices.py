"""All ways that a PLC is played here: by whom, and over which transport."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import libmodbus
from plc import TRANSPORTS, Plc
from registers import Device


@dataclass(frozen=True)
class Kind:
    """Who plays a PLC, and how it is reached."""

    player: str
    transport: str

    def __str__(self) -> str:
        return f"{self.player}-{self.transport}"

    def make(self, folder: Path, units: tuple[int, ...] = (1,)) -> Device:
        play: Callable[..., Device] = Plc if self.player == "pymodbus" else libmodbus.Server
        return play(units=units, transport=self.transport, folder=folder / str(self))


KINDS = [Kind("pymodbus", transport) for transport in TRANSPORTS]
KINDS += [Kind("libmodbus", transport) for transport in ("tcp", "rtu")]
