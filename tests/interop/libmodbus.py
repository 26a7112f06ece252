"""libmodbus as the PLC, over TCP and on a line; the library is Debian's, called as it is."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
from collections.abc import Iterable, Sequence
from ctypes import POINTER, c_char, c_char_p, c_float, c_int, c_uint8, c_uint16, c_uint32, c_void_p
from functools import cache
from pathlib import Path
from typing import Any

from background import Background
from line import Line
from registers import COIL, DISCRETE, HOLDING, INPUT, Request, serial

_NAME = "libmodbus.so.5"
_LONGEST = 260
_BROADCAST = 0
_NO_TARGET = 11
"""The exception of a gateway that reaches no such unit."""


_TABLES = ("bits", "input_bits", "input_registers", "registers")
_FIELDS = {COIL: "tab_bits", DISCRETE: "tab_input_bits", INPUT: "tab_input_registers", HOLDING: "tab_registers"}


class _Memory(ctypes.Structure):
    """`modbus_mapping_t`: the tables of a unit."""

    _fields_ = [
        *((f"{what}_{table}", c_int) for table in _TABLES for what in ("nb", "start")),
        *((f"tab_{table}", POINTER(c_uint8)) for table in _TABLES[:2]),
        *((f"tab_{table}", POINTER(c_uint16)) for table in _TABLES[2:]),
    ]


@cache
def library() -> Any:
    try:
        found = ctypes.CDLL(_NAME, use_errno=True)
    except OSError:
        raise AssertionError(f"{_NAME} is missing: install it (Debian, Ubuntu: apt-get install libmodbus5)") from None
    words = POINTER(c_uint16)
    for name, result, arguments in (
        ("modbus_new_tcp", c_void_p, [c_char_p, c_int]),
        ("modbus_new_rtu", c_void_p, [c_char_p, c_int, c_char, c_int, c_int]),
        ("modbus_free", None, [c_void_p]),
        ("modbus_close", None, [c_void_p]),
        ("modbus_connect", c_int, [c_void_p]),
        ("modbus_set_slave", c_int, [c_void_p, c_int]),
        ("modbus_set_socket", c_int, [c_void_p, c_int]),
        ("modbus_get_socket", c_int, [c_void_p]),
        ("modbus_get_header_length", c_int, [c_void_p]),
        ("modbus_set_indication_timeout", c_int, [c_void_p, c_uint32, c_uint32]),
        ("modbus_receive", c_int, [c_void_p, c_char_p]),
        ("modbus_reply", c_int, [c_void_p, c_char_p, c_int, POINTER(_Memory)]),
        ("modbus_reply_exception", c_int, [c_void_p, c_char_p, c_int]),
        ("modbus_mapping_new", POINTER(_Memory), [c_int, c_int, c_int, c_int]),
        ("modbus_mapping_free", None, [POINTER(_Memory)]),
        ("modbus_get_float_abcd", c_float, [words]),
        ("modbus_get_float_cdab", c_float, [words]),
        ("modbus_get_float_badc", c_float, [words]),
        ("modbus_get_float_dcba", c_float, [words]),
    ):
        function = getattr(found, name)
        function.restype, function.argtypes = result, arguments
    return found


def floating(registers: Sequence[int], order: str) -> float:
    """What libmodbus reads from two registers.

    Its `modbus_set_float_…` are no help: in 3.1.6, which Debian 12 has, they exchange the bytes of each word.
    """
    function = getattr(library(), f"modbus_get_float_{order.lower()}")
    return float(function((c_uint16 * 2)(*registers)))


class Server:
    """A server of one unit or, over TCP, of several; on a line libmodbus answers as one unit only."""

    def __init__(
        self, units: Iterable[int] = (1,), size: int = 1000, transport: str = "tcp", folder: Path | None = None
    ) -> None:
        self.units = tuple(units)
        self.port = 0
        self.line: Line | None = None
        if transport == "rtu":
            assert folder is not None and len(self.units) == 1, "on a line it needs a folder and has one unit"
            folder.mkdir(parents=True, exist_ok=True)
            self.line = Line(folder)
        self._requests: list[Request] = []
        self._memory = {unit: library().modbus_mapping_new(size, size, size, size) for unit in self.units}
        self._listener: socket.socket | None = None
        self._contexts: dict[int, int] = {}
        self._background = Background()

    @property
    def place(self) -> dict[str, Any]:
        """The keys of a connection that reaches it."""
        if self.line is not None:
            return serial(str(self.line.near))
        return {"driver": "modbus-tcp", "address": f"127.0.0.1:{self.port}"}

    def start(self) -> None:
        self._background.do(self._open if self.line is not None else self._listen)

    def stop(self) -> None:
        """Stops listening and closes every connection; what the registers hold stays."""

        def stop() -> None:
            if self._listener is not None:
                self._background.loop.remove_reader(self._listener)
                self._listener.close()
                self._listener = None
            for descriptor in list(self._contexts):
                self._drop(descriptor)

        self._background.do(stop)

    def close(self) -> None:
        self.stop()
        self._background.close()
        if self.line is not None:
            self.line.close()
        for memory in self._memory.values():
            library().modbus_mapping_free(memory)
        self._memory.clear()

    def set(self, table: int, address: int, values: Sequence[int], unit: int = 1) -> None:
        """Sets registers or bits from the PLC's side."""

        def change() -> None:
            for offset, value in enumerate(values):
                self._table(unit, table)[address + offset] = value

        self._background.do(change)

    def get(self, table: int, address: int, count: int = 1, unit: int = 1) -> list[int]:
        return self._background.do(lambda: list(self._table(unit, table)[address : address + count]))

    @property
    def requests(self) -> list[Request]:
        """Every request so far, in the order of the wire."""
        return self._background.do(lambda: list(self._requests))

    @property
    def writes(self) -> list[Request]:
        """Every write request so far, in the order of the wire."""
        return [request for request in self.requests if request.is_write]

    def _table(self, unit: int, table: int) -> Any:
        return getattr(self._memory[unit].contents, _FIELDS[table])

    def _listen(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self._listener.getsockname()[1]
        self._background.loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        assert self._listener is not None
        connection, _ = self._listener.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(True)
        context = library().modbus_new_tcp(b"127.0.0.1", self.port)
        library().modbus_set_socket(context, connection.detach())
        self._serve(context)

    def _open(self) -> None:
        assert self.line is not None
        context = library().modbus_new_rtu(self.line.far.encode(), 115_200, b"N", 8, 1)
        library().modbus_set_slave(context, self.units[0])
        if library().modbus_connect(context):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), self.line.far)
        self._serve(context)

    def _serve(self, context: int) -> None:
        # A frame that stays cut must not hold up the tests' own calls.
        library().modbus_set_indication_timeout(context, 1, 0)
        descriptor = library().modbus_get_socket(context)
        self._contexts[descriptor] = context
        self._background.loop.add_reader(descriptor, self._answer, descriptor)

    def _answer(self, descriptor: int) -> None:
        """Takes one request; nothing waits in `modbus_receive`, which is called only when there is something."""
        context = self._contexts[descriptor]
        request = ctypes.create_string_buffer(_LONGEST)
        length = library().modbus_receive(context, request)
        if length < 0 and self.line is None:
            self._drop(descriptor)
        if length <= 0:
            return
        header = library().modbus_get_header_length(context)
        body = request.raw[header : length - (2 if self.line is not None else 0)]
        unit = request.raw[header - 1]
        self._requests.append(_parse(unit, body))
        if unit in self._memory:
            library().modbus_reply(context, request, length, self._memory[unit])
        elif unit == _BROADCAST and self.line is not None:
            library().modbus_reply(context, request, length, self._memory[self.units[0]])
        else:
            library().modbus_reply_exception(context, request, _NO_TARGET)

    def _drop(self, descriptor: int) -> None:
        self._background.loop.remove_reader(descriptor)
        context = self._contexts.pop(descriptor)
        library().modbus_close(context)
        library().modbus_free(context)


def _parse(unit: int, body: bytes) -> Request:
    function, address, count = struct.unpack_from(">BHH", body)
    values: tuple[int, ...] = ()
    if function == 5:
        values = (int(count == 0xFF00),)
    elif function == 6:
        values = (count,)
    elif function == 15:
        values = tuple(body[6 + number // 8] >> number % 8 & 1 for number in range(count))
    elif function == 16:
        values = struct.unpack_from(f">{count}H", body, 6)
    elif function == 22:
        values = struct.unpack_from(">HH", body, 3)
    return Request(function, unit, address, values)
