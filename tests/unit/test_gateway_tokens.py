"""The tokens file: what is read of it, what `whence tokens` writes to it, and when a change holds."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from whence.schema import Access
from whence.schema.errors import BadInput, ConfigError, NotFound, Unavailable
from whence.surfaces.http.auth import AccessBody, Authenticator, Caller, InvalidToken, token_digest
from whence.surfaces.http.tokens_file import new_token, read_tokens, revoke_token, watch_tokens
from whence.surfaces.http.watched_file import WatchedFile

SECRET = "correct horse"
ZEROS = "0" * 64
NOBODY = AccessBody()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a tokens file, which does not exist."""
    return tmp_path / "tokens.toml"


def test_callers_are_read(file: Path) -> None:
    """The file maps digests of tokens to callers; digests may have capital letters."""
    file.write_text(
        f'[tokens.desk]\nsha256 = "{token_digest(SECRET).upper()}"\nacl = ["finance"]\nclearance = 2\n'
        f'[tokens.app]\nsha256 = "{ZEROS}"\nspeaks_for_others = true\nwrite = true\n'
        "expires = 2026-12-01T00:00:00Z\n"
    )
    end = datetime(2026, 12, 1, tzinfo=UTC).timestamp()
    assert watch_tokens(file, required=True).read() == {
        token_digest(SECRET): Caller("desk", Access(frozenset({"finance"}), frozenset(), 2)),
        ZEROS: Caller(
            "app", Access.public(), speaks_for_others=True, may_write=True, expires_s=end
        ),
    }


@pytest.mark.parametrize(
    ("mode", "what"),
    [(0o600, None), (0o640, "read"), (0o604, "read"), (0o601, "read"), (0o620, "change")],
)
def test_a_tokens_file_of_all_users_is_reported(
    file: Path, caplog: pytest.LogCaptureFixture, mode: int, what: str | None
) -> None:
    """A file that others can read or change is used, and the log says so, with the remedy."""
    file.write_text("")
    file.chmod(mode)
    watch_tokens(file, required=True).read()
    told = [record.getMessage() for record in caplog.records]
    read_tokens(file)
    assert [record.getMessage() for record in caplog.records] == told * 2
    assert told == (
        []
        if what is None
        else [f"other users can {what} the tokens in {file}; run: chmod 600 {file}"]
    )


@pytest.mark.parametrize(("mode", "is_told"), [(0o645, False), (0o664, True), (0o646, True)])
def test_a_file_that_others_may_read(
    file: Path, caplog: pytest.LogCaptureFixture, mode: int, is_told: bool
) -> None:
    """A file without secrets may be read by all users, and is parsed once; a change by others is reported."""
    parsed: list[bytes] = []

    def parse(data: bytes) -> int:
        parsed.append(data)
        return len(parsed)

    file.write_text("x")
    file.chmod(mode)
    watched = WatchedFile(file, parse, what="grants", hint="")
    assert [watched.read(), watched.read()] == [1, 1]
    told = [f"other users can change the grants in {file}; run: chmod 644 {file}"]
    assert [record.getMessage() for record in caplog.records] == (told if is_told else [])


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[tokens.a]\nsha256 = 'abc'", "a: sha256 must be 64 hex digits"),
        ("[tokens.a]\nacl = ['x']", "sha256"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\nrole = 'x'", "role"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\nacl = ['']", "'a'"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\nclearance = -1", "'a'"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\nwrite = 'yes'", "write"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\nexpires = 2026-12-01T00:00:00", "expires"),
        (f"[tokens.a]\nsha256 = '{ZEROS}'\n[tokens.b]\nsha256 = '{ZEROS}'", "'b'"),
        ("tokens = 3", "tokens"),
        ("[tokens", "malformed"),
    ],
)
def test_malformed_tokens_are_refused(file: Path, text: str, named: str) -> None:
    """A malformed file is refused, the error names the fault, and no command changes it."""
    file.write_text(text)
    with pytest.raises(ConfigError, match=named) as refused:
        watch_tokens(file, required=True).read()
    assert str(file) in refused.value.message
    with pytest.raises(ConfigError) as refused:
        new_token(file, "c", NOBODY)
    assert refused.value.message.startswith((f"the tokens in {file} are malformed", f"{file}: "))
    is_about_one = "'" in named
    assert is_about_one or refused.value.hint.startswith("a caller is [tokens.NAME]")
    assert file.read_text() == text


