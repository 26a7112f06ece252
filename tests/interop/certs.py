"""Certificates of a plant, made anew for each test."""

from __future__ import annotations

import ssl
from datetime import datetime
from pathlib import Path
from typing import Any

import trustme


class Papers:
    """A certificate authority, and certificates that it signs, as files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    def issue(self, name: str, *hosts: str, **dates: datetime) -> tuple[Path, Path]:
        """Certificate and key for `hosts`, in files of this name, written over what was there."""
        issued = self._authority.issue_cert(*hosts, **dates)  # type: ignore[arg-type]
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        issued.private_key_pem.write_to_path(key)
        for number, blob in enumerate(issued.cert_chain_pems):
            blob.write_to_path(certificate, append=number > 0)
        return certificate, key


class Authority(Papers):
    """A certificate authority, and one server and one client that it knows."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        super().__init__(folder)
        self._server = self.issue("server", host)
        self.certificate, self.key = self.issue("client", "bridge.test")

    @property
    def keys(self) -> dict[str, Any]:
        """The `tls` table of a connection that this authority's server lets in."""
        return {"ca": str(self.ca), "certificate": str(self.certificate), "key": str(self.key)}

    def serving(self) -> ssl.SSLContext:
        """For a server, which asks its clients for certificates, as Modbus security wants it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(*self._server)
        context.load_verify_locations(self.ca)
        return context

    def calling(self) -> ssl.SSLContext:
        """For a client that is let in."""
        context = ssl.create_default_context(cafile=str(self.ca))
        # pymodbus's client names no server to check against.
        context.check_hostname = False
        context.load_cert_chain(self.certificate, self.key)
        return context
