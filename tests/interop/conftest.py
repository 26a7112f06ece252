"""Fixtures: the PLC, site files, and the bridge with or without a client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import bridge
from bridge import Bridge, Web
from canplant import Bus, write_site
from devices import Kind
from mosquitto import Listener, Mosquitto
from mqtt import Plant
from peers import WAYS, Peer, Way, connect
from plant import Site, boiler
from plc import Plc
from registers import Device
from slcan import Adapter

CASES = Path(__file__).parent.parent / "cases"
collect_ignore = ["vcan"]
"""Those run inside a virtual machine (`test_vcan.py`)."""


def pytest_configure() -> None:
    if not Path(bridge.PROGRAM).is_file():
        raise pytest.UsageError("FIELDBRIDGE names no program: run `cargo test --test interop`")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=WAYS, ids=str)
def way(request: pytest.FixtureRequest) -> Way:
    return request.param


@pytest.fixture
def plc() -> Iterator[Plc]:
    """A PLC with the units of the boiler plant."""
    server = Plc(units=(1, 2))
    server.start()
    yield server
    server.close()


Play = Callable[..., Device]


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Play]:
    """Starts a PLC of some kind; all end with the test."""
    started: list[Device] = []

    def start(kind: Kind, units: tuple[int, ...] = (1,)) -> Device:
        started.append(kind.make(tmp_path, units))
        started[-1].start()
        return started[-1]

    yield start
    for device in started:
        device.close()


Save = Callable[[Site | str], Path]


@pytest.fixture
def save(tmp_path: Path) -> Save:
    """Writes the site file, again if need be."""

    def write(site: Site | str) -> Path:
        path = tmp_path / "site.toml"
        path.write_text(site if isinstance(site, str) else site.text(), encoding="utf-8")
        return path

    return write


@pytest.fixture
def peer(tmp_path: Path, save: Save, plc: Plc, way: Way) -> AbstractAsyncContextManager[Peer]:
    """A client of the boiler plant; enter it in the test."""
    return connect(tmp_path, save(boiler(plc.port)), way)


Run = Callable[..., Bridge]


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    """Runs the program; whatever is left of it ends with the test."""
    started: list[Bridge] = []

    def start(*arguments: str, **options: object) -> Bridge:
        started.append(Bridge(tmp_path, *arguments, **options))  # type: ignore[arg-type]
        return started[-1]

    yield start
    for process in started:
        process.close()


Serve = Callable[..., Bridge]


@pytest.fixture
def serve(run: Run, save: Save) -> Serve:
    """Serves a site: over stdio, or with `http=True` over HTTP alone."""

    def start(site: Site | str, *arguments: str, http: bool = False, **options: object) -> Bridge:
        common = ("serve", "--config", str(save(site)), "--log-format", "json")
        where = ("--http", "127.0.0.1:0") if http else ()
        return run(*common, *where, *arguments, pipe=not http, **options)

    return start


@pytest.fixture
def web() -> Iterator[Callable[..., Web]]:
    opened: list[Web] = []

    def connect(url: str, era: str = "legacy") -> Web:
        opened.append(Web(url, era))
        return opened[-1]

    yield connect
    for connection in opened:
        connection.close()


Broker = Callable[..., Mosquitto]


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Broker]:
    """Makes a mosquitto and starts it; all end with the test."""
    made: list[Mosquitto] = []

    def make(*listeners: Listener, start: bool = True, **options: object) -> Mosquitto:
        made.append(Mosquitto(tmp_path / f"broker-{len(made)}", *listeners, **options))  # type: ignore[arg-type]
        if start:
            made[-1].start()
        return made[-1]

    yield make
    for broker in made:
        broker.kill()


@pytest.fixture
def broker(brokers: Broker) -> Mosquitto:
    """A mosquitto that keeps nothing."""
    return brokers()


Ask = Callable[..., Plant]


@pytest.fixture
def ask(serve: Serve) -> Ask:
    """Serves a site on stdio, and asks it."""

    def start(text: str, **options: object) -> Plant:
        return Plant(serve(text, **options))

    return start


@pytest.fixture
def adapter() -> Iterator[Adapter]:
    """An slcan adapter and the bus behind it."""
    adapter = Adapter()
    yield adapter
    adapter.close()


Listen = Callable[..., Bus]


@pytest.fixture
def listen(run: Run, tmp_path: Path, adapter: Adapter) -> Listen:
    """Serves a site with the signals of a DBC file, see `write_site`, on the bus behind the adapter."""

    def start(dbc: str | bytes, *arguments: object, **options: object) -> Bus:
        path = write_site(tmp_path, dbc, adapter.address, *arguments, **options)  # type: ignore[arg-type]
        return Bus(run("serve", "--config", str(path), "--log-format", "json", pipe=True), adapter)

    return start
