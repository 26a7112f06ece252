"""MQTT over TLS at a mosquitto with certificates of every kind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from certs import Papers
from conftest import Ask, Broker, Run, Save
from mosquitto import Listener, Mosquitto
from mqtt import NUMBER, device, site
from waiting import until

VERSIONS = ("5", "3.1.1")


@pytest.fixture
def papers(tmp_path: Path) -> Papers:
    return Papers(tmp_path / "papers")


def secured(papers: Papers, *hosts: str, clients: bool = False, websocket: bool = False, **dates: datetime) -> Listener:
    certificate, key = papers.issue("server", *(hosts or ("127.0.0.1",)), **dates)
    ca = papers.ca if clients else None
    return Listener(certificate=certificate, key=key, clients=ca, websocket=websocket)


def calling(broker: Mosquitto, tls: dict[str, Any], **keys: Any) -> str:
    """A site whose bridge tries once, and then in ten minutes where somebody must change something."""
    keys = {"driver": "mqtt-tls", "reconnect_max_ms": 600_000, "timeout_ms": 2000, "tls": tls, **keys}
    return site(keys.pop("address", broker.address), device("d", NUMBER), **keys)


NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("driver", ["mqtt-tls", "mqtt-wss"])
def test_with_the_right_papers_it_is_good(
    ask: Ask, brokers: Broker, papers: Papers, version: str, driver: str
) -> None:
    certificate, key = papers.issue("client", "bridge.test")
    listener = secured(papers, clients=True, websocket=driver == "mqtt-wss")
    broker = brokers(Listener(), listener)
    tls = {"ca": papers.ca, "certificate": certificate, "key": key}
    address = f"127.0.0.1:{listener.port}"
    plant = ask(calling(broker, tls, driver=driver, version=version, address=address))
    plant.wait_online("d")
    broker.wait("Sending SUBACK")
    broker.publish("s/1", '{"v":4}')
    plant.wait("d/v", quality="good", value=4)


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "expired": ({"not_before": NOW - 2 * DAY, "not_after": NOW - DAY}, ["certificate expired on", f"{NOW - DAY:%Y-%m-%d}"]),
    "not-yet-valid": ({"not_before": NOW + DAY, "not_after": NOW + 2 * DAY}, ["not valid before", f"{NOW + DAY:%Y-%m-%d}"]),
    "another-name": ({"hosts": ("broker.test",)}, ["valid for broker.test", "not for 127.0.0.1"]),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_bad_certificate_is_named_and_tried_again_slowly(
    ask: Ask, brokers: Broker, papers: Papers, case: str
) -> None:
    keys, words = REFUSED[case]
    keys = dict(keys)
    broker = brokers(secured(papers, *keys.pop("hosts", ()), **keys))
    before = broker.count("New connection from")
    plant = ask(calling(broker, {"ca": papers.ca}))
    row = plant.wait_link("d", *words)
    assert row["link"] == "backing_off", row
    plant.wait("d/v", quality="bad", reason="not_connected")
    assert broker.count("New connection from") == before + 1, broker.log()
    assert broker.count("New client connected") == 0


def test_it_recovers_by_itself(ask: Ask, brokers: Broker, papers: Papers) -> None:
    """Renewed on disk, the certificate is taken by the next try; so is the bridge's own authority file."""
    other = Papers(papers.folder.parent / "other")
    broker = brokers(secured(papers))
    trusted = papers.folder / "trusted.pem"
    trusted.write_bytes(other.ca.read_bytes())
    plant = ask(calling(broker, {"ca": trusted}, reconnect_max_ms=50))
    plant.wait_link("d", "not signed by an authority in", "trusted.pem")
    trusted.write_bytes(papers.ca.read_bytes())
    plant.wait_online("d")
    # And back, with a broker whose new certificate is of the other one.
    broker.kill()
    certificate, key = other.issue("server", "127.0.0.1")
    broker.listeners[0].certificate.write_bytes(certificate.read_bytes())  # type: ignore[union-attr]
    broker.listeners[0].key.write_bytes(key.read_bytes())  # type: ignore[union-attr]
    broker.start()
    plant.wait_link("d", "not signed by an authority in", "trusted.pem")
    trusted.write_bytes(papers.ca.read_bytes() + other.ca.read_bytes())
    plant.wait_online("d")


