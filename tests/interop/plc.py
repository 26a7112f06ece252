"""pymodbus as the PLC, over every transport, with handles for tests."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pymodbus.framer import FramerType
from pymodbus.pdu import ModbusPDU
from pymodbus.pdu.register_message import MaskWriteRegisterRequest
from pymodbus.server import ModbusSerialServer, ModbusTcpServer, ModbusTlsServer
from pymodbus.server.base import ModbusBaseServer
from pymodbus.simulator import DataType, SimData, SimDevice

from background import Background
from certs import Authority
from line import Line
from registers import COIL, DISCRETE, HOLDING, INPUT, Request, serial

__all__ = ["COIL", "DISCRETE", "HOLDING", "INPUT", "TRANSPORTS", "Plc", "Request"]

TRANSPORTS = ("tcp", "tls", "rtu", "rtu-tcp")

logging.getLogger("pymodbus.logging").setLevel(logging.CRITICAL)


class Plc:
    """A Modbus server whose port stays its own over a stop and a start.

    Over `tls` and `rtu` it needs a folder, for certificates or for the path of its line.
    """

    def __init__(
        self,
        units: Iterable[int] = (1,),
        size: int = 1000,
        transport: str = "tcp",
        folder: Path | None = None,
    ) -> None:
        self.units = tuple(units)
        self.size = size
        self.transport = transport
        self.port = 0
        self.accepted = 0
        """Connections accepted, over all starts; a line counts as one a start."""
        self.open = 0
        """Connections that are open now."""
        self.muted = False
        """While true requests are carried out, but their answers are not sent."""
        self.hangs = False
        """Whether it is muted by the next write that it gets."""
        self.silent: set[int] = set()
        """The units of which alone this is so."""
        self.authority: Authority | None = None
        self.line: Line | None = None
        if transport in ("tls", "rtu"):
            assert folder is not None, f"{transport} needs a folder"
            folder.mkdir(parents=True, exist_ok=True)
            self.authority = Authority(folder) if transport == "tls" else None
            self.line = Line(folder) if transport == "rtu" else None
        self._requests: list[Request] = []
        self._memory: Any = None
        self._server: ModbusBaseServer | None = None
        self._background = Background()

    @property
    def place(self) -> dict[str, Any]:
        """The keys of a connection that reaches it."""
        if self.line is not None:
            return serial(str(self.line.near))
        keys: dict[str, Any] = {"driver": f"modbus-{self.transport}", "address": f"127.0.0.1:{self.port}"}
        if self.authority is not None:
            keys["tls"] = self.authority.keys
        return keys

    def start(self) -> None:
        self._background.call(self._start)

    def stop(self) -> None:
        """Stops listening and closes every connection; what the registers hold stays."""
        self._background.call(self._stop)

    def close(self) -> None:
        if self._server is not None:
            self.stop()
        self._background.close()
        if self.line is not None:
            self.line.close()

    def set(self, table: int, address: int, values: Sequence[int], unit: int = 1) -> None:
        """Sets registers or bits from the PLC's side."""
        code = {HOLDING: 16, COIL: 15}.get(table, table)

        async def change() -> Any:
            return await self._memory.async_setValues(unit, code, address, list(values))

        refused = self._background.call(change)
        assert refused is None, f"the PLC has no such registers: {refused}"

    def get(self, table: int, address: int, count: int = 1, unit: int = 1) -> list[int]:
        async def fetch() -> Any:
            return await self._memory.async_getValues(unit, table, address, count)

        return list(self._background.call(fetch))

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of the wire."""
        return self._background.do(lambda: list(self._requests))

    @property
    def writes(self) -> list[Request]:
        """Every write request so far, in the order of the wire."""
        return [request for request in self.requests if request.is_write]

    async def _start(self) -> None:
        assert self._server is None, "the PLC runs"
        server = self._make([_device(unit, self.size) for unit in self.units])
        if self._memory is None:
            self._memory = server.context
        server.context = self._memory
        await server.serve_forever(background=True)
        if self.line is None:
            listener: Any = server.transport
            self.port = listener.sockets[0].getsockname()[1]
        self._server = server

    def _make(self, devices: list[SimDevice]) -> ModbusBaseServer:
        common: dict[str, Any] = {
            "broadcast_enable": 0 not in self.units,
            "trace_pdu": self._see,
            "trace_packet": self._pass,
            "trace_connect": self._count,
        }
        if self.line is not None:
            return ModbusSerialServer(devices, port=self.line.far, baudrate=115_200, **common)
        common["address"] = ("127.0.0.1", self.port)
        if self.authority is not None:
            return ModbusTlsServer(devices, sslctx=self.authority.serving(), **common)
        framer = FramerType.RTU if self.transport == "rtu-tcp" else FramerType.SOCKET
        return ModbusTcpServer(devices, framer=framer, **common)

    async def _stop(self) -> None:
        assert self._server is not None, "the PLC does not run"
        await self._server.shutdown()
        self._server = None

    def _see(self, sending: bool, pdu: ModbusPDU) -> ModbusPDU:
        if not sending:
            values = tuple(int(value) for value in (pdu.registers or pdu.bits))
            if isinstance(pdu, MaskWriteRegisterRequest):
                values = (pdu.and_mask, pdu.or_mask)
            request = Request(pdu.function_code, pdu.dev_id, pdu.address, values)
            self._requests.append(request)
            self.muted |= self.hangs and request.is_write
        return pdu

    def _pass(self, sending: bool, packet: bytes) -> bytes:
        if not sending:
            return packet
        unit = packet[0 if "rtu" in self.transport else 6]
        return b"" if self.muted or unit in self.silent else packet

    def _count(self, connected: bool) -> None:
        self.accepted += connected
        self.open += 1 if connected else -1


def _device(unit: int, size: int) -> SimDevice:
    def bits() -> list[SimData]:
        return [SimData(0, count=size // 16 * 16, values=False, datatype=DataType.BITS)]

    def registers() -> list[SimData]:
        return [SimData(0, count=size, values=0, datatype=DataType.REGISTERS)]

    return SimDevice(unit, simdata=(bits(), bits(), registers(), registers()))
