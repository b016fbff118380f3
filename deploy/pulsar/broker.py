"""A Pulsar broker for development and tests, without Docker: needs Java 17 or newer and Maven.

    python deploy/pulsar/broker.py fetch|start|stop|restart|status|url [--dir DIR] [--port N] [--http-port N]

The distribution is downloaded once from Maven Central into the user's cache. `start` waits until the broker
serves and prints its address; it binds to the loopback only. The script needs only the standard library.
"""

# ruff: noqa: INP001, T201, S310 - a script for a terminal and its own broker
from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ("Broker", "BrokerError", "fetch")

VERSION = "4.0.6"
"""The newest 4.0 release whose server distribution is on Maven Central."""
HERE = Path(__file__).resolve().parent
MAIN_CLASS = "PulsarStandaloneStarter"
MEMORY = "-Xms256m -Xmx768m -XX:MaxDirectMemorySize=768m"
"""Heap and buffers; 350 to 440 MB are resident in use."""
START_TIMEOUT_S = 240.0
STOP_TIMEOUT_S = 15.0
HEALTH_TIMEOUT_S = 10.0
#: A broker that does not serve by then on the data of a kill will not.
LIMP_TIMEOUT_S = 90.0
#: Seconds over which the metadata store is watched after a start on old data, and the share of them in CPU
#: from which it loops: it took .31 while looping, below .01 otherwise.
LOOP_SAMPLE_S = 2.0
LOOP_SHARE = 0.1


class BrokerError(Exception):
    """The broker cannot be fetched, started or stopped; the message names the remedy."""


