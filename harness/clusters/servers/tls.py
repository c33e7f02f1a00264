"""TLS to servers that the user runs: its settings, and the options of an address that name them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import msgspec

from harness.errors import EnvironmentLacking, UsageError, unknown_name

TlsBegin = Literal["at once", "http2", "postgres", "mysql"]
"""Begin of a connection with TLS: the handshake comes first, or it also chooses HTTP/2 (ALPN), or it comes after the
request for it of that service's protocol."""


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

    def context(self, protocols: tuple[str, ...] = ()) -> ssl.SSLContext:
        """Return the context of connections on which one of ``protocols`` is spoken (ALPN), if any are given. Raises
        EnvironmentLacking for a file that cannot be used."""
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
        if protocols:
            context.set_alpn_protocols(list(protocols))
        return context


Verification = Mapping[str, bool]
"""Fields of TlsSettings that a mode sets."""


@dataclass(frozen=True, slots=True)
class TlsOptions:
    """The options for TLS in an address, named as the service's own clients name them.

    ``files`` are the options with files, each with its field of TlsSettings. ``mode`` is the option that says how the
    server is verified, one of ``modes``; the first one is the default, and None is no TLS. Without ``mode`` the scheme
    of the address says whether there is TLS.
    """

    files: Mapping[str, str]
    mode: str = ""
    modes: Mapping[str, Verification | None] | None = None

    def settings(self, scheme: str, options: Mapping[str, str], *, by_scheme: bool) -> TlsSettings | None:
        """Return the settings that the options of an address name, None without TLS; ``by_scheme``: its scheme is the
        one with TLS. Raises UsageError."""
        usable = self.files if self.mode or by_scheme else {}
        refuse_unknown_options(scheme, options, [*usable, *filter(None, [self.mode])])
        files = {self.files[name]: path for name, path in options.items() if name != self.mode}
        verification = self._verification(options) if self.mode else {} if by_scheme else None
        if verification is None:
            if files:
                name = next(name for name in options if name != self.mode)
                *others, last = [mode for mode, fields in (self.modes or {}).items() if fields is not None]
                raise UsageError(f"servers: {name} needs {self.mode}={', '.join(others)} or {last}")
            return None
        return msgspec.convert({**files, **verification}, TlsSettings)

    def _verification(self, options: Mapping[str, str]) -> Verification | None:
        modes = self.modes or {}
        wanted = options.get(self.mode, next(iter(modes)))
        if wanted not in modes:
            raise unknown_name(self.mode, wanted, modes)
        return modes[wanted]


def refuse_unknown_options(scheme: str, options: Mapping[str, Any], known: list[str]) -> None:
    """Raise UsageError if an address has an option that is not known; the message does not have its value."""
    for name in options:
        if name not in known:
            raise unknown_name(f"option of {scheme}://", name, known or ["none"])


_UNVERIFIED: Final = {"verified": False}
_ANY_HOST: Final = {"host_checked": False}
TLS_OPTIONS: Final[Mapping[str, TlsOptions]] = {
    "redis": TlsOptions({"ssl_ca_certs": "ca_certs", "ssl_certfile": "certfile", "ssl_keyfile": "keyfile"}),
    "etcd": TlsOptions({"cacert": "ca_certs", "cert": "certfile", "key": "keyfile"}),
    "postgres": TlsOptions(
        {"sslrootcert": "ca_certs", "sslcert": "certfile", "sslkey": "keyfile"},
        "sslmode",
        {"disable": None, "require": _UNVERIFIED, "verify-ca": _ANY_HOST, "verify-full": {}},
    ),
    "mysql": TlsOptions(
        {"ssl-ca": "ca_certs", "ssl-cert": "certfile", "ssl-key": "keyfile"},
        "ssl-mode",
        {"DISABLED": None, "REQUIRED": _UNVERIFIED, "VERIFY_CA": _ANY_HOST, "VERIFY_IDENTITY": {}},
    ),
}
"""Options by service: as redis-py, etcdctl, PostgreSQL's library and MySQL's clients name them."""
NO_TLS: Final = TlsOptions({})
"""Options of a service whose connections have no TLS here."""
