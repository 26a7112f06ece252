"""A scripted Modbus TCP device that answers with whatever bytes a test wants."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

Answer = Callable[[bytes], list[bytes] | None]
"""Takes a request, gives the segments of an answer; `None` closes the connection."""


class Faulty:
    """Answers each request by `answer`; every register holds 0 unless `registers` says otherwise."""

    def __init__(self, answer: Answer | None = None, pause: float = 0.0) -> None:
        self.answer: Answer = answer or self.honest
        self.registers: dict[int, int] = defaultdict(int)
        self.requests: list[bytes] = []
        self.answered = 0
        """Requests whose answers are out."""
        self.accepted = 0
        self._pause = pause
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        self._over = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Faulty:
        return self

    def __exit__(self, *_: Any) -> None:
        self._over = True
        self._listener.close()
        self.drop()

    def drop(self) -> None:
        """Closes every connection that is open."""
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
            self._open.clear()

    def honest(self, request: bytes) -> list[bytes]:
        """The answer of a device that is well."""
        unit, function, address, count = struct.unpack(">BBHH", request[6:12])
        if function in (3, 4):
            values = [self.registers[address + offset] for offset in range(count)]
            body = struct.pack(f">B{count}H", 2 * count, *values)
        elif function == 6:
            self.registers[address] = count
            body = request[8:12]
        else:
            function, body = function | 0x80, b"\x01"
        return [request[:4] + struct.pack(">HBB", len(body) + 2, unit, function) + body]

    def _accept(self) -> None:
        while not self._over:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with self._lock:
                self._open.append(connection)
                self.accepted += 1
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        try:
            while chunk := connection.recv(4096):
                buffer += chunk
                while len(buffer) >= 6 and len(buffer) >= (end := 6 + int.from_bytes(buffer[4:6], "big")):
                    request, buffer = buffer[:end], buffer[end:]
                    self.requests.append(request)
                    segments = self.answer(request)
                    if segments is None:
                        return
                    for number, segment in enumerate(segments):
                        if number and self._pause:
                            time.sleep(self._pause)
                        connection.sendall(segment)
                    self.answered += 1
        except OSError:
            pass
        finally:
            connection.close()
