"""Roots over the engine: homes of the former version, uploads, and names of documents in every operation."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from whence import Access, Engine
from whence.operations.documents import DocumentEntry, ListDocuments
from whence.operations.history import ExportCases
from whence.operations.rights_preview import PreviewRights
from whence.operations.stale import ListStale
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput, NotFound
from whence.store.postgres.store import PostgresStore
from whence.testing.stub_models import HashEmbedder

pytestmark = pytest.mark.postgres

_MODELS: dict[str, Any] = {"embedder": HashEmbedder(), "reranker": "none"}
#: What the former version had not: a document without a root, and no states.
_FORMER = (
    "UPDATE document SET root = '', date = '', encoding = '', left_out = '{}'",
    "DELETE FROM source_root",
    "DELETE FROM source_file",
)


def _write(folder: Path, **texts: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(f"# {name}\n\n{text}\n")
    return folder


@pytest.fixture
async def engine(tmp_path: Path, database_url: str) -> AsyncIterator[Engine]:
    """An engine on an empty database."""
    async with Engine(home=tmp_path / "home", database_url=database_url, **_MODELS) as engine:
        yield engine


async def _former_version(database_url: str) -> None:
    async with await PostgresStore.connect(database_url) as store, store.pool.connection() as one:
        for statement in _FORMER:
            await one.execute(statement)


async def _listed(engine: Engine, **options: Any) -> dict[str | None, DocumentEntry]:
    return {one.document_id: one for one in await engine.documents(**options)}


async def test_documents_of_a_former_version_are_adopted(
    engine: Engine, tmp_path: Path, database_url: str
) -> None:
    """They have no root; the first run that finds their files gives them one and keeps ids and vectors."""
    folder = _write(tmp_path / "f", a="Words.", b="Others.")
    (folder / "r.jsonl").write_text('{"_id": "r1", "text": "A record."}\n')
    await engine.index([folder])
    await _former_version(database_url)
    (folder / "b.md").unlink()

    told = await engine.index([folder], prune=True)
    await engine.index([_write(tmp_path / "g", a="Another.")])
    again = await engine.index([folder], prune=True)

    assert (told.documents.unchanged, told.documents.removed, told.embedded) == (2, 0, 0)
    assert told.unrooted == 1, "nobody knows whether it was an upload"
    assert (again.documents.unchanged, again.documents.removed) == (2, 0)
    roots = {name: one.root for name, one in (await _listed(engine)).items()}
    assert roots == {"a.md": "f", "b.md": "", "r1": "f", "g/a.md": "g"}


async def test_uploads_are_never_pruned(engine: Engine, tmp_path: Path) -> None:
    """They have a root of their own; an upload of a known name replaces the upload, not the folder's file."""
    folder = _write(tmp_path / "f", a="Words of the folder.")
    sent = _write(tmp_path / "sent", a="Words that were sent.", only="Sent alone.")
    await engine.index([folder])
    first = await engine.index_for(writer=None, folder=sent)
    _write(sent, a="Other words that were sent.")
    second = await engine.index_for(writer=None, folder=sent)
    pruned = await engine.index([folder], prune=True)

    assert (first.documents.added, second.documents.updated) == (2, 1)
    assert pruned.documents.removed == 0
    roots = {name: one.root for name, one in (await _listed(engine)).items()}
    assert roots == {"a.md": "f", "uploads/a.md": "uploads", "only.md": "uploads"}
    assert {one.changed for one in (await _listed(engine)).values()} == {False, None}


async def test_uploads_have_rights_by_their_path(engine: Engine, tmp_path: Path) -> None:
    """A file without a rule is not stored."""
    rules = tmp_path / "rights.toml"
    rules.write_text('[[rule]]\npath = "hr/**"\nacl = ["hr"]\n')
    sent = _write(tmp_path / "sent", stray="Stray.")
    _write(sent / "hr", pay="Pay.")
    report = await engine.index_for(writer=None, folder=sent, rights=rules)

    assert (report.documents.added, report.documents.failed) == (1, 1)
    assert await _listed(engine) == {}
    assert (await _listed(engine, access=Access(frozenset({"hr"})))).keys() == {"hr/pay.md"}


async def test_every_operation_takes_names(engine: Engine, tmp_path: Path) -> None:
    """Root and path, and a path that one visible document has; several are refused with their ids."""
    for root in ("f", "g", "h"):
        await engine.index([_write(tmp_path / root, a=f"Words of {root}.")])
    await engine.index([_write(tmp_path / "i", a="Hidden.")], tags=DocumentTags(("board",)))

    async def shown(name: str, access: Access = Access.public()) -> str:  # noqa: B008 - a constant
        return (await engine.show(name, access=access)).document_id

    assert await shown("f/a.md") == await shown("a.md") == "a.md"
    assert await shown("g/a.md") == "g/a.md"
    with pytest.raises(NotFound):
        await shown("i/a.md")
    assert await shown("i/a.md", Access(frozenset({"board"}))) == "i/a.md"
    explained = await engine.owner.explain_access("f/a.md", Access.public())
    assert explained.document_id == "a.md"
    (erased,) = await engine.owner.preview_erasure(["f/a.md"])
    assert erased.document_id == "a.md"
    await engine.remove("f/a.md")
    with pytest.raises(BadInput, match="several documents"):
        await shown("a.md")
    await engine.erase("h/a.md")
    assert await shown("a.md") == "g/a.md"


async def test_a_stored_root_moves_with_its_name(engine: Engine, tmp_path: Path) -> None:
    """A folder that is gone is the one of its name elsewhere, and no file is read again."""
    folder = _write(tmp_path / "f", a="Words.")
    await engine.index([folder], root="handbook")
    folder.rename(tmp_path / "g")
    moved = await engine.index([tmp_path / "g"], root="handbook")

    assert (moved.documents.unchanged, moved.documents.added) == (1, 0)
    assert (await _listed(engine))["a.md"].root == "handbook"


async def test_collections_that_do_not_exist(engine: Engine, tmp_path: Path) -> None:
    """Whatever lists a collection refuses one that is not there; one without documents is an empty list."""
    (folder := tmp_path / "f").mkdir()
    (folder / "broken.pdf").write_bytes(b"%PDF-1.7 no more")
    await engine.index([folder])
    empty: tuple[Any, ...] = (ListDocuments(state="read"), ListStale(), ExportCases("default"))
    for one in empty:
        assert await engine.run(one) == []
        with pytest.raises(NotFound, match="there is no collection 'no'"):
            await engine.run(replace(one, collection="no"))


async def test_rights_of_a_file_of_a_known_folder(engine: Engine, tmp_path: Path) -> None:
    """A file is shown with the rule that an index run applies: that of its path below the known folder."""
    folder = _write(tmp_path / "share", p="Words.")
    _write(folder / "hr", s="Secrets.")
    rules = tmp_path / "rules.toml"
    rules.write_text(
        '[[rule]]\npath = "**"\nacl = ["staff"]\n[[rule]]\npath = "hr/**"\nacl = ["hr"]\n'
    )
    asked = PreviewRights([folder / "hr" / "s.md"], rights=rules)
    (alone,) = await engine.run(asked)
    await engine.index([folder], rights=rules)
    (known,) = await engine.run(asked)

    assert (alone.path, alone.rule, alone.acl) == ("s.md", "**", ("staff",))
    assert (known.path, known.rule, known.acl) == ("hr/s.md", "hr/**", ("hr",))
    stored = await engine.index([folder / "hr" / "s.md"], rights=rules)
    assert stored.documents.unchanged == 1
