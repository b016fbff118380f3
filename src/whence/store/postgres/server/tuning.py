"""Settings of the embedded server, for one machine that also runs everything else."""

from __future__ import annotations

import os
from pathlib import Path

_MB = 1024 * 1024
_CGROUP_LIMITS = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)


def memory_bytes() -> int:
    """Return the bytes of memory this process may use: the machine's, or the container's if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [machine]
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text(encoding="ascii").strip()
        except OSError:
            continue
        if text.isdecimal():
            limits.append(int(text))
    return min(limits)


def server_arguments(memory: int, disk: int) -> list[str]:
    """Return `-c name=value` arguments for a server with this much memory and free disk, in bytes."""
    quarter_mb = memory // 4 // _MB
    settings = {
        # Warm reads are carried by the page cache: 2 GB gained nothing over 128 MB for words and half for
        # vectors, so a quarter of the memory up to 512 MB is enough.
        "shared_buffers": f"{max(16, min(quarter_mb, 512))}MB",
        "work_mem": f"{max(4, min(quarter_mb // 4, 64))}MB",
        "maintenance_work_mem": f"{max(64, min(quarter_mb, 512))}MB",
        # Room for a bulk load between two checkpoints, but never much of a small disk.
        "max_wal_size": f"{max(128, min(disk // 20 // _MB, 4096))}MB",
        "max_connections": "200",
        # An embedded server has no replicas: the least journal that still survives a crash.
        "wal_level": "minimal",
        "max_wal_senders": "0",
        # A file of the journal that is used again keeps what deleted rows said.
        "wal_recycle": "off",
        "synchronous_commit": "on",
        # The wheel ships no JIT; parallel workers need room in /dev/shm that small containers lack.
        "jit": "off",
        "max_parallel_workers_per_gather": "0",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "lc_messages": "C",
        "log_min_messages": "warning",
        "log_checkpoints": "off",
        # Statements carry texts of documents; they do not belong in a log.
        "log_min_error_statement": "panic",
        # Nor do values of rows, which the details of an error quote.
        "log_error_verbosity": "terse",
        "unix_socket_permissions": "0700",
        "cluster_name": "whence",
    }
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
