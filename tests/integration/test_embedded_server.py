"""The life cycle of the embedded server, with processes that really die."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import asyncpg
import pytest

from whence.schema.errors import ConfigError, DiskFull, HomeTooNew, Unavailable
from whence.store.postgres.server.home import LAYOUT
from whence.store.postgres.server.locks import FileLock
from whence.store.postgres.server.server import EmbeddedServer

pytestmark = pytest.mark.postgres

AS_ROOT = os.geteuid() == 0

#: A user in a process of its own: says `up`, leaves when a line comes in.
USER = """
import asyncio, sys
from whence.store.postgres.server.server import EmbeddedServer

async def main():
    async with EmbeddedServer(sys.argv[1]):
        print("up", flush=True)
        await asyncio.to_thread(sys.stdin.readline)

asyncio.run(main())
"""


class User:
    """A process that uses the server of a home."""

    def __init__(self, home: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", USER, str(home)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def wait_up(self) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "up\n"

    def leave(self) -> int:
        self.process.communicate("\n", timeout=60)
        return self.process.returncode

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home whose server is not left running, whatever the test did to it."""
    path = tmp_path / "home"
    yield path
    for process in processes(path):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


@pytest.fixture
def made(home: Path, new_home: Callable[[Path], Path]) -> None:
    """Make the data of the home, as its first start would in five times the processor time."""
    new_home(home)