def test_a_missing_tokens_file(file: Path) -> None:
    """A missing file is an error where it was named, and has no tokens where it was not."""
    with pytest.raises(ConfigError, match=r"tokens\.toml"):
        watch_tokens(file, required=True).read()
    assert watch_tokens(file, required=False).read() == {}
    assert read_tokens(file) == {}


async def test_changes_hold_for_the_next_request(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A token is accepted once it is made and refused once it is revoked; a malformed file accepts none."""
    rights = Authenticator(Access.public(), watch_tokens(file, required=False).current)
    with pytest.raises(InvalidToken):
        await rights.caller("Bearer x")
    first, _ = new_token(file, "first", AccessBody(["a"]))
    second, _ = new_token(file, "second", NOBODY, write=True)
    assert (await rights.caller(f"Bearer {first}")).access == Access(frozenset({"a"}))
    assert (await rights.caller(f"Bearer {second}")).may_write
    revoke_token(file, "first")
    with pytest.raises(InvalidToken):
        await rights.caller(f"Bearer {first}")
    assert await rights.caller(f"Bearer {second}")
    good = file.read_text()
    file.write_text("[tokens")
    for _ in range(2):
        with pytest.raises(Unavailable) as refused:
            await rights.caller(f"Bearer {second}")
        assert refused.value.retry_after_s == 10
    assert "malformed" in caplog.text
    assert "malformed" not in refused.value.message + refused.value.hint
    file.write_text(good)
    assert await rights.caller(f"Bearer {second}")
    file.unlink()
    with pytest.raises(InvalidToken):
        await rights.caller(f"Bearer {second}")


def test_a_new_token_is_stored_as_a_digest(file: Path) -> None:
    """A token has 256 random bits, and only its digest is in the file, which its owner alone may read."""
    tokens = [new_token(file, f"n{number}", NOBODY)[0] for number in range(4)]
    assert len(set(tokens)) == 4
    for number, token in enumerate(tokens):
        assert token.startswith("whence_")
        assert len(token) == len("whence_") + 43
        assert token not in file.read_text()
        assert read_tokens(file)[f"n{number}"].sha256 == token_digest(token)
    assert file.stat().st_mode & 0o777 == 0o600
    assert [one.name for one in file.parent.iterdir()] == ["tokens.toml"]


def test_a_new_token_grants_nothing_by_itself(tmp_path: Path) -> None:
    """Without rights a token reads public documents for ever; folders on the way are made for the owner."""
    file = tmp_path / "new" / "home" / "tokens.toml"
    new_token(file, "plain", NOBODY)
    (caller,) = watch_tokens(file, required=True).read().values()
    assert caller == Caller("plain", Access.public())
    assert file.parent.stat().st_mode & 0o777 == 0o700
    end = datetime(2026, 12, 1, 0, 0, 0, 5, tzinfo=UTC)
    _, entry = new_token(file, "ends", NOBODY, expires=end)
    assert entry.expires == end.replace(microsecond=0)
    assert [entry.is_expired(end.replace(microsecond=0, second=s)) for s in (0, 1)] == [True, True]
    assert not entry.is_expired(datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC))
    assert not read_tokens(file)["plain"].is_expired(end)


def test_a_new_token_has_what_it_is_given(file: Path) -> None:
    """All rights, the time and the random part of a token are those that are given."""
    made = datetime(2026, 11, 1, 10, 0, 0, 7, tzinfo=UTC)
    given = AccessBody(["a"], ["internal"], 3)
    asked: list[int] = []

    def random(count: int) -> str:
        asked.append(count)
        return "random"

    token, entry = new_token(
        file, "app", given, write=True, speaks_for_others=True, now=lambda: made, random=random
    )
    assert (token, asked) == ("whence_random", [32])
    assert read_tokens(file) == {"app": entry}
    assert entry.fields() == {
        "acl": ["a"], "labels": ["internal"], "clearance": 3, "speaks_for_others": True, "write": True,
        "created": "2026-11-01T10:00:00Z", "expires": None,
    }  # fmt: skip
    (caller,) = watch_tokens(file, required=True).read().values()
    access = Access(frozenset({"a"}), frozenset({"internal"}), 3)
    assert caller == Caller("app", access, speaks_for_others=True, may_write=True)
    assert file.read_text().startswith("[tokens.app]")


def test_what_a_person_wrote_stays(file: Path) -> None:
    """Comments, order and entries of a file survive; a link leads to it still."""
    text = (
        "# ours\n\n[tokens.desk]   # finance\n"
        f'sha256 = "{ZEROS}"\nacl = [\n  "finance",  # books\n]\n\n# end\n'
    )
    real = file.with_name("real.toml")
    real.write_text(text)
    file.symlink_to(real)
    new_token(file, "new", AccessBody(["ä", "]\n[tokens.evil]"]), expires=datetime.now(UTC))
    assert file.is_symlink()
    assert real.read_text().startswith(text.partition("# end")[0])
    assert list(read_tokens(file)) == ["desk", "new"]
    assert read_tokens(file)["new"].acl == ["ä", "]\n[tokens.evil]"]
    revoke_token(file, "new")
    assert real.read_text().strip() == text.strip()
    revoke_token(file, "desk")
    assert read_tokens(file) == {}
    assert "# ours" in real.read_text()


@pytest.mark.parametrize("text", ["", "[tokens]\n", f"tokens = {{a = {{sha256 = '{ZEROS}'}}}}\n"])
def test_every_form_of_the_file_can_be_written(file: Path, text: str) -> None:
    """A token can be added to and removed from an empty file and one in another form."""
    file.write_text(text)
    others = list(read_tokens(file))
    new_token(file, "b", NOBODY)
    assert list(read_tokens(file)) == [*others, "b"]
    revoke_token(file, "b")
    assert list(read_tokens(file)) == others


@pytest.mark.parametrize("name", ["", " ", "a b", "../a", "a\n", "ä", "-a", "a" * 65, '"'])
def test_odd_names_are_refused(file: Path, name: str) -> None:
    """A name is letters, digits and few signs."""
    with pytest.raises(BadInput, match="name of a token"):
        new_token(file, name, NOBODY)
    assert not file.exists()


def test_a_name_is_used_once(file: Path) -> None:
    """A taken name is refused, and the token stays; an unknown one cannot be revoked."""
    token, _ = new_token(file, "desk", AccessBody(["a"]))
    before = file.read_text()
    with pytest.raises(BadInput, match="already"):
        new_token(file, "desk", AccessBody(["b"]))
    new_token(file, "second", NOBODY)
    before = file.read_text()
    with pytest.raises(NotFound, match="'other'") as refused:
        revoke_token(file, "other")
    assert refused.value.hint == "the tokens are desk, second"
    with pytest.raises(NotFound) as refused:
        revoke_token(file.with_name("none.toml"), "other")
    assert refused.value.hint == "the tokens are none"
    assert file.read_text() == before
    assert read_tokens(file)["desk"].sha256 == token_digest(token)


def test_bad_rights_are_refused(file: Path) -> None:
    """Rights of a token are checked like any others."""
    for rights in (AccessBody([""]), AccessBody([], ["\0"]), AccessBody([], [], -1)):
        with pytest.raises(BadInput):
            new_token(file, "a", rights)
    assert not file.exists()


def test_writers_take_turns(file: Path) -> None:
    """Tokens that are made at the same time are all there, and no reader sees half a file."""
    faults: list[Any] = []
    made = threading.Event()

    def make(name: str) -> None:
        for number in range(5):
            new_token(file, f"{name}-{number}", NOBODY)

    def read() -> None:
        watched = watch_tokens(file, required=False)
        while not made.is_set():
            try:
                watched.read()
            except ConfigError as error:
                faults.append(error)

    makers = [threading.Thread(target=make, args=(name,)) for name in "abcd"]
    reader = threading.Thread(target=read)
    for thread in (*makers, reader):
        thread.start()
    for thread in makers:
        thread.join()
    made.set()
    reader.join()
    assert len(read_tokens(file)) == 20
    assert faults == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A file that cannot be written is an error that names it."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"cannot (read|write) the tokens in .*tokens\.toml"):
        new_token(tmp_path / "file" / "tokens.toml", "a", NOBODY)
    with pytest.raises(ConfigError, match="cannot read the tokens in"):
        watch_tokens(tmp_path / "file" / "tokens.toml", required=False).read()
