"""An environment in which Python sees an older processor."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest


def older_cpu_environment(folder: Path) -> dict[str, str]:
    """Return an environment whose processor has AVX2 and nothing newer; skip where none can be had."""
    compiler = shutil.which("cc")
    if compiler is None or platform.machine() != "x86_64" or sys.platform != "linux":
        pytest.skip("an older x86-64 processor is imitated on Linux with a C compiler only")
    source = Path(__file__).resolve().parents[2] / "tools" / "older_cpu.c"
    library = folder / "older_cpu.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source], check=True)
    environment = {**os.environ, "LD_PRELOAD": str(library)}
    if subprocess.run([sys.executable, "-c", ""], env=environment, check=False).returncode != 0:
        pytest.skip("this processor or kernel cannot make CPUID fault")
    return environment
