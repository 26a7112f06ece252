"""The program under test as a process, spoken to without an SDK."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from waiting import DEADLINE, until

Message = dict[str, Any]

PROGRAM = os.environ.get("FIELDBRIDGE", "")
LEGACY = "2025-11-25"
MODERN = "2026-07-28"
ERAS = {"legacy": LEGACY, "modern": MODERN}
_META = "io.modelcontextprotocol/"
CLIENT = {"name": "interop", "version": "1"}
_URL = re.compile(r"serving MCP at (http://[^\s\"]+/mcp)")


class Log:
    """What a process writes to stderr, in a file of its own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def records(self) -> list[Message]:
        """The lines of a JSON log, each with its fields at the top."""
        found = []
        for line in self.text().splitlines(keepends=True):
            if line.startswith("{") and line.endswith("\n"):
                record = json.loads(line)
                found.append({**record, **record.get("fields", {})})
        return found

    def writes(self) -> list[Message]:
        """The write log: how each write ended."""
        return [
            record
            for record in self.records()
            if record.get("target") == "fieldbridge::write" and "outcome" in record
        ]

    def wait(self, what: str, probe: Callable[[str], Any] | str) -> Any:
        test = (lambda text: probe in text) if isinstance(probe, str) else probe
        try:
            return until(f"the log tells that {what}", lambda: test(self.text()))
        except AssertionError as error:
            raise AssertionError(f"{error}; the log:\n{self.text()}") from None


