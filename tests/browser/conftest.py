"""Fixtures of the tests in a browser: a gateway with tokens, and a browser."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.conftest import HANDBOOK, cli, loaded, new_cli, own
from tests.support.browser import Page, running_browser
from tests.support.serving import Gateway, serving

__all__ = ["cli", "loaded", "new_cli", "own"]
#: Tokens by name, each with its rights.
TOKENS = {"desk": 'acl = ["finance"]\nclearance = 3', "editor": "write = true"}


def write_tokens(file: Path, *names: str) -> None:
    """Write a file with some of the tokens; the token is the name."""
    tables = [
        f'[tokens.{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{TOKENS[name]}\n'
        for name in names
    ]
    file.write_text("\n".join(tables))


@pytest.fixture(scope="session")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a file with all tokens."""
    file = tmp_path_factory.mktemp("tokens") / "tokens.toml"
    write_tokens(file, *TOKENS)
    return file


@pytest.fixture(scope="session")
def indexed(cli: Any) -> Any:
    """Return the command on a home with the handbook in the collection `page`."""
    done = cli("index", HANDBOOK, "--collection", "page", "--json")
    assert done.code == 0, done.err
    return cli


@pytest.fixture(scope="session")
def gateway(indexed: Any, tokens: Path) -> Iterator[Gateway]:
    """Return a gateway that all tests share."""
    with serving(indexed, "--tokens", tokens, collection="page") as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Page]:
    """Return a browser that all tests share."""
    with running_browser() as running:
        yield running


@pytest.fixture
def page(browser: Page, gateway: Gateway) -> Page:
    """Return the page as a new reader sees it."""
    browser.driver.get(gateway.url)
    browser.driver.delete_all_cookies()
    browser.driver.execute_script("sessionStorage.clear()")
    browser.resize(1280)
    browser.complaints()
    browser.open(gateway.url)
    return browser
