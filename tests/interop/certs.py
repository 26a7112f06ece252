"""Certificates of a plant, made anew for each test."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import trustme


class Authority:
    """A certificate authority, and one server and one client that it knows."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        self._server = self._authority.issue_cert(host)
        client = self._authority.issue_cert("bridge.test")
        self.ca = folder / "ca.pem"
        self.certificate = folder / "client.pem"
        self.key = folder / "client.key"
        self._authority.cert_pem.write_to_path(self.ca)
        client.private_key_pem.write_to_path(self.key)
        for number, blob in enumerate(client.cert_chain_pems):
            blob.write_to_path(self.certificate, append=number > 0)

    @property
    def keys(self) -> dict[str, Any]:
        """The `tls` table of a connection that this authority's server lets in."""
        return {"ca": str(self.ca), "certificate": str(self.certificate), "key": str(self.key)}

    def serving(self) -> ssl.SSLContext:
        """For a server, which asks its clients for certificates, as Modbus security wants it."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        self._server.configure_cert(context)
        self._authority.configure_trust(context)
        return context

    def calling(self) -> ssl.SSLContext:
        """For a client that is let in."""
        context = ssl.create_default_context(cafile=str(self.ca))
        # pymodbus's client names no server to check against.
        context.check_hostname = False
        context.load_cert_chain(self.certificate, self.key)
        return context
