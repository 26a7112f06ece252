"""Fixtures of the tests that run on a kernel with CAN, and the report that the run outside reads."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kernel
from bridge import Bridge
from cansite import Table, write_site
from kernel import Candump
from mqtt import Plant

_texts: dict[str, str] = {}
_outcomes: dict[str, str] = {}


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Adds a line of JSON to the file of reports for each test that is over."""
    name = report.nodeid
    if report.outcome != "passed" or name not in _outcomes:
        _outcomes[name] = report.outcome
    if not report.passed:
        sections = "".join(f"\n--- {title} ---\n{text}" for title, text in report.sections)
        _texts[name] = f"{_texts.get(name, '')}{report.longreprtext}{sections}"
    if report.when == "teardown" and (path := os.environ.get("VCAN_REPORTS")):
        row = {"name": name, "outcome": _outcomes[name], "text": _texts.get(name, "")}
        with Path(path).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Each test has a bus without history."""
    kernel.renew()


Candumps = Callable[..., Candump]


@pytest.fixture
def candump() -> Iterator[Candumps]:
    """Starts candump on vcan0."""
    started: list[Candump] = []

    def start(*options: str, filters: str = "") -> Candump:
        started.append(Candump(*options, filters=filters))
        return started[-1]

    yield start
    for one in started:
        one.close()


Serve = Callable[..., Plant]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Serves a site with the device `d` on vcan0, on stdio."""
    started: list[Bridge] = []

    def start(tags: list[Table], messages: list[Table] | None = None, **keys: Any) -> Plant:
        profile = keys.pop("profile", None)
        device = keys.pop("device", {})
        files = keys.pop("files", {})
        path = write_site(
            tmp_path, {"driver": "socketcan", "interface": "vcan0", **keys}, tags, messages or [], profile, **device
        )
        for name, text in files.items():
            (tmp_path / "devices" / "test" / name).write_text(text, encoding="utf-8")
        started.append(Bridge(tmp_path, "serve", "--config", str(path), "--log-format", "json", pipe=True))
        return Plant(started[-1])

    yield start
    for bridge in started:
        bridge.close()
