"""A Pulsar broker for tests: one that runs already, or one started for the session.

`WHENCE_TEST_PULSAR_URL` (and `WHENCE_TEST_PULSAR_ADMIN_URL`) name a running one. Otherwise one is started
through `deploy/pulsar/broker.py` of the checkout, with data of its own, and stopped at the end. Tests are
skipped, with the reason, where neither is possible. With several test processes give them a running one.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from whence.broker.pulsar.transport import PulsarOptions, PulsarTransport
from whence.broker.transport import Transport
from whence.schema.errors import ConfigError
from whence.schema.topics import DEFAULT_NAMESPACE
from whence.testing.transport_factory import Capability, TransportFactory

_SCRIPT = Path("deploy") / "pulsar" / "broker.py"
#: Over a restart of the broker, on a busy machine, a receipt or an answer may take this long, seconds.
_SEND_TIMEOUT_S = 60.0
_OPERATION_TIMEOUT_S = 30
#: A broker of tests ends before code that is compiled a second time pays: with this a start takes 9.5 s of a
#: core, without 18.6.
_JAVA_OPTIONS = "-XX:TieredStopAtLevel=1"


class TestBroker:
    """The broker that a session of tests talks to.

    Args:
        url: Address for clients.
        admin_url: Address of the admin interface; empty when it is not known.
        broker: What started it, None for one that is not ours.
    """

    #: Not a test, whatever its name begins with.
    __test__ = False

    def __init__(self, url: str, admin_url: str, broker: Any = None) -> None:
        self.url = url
        self.admin_url = admin_url
        self._broker = broker

    @property
    def is_ours(self) -> bool:
        """True when it may be killed and restarted."""
        return self._broker is not None

    def options(self) -> PulsarOptions:
        """Return the options of a client; credentials come from the environment."""
        given = PulsarOptions.from_environment()
        return PulsarOptions(
            token=given.token,
            token_file=given.token_file,
            tls_trust_certs=given.tls_trust_certs,
            admin_url=self.admin_url,
            send_timeout_s=_SEND_TIMEOUT_S,
            operation_timeout_s=_OPERATION_TIMEOUT_S,
        )

    def connect(
        self, namespace: str = DEFAULT_NAMESPACE, max_pending: int | None = None
    ) -> PulsarTransport:
        """Return a new client."""
        options = dataclasses.replace(self.options(), namespace=namespace)
        if max_pending is not None:
            options = dataclasses.replace(options, max_pending=max_pending)
        return PulsarTransport(self.url, options=options)

    def fresh_namespace(self) -> str:
        """Make a namespace that no other test uses, so that a flow has its topics for itself."""
        import httpx

        if not self.admin_url:
            pytest.skip("needs WHENCE_TEST_PULSAR_ADMIN_URL")
        namespace = f"public/test-{uuid4().hex}"
        httpx.put(f"{self.admin_url}/admin/v2/namespaces/{namespace}").raise_for_status()
        return namespace

    def environment(self, namespace: str) -> dict[str, str]:
        """Return the settings with which another process talks to a namespace of this broker."""
        return {
            "WHENCE_PULSAR_ADMIN_URL": self.admin_url,
            "WHENCE_PULSAR_NAMESPACE": namespace,
            "WHENCE_PULSAR_SEND_TIMEOUT_S": str(_SEND_TIMEOUT_S),
            "WHENCE_PULSAR_OPERATION_TIMEOUT_S": str(_OPERATION_TIMEOUT_S),
        }

    def stop(self) -> None:
        """Stop the broker cleanly; its data stay."""
        self._own().stop()

    def kill(self) -> None:
        """End the broker at once, as a crash would."""
        self._own().kill()

    def start_again(self) -> None:
        """Start it on its data and ports."""
        self._own().start(keep_data=True)

    def _own(self) -> Any:
        if self._broker is None:
            pytest.skip("the broker of WHENCE_TEST_PULSAR_URL is not ours to stop")
        return self._broker


@contextmanager
def running_broker(
    *, own: bool = False, settings: Mapping[str, object] | None = None, token: str = ""
) -> Iterator[TestBroker]:
    """Return a broker for a session of tests, or skip with the reason; stops what it started.

    Args:
        own: Start one even when a running one is named, to be killed for example.
        settings: Configuration of the broker that is started, beside that of `overrides.conf`.
        token: Lets the start-up ask a broker that knows its callers.
    """
    url = os.environ.get("WHENCE_TEST_PULSAR_URL")
    if url and not own:
        yield TestBroker(url, os.environ.get("WHENCE_TEST_PULSAR_ADMIN_URL", ""))
        return
    script = _script()
    if script is None:
        pytest.skip(f"no {_SCRIPT} above {Path.cwd()}; set WHENCE_TEST_PULSAR_URL")
    with tempfile.TemporaryDirectory(prefix="whence-pulsar-") as folder:
        broker = script.Broker(
            Path(folder), settings=settings, token=token, java_options=_JAVA_OPTIONS
        )
        with stopped_after_us(Path(folder)):
            try:
                broker.start()
            except script.BrokerError as error:
                pytest.skip(f"no Pulsar broker: {error}")
            try:
                yield TestBroker(broker.url, broker.admin_url, broker)
            finally:
                broker.kill()


@contextmanager
def stopped_after_us(folder: Path) -> Iterator[None]:
    """Stop the broker of a folder and remove the folder when this process ends without doing so itself.

    A shell waits at a pipe that nobody writes to: its end closes with this process, however that ends.
    """
    script = _script()
    assert script is not None
    assert script.__file__ is not None
    orders = 'read _; "$0" "$1" stop --dir "$2"; rm -rf "$2"'
    with subprocess.Popen(
        ["sh", "-c", orders, sys.executable, script.__file__, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as watcher:
        try:
            yield
        finally:
            watcher.kill()


def _script() -> ModuleType | None:
    """Load the script of the checkout that the tests run in."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        path = folder / _SCRIPT
        spec = importlib.util.spec_from_file_location("whence_deploy_pulsar", path)
        if path.is_file() and spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
            return module
    return None


