"""pymodbus as the PLC, in a thread of its own, with handles for tests."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from pymodbus.pdu import ModbusPDU
from pymodbus.server import ModbusTcpServer
from pymodbus.simulator import DataType, SimData, SimDevice

T = TypeVar("T")

COIL, DISCRETE, HOLDING, INPUT = 1, 2, 3, 4
"""Tables, by the code of the function that reads each."""
_WRITES = (5, 6, 15, 16, 22, 23)
_WAIT = 20.0


@dataclass(frozen=True)
class Request:
    """One request as it came over the wire; `values` are those of a write."""

    function: int
    unit: int
    address: int
    values: tuple[int, ...] = ()

    @property
    def is_write(self) -> bool:
        return self.function in _WRITES


logging.getLogger("pymodbus.logging").setLevel(logging.CRITICAL)


class Plc:
    """A Modbus TCP server whose port stays its own over a stop and a start."""

    def __init__(self, units: Iterable[int] = (1,), size: int = 1000) -> None:
        self.units = tuple(units)
        self.size = size
        self.port = 0
        self.accepted = 0
        """TCP connections accepted, over all starts."""
        self.open = 0
        """TCP connections that are open now."""
        self.muted = False
        """While true requests are carried out, but their answers are not sent."""
        self._requests: list[Request] = []
        self._memory: Any = None
        self._server: ModbusTcpServer | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def start(self) -> None:
        self._call(self._start)

    def stop(self) -> None:
        """Stops listening and closes every connection; what the registers hold stays."""
        self._call(self._stop)

    def close(self) -> None:
        if self._server is not None:
            self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT)
        self._loop.close()

    def set(self, table: int, address: int, values: Sequence[int], unit: int = 1) -> None:
        """Sets registers or bits from the PLC's side."""
        code = {HOLDING: 16, COIL: 15}.get(table, table)

        async def change() -> Any:
            return await self._memory.async_setValues(unit, code, address, list(values))

        refused = self._call(change)
        assert refused is None, f"the PLC has no such registers: {refused}"

    def get(self, table: int, address: int, count: int = 1, unit: int = 1) -> list[int]:
        async def fetch() -> Any:
            return await self._memory.async_getValues(unit, table, address, count)

        return list(self._call(fetch))

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of the wire."""
        return self._call(self._copy)

    @property
    def writes(self) -> list[Request]:
        """Every write request so far, in the order of the wire."""
        return [request for request in self.requests if request.is_write]

    def _call(self, make: Callable[[], Awaitable[T]]) -> T:
        async def run() -> T:
            return await make()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_WAIT)

    async def _copy(self) -> list[Request]:
        return list(self._requests)

    async def _start(self) -> None:
        assert self._server is None, "the PLC runs"
        devices = [_device(unit, self.size) for unit in self.units]
        server = ModbusTcpServer(
            devices,
            address=("127.0.0.1", self.port),
            trace_pdu=self._see,
            trace_packet=self._pass,
            trace_connect=self._count,
        )
        if self._memory is None:
            self._memory = server.context
        server.context = self._memory
        await server.serve_forever(background=True)
        listener: Any = server.transport
        self.port = listener.sockets[0].getsockname()[1]
        self._server = server

    async def _stop(self) -> None:
        assert self._server is not None, "the PLC does not run"
        await self._server.shutdown()
        self._server = None

    def _see(self, sending: bool, pdu: ModbusPDU) -> ModbusPDU:
        if not sending:
            values = tuple(int(value) for value in (pdu.registers or pdu.bits))
            request = Request(pdu.function_code, pdu.dev_id, pdu.address, values)
            self._requests.append(request)
        return pdu

    def _pass(self, sending: bool, packet: bytes) -> bytes:
        return b"" if sending and self.muted else packet

    def _count(self, connected: bool) -> None:
        self.accepted += connected
        self.open += 1 if connected else -1


def _device(unit: int, size: int) -> SimDevice:
    def bits() -> list[SimData]:
        return [SimData(0, count=size // 16 * 16, values=False, datatype=DataType.BITS)]

    def registers() -> list[SimData]:
        return [SimData(0, count=size, values=0, datatype=DataType.REGISTERS)]

    return SimDevice(unit, simdata=(bits(), bits(), registers(), registers()))
