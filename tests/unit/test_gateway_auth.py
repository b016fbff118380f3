"""Who a caller of the gateway is, and that nothing a request says widens what they see."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.gateway.auth import (
    AccessBody,
    Caller,
    Rights,
    Unauthorized,
    read_tokens,
    token_digest,
)
from whence.gateway.server import check_exposure, hosts_of
from whence.schema import Access
from whence.schema.errors import BadInput, ConfigError

TAGS = st.frozensets(st.sampled_from(["a", "b", "c", "d"]))
RIGHTS = st.builds(Access, TAGS, TAGS, st.integers(0, 5))
ASKED = st.builds(
    AccessBody,
    st.lists(st.sampled_from("abcdef")),
    st.lists(st.sampled_from("abcdef")),
    st.integers(0, 9),
)
FINANCE = Caller("desk", Access(frozenset({"finance"}), frozenset(), 2))
SECRET = "correct horse"


def rights(*, token_needed: bool = False) -> Rights:
    """Give rights with one token."""
    return Rights(Access.public(), {token_digest(SECRET): FINANCE}, token_needed=token_needed)


def test_no_token_is_the_public() -> None:
    """A caller who says nothing sees public documents only."""
    assert rights().caller(None).reading(None) == Access.public()


def test_token_opens_what_its_entry_says() -> None:
    """A known token has exactly the rights of its entry, whatever the case of the scheme."""
    for scheme in ("Bearer", "bearer"):
        assert rights().caller(f"{scheme} {SECRET}") is FINANCE


@pytest.mark.parametrize("sent", [f"Basic {SECRET}", "Bearer wrong", "Bearer", "Bearer  ", SECRET])
def test_wrong_token_is_not_taken_for_none(sent: str) -> None:
    """Whoever sends something else than a known token is refused, not served as the public."""
    with pytest.raises(Unauthorized):
        rights().caller(sent)


def test_token_can_be_needed() -> None:
    """With a token needed, a caller without one is refused, and one with it is not."""
    with pytest.raises(Unauthorized):
        rights(token_needed=True).caller(None)
    assert rights(token_needed=True).caller(f"Bearer {SECRET}") is FINANCE


@given(RIGHTS, ASKED)
def test_request_only_narrows(own: Access, asked: AccessBody) -> None:
    """Whatever a request asks to read with, its rights are within the caller's."""
    assert own.covers(Caller("", own).reading(asked))
    assert Caller("", own).reading(None) == own


@given(RIGHTS, ASKED)
def test_speaking_for_others(own: Access, asked: AccessBody) -> None:
    """A token that speaks for others reads as each request says, and as the public when it says nothing."""
    caller = Caller("app", own, speaks_for_others=True)
    assert caller.reading(asked) == asked.access()
    assert caller.reading(None) == Access.public()


def test_tokens_are_read(tmp_path: Path) -> None:
    """The file gives each caller by the digest of their token; the token itself is not in it."""
    file = tmp_path / "tokens.toml"
    file.write_text(
        f'[tokens.desk]\nsha256 = "{token_digest(SECRET).upper()}"\nacl = ["finance"]\nclearance = 2\n'
    )
    assert read_tokens(file) == {token_digest(SECRET): FINANCE}


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[tokens.a]\nsha256 = 'abc'", "'a'"),
        ("[tokens.a]\nacl = ['x']", "sha256"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'\nrole = 'x'", "role"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'\nacl = ['']", "'a'"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'\nclearance = -1", "'a'"),
        (f"[tokens.a]\nsha256 = '{'0' * 64}'\n[tokens.b]\nsha256 = '{'0' * 64}'", "'b'"),
        ("tokens = 3", "tokens"),
        ("[tokens", "malformed"),
    ],
)
def test_malformed_tokens_are_refused(tmp_path: Path, text: str, named: str) -> None:
    """A file of tokens that is not understood opens nothing: the error names what is wrong."""
    file = tmp_path / "tokens.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=named):
        read_tokens(file)


def test_missing_tokens_are_refused(tmp_path: Path) -> None:
    """A file that is not there is an error, not an empty list."""
    with pytest.raises(ConfigError, match=r"nowhere\.toml"):
        read_tokens(tmp_path / "nowhere.toml")


def test_tag_that_is_none_is_refused() -> None:
    """Rights named in a request are checked like any others."""
    with pytest.raises(BadInput):
        FINANCE.reading(AccessBody([""]))


def test_more_than_public_stays_on_this_machine() -> None:
    """Rights for everybody are refused where others can reach the port, unless a token is needed."""
    more = Access(frozenset({"finance"}))
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0"):
        check_exposure("0.0.0.0", more, token_needed=False)
    check_exposure("0.0.0.0", more, token_needed=True)
    check_exposure("0.0.0.0", Access.public(), token_needed=False)
    check_exposure("127.0.0.1", more, token_needed=False)


def test_names_of_the_server() -> None:
    """A server goes by this machine's own names and by those given, in any case."""
    names = hosts_of(["Wiki.Example"])
    assert names >= {"localhost", "127.0.0.1", "::1", "wiki.example"}
    assert "other.example" not in names
