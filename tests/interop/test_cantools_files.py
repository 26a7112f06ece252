"""Public DBC files: those that the sources of cantools bring, read as cantools reads them.

The sources are downloaded for each run, and the tests skipped where they cannot be had.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cantools
import pytest
from cantools.database import Database, UnsupportedDatabaseFormatError

from can_peers import LENGTHS
from canplant import Bus, write_site
from conftest import CASES, Listen, Run
from slcan import Frame

KNOWN: dict[str, Any] = json.loads((CASES / "files" / "real_dbc.json").read_text(encoding="utf-8"))
OWN = "cantools/cantools"
FOLDER = "tests/files/dbc/"
PATIENCE = 180

NO_SIGNALS = {
    *("BU_EV_REL_", "CamelCaseEmpty", "add_two_dbc_files_1", "add_two_dbc_files_2", "bus_comment_bare"),
    *("bus_comment_bare_out", "cp1252", "empty_ns", "environment_variable_data", "issue_163_newline", "issue_62"),
    *("environment_variable_multiple_access_nodes", "message-dlc-zero", "no_signals"),
}
REFUSED = {
    # cantools wants every statement to be about something; the bridge warns, and takes the rest.
    "incorrect-sig_valtype": (2, "number type: there is no message 345"),
    "incorrect-val": (2, "labels: there is no message 99"),
    "issue_199": (0, "message DriverDoorStatus has the identifier 274923520"),
    "issue_199_extended": (0, "message DriverDoorStatus has the identifier 4294967295"),
}
"""What cantools refuses: tags of it at the bridge, and what that warns of."""
SOURCES = {"multiplex_2": 1, "multiplex_2_dumped": 1}
"""J1939, and the file says of no message who sends it."""
TAG = '[[tags]]\nname = "more"\nframe = "7FF"\nbits = { start = 0 }\ntype = "uint8"\n'
"""A tag beside those of the file, since a device without any is refused."""


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of the sources."""
    place = tmp_path_factory.mktemp("cantools")
    wanted = f"cantools=={version('cantools')}"
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--no-binary", ":all:", "--dest", str(place), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        pytest.skip(f"the sources of {wanted} did not come within {PATIENCE} s")
    archives = list(place.glob("cantools-*.tar.gz"))
    if done.returncode or not archives:
        pytest.skip(f"the sources of {wanted} cannot be had: {done.stderr.strip().splitlines()[-1:]}")
    with tarfile.open(archives[0]) as archive:
        members = [member for member in archive.getmembers() if f"/{FOLDER}" in member.name]
        archive.extractall(place, members, filter="data")
    (found,) = place.glob(f"cantools-*/{FOLDER}")
    return found


def files(folder: Path) -> list[Path]:
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() == ".dbc")
    assert len(found) >= 80, "that is all of them"
    return found


def load(path: Path) -> Database | None:
    """`None` for what cantools refuses."""
    try:
        return cantools.database.load_file(path, database_format="dbc", strict=False)  # type: ignore[return-value]
    except UnsupportedDatabaseFormatError:
        return None


def device(path: Path) -> dict[str, Any]:
    return {"d": {"source_address": SOURCES[path.stem]} if path.stem in SOURCES else {}}


def tags(text: str) -> int:
    """How many tags of the file `check` shows."""
    rows = [line.split() for line in text.splitlines() if line.startswith("d ")]
    ((*_, count),) = rows
    return int(count) - 1


def test_every_file_loads_with_all_its_signals(run: Run, tmp_path: Path, folder: Path) -> None:
    refused, empty, problems = set(), set(), []
    for path in files(folder):
        database = load(path)
        site = write_site(tmp_path, path.read_bytes(), "127.0.0.1:1", TAG, device(path))
        check = run("check", "--config", str(site))
        code, text = check.wait(), check.out.decode()
        if database is None:
            refused.add(path.stem)
            count, warning = REFUSED[path.stem]
            if warning not in text:
                problems.append(f"{path.name}: nothing is said of {warning}:\n{text}")
        else:
            count = sum(len(message.signals) for message in database.messages)
            empty |= set() if count else {path.stem}
        if code or tags(text) != count:
            problems.append(f"{path.name}: exit code {code}, not {count} signals:\n{text}{check.log.text()}")
    assert not problems, "\n".join(problems)
    assert (refused, empty) == (set(REFUSED), NO_SIGNALS)


@pytest.mark.parametrize("name", ["no_signals", "issue_199"])
def test_a_device_of_a_file_without_signals_needs_tags_of_its_own(run: Run, tmp_path: Path, folder: Path, name: str) -> None:
    check = run("check", "--config", str(write_site(tmp_path, (folder / f"{name}.dbc").read_bytes(), "127.0.0.1:1")))
    assert check.wait() == 2 and "a `profile` that has tags" in check.log.text(), check.log.text()


def of_repository(name: str, kind: str) -> list[dict[str, Any]]:
    return [row for row in KNOWN[kind] if row["repo"] == name]


@pytest.mark.parametrize("path", sorted({row["path"] for row in of_repository(OWN, "vectors")}))
def test_frames_mean_what_is_known_of_them(listen: Listen, folder: Path, path: str) -> None:
    (known,) = (row for row in of_repository(OWN, "files") if row["path"] == path)
    data = (folder / Path(path).name).read_bytes()
    if hashlib.sha256(data).hexdigest() != known["sha256"]:
        pytest.skip("it is not the file of the vectors any more")
    bus = listen(data, 'dbc_ranges = "ignore"\n', device(Path(path)))
    short = short_floats(folder / Path(path).name)
    for vector in (row for row in of_repository(OWN, "vectors") if row["path"] == path):
        payload = bytes.fromhex(vector["data_hex"])
        # No frame has 10 bytes.
        payload = payload.ljust(min(length for length in LENGTHS if length >= len(payload)), b"\0")
        frame = Frame(int(vector["frame_id"], 16), payload, vector["extended"], fd=len(payload) > 8)
        before = bus.rows("d/*")
        bus.hear(frame)
        check_told(bus, before, vector, short)


def short_floats(path: Path) -> set[str]:
    """The signals that are floats of 32 bits, which the bridge shows with as few digits as tell them apart."""
    database = load(path)
    assert database
    return {f"d/{m.name}/{s.name}" for m in database.messages for s in m.signals if s.is_float and s.length == 32}


def check_told(bus: Bus, before: dict[str, Any], vector: dict[str, Any], short: set[str]) -> None:
    """Whether a frame said what is known of it, and nothing else."""
    rows = bus.rows("d/*")
    told = {place for place, row in rows.items() if row.get("source_time") != before[place].get("source_time")}
    wanted = {f"d/{vector['message']}/{name}": row["value"] for name, row in vector["expected"].items()}
    assert told <= set(wanted), told - set(wanted)
    for place, value in wanted.items():
        got = rows[place]["value"]
        got = float(got) if isinstance(got, str) else got
        near = pytest.approx(value, rel=6e-8 if place in short else 1e-9, abs=0)
        assert rows[place]["quality"] == "good" and got == near, (rows[place], value)


@pytest.mark.parametrize("repository", sorted({row["repo"] for row in KNOWN["files"]} - {OWN}))
def test_frames_of_other_files_mean_what_is_known_of_them(repository: str) -> None:
    names = sorted(Path(row["path"]).name for row in of_repository(repository, "files"))
    count = len(of_repository(repository, "vectors"))
    pytest.skip(f"not run: {count} frames of {len(names)} files that the sources of cantools do not have: {', '.join(names)}")
