"""Documents inside a mail are kept and removed with it."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from whence import Engine
from whence.testing.stub_models import HashEmbedder


def mail(*attachments: str) -> bytes:
    message = EmailMessage()
    message["Subject"] = "Fee"
    message.set_content("The fee is 12 euro.")
    for name in attachments:
        message.add_attachment(f"The note {name} of the office.\n", filename=name)
    return message.as_bytes()


@pytest.mark.asyncio
async def test_attachments_are_pruned_when_their_mail_loses_them(
    tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """An unchanged or failed mail keeps its attachments, a changed one loses those that it has no more."""
    folder = tmp_path / "documents"
    folder.mkdir()
    path = folder / "a.eml"
    async with Engine(
        home=new_home(tmp_path / "home"), embedder=HashEmbedder(), reranker="none"
    ) as engine:

        async def found() -> set[str]:
            hits = await engine.search("note office", threshold=0.0, top_k=100)
            return {hit.document_id for hit in hits}

        path.write_bytes(mail("one.txt", "two.txt"))
        report = await engine.index([folder], prune=True)
        assert report.documents.added == 3, report.failures
        report = await engine.index([folder], prune=True)
        assert (report.documents.unchanged, report.documents.removed) == (1, 0)
        assert {"a.eml/one.txt", "a.eml/two.txt"} <= await found()

        path.write_bytes(b"\x00" * 20)
        report = await engine.index([folder], prune=True)
        assert (report.documents.failed, report.documents.removed) == (1, 0)
        assert {"a.eml/one.txt", "a.eml/two.txt"} <= await found()

        path.write_bytes(mail("two.txt"))
        report = await engine.index([folder], prune=True)
        assert report.documents.removed == 1
        assert await found() == {"a.eml", "a.eml/two.txt"}


@pytest.mark.asyncio
async def test_the_reason_names_the_attachment(
    tmp_path: Path, new_home: Callable[[Path], Path]
) -> None:
    """A mail that is read says which attachment was not, and why; one that fails makes the mail fail."""
    folder = tmp_path / "documents"
    folder.mkdir()
    async with Engine(
        home=new_home(tmp_path / "home"), embedder=HashEmbedder(), reranker="none"
    ) as engine:
        for name, data in (("plans.zip", b"PK\x03\x04" + bytes(40)), ("plan.pdf", b"a note")):
            message = EmailMessage()
            message["Subject"] = "Plans"
            message.set_content("The plans are attached.")
            message.add_attachment(data, maintype="application", subtype="x", filename=name)
            (folder / f"{name}.eml").write_bytes(message.as_bytes())
        report = await engine.index([folder])
        listed = {one.path: (one.state, one.reason) for one in await engine.documents()}

    reasons = {one.path: (one.state, one.reason.split(":")[0]) for one in report.files}
    assert reasons == {
        "plan.pdf.eml": ("failed", "plan.pdf"),
        "plans.zip.eml": ("read", "plans.zip"),
    }
    assert {one.path: one.reason for one in report.files} == {
        path: reason for path, (_, reason) in listed.items()
    }
