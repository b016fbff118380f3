"""Git as a source: the files of one commit, what the history says of them, and addresses."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.repository import Repository

from whence.ingest.git_source import GitSource
from whence.ingest.remote_sources import Listing, is_address, open_source
from whence.schema.errors import BadInput


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "handbook")


def listed(address: str, folder: Path, state: str = "") -> Listing:
    source = GitSource(address, folder)
    try:
        return source.list_entries(state)
    finally:
        source.close()


def test_the_files_of_a_commit_have_the_author_and_date_of_their_last_change(
    repository: Repository, tmp_path: Path
) -> None:
    """Other changes of the tree, and what is not committed, do not count; links are left out."""
    first = repository.commit(
        {"a.md": "one", "sub/ä b.md": "two"}, "Ada", "2020-01-02T03:04:05+00:00"
    )
    second = repository.commit({"a.md": "three"}, "Grace", "2021-01-02T03:04:05+00:00")
    (repository.path / "link.md").symlink_to("a.md")
    repository.commit({}, "Barbara")
    (repository.path / "a.md").write_text("not committed")

    source = GitSource(f"git+file://{repository.path}", tmp_path / "own")
    entries = {one.path: one for one in source.list_entries("").entries}
    with source.open_entry(entries["a.md"]) as stream:
        data = stream.read()
    with source.open_entry(entries["sub/ä b.md"]) as stream:
        other = stream.read()
    source.close()

    assert (source.name, data, other) == ("handbook", b"three", b"two")
    assert {path: one.metadata for path, one in entries.items()} == {
        "a.md": {"author": "Grace", "date": "2021-01-02T03:04:05+00:00", "commit": second},
        "sub/ä b.md": {"author": "Ada", "date": "2020-01-02T03:04:05+00:00", "commit": first},
    }


def test_only_what_changed_since_a_commit_is_looked_up(
    repository: Repository, tmp_path: Path
) -> None:
    """All files are listed, and those that changed have an author."""
    repository.commit({"a.md": "one", "b.md": "two"})
    address = f"git+file://{repository.path}@main"
    first = listed(address, tmp_path)
    repository.commit({"b.md": "three"}, "Grace")
    second = listed(address, tmp_path, first.state)

    before, after = ({one.path: one for one in each.entries} for each in (first, second))
    assert before["a.md"].version == after["a.md"].version
    assert before["b.md"].version != after["b.md"].version
    assert after["a.md"].metadata == {}
    assert after["b.md"].metadata["author"] == "Grace"
    assert all(not one.metadata for one in listed(address, tmp_path, second.state).entries)


def test_after_a_history_was_rewritten_all_of_it_is_looked_up(
    repository: Repository, tmp_path: Path
) -> None:
    """The commit of the last listing is no part of it any more."""
    repository.commit({"a.md": "one"})
    repository.git("branch", "kept")
    repository.commit({"a.md": "two"})
    state = listed(f"git+file://{repository.path}@main", tmp_path).state

    entries = listed(f"git+file://{repository.path}@kept", tmp_path, state).entries
    assert [one.metadata["author"] for one in entries] == ["Ada"]


def test_a_folder_and_a_ref_are_parts_of_the_address(
    repository: Repository, tmp_path: Path
) -> None:
    """Paths are relative to the folder; a branch may have a slash in its name."""
    repository.commit({"docs/a.md": "one", "b.md": "two"})
    repository.git("checkout", "--quiet", "-b", "feature/x")
    repository.commit({"docs/c.md": "three"})
    address = f"git:{repository.path}"

    def paths(rest: str) -> list[str]:
        return [one.path for one in listed(address + rest, tmp_path).entries]

    assert paths("@main#subdirectory=docs") == ["a.md"]
    assert paths("@feature/x#subdirectory=docs") == ["a.md", "c.md"]
    assert paths("@main") == ["b.md", "docs/a.md"]


def test_a_repository_elsewhere_is_cloned_and_fetched(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The clone follows the branches of the repository."""
    repository.commit({"a.md": "one"})
    source = GitSource("git+https://example.org/team/handbook.git@main", tmp_path / "own")
    assert source.name == "handbook"
    monkeypatch.setattr(source, "_url", str(repository.path))
    first = source.list_entries("")
    repository.commit({"b.md": "two"})
    second = source.list_entries(first.state)

    assert [len(each.entries) for each in (first, second)] == [1, 2]


@pytest.mark.parametrize(
    ("rest", "reason"),
    [
        ("/no/such/folder", "no repository"),
        ("{path}@absent", "git says"),
        ("{path}@--output=x", "not a name of a branch"),
        ("{path}#subdirectory=absent", "git says"),
        ("{path}#depth=1", "not the address of a repository"),
    ],
)
def test_what_cannot_be_read_is_named(
    repository: Repository, tmp_path: Path, rest: str, reason: str
) -> None:
    """A missing repository, ref or folder, and an address that is none."""
    repository.commit({"a.md": "one"})
    with pytest.raises(BadInput, match=reason):
        listed("git+file://" + rest.format(path=repository.path), tmp_path / "own")


def test_without_git_the_error_names_it(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command may be missing."""
    repository.commit({"a.md": "one"})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match="git is not installed"):
        listed(f"git+file://{repository.path}", tmp_path / "own")


def test_what_exists_on_disk_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file may have a colon in its name; an address of no source is refused with those that there are."""
    monkeypatch.chdir(tmp_path)
    assert is_address("git:notes")
    (tmp_path / "git:notes").touch()
    assert not is_address("git:notes")
    assert not is_address("notes/a:b")
    with pytest.raises(BadInput, match="neither a path nor an address") as raised:
        open_source("nowhere:x", tmp_path)
    assert "git" in (raised.value.hint or "")