def processes(home: Path) -> list[int]:
    """Find the processes of PostgreSQL that work in a home's data directory or make one there."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        try:
            command = (entry / "cmdline").read_bytes().decode(errors="replace")
            place = (entry / "cwd").readlink()
        except OSError:
            continue
        program = command.split("\0")[0]
        ours = str(home) in command and ("initdb" in program or "bin/postgres" in program)
        if ours or place == home / "postgres":
            found.append(int(entry.name))
    return found


def postmaster(home: Path) -> int:
    return int((home / "postgres/postmaster.pid").read_text().split("\n")[0])


def wait_until(condition: object, seconds: float = 30) -> bool:
    assert callable(condition)
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


async def answer(server: EmbeddedServer, query: str = "SELECT 1") -> object:
    connection = await asyncpg.connect(server.url())
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.mark.usefixtures("made")
async def test_the_last_user_stops_the_server(home: Path) -> None:
    """Two processes share one server, which runs until both have left."""
    first, second = User(home), User(home)
    first.wait_up()
    second.wait_up()
    servers = {postmaster(home)}

    assert first.leave() == 0
    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1
        servers.add(postmaster(home))
    assert len(servers) == 1
    assert processes(home)
    assert second.leave() == 0
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_two_users_in_one_process(home: Path) -> None:
    """Each object is a user of its own; closing twice is closing once."""
    first, second = EmbeddedServer(home), EmbeddedServer(home)
    await asyncio.gather(first.start(), second.start())
    await first.aclose()
    await first.aclose()

    assert await answer(second) == 1
    await second.aclose()
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_data_outlive_the_server(home: Path) -> None:
    """Committed data is there after the next start."""
    server = EmbeddedServer(home)
    await server.start()
    await answer(server, "CREATE TABLE t AS SELECT 7 AS x")
    await server.aclose()
    await server.start()
    found = await answer(server, "SELECT x FROM t")
    await server.aclose()

    assert found == 7


@pytest.mark.usefixtures("made")
async def test_a_killed_user_leaves_no_server(home: Path) -> None:
    """The server stops when its only user is killed with SIGKILL."""
    user = User(home)
    user.wait_up()
    user.kill()

    assert wait_until(lambda: not processes(home))
    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1


@pytest.mark.usefixtures("made")
async def test_a_killed_user_does_not_affect_others(home: Path) -> None:
    """A killed user neither stops the server of others nor keeps it running after them."""
    async with EmbeddedServer(home) as server:
        user = User(home)
        user.wait_up()
        user.kill()
        assert await answer(server) == 1
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_an_orphaned_server_is_reused(home: Path) -> None:
    """A server whose launcher was killed is used by the next user and stopped by the last."""
    user = User(home)
    user.wait_up()
    server_process = postmaster(home)
    launcher = int(Path(f"/proc/{server_process}/stat").read_text().rsplit(")")[-1].split()[1])
    os.kill(launcher, signal.SIGKILL)
    user.kill()

    assert wait_until(lambda: not Path(f"/proc/{launcher}/cwd").exists())
    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1
        assert postmaster(home) == server_process
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_a_killed_postmaster_is_started_again(home: Path) -> None:
    """After SIGKILL of the postmaster the home opens with all committed data."""
    user = User(home)
    user.wait_up()
    async with EmbeddedServer(home) as server:
        await answer(server, "CREATE TABLE t AS SELECT 7 AS x")
        killed = postmaster(home)
        os.kill(killed, signal.SIGKILL)
        async with EmbeddedServer(home) as again:
            assert await answer(again, "SELECT x FROM t") == 7
            assert postmaster(home) != killed
    assert user.leave() == 0
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_a_restart_is_idempotent(home: Path) -> None:
    """Restarting a running server changes nothing; several restarts of a dead one start one."""
    async with EmbeddedServer(home) as server:
        before = postmaster(home)
        await server.restart()
        assert postmaster(home) == before
        os.kill(before, signal.SIGKILL)
        await asyncio.gather(*(server.restart() for _ in range(3)))
        assert await answer(server) == 1
    assert processes(home) == []


@pytest.mark.parametrize("delay", [0.0, 0.05, 0.2, 0.4, 0.7, 1.0])
async def test_a_kill_at_any_time_of_the_first_start(home: Path, delay: float) -> None:
    """SIGKILL at any time of the first start leaves a home that the next start can use."""
    user = User(home)
    wait_until(home.exists)
    await asyncio.sleep(delay)
    user.kill()

    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1
        assert list(home.glob("postgres.new-*")) == []
    assert processes(home) == []


async def test_a_killed_initdb_leaves_no_data(home: Path) -> None:
    """An initdb that is killed is an error with a hint; the next start creates the database."""
    starting = asyncio.ensure_future(EmbeddedServer(home).start())
    while not (found := [p for p in processes(home) if p != os.getpid()]):
        await asyncio.sleep(0.01)
    for process in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    with pytest.raises(Unavailable, match="could not be created") as caught:
        await starting

    assert "postgres.log" in caught.value.hint
    assert not (home / "postgres").exists()
    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1


@pytest.mark.usefixtures("made")
async def test_stale_files_do_not_stop_a_start(home: Path) -> None:
    """A pid file with the number of another process, an old socket and old locks do not stop a start."""
    async with EmbeddedServer(home):
        pid_file = (home / "postgres/postmaster.pid").read_text()
    lines = pid_file.split("\n")
    lines[0] = str(os.getppid())
    (home / "postgres/postmaster.pid").write_text("\n".join(lines))
    (home / "run/.s.PGSQL.5432").write_text("")
    (home / "run/.s.PGSQL.5432.lock").write_text(pid_file)
    (home / "start.lock").write_text("1")
    (home / "postgres.new-dead").mkdir()

    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1
    assert not (home / "postgres.new-dead").exists()


@pytest.mark.usefixtures("made")
async def test_an_empty_pid_file_does_not_stop_a_start(home: Path) -> None:
    """A full disk leaves such a file."""
    async with EmbeddedServer(home):
        pass
    (home / "postgres/postmaster.pid").write_text("")

    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1


async def test_waiting_for_the_start_lock_times_out(home: Path) -> None:
    """When another process holds the start lock for too long, the start fails."""
    home.mkdir()
    lock = FileLock(home / "start.lock", "")
    assert lock.try_acquire()
    lock.write_holder()
    try:
        with pytest.raises(Unavailable, match=f"process {os.getpid()}") as caught:
            await EmbeddedServer(home, lock_timeout_s=0.1).start()
    finally:
        lock.release()

    assert caught.value.hint


async def test_many_users_at_once(home: Path) -> None:
    """Concurrent users of a new home get one server."""
    users = [User(home) for _ in range(6)]
    for user in users:
        user.wait_up()

    assert len({postmaster(home)}) == 1
    assert [user.leave() for user in users] == [0] * 6
    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_users_join_while_the_last_one_leaves(home: Path) -> None:
    """Users that join while the last one leaves get a working server."""

    async def visit(rounds: int) -> None:
        for _ in range(rounds):
            async with EmbeddedServer(home) as server:
                assert await answer(server) == 1

    await asyncio.gather(*(visit(6) for _ in range(3)))

    assert processes(home) == []


@pytest.mark.usefixtures("made")
async def test_ctrl_c_does_not_reach_the_server(home: Path) -> None:
    """The server is in no session and no process group of its user."""
    async with EmbeddedServer(home):
        assert os.getsid(postmaster(home)) != os.getsid(0)
        assert os.getpgid(postmaster(home)) != os.getpgid(0)


async def test_only_the_owner_may_use_the_home(home: Path) -> None:
    """Home, data and socket are closed to others, and nothing listens on the network."""
    async with EmbeddedServer(home) as server:
        listening = await answer(server, "SHOW listen_addresses")
        modes = {name: (home / name).stat().st_mode & 0o777 for name in (".", "postgres", "run")}

    assert listening == ""
    assert modes == {".": 0o700, "postgres": 0o700, "run": 0o700}


async def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    """The socket of a deep home is in a private folder elsewhere that all users find."""
    home = tmp_path / ("deep" * 20) / "ünïcode and space"
    async with EmbeddedServer(home) as first, EmbeddedServer(home) as second:
        assert first.url() == second.url()
        assert await answer(second) == 1
    noted = socket_dir(home)

    assert noted.stat().st_mode & 0o777 == 0o700
    noted.rmdir()
    async with EmbeddedServer(home) as server:
        assert await answer(server) == 1
    socket_dir(home).rmdir()


@pytest.mark.parametrize("inode", [True, False], ids=["noted", "noted by an older version"])
async def test_a_copy_of_a_home_has_a_server_of_its_own(
    tmp_path: Path, new_home: Callable[[Path], Path], inode: bool
) -> None:
    """A copy of a home whose socket is elsewhere is another database, also while the first one is served."""
    home, copy = (tmp_path / ("deep" * 25) / name for name in ("first", "copy"))
    home.parent.mkdir()
    new_home(home)
    async with EmbeddedServer(home) as server:
        await answer(server, "CREATE TABLE mark (name text)")
    if not inode:
        (home / "socket-dir").write_text(str(socket_dir(home)))
    subprocess.run(["cp", "-a", str(home), str(copy)], check=True)

    async with EmbeddedServer(home) as server, EmbeddedServer(copy) as other:
        assert server.url() != other.url()
        await answer(server, "INSERT INTO mark VALUES ('first')")
        assert await answer(other, "SELECT count(*) FROM mark") == 0
        async with EmbeddedServer(home) as again:
            assert again.url() == server.url()
    async with EmbeddedServer(copy) as other, EmbeddedServer(home) as server:
        assert await answer(other, "SELECT count(*) FROM mark") == 0
        assert await answer(server, "SELECT count(*) FROM mark") == 1
    for folder in {socket_dir(home), socket_dir(copy)}:
        folder.rmdir()


def socket_dir(home: Path) -> Path:
    """Return the folder of the socket that a home notes."""
    return Path((home / "socket-dir").read_text().splitlines()[0])


# --- homes that cannot be used ---------------------------------------------------------------------


async def test_a_newer_home_is_refused(home: Path) -> None:
    """A home of a newer layout is not changed."""
    home.mkdir()
    (home / "version").write_text(f"{LAYOUT + 1}\n")

    with pytest.raises(HomeTooNew, match=f"layout {LAYOUT + 1}"):
        await EmbeddedServer(home).start()
    assert [path.name for path in home.iterdir()] == ["version"]


@pytest.mark.usefixtures("made")
async def test_a_damaged_database_is_reported_at_once(home: Path) -> None:
    """The reason of the server is in the error, which does not wait for the server to recover."""
    for mapping in home.glob("postgres/base/*/pg_filenode.map"):
        mapping.write_bytes(b"damaged")

    with pytest.raises(Unavailable, match=r"refuses connections: .*pg_filenode\.map") as caught:
        await EmbeddedServer(home).start()
    assert "--home" in caught.value.hint


@pytest.mark.parametrize(("version", "error"), [("99", HomeTooNew), ("17", ConfigError)])
async def test_data_of_another_postgresql_is_refused(
    home: Path, version: str, error: type[Exception]
) -> None:
    """A data directory of another major version of PostgreSQL is not changed."""
    (home / "postgres").mkdir(parents=True)
    (home / "postgres/PG_VERSION").write_text(f"{version}\n")

    with pytest.raises(error, match=f"PostgreSQL {version}"):
        await EmbeddedServer(home).start()


async def test_a_foreign_version_file_is_refused(home: Path) -> None:
    """A folder with a version file of another program is not a home."""
    home.mkdir()
    (home / "version").write_text("v2.0-beta")

    with pytest.raises(ConfigError, match=r"v2\.0-beta"):
        await EmbeddedServer(home).start()


async def test_a_file_is_not_a_home(home: Path) -> None:
    """A file cannot be a home or contain one."""
    home.write_text("")

    for path in (home, home / "inside"):
        with pytest.raises(ConfigError, match="cannot be used") as caught:
            await EmbeddedServer(path).start()
        assert "--home" in caught.value.hint


async def test_an_unwritable_home_is_a_configuration_error() -> None:
    """A folder that cannot be written is a configuration error."""
    with pytest.raises(ConfigError, match="cannot be used"):
        await EmbeddedServer("/proc/whence-home").start()


@pytest.mark.skipif(
    not (AS_ROOT and shutil.which("setpriv")), reason="needs root and setpriv, to be somebody else"
)
@pytest.mark.parametrize("reachable", [True, False])
async def test_an_ordinary_user_runs_the_server(reachable: bool) -> None:
    """The server runs as the user, who gets an error where the home is not writable."""
    place = Path("/tmp") / f"whence-test-{os.getpid()}-{reachable}"
    place.mkdir()
    os.chown(place, *((65534, 65534) if reachable else (0, 0)))
    script = (
        "import asyncio, sys\n"
        "from whence.schema.errors import WhenceError\n"
        "from whence.store.postgres.server.server import EmbeddedServer\n"
        "async def main():\n"
        "    async with EmbeddedServer(sys.argv[1]):\n"
        "        pass\n"
        "try:\n"
        "    asyncio.run(main())\n"
        "    print('ran')\n"
        "except WhenceError as error:\n"
        "    print(error.code)\n"
    )
    # He may read everything, since the interpreter itself may lie where only root can read; but not write.
    become = [
        "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
        "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search", "--bounding-set=-dac_override",
    ]  # fmt: skip
    try:
        done = await asyncio.to_thread(
            subprocess.run,
            [*become, sys.executable, "-c", script, str(place / "home")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.strip() == ("ran" if reachable else "bad_config"), done.stderr
    finally:
        subprocess.run(["rm", "-rf", str(place)], check=True)


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
async def test_root_with_a_home_that_only_root_may_pass(tmp_path: Path) -> None:
    """For root the server runs as another user, also under a folder that is closed to others."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    before = closed.stat()
    async with EmbeddedServer(closed / "home"):
        owner = Path(f"/proc/{postmaster(closed / 'home')}").stat().st_uid
        assert (closed / "home/postgres").stat().st_uid == owner
    after = closed.stat()

    assert owner != 0
    assert (after.st_mode, after.st_uid) == (before.st_mode, before.st_uid)