def cache_folder() -> Path:
    """Return the folder with the distribution and the data of brokers."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "whence" / "pulsar"


def fetch(cache: Path | None = None) -> Path:
    """Return the folder of the unpacked distribution; download it (244 MB) if it is missing.

    Raises:
        BrokerError: Maven is missing, or it cannot reach its repository.
    """
    cache = cache or cache_folder()
    home = cache / f"apache-pulsar-{VERSION}"
    with _lock(cache / "fetch.lock"):
        if not (home / "bin" / "pulsar").exists():
            _unpack(cache, home)
    return home


def _unpack(cache: Path, home: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError("mvn is not on the path; install Maven (Debian: apt-get install maven)")
    # Renamed into place at the end, so that an interrupted download is never used.
    with tempfile.TemporaryDirectory(prefix="unpack-", dir=cache) as folder:
        command = [maven, "-q", "-B", "-f", str(HERE / "pom.xml"), f"-Dpulsar.version={VERSION}"]
        command += [f"-Dunpack.directory={folder}", "process-resources"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        unpacked = Path(folder) / home.name
        if done.returncode or not unpacked.is_dir():
            lines = [line for line in done.stdout.splitlines() if "ERROR" in line] or ["no output"]
            raise BrokerError(f"Maven could not fetch the Pulsar distribution: {lines[0]}")
        unpacked.rename(home)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class Broker:
    """One broker: its folder, ports and process.

    Args:
        folder: Folder of data, log and state; `default` in the cache when None.
        settings: Configuration in addition to `overrides.conf`.
        token: Token for the admin interface of a broker with authentication.
        java_options: Additional options of the Java virtual machine.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        settings: Mapping[str, object] | None = None,
        token: str = "",
        java_options: str = "",
    ) -> None:
        self.folder = (folder or cache_folder() / "default").resolve()
        self._settings = dict(settings or {})
        self._token = token
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"pulsar://127.0.0.1:{self._state()['port']}"

    @property
    def admin_url(self) -> str:
        """Address of the admin REST interface."""
        return f"http://127.0.0.1:{self._state()['http_port']}"

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        pid = self._state().get("pid")
        return pid if isinstance(pid, int) and _is_broker(pid) else None

    def is_serving(self) -> bool:
        """Return whether the broker has its namespaces and can store and read a message."""
        try:
            has_namespace = "public/default" in json.loads(self._ask("namespaces/public", 2.0))
            return has_namespace and self._ask("brokers/health", HEALTH_TIMEOUT_S) == b"ok"
        except (KeyError, ValueError, OSError):
            return False

    def _ask(self, path: str, timeout_s: float) -> bytes:
        request = urllib.request.Request(f"{self.admin_url}/admin/v2/{path}")
        if self._token:
            request.add_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=timeout_s) as answer:
            body: bytes = answer.read()
            return body

    def start(
        self,
        *,
        port: int = 0,
        http_port: int = 0,
        keep_data: bool = False,
        timeout_s: float = START_TIMEOUT_S,
    ) -> str:
        """Start the broker, wait until it serves and return its address.

        Args:
            port: Port for clients; 0 is the last port when the data are kept, else a free one.
            http_port: The same for the admin interface.
            keep_data: Whether to keep the data of the last run.
            timeout_s: Time limit of the start in seconds.

        Raises:
            BrokerError: Java or Maven is missing, or the broker does not start.
        """
        if self.pid is not None:
            return self.url
        _check_java()
        home = fetch()
        last = self._state() if keep_data else {}
        port = port or last.get("port") or _free_port()
        http_port = http_port or last.get("http_port") or _free_port()
        # Ledgers refer to their bookie by address and port.
        bookie_port = last.get("bookie_port") or _free_port()
        if not keep_data:
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)
        state = {"port": port, "http_port": http_port, "bookie_port": bookie_port}
        if last and self._serves_well(home, state):
            return self.url
        self._run(home, state, timeout_s)
        return self.url

    def _run(self, home: Path, state: dict[str, Any], timeout_s: float) -> None:
        process = self._process = self._launch(home, **state)
        self._state_file.write_text(json.dumps({**state, "pid": process.pid}), encoding="utf-8")
        self._wait_until_serving(process, timeout_s)

    def _serves_well(self, home: Path, state: dict[str, Any]) -> bool:
        """Start on the data of the last run; stop again where the bookie registers in a loop.

        After a kill -9 the embedded metadata store of 4.0.6 can do so. One core is busy, and often no topic can
        be made. A clean end and another start cure it.
        """
        try:
            self._run(home, state, LIMP_TIMEOUT_S)
        except BrokerError:
            return False
        before = self._metadata_seconds()
        time.sleep(LOOP_SAMPLE_S)
        if self._metadata_seconds() - before < LOOP_SAMPLE_S * LOOP_SHARE:
            return True
        self.stop()
        return False

    def _metadata_seconds(self) -> float:
        """Return the CPU seconds of the metadata store, 0 where the system does not say."""
        ticks = 0
        for thread in Path(f"/proc/{self.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                name, _, fields = thread.read_text(encoding="utf-8").rpartition(") ")
                if "(metadata-store" in name:
                    ticks += sum(int(one) for one in fields.split()[11:13])
        return ticks / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """Stop the broker, by force if it does not react; keep its data."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGTERM)
        if not self._is_gone(pid):
            self.kill()

    def kill(self) -> None:
        """Kill the broker, as a crash does."""
        pid = self.pid
        if pid is None:
            return
        os.kill(pid, signal.SIGKILL)
        if not self._is_gone(pid):
            raise BrokerError(f"process {pid} does not end")

    def _is_gone(self, pid: int) -> bool:
        """Wait for the end of the process; reap it if it is a child of this one."""
        if self._process is not None and self._process.pid == pid:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(STOP_TIMEOUT_S)
            return self._process.returncode is not None
        until = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < until and _is_broker(pid):
            time.sleep(0.1)
        return not _is_broker(pid)

    @property
    def _state_file(self) -> Path:
        return self.folder / "state.json"

    def _state(self) -> dict[str, Any]:
        try:
            state: dict[str, Any] = json.loads(self._state_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return state

    def _launch(
        self, home: Path, *, port: int, http_port: int, bookie_port: int
    ) -> subprocess.Popen[bytes]:
        overrides = (HERE / "overrides.conf").read_text(encoding="utf-8")
        loopback = "lo0" if sys.platform == "darwin" else "lo"
        values = (("{port}", port), ("{http_port}", http_port), ("{loopback}", loopback))
        for name, value in values:
            overrides = overrides.replace(name, str(value))
        more = "".join(f"{name}={value}\n" for name, value in self._settings.items())
        shipped = (home / "conf" / "standalone.conf").read_text(encoding="utf-8")
        conf = self.folder / "standalone.conf"
        # The shipped file ends without a newline.
        conf.write_text(f"{shipped}\n\n{overrides}\n{more}", encoding="utf-8")
        environment = os.environ | {
            "PULSAR_STANDALONE_CONF": str(conf),
            "PULSAR_LOG_DIR": str(self.folder / "logs"),
            "PULSAR_PID_DIR": str(self.folder),
            "PULSAR_MEM": MEMORY,
            "PULSAR_GC": "-XX:+UseSerialGC",
            "PULSAR_GC_LOG": "-Xlog:disable",
            "PULSAR_LOG_LEVEL": "warn",
            "PULSAR_LOG_APPENDER": "Console",
            "PULSAR_EXTRA_OPTS": "-Dpulsar.allocator.exit_on_oom=false -Dio.netty.leakDetectionLevel=disabled"
            f" {self._java_options}",
        }
        data = self.folder / "data"
        command = ["bash", str(home / "bin" / "pulsar"), "standalone", "--no-functions-worker"]
        command += ["--no-stream-storage", "--advertised-address", "127.0.0.1"]
        command += ["--metadata-dir", str(data / "metadata")]
        command += ["--bookkeeper-dir", str(data / "bookkeeper")]
        command += ["--bookkeeper-port", str(bookie_port)]
        with (self.folder / "broker.log").open("ab") as log:
            # In a session of its own, so that an interrupt at the terminal does not reach the broker.
            return subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_until_serving(self, process: subprocess.Popen[bytes], timeout_s: float) -> None:
        until = time.monotonic() + timeout_s
        while not self.is_serving():
            if process.poll() is not None:
                raise BrokerError(f"the broker ended while starting\n{self._log_tail()}")
            if time.monotonic() > until:
                # Stopped cleanly if possible: an unclean end can be what keeps a broker from serving.
                self.stop()
                raise BrokerError(f"no broker after {timeout_s:.0f} s\n{self._log_tail()}")
            time.sleep(0.25)

    def _log_tail(self) -> str:
        lines = (self.folder / "broker.log").read_text("utf-8", "replace").splitlines()
        return "\n".join(lines[-20:])


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not Path(java).exists():
        raise BrokerError("java is not on the path; install Java 17 or newer")
    output = subprocess.run([java, "-version"], capture_output=True, text=True, check=False).stderr
    found = re.search(r'version "(?:1\.)?(\d+)', output)
    if found is None or int(found[1]) < 17:
        raise BrokerError(f"{java} is older than Java 17; install a newer one or set JAVA_HOME")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _is_broker(pid: int) -> bool:
    """Return whether the process is a running broker; process ids are reused."""
    # Without -ww the line is cut at the width of a terminal.
    command = ["ps", "-ww", "-o", "stat=,command=", "-p", str(pid)]
    output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    is_zombie = output.startswith("Z")
    return not is_zombie and (MAIN_CLASS in output or "bin/pulsar" in output)


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 0, or 1 after an error line on stderr."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("verb", choices=["fetch", "start", "stop", "restart", "status", "url"])
    parser.add_argument("--dir", type=Path, help="folder of data, log and state")
    parser.add_argument("--port", type=int, default=0, help="port for clients; any free one")
    parser.add_argument("--http-port", type=int, default=0, help="port of the admin interface")
    parser.add_argument(
        "--keep-data", action="store_true", help="start on the data of the last run"
    )
    options = parser.parse_args(arguments)
    broker = Broker(options.dir)
    try:
        return _run(broker, options)
    except BrokerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(broker: Broker, options: argparse.Namespace) -> int:
    match options.verb:
        case "fetch":
            print(fetch())
        case "stop":
            broker.stop()
        case "start" | "restart":
            restart = options.verb == "restart"
            if restart:
                broker.stop()
            ports = {"port": options.port, "http_port": options.http_port}
            print(broker.start(**ports, keep_data=options.keep_data or restart))
            print(f"admin: {broker.admin_url}", file=sys.stderr)
        case _:
            if broker.pid is None or not broker.is_serving():
                print("not running", file=sys.stderr)
                return 1
            print(broker.url if options.verb == "url" else f"{broker.url} {broker.admin_url}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
