"""axe-core in a page: rules of accessibility, run by the browser itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.support.browser import Page

#: The version that the tests use; a later one may know further faults.
_VERSION = "4.10.3"


def axe_script() -> str:
    """Return axe-core, which npm fetches once into a cache; skips the test where that is not possible."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "whence-tests"
    script = cache / f"axe-{_VERSION}.min.js"
    if not script.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm on this machine, which fetches axe-core")
        with tempfile.TemporaryDirectory() as folder:
            command = [npm, "install", "--prefix", folder, "--no-save", "--ignore-scripts"]
            done = subprocess.run(
                [*command, f"axe-core@{_VERSION}"], capture_output=True, check=False, timeout=60
            )
            if done.returncode:
                pytest.skip("npm cannot fetch axe-core")
            cache.mkdir(parents=True, exist_ok=True)
            fetched = Path(folder) / "node_modules" / "axe-core" / "axe.min.js"
            part = script.with_suffix(f".{os.getpid()}")
            shutil.copyfile(fetched, part)
            part.replace(script)
    return script.read_text()


def serious_findings(page: Page, script: str) -> list[str]:
    """Return the serious and critical faults of what is shown, each with its element.

    In the dark those of contrast only; on a narrow screen with the form of sign-in shown.
    """
    # The policy of the page forbids scripts of others; the driver's own are run beside it.
    page.driver.execute_script("if (!window.axe) {" + script + "; window.axe = axe; }")
    page.resize(1280, dark=True)
    dark = _violations(page, "{runOnly: ['color-contrast']}")
    page.resize(390)
    toggle = "document.getElementById('account').click()"
    page.driver.execute_script(toggle)
    narrow = _violations(page, "{resultTypes: ['violations']}")
    page.driver.execute_script(toggle)
    page.resize(1280)
    return [*dark, *narrow, *_violations(page, "{resultTypes: ['violations']}")]


def _violations(page: Page, options: str) -> list[str]:
    report = page.driver.execute_async_script(
        "const done = arguments[0];"
        f"axe.run(document, {options}).then((one) => done(JSON.stringify(one.violations)))"
    )
    return [
        f"{one['id']}: {node['html'][:200]} {node.get('failureSummary', '')[:200]}"
        for one in json.loads(report)
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]
