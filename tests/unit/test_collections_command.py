"""The exit code of `whence collections --remove`."""

from __future__ import annotations

from typing import Any

import pytest

from whence.operations.collection_removal import CollectionRemoval, RemoveCollection
from whence.store.protocols import Expunged
from whence.surfaces.cli import status


@pytest.mark.parametrize(
    ("physical", "code"),
    [(Expunged(done=True), 0), (Expunged(done=False, hint="vacuum"), 1)],
    ids=["all gone", "something left"],
)
def test_removal_that_leaves_words_does_not_end_with_0(
    monkeypatch: pytest.MonkeyPatch, physical: Expunged, code: int
) -> None:
    """Scripts see by the exit code whether words of the collection may still be somewhere."""
    done = CollectionRemoval(
        collection="c", documents=1, chunks=1, roots=(), answers=0, physical=physical
    )
    monkeypatch.setattr(status, "run_operation", lambda *_, **__: done)
    monkeypatch.setattr(status, "as_json", lambda _: False)
    context: Any = None

    assert status._remove(context, RemoveCollection("c"), agreed=True) == code
