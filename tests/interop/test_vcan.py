"""SocketCAN on a real kernel, which is that of a virtual machine: the tests of the folder `vcan`, each by its name."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

import machine
from machine import Machine


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize("name", machine.names())


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """One machine for all tests that are asked for."""
    items = [item for item in request.session.items if item.path == request.path]
    names = [item.callspec.params["name"] for item in items if isinstance(item, pytest.Function)]
    started = Machine(tmp_path_factory.mktemp("machine"), names)
    yield started
    started.close()


@pytest.mark.skipif(os.environ.get("FIELDBRIDGE_SKIP_VM") == "1", reason="FIELDBRIDGE_SKIP_VM=1")
def test_on_a_kernel_with_can(run: Machine, name: str) -> None:
    report = run.report(name)
    if report["outcome"] == "skipped":
        pytest.skip(report["text"])
    if report["outcome"] != "passed":
        pytest.fail(report["text"], pytrace=False)
