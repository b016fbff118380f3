"""The installer of lock files: uv gets what pip is configured with, and pip installs where uv cannot."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from tools import install
from tools.install import UvUnusable, parse_settings, uv_environment

STEPS = [["-r", "first.lock"], ["--editable", "."]]


def test_the_nearest_setting_of_pip_counts() -> None:
    """The environment wins over the section `install`, and that over `global`; others do not count."""
    listing = (
        ":env:.index-url='https://c.example/simple'\n"
        "download.index-url='https://d.example/simple'\n"
        "global.cert='/a.pem'\n"
        "global.find-links='\\n/a\\n/b'\n"
        "global.index-url='https://a.example/simple'\n"
        "install.cert='/b.pem'\n"
        "install.proxy=''\n"
    )

    assert parse_settings(listing) == {
        "cert": "/b.pem",
        "find-links": "\n/a\n/b",
        "index-url": "https://c.example/simple",
    }


def test_settings_of_pip_are_translated() -> None:
    """Indexes, folders, certificates, proxy and limits reach uv under its names."""
    settings = {
        "cert": "/a.pem", "default-timeout": "60", "extra-index-url": "https://b.example https://c.example",
        "find-links": "\n/a\n/b", "index-url": "https://user:secret@a.example", "no-cache-dir": "false",
        "progress-bar": "off", "proxy": "http://p.example:3128", "trusted-host": "b.example\nc.example",
    }  # fmt: skip

    assert uv_environment(settings, {"REQUESTS_CA_BUNDLE": "/other.pem"}) == {
        "ALL_PROXY": "http://p.example:3128",
        "HTTPS_PROXY": "http://p.example:3128",
        "HTTP_PROXY": "http://p.example:3128",
        "REQUESTS_CA_BUNDLE": "/other.pem",
        "SSL_CERT_FILE": "/a.pem",
        "UV_DEFAULT_INDEX": "https://user:secret@a.example",
        "UV_FIND_LINKS": "/a,/b",
        "UV_HTTP_TIMEOUT": "60",
        "UV_INDEX": "https://b.example https://c.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
        "UV_INSECURE_HOST": "b.example c.example",
        "UV_NO_CACHE": "1",
    }


def test_certificates_of_the_environment_and_settings_of_uv(tmp_path: Path) -> None:
    """A bundle named for requests is used, also a folder; what is set for uv itself stays."""
    environment = {"CURL_CA_BUNDLE": str(tmp_path), "UV_DEFAULT_INDEX": "https://uv.example"}

    made = uv_environment({"index-url": "https://pip.example"}, environment)

    assert made == environment | {"SSL_CERT_DIR": str(tmp_path)}


@pytest.mark.parametrize("name", ["constraint", "no-index", "only-binary", "target"])
def test_a_setting_without_translation_is_left_to_pip(name: str) -> None:
    """Of a setting that uv has not, the name is reported."""
    with pytest.raises(UvUnusable, match=name):
        uv_environment({name: "x"}, {})


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Record commands instead of running them; a command with the word `fails` fails."""
    seen: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        if "fails" in command:
            raise subprocess.CalledProcessError(2, command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(install.subprocess, "run", run)
    return seen


def test_uv_installs(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each step is run with uv, and nothing is printed."""
    monkeypatch.setattr(install, "prepare_uv", lambda: (["uv"], {}))

    install.install(STEPS)

    assert commands == [["uv", *step] for step in STEPS]
    assert capsys.readouterr() == ("", "")


def test_pip_installs_what_uv_could_not(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    """When uv fails, pip runs that step and the later ones, and one line says so."""
    monkeypatch.setattr(install, "prepare_uv", lambda: (["uv", "fails"], {}))

    install.install(STEPS)

    assert commands[1:] == [[*install.PIP, "install", *step] for step in STEPS]
    assert capsys.readouterr().err == "pip installs, which takes longer: uv failed\n"


def test_pip_installs_without_uv(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without uv in the index the line has pip's reason, without a password; an old uv is removed."""
    seen: list[list[str]] = []
    old = tmp_path / "uv" / "bin" / "uv"
    old.parent.mkdir(parents=True)
    old.touch()

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        seen.append(command)
        failed = "--target" in command
        error = "ERROR: first\nERROR: no uv at https://user:secret@a.example/simple\n"
        return subprocess.CompletedProcess(command, int(failed), "", error if failed else "")

    monkeypatch.setattr(install.subprocess, "run", run)
    monkeypatch.setattr(install, "UV_FOLDER", tmp_path / "uv")

    install.install(STEPS)

    assert seen[2:] == [[*install.PIP, "install", *step] for step in STEPS]
    assert capsys.readouterr().err == (
        "pip installs, which takes longer: uv cannot be installed: no uv at https://a.example/simple\n"
    )
    assert not old.exists()


def test_uv_is_installed_once_a_lock(
    monkeypatch: pytest.MonkeyPatch, commands: list[list[str]], tmp_path: Path
) -> None:
    """Another lock file of uv installs it again."""
    folder, lock = tmp_path / "uv", tmp_path / "requirements-uv.lock"
    counts = []
    for text in ("uv==1", "uv==1", "uv==2"):
        lock.write_text(text)
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(install.shutil, "rmtree", lambda *_, **__: None)
        install.install_uv(folder, lock)
        counts.append(len(commands))

    assert counts == [1, 1, 2]
    assert "--require-hashes" in commands[0]