class Bridge:
    """One run of the program; `pipe` gives it a stdin and a stdout to speak over."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        pipe: bool = False,
        env: Mapping[str, str] | None = None,
        stderr: int | None = None,
    ) -> None:
        count = len(list(folder.glob("stderr-*")))
        self.log = Log(folder / f"stderr-{count}.log")
        with self.log.path.open("wb") as file:
            self.process = subprocess.Popen(
                [PROGRAM, *arguments],
                stdin=subprocess.PIPE if pipe else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=file if stderr is None else stderr,
                env={**os.environ, **(env or {})},
                bufsize=0,
            )
        self.out = b""
        self._news = threading.Condition()
        self._ended = False
        self._lines: list[bytes] = []
        self._messages: list[Any] = []
        self._answers: dict[tuple[type, Any], Message] = {}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self.process.pid

    def url(self) -> str:
        """Where it serves HTTP, as its log says."""

        def found(text: str) -> re.Match[str] | None:
            assert self.process.poll() is None, f"it ended with {self.process.returncode}:\n{text}"
            return _URL.search(text)

        return self.log.wait("HTTP is served", found).group(1)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def send(self, *messages: Message) -> None:
        """Sends messages, a line each, in one piece."""
        self.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def answer(self, id: int | str | None, deadline: float = DEADLINE) -> Message:
        """The answer to the request `id`."""

        def found() -> Message | None:
            self._parse()
            return self._answers.get((type(id), id))

        return self._wait(f"request {id!r} is answered", found, deadline)

    def ask(self, id: int | str, method: str, params: Message | None = None) -> Message:
        self.send(request(id, method, params))
        return self.answer(id)

    def initialize(self, version: str = LEGACY) -> Message:
        answer = self.ask(0, "initialize", handshake(version))
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def messages(self) -> list[Any]:
        """All lines of stdout so far; each must be JSON."""
        with self._news:
            self._parse()
            return list(self._messages)

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self, deadline: float = DEADLINE) -> int:
        """The exit code, once stdout has been read to its end."""
        code = self.process.wait(deadline)
        self._reader.join(deadline)
        return code

    def stop(self) -> None:
        """Ends it in good order."""
        self.signal(signal.SIGTERM)
        code = self.wait()
        assert code == 0, f"SIGTERM ended it with {code}:\n{self.log.text()}"

    def close(self) -> None:
        """Ends it whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._reader.join(DEADLINE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()

    def _parse(self) -> None:
        for line in self._lines[len(self._messages) :]:
            message = json.loads(line)
            self._messages.append(message)
            if isinstance(message, dict) and "method" not in message:
                self._answers.setdefault((type(message.get("id")), message.get("id")), message)

    def _wait(self, what: str, probe: Callable[[], Any], deadline: float) -> Any:
        with self._news:
            if self._news.wait_for(lambda: self._ended or probe(), deadline) and (answer := probe()):
                return answer
        raise AssertionError(f"never seen: {what}; came: {self.out[-2000:]!r}; the log:\n{self.log.text()}")

    def _read(self) -> None:
        assert self.process.stdout is not None
        rest = b""
        while chunk := self.process.stdout.read(65536):
            with self._news:
                self.out += chunk
                *lines, rest = (rest + chunk).split(b"\n")
                self._lines += lines
                self._news.notify_all()
        with self._news:
            self._ended = True
            self._news.notify_all()


class Web:
    """One HTTP connection to the endpoint."""

    def __init__(self, url: str, era: str = "legacy") -> None:
        host, _, path = url.removeprefix("http://").partition("/")
        self.path = f"/{path}"
        self.version = ERAS[era]
        self.modern = era == "modern"
        self.session: str | None = None
        self.connection = http.client.HTTPConnection(host, timeout=DEADLINE)

    def start(self, message: Message | list[Message] | bytes, **headers: str) -> None:
        """Sends a POST and leaves its answer for `finish`."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.connection.request("POST", self.path, body, self.headers(message) | _headers(headers))

    def finish(self) -> tuple[int, Mapping[str, str], str]:
        response = self.connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()

    def post(self, message: Message | list[Message] | bytes, **headers: str) -> tuple[int, Mapping[str, str], str]:
        self.start(message, **headers)
        return self.finish()

    def call(self, message: Message) -> Message:
        """Sends a request and returns its answer."""
        self.start(message)
        return self.result(message["id"])

    def result(self, id: int | str) -> Message:
        status, _, body = self.finish()
        assert status == 200, f"{status}: {body}"
        return next(message for message in parse(body) if message.get("id") == id)

    def initialize(self) -> Message:
        """Opens a session; needs the legacy era."""
        status, headers, body = self.post(request(0, "initialize", handshake(self.version)))
        assert status == 200, f"{status}: {body}"
        self.session = {name.lower(): value for name, value in headers.items()}["mcp-session-id"]
        status, _, body = self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        assert status == 202, f"{status}: {body}"
        return next(message for message in parse(body) if "id" in message) if body else {}

    def headers(self, message: Any) -> dict[str, str]:
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
        }
        initial = isinstance(message, dict) and message.get("method") == "initialize"
        if not initial and (self.modern or self.session):
            headers["MCP-Protocol-Version"] = self.version
        if self.session:
            headers["Mcp-Session-Id"] = self.session
        if self.modern and isinstance(message, dict) and "method" in message:
            headers["Mcp-Method"] = message["method"]
            params = message.get("params", {})
            if name := params.get("name", params.get("uri")):
                headers["Mcp-Name"] = name
        return headers

    def close(self) -> None:
        self.connection.close()


def _headers(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def parse(body: str) -> list[Message]:
    """The messages of a body, be it JSON or a stream of events."""
    if body.lstrip().startswith(("{", "[")):
        found = json.loads(body)
        return found if isinstance(found, list) else [found]
    lines = (line.removeprefix("data:").strip() for line in body.splitlines() if line.startswith("data:"))
    return [json.loads(line) for line in lines if line]


def request(id: int | str, method: str, params: Message | None = None, era: str = "legacy") -> Message:
    params = dict(params or {})
    if era == "modern":
        params["_meta"] = meta(MODERN)
    return {"jsonrpc": "2.0", "id": id, "method": method, **({"params": params} if params else {})}


def call(id: int | str, tool: str, arguments: Message | None = None, era: str = "legacy") -> Message:
    return request(id, "tools/call", {"name": tool, "arguments": arguments or {}}, era)


def meta(version: str) -> Message:
    return {
        f"{_META}protocolVersion": version,
        f"{_META}clientCapabilities": {},
        f"{_META}clientInfo": CLIENT,
    }


def handshake(version: str = LEGACY) -> Message:
    return {"protocolVersion": version, "capabilities": {}, "clientInfo": CLIENT}
