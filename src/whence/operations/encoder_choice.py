"""The encoder of a new collection: with `--embedder auto` by the language of what is indexed first."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from whence.ingest.load_results import LoadedDocument, LoadResult
from whence.text.languages import language_code, language_of_document

if TYPE_CHECKING:
    from whence.models.protocols import Embedder
    from whence.operations.session import Session

#: The setting that chooses, and the encoder of other languages than the local one's.
AUTO = "auto"
_MULTILINGUAL = "multilingual-e5-small"
#: Documents whose languages decide.
_DOCUMENTS = 20


class ChosenEncoder(NamedTuple):
    """An embedder, and why it was chosen."""

    embedder: Embedder
    reason: str


async def choose_encoder(
    session: Session, collection: str, documents: Callable[[], Iterable[LoadResult]]
) -> ChosenEncoder | None:
    """Return another encoder than the local one for a new collection; None when that one is right.

    Nothing is downloaded: an encoder that is not installed is not chosen. Cost: the first documents are read,
    where another encoder is installed.

    Args:
        session: Of the engine.
        collection: Its name.
        documents: Reads the documents.
    """
    if session.settings.embedder != AUTO or "embedder" in session.objects or not session.runs_flow:
        return None
    library = await session.resources.get("embedders")
    other = library.installed(_MULTILINGUAL)
    if other is None or await library.model_of(collection) is not None:
        return None
    codes = await asyncio.to_thread(_languages, documents)
    own = getattr(await session.resources.get("embedder"), "encoder", None)
    foreign = {code: n for code, n in codes.items() if own and code not in own.languages}
    served = {code: n for code, n in foreign.items() if code in other.encoder.languages}
    if 2 * sum(served.values()) <= codes.total():
        return None
    language = max(sorted(served), key=served.__getitem__)
    return ChosenEncoder(other, f"most of the first documents are not in English ({language})")


def _languages(documents: Callable[[], Iterable[LoadResult]]) -> Counter[str]:
    found = documents()
    try:
        loaded = (one for one in found if isinstance(one, LoadedDocument))
        return Counter(
            language_code(language_of_document(chunk.content for chunk in one.draft.chunks))
            for one in islice(loaded, _DOCUMENTS)
        )
    finally:
        close = getattr(found, "close", None)
        if close is not None:
            close()
