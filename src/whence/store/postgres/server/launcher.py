"""Start a program of PostgreSQL apart from its caller; run as a script, which imports nothing of Whence.

`launcher.py ORDER`, where ORDER is a JSON object:

- `command`: program and arguments.
- `parent`: process id of the caller; nothing is done if it died meanwhile.
- `alive`: lock file that the program and all its children hold while they live.
- `log`: file that receives its output.
- `user`: `[uid, gid]` to run as, or null for the current user. PostgreSQL refuses to run as root.
- `users`: null to run the program and exit with its status. Otherwise a lock file: the program continues in a
  session of its own, where no Ctrl-C of a terminal reaches it, and gets SIGINT (the fast shutdown) as soon
  as no process holds that lock. So a server outlives no user, even one that was killed.

Exit status 75 means that the `alive` lock was held, or that the parent is gone.

For root the program keeps one capability, CAP_DAC_OVERRIDE: it may pass folders such as `/root` that only
root may pass, without a change to their permissions. Where the capability is unavailable, the program
runs without it and needs a home that its user can reach. A secure bit makes access(2) heed the capability:
with that call `initdb` looks for the other programs, which may be installed below `/root`.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

#: Exit status when another program holds the `alive` lock (EX_TEMPFAIL of sysexits.h).
ALIVE_ELSEWHERE = 75

# Constants of linux/prctl.h, linux/securebits.h and linux/capability.h.
_PR_SET_KEEPCAPS = 8
_PR_SET_SECUREBITS = 28
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_RAISE = 2
_SECBIT_NO_SETUID_FIXUP = 4
_CAP_DAC_OVERRIDE = 1
_CAP_SETPCAP = 8
_CAPABILITY_VERSION_3 = 0x20080522
_STOP_FAST = 2  # SIGINT


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Sets(ctypes.Structure):
    _fields_ = (
        ("effective", ctypes.c_uint32),
        ("permitted", ctypes.c_uint32),
        ("inheritable", ctypes.c_uint32),
    )


def main(arguments: Sequence[str]) -> int:
    """Carry out one order; return the exit status."""
    order = json.loads(arguments[0])
    os.umask(0o077)
    os.chdir("/")
    alive = os.open(order["alive"], os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return ALIVE_ELSEWHERE
    if os.getppid() != order["parent"]:
        return ALIVE_ELSEWHERE
    os.set_inheritable(alive, True)
    _redirect(order["log"])
    if order["users"] is None:
        _execute(order)
    if os.fork():
        return 0
    os.setsid()
    _supervise(order, alive)
    return 0


def _redirect(log: str) -> None:
    """Redirect the standard streams to the log."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.dup2(nothing, 0)
    os.dup2(written, 1)
    os.dup2(written, 2)


def _supervise(order: dict[str, Any], alive: int) -> None:
    """Run the program until it ends; stop it when its last user is gone."""
    program = os.fork()
    if not program:
        _execute(order)
    os.close(alive)

    def stop_when_unused() -> None:
        users = os.open(order["users"], os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(users, fcntl.LOCK_EX)
        os.kill(program, _STOP_FAST)

    threading.Thread(target=stop_when_unused, daemon=True).start()
    os.waitpid(program, 0)
    os._exit(0)


def _execute(order: dict[str, Any]) -> None:
    """Replace this process by the program; never return."""
    try:
        if order["user"] is not None:
            _drop_root(*order["user"])
        os.execv(order["command"][0], order["command"])  # noqa: S606 - a list, by full path
    except OSError as error:
        sys.stderr.write(f"FATAL: cannot run {order['command'][0]}: {error}\n")
        sys.stderr.flush()
    os._exit(126)


def _drop_root(uid: int, gid: int) -> None:
    """Change to another user, keeping the capability to pass root's folders where possible."""
    libc = ctypes.CDLL(None, use_errno=True)
    kept = sys.platform == "linux" and libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if not kept:
        return
    _set_capabilities(libc, _CAP_DAC_OVERRIDE, _CAP_SETPCAP)
    libc.prctl(_PR_SET_SECUREBITS, _SECBIT_NO_SETUID_FIXUP, 0, 0, 0)
    _set_capabilities(libc, _CAP_DAC_OVERRIDE)
    libc.prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, _CAP_DAC_OVERRIDE, 0, 0)


def _set_capabilities(libc: ctypes.CDLL, *capabilities: int) -> None:
    """Keep only these of the process's capabilities."""
    only = sum(1 << capability for capability in capabilities)
    sets = (_Sets * 2)(_Sets(only, only, only), _Sets(0, 0, 0))
    libc.capset(ctypes.byref(_Header(_CAPABILITY_VERSION_3, 0)), sets)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
