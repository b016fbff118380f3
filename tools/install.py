"""Install lock files into the environment of this interpreter, checked by hash: with uv, or with pip.

    python tools/install.py requirements.lock [LOCK ...] [--editable FOLDER]

pip installs the pinned uv into the folder `uv` of the environment. uv does not read the configuration of pip,
so it is translated. pip installs everything, and one line says why, when the configuration has a setting
without a translation, when uv has no wheel for this platform or is not in the index, and when uv fails.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

UV_LOCK = Path(__file__).resolve().parent.parent / "requirements-uv.lock"
#: Folder of uv: not in site-packages, which have what the lock files name.
UV_FOLDER = Path(sys.prefix) / "uv"
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
#: Variables of uv for a setting of pip that is one value.
SINGLE = {
    "client-cert": ("SSL_CLIENT_CERT",),
    "default-timeout": ("UV_HTTP_TIMEOUT",),
    "index-url": ("UV_DEFAULT_INDEX",),
    "proxy": ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY"),
    "retries": ("UV_HTTP_RETRIES",),
    "timeout": ("UV_HTTP_TIMEOUT",),
}
#: Variable of uv, and what it puts between values, for a setting of pip that is a list.
LISTS = {
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
}
#: Settings of pip that do not change what is installed, nor where it comes from.
IGNORED = {
    "break-system-packages", "cache-dir", "config-file", "disable-pip-version-check", "log", "no-color", "no-input",
    "no-python-version-warning", "no-warn-script-location", "progress-bar", "quiet", "require-virtualenv",
    "root-user-action", "verbose",
}  # fmt: skip


class UvUnusable(Exception):
    """uv cannot be used; the text says why."""


def parse_settings(listing: str) -> dict[str, str]:
    """Return the settings of `pip install` from the output of `pip config list`; the environment wins."""
    sections: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listing.splitlines():
        match = re.fullmatch(r"(global|install|:env:)\.([^=]+)=(.+)", line)
        if match and (value := str(ast.literal_eval(match[3]))):
            sections[match[1]][match[2]] = value
    return sections["global"] | sections["install"] | sections[":env:"]


def uv_environment(settings: Mapping[str, str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of uv for these settings of pip; uv's own variables in `environment` stay.

    Raises:
        UvUnusable: A setting has no translation.
    """
    variables: dict[str, str] = {}
    for name, value in settings.items():
        if name in SINGLE:
            variables |= dict.fromkeys(SINGLE[name], value)
        elif name in LISTS:
            variable, separator = LISTS[name]
            variables[variable] = separator.join(value.split())
        elif name == "no-cache-dir":  # for pip any value switches the cache off
            variables["UV_NO_CACHE"] = "1"
        elif name not in IGNORED and name != "cert":
            raise UvUnusable(f"pip's setting {name} has no equal in uv")
    if "UV_INDEX" in variables:  # pip takes a version from any index
        variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"
    bundles = (
        settings.get("cert"),
        *map(environment.get, ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")),
    )
    if bundle := next(filter(None, bundles), None):
        variables["SSL_CERT_DIR" if Path(bundle).is_dir() else "SSL_CERT_FILE"] = bundle
    own = {name: value for name, value in environment.items() if name.startswith("UV_")}
    return {**environment, **variables, **own}


def install_uv(folder: Path, lock: Path) -> Path:
    """Install the pinned uv into the folder, unless it is there, and return its program.

    Raises:
        UvUnusable: pip does not get it.
    """
    program, stamp = folder / "bin" / "uv", folder / lock.name
    if stamp.is_file() and stamp.read_bytes() == lock.read_bytes():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    options = ["--quiet", "--no-deps", "--only-binary", ":all:", "--require-hashes"]
    command = [*PIP, "install", *options, "--target", str(folder), "--requirement", str(lock)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        errors = re.findall(r"^ERROR: (.+)", done.stderr, re.MULTILINE) or ["pip failed"]
        reason = re.sub(r"://[^/\s@]+@", "://", errors[-1])  # without a password
        raise UvUnusable(f"uv cannot be installed: {reason}")
    shutil.copyfile(lock, stamp)
    return program


def prepare_uv() -> tuple[list[str], dict[str, str]]:
    """Return the command of uv that installs, and its environment."""
    listing = subprocess.run(
        [*PIP, "config", "list"], stdout=subprocess.PIPE, text=True, check=True
    )
    environment = uv_environment(parse_settings(listing.stdout), os.environ)
    uv = install_uv(UV_FOLDER, UV_LOCK)
    return [str(uv), "pip", "install", "--python", sys.executable], environment


def install(steps: list[list[str]]) -> None:
    """Run each step with uv, and from the first that fails on with pip."""
    left = list(steps)
    try:
        command, environment = prepare_uv()
        while left:
            subprocess.run([*command, *left[0]], env=environment, check=True)
            del left[0]
    except (UvUnusable, OSError, subprocess.CalledProcessError) as error:
        reason = error if isinstance(error, UvUnusable) else "uv failed"
        print(f"pip installs, which takes longer: {reason}", file=sys.stderr)
    for step in left:
        subprocess.run([*PIP, "install", *step], check=True)


def main() -> int:
    """Install what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("locks", nargs="+", metavar="LOCK")
    parser.add_argument("--editable", metavar="FOLDER")
    options = parser.parse_args()
    steps = [["--quiet", "--no-deps", "--require-hashes", "-r", lock] for lock in options.locks]
    if options.editable:
        steps.append(
            ["--quiet", "--no-deps", "--no-build-isolation", "--editable", options.editable]
        )
    try:
        install(steps)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
