"""TLS to servers that the user runs."""

from __future__ import annotations

import ssl

import msgspec

from harness.errors import EnvironmentLacking


class TlsSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a server is verified, and how a client proves who it is; files are paths, empty for the system's authorities
    and for no certificate of the client."""

    ca_certs: str = ""
    certfile: str = ""
    keyfile: str = ""
    verified: bool = True
    """False: any certificate of the server is accepted."""
    host_checked: bool = True
    """False: the certificate may be another host's."""

    def context(self) -> ssl.SSLContext:
        """Return the context of connections. Raises EnvironmentLacking for a file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_certs or None)
            if self.certfile:
                context.load_cert_chain(self.certfile, self.keyfile or None)
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(filter(None, (self.ca_certs, self.certfile, self.keyfile)))
            raise EnvironmentLacking(f"servers: the certificates in {files} cannot be used: {error}") from error
        context.check_hostname = self.verified and self.host_checked
        if not self.verified:
            context.verify_mode = ssl.CERT_NONE
        return context