@pytest.mark.skipif(not AS_ROOT, reason="needs root")
async def test_root_in_the_home_of_another_user(home: Path) -> None:
    """Root uses the home of a user without becoming the owner of any file in it."""
    home.mkdir()
    os.chown(home, 65534, 65534)
    async with EmbeddedServer(home):
        owners = {path.stat().st_uid for path in home.iterdir()}

    assert owners == {65534}


@pytest.mark.skipif(not AS_ROOT, reason="needs root, to mount a small file system")
@pytest.mark.parametrize("size", ["20m", "56m"])
async def test_a_full_disk_is_reported(tmp_path: Path, size: str) -> None:
    """Without space the start raises `DiskFull`; with space again it succeeds."""
    place = tmp_path / "small"
    place.mkdir()
    mount(place, size)
    try:
        if size == "56m":
            async with EmbeddedServer(place / "home"):
                pass
            fill(place)
        with pytest.raises(DiskFull) as caught:
            await EmbeddedServer(place / "home").start()
        subprocess.run(["mount", "-o", "remount,size=200m", str(place)], check=True)
        async with EmbeddedServer(place / "home") as server:
            assert await answer(server) == 1
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)

    assert "--home" in caught.value.hint


def mount(place: Path, size: str) -> None:
    """Mount a small file system."""
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting is not allowed here")


