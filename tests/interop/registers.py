"""What every PLC of these tests has: tables, and requests as they came over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

COIL, DISCRETE, HOLDING, INPUT = 1, 2, 3, 4
"""Tables, by the code of the function that reads each."""
_WRITES = (5, 6, 15, 16, 22, 23)


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire; `values` are those of a write, or its masks."""

    function: int
    unit: int
    address: int
    values: tuple[int, ...] = ()

    @property
    def is_write(self) -> bool:
        return self.function in _WRITES


class Device(Protocol):
    """The handles of a PLC, whoever plays it and however it is reached."""

    units: tuple[int, ...]

    @property
    def place(self) -> dict[str, Any]:
        """The keys of a connection that reaches it."""

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of the wire."""

    @property
    def writes(self) -> list[Request]:
        """Every write request so far, in the order of the wire."""

    def set(self, table: int, address: int, values: Sequence[int], unit: int = 1) -> None:
        """Sets registers or bits from the PLC's side."""

    def get(self, table: int, address: int, count: int = 1, unit: int = 1) -> list[int]:
        """What registers or bits hold."""

    def start(self) -> None: ...

    def close(self) -> None: ...


def serial(path: str) -> dict[str, Any]:
    """The keys of a connection to a line; a pseudo-terminal has no speed of its own and no parity."""
    return {"driver": "modbus-rtu", "port": path, "baud": 115_200, "parity": "none"}
