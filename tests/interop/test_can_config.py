"""CAN: what may be sent stands in the site file, and nothing else can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cansite import message, writable, write_site
from conftest import Run

PLACES = {
    "socketcan": {"driver": "socketcan", "interface": "can0"},
    "slcan": {"driver": "slcan", "port": "/dev/ttyACM0"},
    "slcan-tcp": {"driver": "slcan-tcp", "address": "127.0.0.1:3333"},
    "socketcand": {"driver": "socketcand", "address": "127.0.0.1:29536", "interface": "can0"},
}


def check(run: Run, folder: Path, frame: str, **connection: Any) -> tuple[int, str]:
    """Checks a site with a message that is sent; how that ended, and what was said."""
    path = write_site(folder, connection, [writable("mode", frame, 0, "uint8")], [message(frame, 1)])
    bridge = run("check", "--config", str(path))
    code = bridge.wait()
    return code, bridge.out.decode() + bridge.log.text()


@pytest.mark.parametrize("driver", PLACES)
@pytest.mark.parametrize("frame", ["201", "00000201"])
def test_what_is_named_may_be_sent(run: Run, tmp_path: Path, driver: str, frame: str) -> None:
    for ids in ([frame], ["100", f"{frame}-{frame}"]):
        code, said = check(run, tmp_path, frame, send_ids=ids, **PLACES[driver])
        assert (code, "problem" in said) == (0, False), said


REFUSED = {
    "nothing is named": ("201", {}),
    "others are named": ("201", {"send_ids": ["200", "202-2FF"]}),
    "29 bits are no 11 bits": ("201", {"send_ids": ["00000201"]}),
    "11 bits are no 29 bits": ("00000201", {"send_ids": ["000-7FF"]}),
}


@pytest.mark.parametrize("driver", PLACES)
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_named_may_not(run: Run, tmp_path: Path, driver: str, case: str) -> None:
    frame, keys = REFUSED[case]
    code, said = check(run, tmp_path, frame, **keys, **PLACES[driver])
    assert code == 2, said
    assert "devices[0].tags[0].access" in said and "send_ids of connection `bus`" in said, said
    assert f'"{frame}" among the identifiers that may be sent' in said, said


@pytest.mark.parametrize("driver", PLACES)
def test_who_only_listens_writes_nothing(run: Run, tmp_path: Path, driver: str) -> None:
    code, said = check(run, tmp_path, "201", listen_only=True, **PLACES[driver])
    assert code == 2, said
    assert "devices[0].tags[0].access" in said and "listen_only = true of connection `bus`" in said, said


def test_a_site_that_may_not_send_is_not_served(run: Run, tmp_path: Path) -> None:
    path = write_site(tmp_path, PLACES["socketcan"], [writable("mode", "201", 0, "uint8")], [message("201", 1)])
    bridge = run("serve", "--config", str(path), pipe=True)
    assert bridge.wait() == 2
    assert "send_ids of connection `bus`" in bridge.log.text()
