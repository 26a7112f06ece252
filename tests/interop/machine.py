"""A virtual machine whose kernel has CAN, and the tests of the folder `vcan` in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from waiting import until

HERE = Path(__file__).parent
FOLDER = HERE / "vcan"
LIMIT = 600
"""Seconds that all tests may take together."""


def _pytest(*arguments: str) -> list[str]:
    ini = str(FOLDER / "pytest.ini")
    return [sys.executable, "-B", "-m", "pytest", "-c", ini, "--rootdir", str(FOLDER), *arguments]


def names() -> list[str]:
    """The tests that there are; collecting them needs no CAN."""
    command = _pytest("--collect-only", "-q", "-o", "addopts=-p no:cacheprovider", str(FOLDER))
    done = subprocess.run(command, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, f"the tests of {FOLDER} cannot be collected:\n{done.stdout}{done.stderr}"
    return [line for line in done.stdout.splitlines() if "::" in line]


def _environment(**more: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")} | more


class Machine:
    """One run of some of the tests, each reported as soon as it is over."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self._reports = folder / "reports"
        self._reports.touch()
        self._lines: list[str] = []
        self._printed = 0
        command = [str(HERE / "vcan-vm"), "-w", str(folder), "-t", str(LIMIT), "--"]
        command += _pytest("-v", "--color=no", "--tb=short", *(str(FOLDER / name) for name in names))
        self._process = subprocess.Popen(
            command,
            env=_environment(VCAN_REPORTS=str(self._reports)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def report(self, name: str) -> dict[str, Any]:
        """How a test ended; what the machine says meanwhile is printed."""
        return until(f"{name} is over", lambda: self._find(name), LIMIT)

    def _find(self, name: str) -> dict[str, Any] | None:
        over = self._process.poll() is not None
        if over:
            self._thread.join()
        lines, self._printed = self._lines[self._printed :], len(self._lines)
        print("".join(lines), end="", flush=True)
        rows = self._reports.read_text(encoding="utf-8").splitlines(keepends=True)
        for row in (json.loads(row) for row in rows if row.endswith("\n")):
            if row["name"] == name:
                return row
        last = "".join(self._lines[-40:])
        assert not over, f"the machine ended with {self._process.returncode}, without this test:\n{last}"
        return None

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.append(line)

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()
