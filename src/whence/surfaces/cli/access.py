"""`whence access`: rights of files before they are stored, who sees a document, what other tags would change.

These commands open the database themselves, so they are for its owner; no server offers them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from whence.operations.owner import ExplainAccess, PreviewAccess
from whence.operations.rights_preview import PreviewRights
from whence.schema.access import Access, DocumentTags
from whence.surfaces.cli.output import console, plain_table, print_json
from whence.surfaces.cli.session import as_json, run_operation

if TYPE_CHECKING:
    from whence.operations.access_report import AccessExplanation, AccessPreview

#: Documents and answers printed; JSON lists all.
_MOST = 20


def explain(context: typer.Context, asked: ExplainAccess) -> int:
    """Show by which rule a reader sees a document or does not; for the owner of the database.

    The options are the rights of that reader. Exit 0 in either case, 3 when there is no such document.
    """
    found = run_operation(context, asked, reads=f"document {asked.document_id!r}")
    print_json(_explanation(found)) if as_json(context) else _print_explanation(found)
    return 0


def _explanation(found: AccessExplanation) -> dict[str, Any]:
    return {
        "document_id": found.document_id,
        "collection": found.collection,
        "visible": found.visible,
        "tags": _tags(found.tags),
        "reader": found.reader.by_option(),
        "rules": found.rules,
        "chunks": found.chunks,
        "chunks_visible": found.chunks_visible,
    }


def _tags(tags: DocumentTags) -> dict[str, Any]:
    return {"acl": tags.acl, "labels": tags.labels, "clearance": tags.clearance}


def _print_explanation(found: AccessExplanation) -> None:
    out = console()
    seen = "sees" if found.visible else "does not see"
    out.print(f"a reader with {_rights(found.reader)} {seen} {found.document_id}", markup=False)
    table = plain_table("rule", "holds", "because")
    for one in found.rules:
        table.add_values(one.rule, one.holds, one.reason)
    out.print(table)
    if found.chunks_visible not in {0, found.chunks} or found.visible != bool(found.chunks_visible):
        out.print(
            f"the database was altered: a search may return {found.chunks_visible:,} of its {found.chunks:,} chunks"
        )


def _rights(access: Access) -> str:
    parts = [f"--acl {tag}" for tag in sorted(access.acl_tags)]
    parts += [f"--label {label}" for label in sorted(access.labels)]
    parts += [f"--clearance {access.clearance}"] if access.clearance else []
    return " ".join(parts) or "no rights"


def paths(context: typer.Context, asked: PreviewRights) -> int:
    """Show the rights that files would have: by rules of folders, options, and what they state themselves.

    Nothing is stored. Rules are for paths below the folder that is named. A file that is named alone is one of
    the folder that was indexed around it, else of the folder it lies in: name the folder that the rules are
    written for to see what `whence index` of that folder does. `whence access explain` and `preview` are about
    stored documents.
    """
    found = run_operation(context, asked)
    if as_json(context):
        print_json({"files": found})
        return 0
    table = plain_table("file", "readers need", "rule", "note")
    for one in found:
        tags = DocumentTags(one.acl, one.labels, one.clearance)
        needed = "" if one.document_id is None else _tags_text(tags)
        note = f"not stored: {one.reason}" if one.document_id is None else ""
        table.add_values(one.path, needed, one.rule, note)
    console().print(table)
    return 0


def preview(context: typer.Context, asked: PreviewAccess) -> int:
    """Show what other tags of documents would change: who sees more or less, which answers are hidden.

    Tags without an option stay as they are. Nothing is changed. For the owner of the database.
    """
    document = next(iter(asked.document_ids), asked.folder)
    found = run_operation(context, asked, reads=f"document {document!r}")
    print_json(_preview(found)) if as_json(context) else _print_preview(found)
    return 0


def _preview(found: AccessPreview) -> dict[str, Any]:
    return {
        "collection": found.collection,
        "documents": [
            {
                "document_id": one.document_id,
                "before": _tags(one.before),
                "after": _tags(one.after),
            }
            for one in found.documents
        ],
        "readers": [
            {
                "reader": one.reader.by_option(),
                "questions": one.questions,
                "gains": one.gains,
                "loses": one.loses,
            }
            for one in found.readers
        ],
        "answers": [
            {
                "answer_id": one.answer_id,
                "question": one.question,
                "reader": one.reader.by_option(),
                "change": one.change,
            }
            for one in found.answers
        ],
    }


def _print_preview(found: AccessPreview) -> None:
    out = console()
    if not found.documents:
        out.print("nothing would change: the documents have these tags")
        return
    table = plain_table("document", "tags now", "tags then")
    for one in found.documents[:_MOST]:
        table.add_values(one.document_id, _tags_text(one.before), _tags_text(one.after))
    out.print(table)
    _print_more(len(found.documents), "documents")
    table = plain_table("a reader with", ">sees more", ">sees fewer", ">recent questions")
    for reader in found.readers:
        counts = (reader.gains, reader.loses, reader.questions)
        table.add_values(_rights(reader.reader), *counts)
    out.print(table if found.readers else "no known reader would see more or fewer documents")
    if found.answers:
        table = plain_table("stored answer", "would be", "to its reader with", "question")
        for answer in found.answers[:_MOST]:
            table.add_values(
                answer.answer_id, answer.change, _rights(answer.reader), answer.question
            )
        out.print(table)
        _print_more(len(found.answers), "answers")


def _print_more(count: int, what: str) -> None:
    if count > _MOST:
        console().print(f"{count - _MOST:,} more {what}; --json lists all")


def _tags_text(tags: DocumentTags) -> str:
    return _rights(Access(frozenset(tags.acl), frozenset(tags.labels), tags.clearance)).replace(
        "no rights", "public"
    )
