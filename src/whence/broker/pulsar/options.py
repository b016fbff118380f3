"""How to reach a Pulsar cluster: credentials, certificates, namespace, limits.

Values come from the environment (`WHENCE_PULSAR_...`) when a transport is opened by its address. Secrets
never appear in an address, an error or a `repr`.
"""

# mypy: untyped-calls-exclude=pulsar
from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from urllib.parse import urlsplit

import pulsar

from whence.schema.errors import ConfigError
from whence.schema.topics import DEFAULT_NAMESPACE

_PREFIX = "WHENCE_PULSAR_"
_KINDS: dict[str, type[str | int | float]] = {"str": str, "int": int, "float": float}
_NAMESPACE = re.compile(r"[^/\s]+/[^/\s]+\Z")
_HOST = re.compile(r"[^/?#@\s,]+:\d{1,5}(?:,[^/?#@\s,]+:\d{1,5})*/?\Z")


@dataclass(frozen=True, kw_only=True)
class PulsarOptions:
    """Settings of a Pulsar client; every one has an environment variable, `WHENCE_PULSAR_` and its name.

    Raises:
        ConfigError: Two ways of authentication, half of a pair, or a value out of range.
    """

    token: str = field(default="", repr=False)
    """JSON web token."""
    token_file: str = ""
    """File with the token, read again at every new connection, so that a token can be renewed."""
    oauth2_issuer_url: str = ""
    """OAuth 2.0 issuer; goes with `oauth2_private_key`."""
    oauth2_private_key: str = field(default="", repr=False)
    """Path or `data:` address of the JSON file with `client_id` and `client_secret`."""
    oauth2_audience: str = ""
    """OAuth 2.0 name of the cluster."""
    oauth2_scope: str = ""
    """OAuth 2.0 scope."""
    tls_trust_certs: str = ""
    """PEM file of the authorities to trust; the usual ones when empty."""
    tls_certificate: str = ""
    """PEM file of the client's own certificate; goes with `tls_key`."""
    tls_key: str = ""
    """PEM file of its key."""
    admin_url: str = ""
    """Address of the admin interface, `http://host:8080`; without it `stats` sees this client only."""
    namespace: str = DEFAULT_NAMESPACE
    """Where topics of `public/default` live on this cluster, `tenant/namespace`."""
    client_log: str = ""
    """File for the log of the client library; nowhere when empty, errors reach the caller anyway."""
    operation_timeout_s: int = 5
    """Seconds for opening, closing and looking up topics, 1 or more."""
    send_timeout_s: float = 30.0
    """Seconds for a receipt, over reconnections; more than 0."""
    max_pending: int = 500
    """Messages without a receipt before `publish` waits, 1 or more. A broker drops what goes to
    non-persistent topics beyond 1000 messages at a time from one connection."""
    full_wait_s: float = 5.0
    """Seconds that `publish` waits for room before it raises `Overloaded`."""

    def __post_init__(self) -> None:
        ways = {
            "token": self.token,
            "token_file": self.token_file,
            "oauth2_issuer_url": self.oauth2_issuer_url,
            "tls_certificate": self.tls_certificate,
        }
        given = [name for name, value in ways.items() if value]
        if len(given) > 1:
            raise ConfigError(f"Pulsar: {' and '.join(given)} are given", hint="use one of them")
        pairs = (("oauth2_issuer_url", "oauth2_private_key"), ("tls_certificate", "tls_key"))
        for first, second in pairs:
            if bool(getattr(self, first)) != bool(getattr(self, second)):
                raise ConfigError(f"Pulsar: {first} goes with {second}", hint="give both or none")
        if not _NAMESPACE.match(self.namespace):
            raise ConfigError(
                f"Pulsar: {self.namespace!r} is not a namespace", hint="use tenant/namespace"
            )
        for name in ("operation_timeout_s", "max_pending"):
            if getattr(self, name) < 1:
                raise ConfigError(f"Pulsar: {name} is {getattr(self, name)}", hint="use 1 or more")
        if not self.send_timeout_s > 0 or not self.full_wait_s >= 0:
            raise ConfigError("Pulsar: send_timeout_s and full_wait_s are seconds, 0 or more")

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None) -> PulsarOptions:
        """Read all settings from variables such as `WHENCE_PULSAR_TOKEN`.

        Raises:
            ConfigError: A value is wrong; the message names the setting.
        """
        source = os.environ if environment is None else environment
        values: dict[str, str | int | float] = {}
        for item in fields(cls):
            text = source.get(_PREFIX + item.name.upper(), "")
            if not text:
                continue
            try:
                values[item.name] = _KINDS.get(str(item.type), str)(text)
            except ValueError as error:
                raise ConfigError(
                    f"{_PREFIX}{item.name.upper()} is {text!r}", hint="use a number"
                ) from error
        return cls(**values)  # type: ignore[arg-type]

    def authentication(self) -> pulsar.Authentication | None:
        """Return what the client library authenticates with; None without credentials.

        Raises:
            ConfigError: The token file cannot be read.
        """
        if self.token:
            return pulsar.AuthenticationToken(self.token)
        if self.token_file:
            self.bearer()
            return pulsar.AuthenticationToken(self.bearer)
        if self.oauth2_issuer_url:
            return pulsar.AuthenticationOauth2(json.dumps(self._oauth2()))
        if self.tls_certificate:
            return pulsar.AuthenticationTLS(self.tls_certificate, self.tls_key)
        return None

    def bearer(self) -> str:
        """Return the token for HTTP; empty without one.

        Raises:
            ConfigError: The token file cannot be read.
        """
        if not self.token_file:
            return self.token
        try:
            return Path(self.token_file).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise ConfigError(
                f"Pulsar: token file {self.token_file}: {error.strerror}",
                hint=f"check {_PREFIX}TOKEN_FILE",
            ) from error

    def _oauth2(self) -> dict[str, str]:
        given = {
            "issuer_url": self.oauth2_issuer_url,
            "private_key": self.oauth2_private_key,
            "audience": self.oauth2_audience,
            "scope": self.oauth2_scope,
        }
        return {name: value for name, value in given.items() if value}


def checked_url(url: str) -> str:
    """Return the address without a trailing slash.

    Raises:
        ConfigError: It is not `pulsar://host:port` or `pulsar+ssl://host:port`, or it carries credentials,
            which are not repeated.
    """
    parts = urlsplit(url)
    rest = url.partition("://")[2]
    if parts.scheme not in {"pulsar", "pulsar+ssl"} or not _HOST.match(rest):
        shown = f"{parts.scheme}://{rest.rpartition('@')[2]}"
        raise ConfigError(
            f"{shown!r} is not the address of a Pulsar broker",
            hint="use pulsar://host:port or pulsar+ssl://host:port; "
            "a token goes into WHENCE_PULSAR_TOKEN",
        )
    return url.rstrip("/")