def cut_connections(url: str) -> int:
    """Break every connection of this process to a broker; gives how many.

    Raises:
        ConfigError: This system does not list the files of a process.
    """
    port = urlsplit(url).port
    files = Path("/proc/self/fd")
    if not files.is_dir():
        raise ConfigError("cutting connections needs /proc", hint="run this test on Linux")
    count = 0
    for file in files.iterdir():
        with suppress(OSError):
            if file.readlink().name.startswith("socket:"):
                count += _cut(int(file.name), port)
    return count


def _cut(number: int, port: int | None) -> int:
    with socket.socket(fileno=os.dup(number)) as connection:
        if connection.family not in {socket.AF_INET, socket.AF_INET6}:
            return 0
        if connection.getpeername()[1] != port:
            return 0
        connection.shutdown(socket.SHUT_RDWR)
    return 1


class PulsarFactory(TransportFactory):
    """Makes clients of one Pulsar broker for the transport suite.

    Args:
        broker: The broker of the session.
    """

    capabilities = frozenset(
        {
            Capability.BOUNDED,
            Capability.CUT,
            Capability.NETWORK,
            Capability.LOOPS,
            Capability.PROCESS,
        }
    )

    def __init__(self, broker: TestBroker) -> None:
        super().__init__()
        self._broker = broker
        self.url = broker.url
        if broker.is_ours:
            self.capabilities = self.capabilities | {Capability.RESTART}

    async def make(self, max_backlog: int | None) -> Transport:
        """Connect one client; the backlog of a broker has no bound, what waits for its receipt has."""
        return self._broker.connect(max_pending=max_backlog)

    async def cut(self, transport: Transport) -> None:
        """Break the connections of all clients in this process; a client's own cannot be told apart."""
        cut_connections(self.url)

    async def restart(self) -> None:
        """Stop the broker and start it again on its data."""
        await asyncio.to_thread(self._broker.stop)
        await asyncio.to_thread(self._broker.start_again)
