"""mbpoll as a master, for reads and writes that have nothing of ours in them."""

from __future__ import annotations

import re
import shutil
import subprocess
from typing import Any

_VALUE = re.compile(r"^\[(\d+)\]:\s+(\S+)", re.MULTILINE)
_WAIT = 20.0


class Failed(Exception):
    """What mbpoll said when it did not succeed."""


class Master:
    """Runs mbpoll once a call, at the place of a connection, which it must have to itself on a line."""

    def __init__(self, place: dict[str, Any], unit: int = 1) -> None:
        found = shutil.which("mbpoll")
        assert found, "mbpoll is missing: install it (Debian, Ubuntu: apt-get install mbpoll)"
        self._common = [found, "-0", "-1", "-a", str(unit), "-o", "2"]
        if place["driver"] == "modbus-rtu":
            self._common += ["-m", "rtu", "-b", str(place["baud"]), "-P", place["parity"]]
            self._target = place["port"]
        else:
            self._target, port = place["address"].rsplit(":", 1)
            self._common += ["-m", "tcp", "-p", port]

    def read(self, table: int, address: int, count: int = 1, kind: str = "") -> list[int]:
        """The values of a table; with `kind` `int` or `float` those of two registers each."""
        text = self._run(table, address, kind, ["-c", str(count)])
        values = [value for _, value in _VALUE.findall(text)]
        assert len(values) == count, text
        return [float(value) if kind == "float" else int(value) for value in values]  # type: ignore[misc]

    def write(self, table: int, address: int, *values: float, kind: str = "") -> None:
        """Writes coils or holding registers in one request."""
        text = self._run(table, address, kind, [], [str(value) for value in values])
        assert f"Written {len(values)} references" in text, text

    def _run(
        self, table: int, address: int, kind: str, options: list[str], values: list[str] | None = None
    ) -> str:
        # mbpoll numbers tables by Modicon's digits.
        digit = {1: "0", 2: "1", 3: "4", 4: "3"}[table]
        what = f"{digit}:{kind}" if kind else digit
        tail = [self._target, "--", *values] if values else [self._target]
        arguments = [*self._common, "-t", what, "-r", str(address), *options, *tail]
        run = subprocess.run(arguments, capture_output=True, text=True, timeout=_WAIT, check=False)
        if run.returncode or "failed" in run.stderr:
            raise Failed(f"{arguments} ended with {run.returncode}: {run.stdout}{run.stderr}")
        return run.stdout