def test_a_bare_address_needs_an_address_in_the_certificate(ask: Ask, brokers: Broker, papers: Papers) -> None:
    broker = brokers(secured(papers, "localhost"))
    plant = ask(calling(broker, {"ca": papers.ca}))
    plant.wait_link("d", "valid for localhost", "not for 127.0.0.1")
    ask(calling(broker, {"ca": papers.ca, "server_name": "localhost"})).wait_online("d")
    ask(calling(broker, {"ca": papers.ca}, address=f"localhost:{broker.port}")).wait_online("d")


def test_plain_and_tls_do_not_meet(ask: Ask, brokers: Broker, papers: Papers) -> None:
    plain, secret = Listener(), secured(papers)
    broker = brokers(plain, secret)
    tls = {"ca": papers.ca}
    row = ask(calling(broker, tls, reconnect_max_ms=50)).wait_link("d", "TLS")
    assert row["link"] != "connected", row
    text = site(f"127.0.0.1:{secret.port}", device("d", NUMBER), timeout_ms=2000)
    row = ask(text).wait_link("d", f"127.0.0.1:{secret.port}")
    assert row["link"] != "connected", row
    assert broker.count("New client connected") == 0, broker.log()


def test_a_client_certificate_that_is_missing(ask: Ask, brokers: Broker, papers: Papers) -> None:
    broker = brokers(secured(papers, clients=True))
    plant = ask(calling(broker, {"ca": papers.ca}))
    plant.wait_link("d", "certificate")
    assert broker.count("New client connected") == 0


def test_a_key_that_cannot_be_read_is_named_and_not_shown(
    ask: Ask, run: Run, save: Save, brokers: Broker, papers: Papers
) -> None:
    certificate, key = papers.issue("client", "bridge.test")
    text = key.read_text()
    key.write_text(text.replace("PRIVATE KEY", "PRIVATE KEX"))
    broker = brokers(secured(papers, clients=True))
    tls = {"ca": papers.ca, "certificate": certificate, "key": key}
    found = run("check", "--config", str(save(calling(broker, tls))), pipe=True)
    found.process.wait(20)
    told = found.log.text() + found.out.decode()
    assert found.process.returncode != 0 and "client.key" in told, told
    secret = text.splitlines()[1]
    assert secret not in told
    # Spoilt while it runs, it is named as well.
    key.write_text(text)
    plant = ask(calling(broker, tls, reconnect_max_ms=50))
    plant.wait_online("d")
    key.write_text(text.replace("PRIVATE KEY", "PRIVATE KEX"))
    broker.kill()
    broker.start()
    plant.wait_link("d", "client.key")
    assert secret not in plant.bridge.log.text()
    key.write_text(text)
    plant.wait_online("d")


@pytest.mark.parametrize("kind", ["crlf", "several", "latin-1"])
def test_authorities_in_a_file_of_another_hand(ask: Ask, brokers: Broker, papers: Papers, kind: str) -> None:
    own, other = papers.ca.read_bytes(), Papers(papers.folder.parent / "other").ca.read_bytes()
    odd = {
        "crlf": own.replace(b"\n", b"\r\n"),
        "several": b"# first\n" + other + b"\n\nsubject=/CN=plant\n" + own,
        "latin-1": "# Behörde für das Werk\n".encode("latin-1") + own,
    }[kind]
    (papers.folder / "odd.pem").write_bytes(odd)
    broker = brokers(secured(papers))
    plant = ask(calling(broker, {"ca": papers.folder / "odd.pem"}))
    plant.wait_online("d")


def test_there_is_no_way_to_trust_everybody(run: Run, save: Save, brokers: Broker, papers: Papers) -> None:
    broker = brokers(secured(papers))
    for word in ("insecure", "verify", "insecure_skip_verify"):
        found = run("check", "--config", str(save(calling(broker, {"ca": papers.ca, word: True}))), pipe=True)
        assert found.process.wait(20) != 0
        assert word in found.log.text() + found.out.decode()


def test_the_papers_are_good_for_others(brokers: Broker, papers: Papers) -> None:
    """The broker's own client accepts these papers: a refusal is the bridge's judgement, not their fault."""
    broker = brokers(secured(papers))
    broker.publish("s/1", "1", "--cafile", str(papers.ca), "-p", str(broker.port))
    until("it connected", lambda: broker.count("New client connected") == 1)