def fill(place: Path) -> None:
    """Fill a file system to the last page."""
    with contextlib.suppress(OSError), (place / "ballast").open("wb", buffering=0) as file:
        while file.write(b"\0" * 4096):
            pass


@pytest.mark.skipif(not AS_ROOT, reason="needs root, to mount a small file system")
async def test_a_home_on_a_full_disk_can_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A home keeps the space in which its server starts on a full disk; with space again it keeps it again."""
    place = tmp_path / "small"
    place.mkdir()
    mount(place, "160m")
    try:
        async with EmbeddedServer(place / "home"):
            pass
        fill(place)
        for _ in range(2):
            async with EmbeddedServer(place / "home") as server:
                assert await answer(server) == 1
        assert not (place / "home" / "reserve").exists()
        (place / "ballast").unlink()
        async with EmbeddedServer(place / "home"):
            assert (place / "home" / "reserve").stat().st_size == 2**20
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
    assert sum("the disk is full" in record.message for record in caplog.records) == 1


@pytest.mark.skipif(not AS_ROOT, reason="only root runs the server as somebody else")
@pytest.mark.usefixtures("made")
async def test_a_copy_that_lost_its_owner_names_the_remedy(home: Path, tmp_path: Path) -> None:
    """The server of a home that root copied without owners starts after the command in the hint."""
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", home, copy], check=True)
    with pytest.raises(Unavailable, match="wrong ownership") as caught:
        await EmbeddedServer(copy).start()
    command = caught.value.hint.partition(": ")[2]
    subprocess.run(command.split(), check=True)

    async with EmbeddedServer(copy) as server:
        assert await answer(server) == 1
