"""mosquitto, the broker, and its two clients, as processes on loopback."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path

from waiting import DEADLINE, until


def _find(name: str) -> str:
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")
    assert found, f"{name} is missing: install it (Debian, Ubuntu: apt-get install mosquitto mosquitto-clients)"
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class Listener:
    """One port of a broker."""

    port: int = field(default_factory=free_port)
    websocket: bool = False
    #: Files of the server: certificate and key; and of the authority that clients need a certificate of.
    certificate: Path | None = None
    key: Path | None = None
    clients: Path | None = None

    def lines(self) -> list[str]:
        lines = [f"listener {self.port} 127.0.0.1"]
        if self.websocket:
            lines.append("protocol websockets")
        if self.certificate:
            lines += [f"certfile {self.certificate}", f"keyfile {self.key}"]
        if self.clients:
            lines += [f"cafile {self.clients}", "require_certificate true"]
        return lines


class Mosquitto:
    """A broker that can be stopped, killed and started again at the same place."""

    def __init__(
        self,
        folder: Path,
        *listeners: Listener,
        persistence: bool = False,
        users: dict[str, str] | None = None,
        acl: str | None = None,
        extra: tuple[str, ...] = (),
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.listeners = listeners or (Listener(),)
        lines = ["per_listener_settings false", "log_dest stderr", "log_type all", "connection_messages true"]
        # As root it would become a user that cannot read the folder of the test.
        if os.geteuid() == 0:
            lines.append("user root")
        if persistence:
            lines += ["persistence true", f"persistence_location {folder}/", "autosave_interval 1"]
        if users is None:
            lines.append("allow_anonymous true")
        else:
            passwords = folder / "passwords"
            passwords.touch()
            for user, password in users.items():
                subprocess.run(
                    [_find("mosquitto_passwd"), "-b", str(passwords), user, password], check=True, capture_output=True
                )
            lines += ["allow_anonymous false", f"password_file {passwords}"]
        if acl is not None:
            (folder / "acl").write_text(acl, encoding="utf-8")
            lines.append(f"acl_file {folder}/acl")
        for listener in self.listeners:
            lines += listener.lines()
        self.config = folder / "mosquitto.conf"
        self.config.write_text("\n".join([*lines, *extra, ""]), encoding="utf-8")
        self._starts = 0
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        return self.listeners[0].port

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self, ports: tuple[int, ...] | None = None) -> None:
        """Starts it, and waits for its ports: all of them, or these."""
        self._starts += 1
        with self._log().open("wb") as file:
            self.process = subprocess.Popen([_find("mosquitto"), "-c", str(self.config)], stderr=file, stdout=file)

        def listens() -> bool:
            assert self.process and self.process.poll() is None, self.log()
            return all(map(_answers, ports or [listener.port for listener in self.listeners]))

        until("mosquitto listens", listens)

    def _log(self) -> Path:
        return self.folder / f"mosquitto-{self._starts}.log"

    def log(self) -> str:
        """What it said since it was last started."""
        return self._log().read_text(encoding="utf-8", errors="replace")

    def count(self, words: str) -> int:
        return self.log().count(words)

    def wait(self, words: str, count: int = 1) -> None:
        until(f"mosquitto's log has {words!r} {count} times", lambda: self.count(words) >= count)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(DEADLINE)

    def kill(self) -> None:
        self.stop(signal.SIGKILL)

    def publish(self, topic: str, payload: str | bytes, *options: str) -> None:
        """Publishes with mosquitto_pub, QoS 1 unless told otherwise."""
        qos = () if "-q" in options else ("-q", "1")
        data = payload.encode() if isinstance(payload, str) else payload
        command = [_find("mosquitto_pub"), "-h", "127.0.0.1", "-t", topic, "-s", *qos, *self._reach(options)]
        if not data:
            command[command.index("-s")] = "-n"
        subprocess.run([*command, *options], input=data, check=True, timeout=DEADLINE, capture_output=True)

    def subscriber(self, *topics: str, options: tuple[str, ...] = ()) -> Subscriber:
        named = [part for topic in topics for part in ("-t", topic)]
        command = [_find("mosquitto_sub"), "-h", "127.0.0.1", *named, "-F", "%t|%q|%r|%p", *self._reach(options)]
        qos = () if "-q" in options else ("-q", "2")
        return Subscriber([*command, *qos, *options], self)

    def _reach(self, options: tuple[str, ...]) -> tuple[str, ...]:
        return () if "-p" in options else ("-p", str(self.port))


class Subscriber:
    """A running mosquitto_sub, and what it received: topic, QoS, retained or not, payload."""

    def __init__(self, command: list[str], broker: Mosquitto) -> None:
        before = broker.count("Sending SUBACK")
        self._lines: list[str] = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        broker.wait("Sending SUBACK", before + 1)

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self._lines.append(line.rstrip("\n"))

    def messages(self) -> list[tuple[str, int, bool, str]]:
        rows = [line.split("|", 3) for line in list(self._lines)]
        return [(topic, int(qos), retain == "1", payload) for topic, qos, retain, payload in rows]

    def wait(self, count: int = 1) -> list[tuple[str, int, bool, str]]:
        until(f"{count} messages were received", lambda: len(self._lines) >= count)
        return self.messages()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._thread.join(DEADLINE)


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
