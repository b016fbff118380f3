"""Who a caller of the gateway is, and that nothing a request says widens what they see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.schema import Access
from whence.schema.errors import BadInput, ConfigError
from whence.surfaces.http.auth import (
    AccessBody,
    Authenticator,
    Caller,
    Forbidden,
    InvalidToken,
    Unauthorized,
    token_digest,
)
from whence.surfaces.http.server import allowed_hosts, check_exposure

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


def rights(*, require_token: bool = False) -> Authenticator:
    """Return rights with one token."""
    return Authenticator(
        Access.public(), {token_digest(SECRET): FINANCE}, require_token=require_token
    )


async def test_no_token_means_public() -> None:
    """Without a token only public documents are visible."""
    assert await rights().caller(None) == Caller("", Access.public())
    assert (await Authenticator(Access.public()).caller(None)).access == Access.public()


def test_whose_share_a_request_uses() -> None:
    """Requests with a token share the server by token, others by address."""
    assert Caller("desk", Access.public(), address="10.0.0.1").share == "desk"
    assert Caller("", Access.public(), address="10.0.0.1").share == "10.0.0.1"


async def test_a_token_grants_the_rights_of_its_entry() -> None:
    """A known token has the rights of its entry; the scheme is case-insensitive."""
    for scheme in ("Bearer", "bearer"):
        assert await rights().caller(f"{scheme} {SECRET}") is FINANCE


@pytest.mark.parametrize("sent", [f"Basic {SECRET}", "Bearer wrong", "Bearer", "Bearer  ", SECRET])
async def test_an_unknown_token_is_refused(sent: str) -> None:
    """An unknown token is refused, not treated as no token, also when it is no text."""
    with pytest.raises(Unauthorized):
        await rights().caller(sent)
    with pytest.raises(InvalidToken):
        await rights().caller("Bearer \udcff")


async def test_clients_that_need_a_key_read_without_a_token() -> None:
    """The key `public` is no token: it grants what a caller without one may see."""
    assert await rights().caller("Bearer public") == await rights().caller(None)


async def test_a_token_can_be_required() -> None:
    """If a token is required, a caller without one is refused."""
    for sent in (None, "Bearer public"):
        with pytest.raises(Unauthorized):
            await rights(require_token=True).caller(sent)
    assert await rights(require_token=True).caller(f"Bearer {SECRET}") is FINANCE


@given(RIGHTS, ASKED)
def test_request_only_narrows(own: Access, asked: AccessBody) -> None:
    """The rights of a request are within the caller's."""
    assert own.covers(Caller("", own).access_for(asked))
    assert Caller("", own).access_for(None) == own


@given(RIGHTS, ASKED)
def test_a_token_can_act_for_others(own: Access, asked: AccessBody) -> None:
    """A token that acts for others has the rights of each request, public by default."""
    caller = Caller("app", own, speaks_for_others=True)
    assert caller.access_for(asked) == asked.access()
    assert caller.access_for(None) == Access.public()


def test_writing_needs_a_token_that_allows_it() -> None:
    """Nobody may write without a token, nor with one that does not say so."""
    Caller("b", Access.public(), may_write=True).require_write()
    with pytest.raises(Forbidden, match="'a'"):
        Caller("a", Access.public()).require_write()
    with pytest.raises(Unauthorized):
        Caller("", Access.public()).require_write()


async def test_an_expired_token_is_refused() -> None:
    """A token counts until the second in which it ends."""
    tokens = {token_digest(SECRET): Caller("desk", Access.public(), expires_s=1_000)}
    for now, accepted in ((999.9, True), (1_000, False), (1_001, False)):
        found = Authenticator(Access.public(), tokens, clock=lambda now=now: now)
        if accepted:
            assert (await found.caller(f"Bearer {SECRET}")).name == "desk"
        else:
            with pytest.raises(InvalidToken, match="expired"):
                await found.caller(f"Bearer {SECRET}")


def test_invalid_tags_are_refused() -> None:
    """Rights named in a request are validated like any others."""
    with pytest.raises(BadInput):
        FINANCE.access_for(AccessBody([""]))


def test_more_than_public_needs_a_token_on_the_network() -> None:
    """Rights for everybody are refused on a reachable address, unless a token is required."""
    more = Access(frozenset({"finance"}))
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0"):
        check_exposure("0.0.0.0", more, require_token=False)
    check_exposure("0.0.0.0", more, require_token=True)
    check_exposure("0.0.0.0", Access.public(), require_token=False)
    check_exposure("127.0.0.1", more, require_token=False)


def test_names_of_the_server() -> None:
    """The server accepts this machine's own names and the configured ones, in any case."""
    names = allowed_hosts(["Wiki.Example"])
    assert names >= {"localhost", "127.0.0.1", "::1", "wiki.example"}
    assert "other.example" not in names
