"""Read-only access to an existing collection of Qdrant, for search and validation.

Needs the extra `qdrant`. `QdrantCollection` is a vector store for `whence.Retriever`. Text and metadata of a
chunk are in the payload of its point, nested under `metadata` or not.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from whence.schema.access import Access
from whence.schema.errors import (
    BadInput,
    ConfigError,
    DeadlineExceeded,
    ModelMismatch,
    NotFound,
    Unavailable,
    WhenceError,
    missing_extra,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

#: Environment variable with the key of the server; addresses do not contain keys.
API_KEY = "QDRANT_API_KEY"

_FORM = "qdrant://host:6333/collection, qdrant+https://host/collection or qdrant+file:///folder/collection"
_OPTIONS = frozenset({"vector", "public"})
_PORT = 6333
_TIMEOUT_S = 10
#: Payload keys of the text of a chunk, in order of precedence.
_TEXTS = ("text", "content", "page_content", "chunk_text", "document")
_NESTED = "metadata"
_PAGE_POINTS = 1000


class QdrantAddress(NamedTuple):
    """Address of a collection."""

    shown: str
    """Server or folder for people."""
    client: dict[str, Any]
    """Arguments of the client."""
    collection: str
    vector: str | None
    """Name of the vector; None for the only one."""
    public: bool
    """True when all points are public, regardless of their payload."""


class QdrantChunk(msgspec.Struct, frozen=True, kw_only=True):
    """A point as a chunk."""

    id: str
    content: str
    score: float = 0.0
    """Cosine of query and chunk, -1 to 1; 0 when there was no query."""
    metadata: dict[str, Any] = {}
    """The payload without the text, nested entries included."""
    document_id: str = ""
    """Id of the document when the payload names one, else its address."""


def parse_address(address: str) -> QdrantAddress:
    """Read an address, `qdrant://host:port/collection`.

    `?vector=NAME` selects one of several vectors; `?public=yes` declares that points have no rights.
    """
    try:
        parts = urlsplit(address)
        port = parts.port
        options = parse_qs(parts.query, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise ConfigError("the address of the store cannot be read", hint=_FORM) from error
    if parts.scheme not in ("qdrant", "qdrant+https", "qdrant+file"):
        raise ConfigError(f"the store's kind {parts.scheme or 'nothing'!r} is unknown", hint=_FORM)
    if "@" in parts.netloc:
        raise ConfigError("the address of the store holds credentials", hint=f"set {API_KEY}")
    if unknown := options.keys() - _OPTIONS:
        raise ConfigError(f"unknown option {min(unknown)!r} in the address", hint=_FORM)
    before, _, collection = parts.path.rpartition("/")
    local = parts.scheme == "qdrant+file"
    if not collection or bool(before) != local or bool(parts.hostname) == local:
        raise ConfigError("the address of the store names no collection", hint=_FORM)
    client: dict[str, Any] = {"path": unquote(before)}
    if not local:
        scheme = "https" if parts.scheme == "qdrant+https" else "http"
        host = f"[{parts.hostname}]" if ":" in str(parts.hostname) else parts.hostname
        client = {"url": f"{scheme}://{host}:{port or _PORT}"}
    return QdrantAddress(
        shown=client.get("url") or client["path"],
        client=client,
        collection=unquote(collection),
        vector=options.get("vector", [None])[0],
        public=options.get("public", ["no"])[0] in ("yes", "true", "1"),
    )


class QdrantCollection:
    """A collection with cosine similarity; implements `VectorStore` of `whence.surfaces.python.protocols`.

    Points may have rights in `acl`, `labels` and `clearance`. The server applies the first and the last before
    ranking. Points with labels are excluded, since the server cannot compare them with a reader's.

    Args:
        client: An open asynchronous client, of which only calls that read are used.
        collection: Name of the collection.
        shown: Server or folder for people.
        vector: Name of the vector; None for the only one.
        public: True when no point has rights, so that the server need not check them.
    """

    def __init__(
        self,
        client: Any,
        collection: str,
        *,
        shown: str = "memory",
        vector: str | None = None,
        public: bool = False,
    ) -> None:
        self._client = client
        self._collection = collection
        self._vector = vector
        self._public = public
        self._dimension: int | None = None
        self.shown = shown
        """Server or folder for people."""
        self.name = collection
        """Name of the collection."""

    @classmethod
    @asynccontextmanager
    async def open(cls, address: str) -> AsyncIterator[QdrantCollection]:
        """Connect for the time of a block; the first call contacts the server."""
        parsed = parse_address(address)
        client = _client(parsed)
        try:
            yield cls(
                client,
                parsed.collection,
                shown=parsed.shown,
                vector=parsed.vector,
                public=parsed.public,
            )
        finally:
            await client.close()

    async def dimension(self) -> int:
        """Return the length of the vectors; the configuration is read once."""
        if self._dimension is None:
            with self._translated():
                if not await self._client.collection_exists(self._collection):
                    raise NotFound(
                        f"there is no collection {self._collection!r} in {self.shown}",
                        hint="check its name; it is the last part of the address",
                    )
                info = await self._client.get_collection(self._collection)
            self._dimension = self._size(info.config.params.vectors)
        return self._dimension

    async def search(
        self, vector: NDArray[np.float32], *, limit: int, access: Access
    ) -> list[QdrantChunk]:
        """Return the visible chunks with the greatest cosine, best first, ties by id."""
        found = await self._ranked(vector, limit, _all_of(self._conditions(access)))
        chunks = [_chunk(point) for point in found]
        return sorted(chunks, key=lambda chunk: (-chunk.score, chunk.id))

    async def scores(
        self, vector: NDArray[np.float32], chunk_ids: Sequence[str], *, access: Access
    ) -> dict[str, float]:
        """Return the cosine of those of these chunks that exist and are visible, by id."""
        from qdrant_client import models

        if not chunk_ids:
            return {}
        ids: list[Any] = [int(one) if one.isdecimal() else one for one in chunk_ids]
        conditions = [models.HasIdCondition(has_id=ids), *self._conditions(access)]
        found = await self._ranked(vector, len(ids), _all_of(conditions))
        return {str(point.id): float(point.score) for point in found}

    async def chunks(self, limit: int, *, source_url: str | None = None) -> list[QdrantChunk]:
        """Return chunks in order of their ids, public ones only.

        Args:
            limit: Most chunks.
            source_url: Address that they come from; any when None.
        """
        from qdrant_client import models

        conditions: list[Any] = self._conditions(Access.public())
        if source_url is not None:
            match = models.MatchValue(value=source_url)
            keys = ("source_url", f"{_NESTED}.source_url")
            conditions.append(
                models.Filter(should=[models.FieldCondition(key=key, match=match) for key in keys])
            )
        await self.dimension()
        found: list[QdrantChunk] = []
        offset: Any = None
        while len(found) < limit:
            with self._translated():
                points, offset = await self._client.scroll(
                    self._collection,
                    scroll_filter=_all_of(conditions),
                    limit=min(_PAGE_POINTS, limit - len(found)),
                    offset=offset,
                    with_payload=True,
                    timeout=_TIMEOUT_S,
                )
            found += [_chunk(point) for point in points]
            if offset is None:
                break
        return found

    async def _ranked(self, vector: NDArray[np.float32], limit: int, condition: Any) -> list[Any]:
        dimension = await self.dimension()
        if len(vector) != dimension:
            raise ModelMismatch(
                f"the query's vector has {len(vector)} numbers, those of collection"
                f" {self._collection!r} in {self.shown} have {dimension}",
                hint="set WHENCE_EMBEDDER to the model that the collection was made with",
            )
        with self._translated():
            answer = await self._client.query_points(
                self._collection,
                query=[float(number) for number in vector],
                using=self._vector,
                query_filter=condition,
                limit=limit,
                with_payload=True,
                timeout=_TIMEOUT_S,
            )
        points: list[Any] = answer.points
        return points

    def _conditions(self, access: Access) -> list[Any]:
        """Return the conditions under which a point is visible to a reader."""
        from qdrant_client import models

        if self._public:
            return []
        conditions: list[Any] = []
        for prefix in ("", f"{_NESTED}."):
            acl, level = f"{prefix}acl", f"{prefix}clearance"
            opens: list[Any] = [_empty(acl)]
            if access.acl_tags:
                match = models.MatchAny(any=sorted(access.acl_tags))
                opens.append(models.FieldCondition(key=acl, match=match))
            within = models.FieldCondition(key=level, range=models.Range(lte=access.clearance))
            conditions += [
                models.Filter(should=opens),
                _empty(f"{prefix}labels"),
                models.Filter(should=[_empty(level), within]),
            ]
        return conditions

    def _size(self, vectors: Any) -> int:
        """Return the dimension of the vector that is searched."""
        where = f"collection {self._collection!r} in {self.shown}"
        if isinstance(vectors, dict):
            if self._vector is None and len(vectors) == 1:
                self._vector = next(iter(vectors))
            if self._vector not in vectors:
                names = ", ".join(sorted(vectors)) or "none"
                raise ConfigError(
                    f"{where} has the vectors {names}", hint="name one in the address: ?vector=NAME"
                )
            vectors = vectors[self._vector]
        elif self._vector is not None:
            raise ConfigError(f"{where} has one vector, without a name", hint="leave ?vector= out")
        if vectors.distance.value != "Cosine" or vectors.multivector_config is not None:
            kind = (
                "several vectors a point" if vectors.multivector_config else vectors.distance.value
            )
            raise ConfigError(
                f"{where} compares by {kind}, not by the cosine",
                hint="validate a collection that was made with Distance.COSINE",
            )
        return int(vectors.size)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate the errors of the client."""
        from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

        try:
            yield
        except UnexpectedResponse as error:
            raise self._refused(error.status_code or 0, error) from error
        except ResponseHandlingException as error:
            timed_out = "timeout" in type(error.source).__name__.lower()
            if timed_out:
                raise DeadlineExceeded(
                    f"the Qdrant server at {self.shown} did not answer in time"
                ) from error
            raise Unavailable(
                f"the Qdrant server at {self.shown} cannot be reached: {error}",
                hint="check host, port and that it runs, then try again",
            ) from error

    def _refused(self, status: int, error: Exception) -> WhenceError:
        where = f"the Qdrant server at {self.shown}"
        if status == 404:
            return NotFound(f"there is no collection {self._collection!r} at {self.shown}")
        if status in (401, 403):
            return Unavailable(f"{where} refused: it answered {status}", hint=f"check {API_KEY}")
        if status in (408, 504):
            return DeadlineExceeded(f"{where} gave up: it answered {status}")
        if status >= 500 or status == 429:
            return Unavailable(f"{where} is in trouble: it answered {status}", hint="try again")
        said = " ".join(str(error).split())[:300]
        return BadInput(
            f"{where} finds the request wrong: {said}",
            hint="where it forbids filters on keys without an index, add ?public=yes to the address",
        )


def _client(address: QdrantAddress) -> Any:
    try:
        from qdrant_client import AsyncQdrantClient
    except ImportError as error:
        raise missing_extra("qdrant", "reading a collection of Qdrant") from error
    options = dict(address.client)
    if "url" in options:
        # The version check would contact the server here, and only print its result.
        options |= {"timeout": _TIMEOUT_S, "check_compatibility": False}
        options["api_key"] = os.environ.get(API_KEY) or None
    with warnings.catch_warnings():
        # The user chose plain http in the address; the warning about the key is for programmers.
        warnings.simplefilter("ignore")
        try:
            return AsyncQdrantClient(**options)
        except (OSError, RuntimeError, ValueError) as error:
            raise Unavailable(
                f"{address.shown} cannot be opened: {error}",
                hint="check the address, and that no other program has the folder open",
            ) from error


def _all_of(conditions: list[Any]) -> Any:
    """Return the filter of points that meet all conditions; None without any."""
    from qdrant_client import models

    return models.Filter(must=conditions) if conditions else None


def _empty(key: str) -> Any:
    from qdrant_client import models

    return models.IsEmptyCondition(is_empty=models.PayloadField(key=key))


def _chunk(point: Any) -> QdrantChunk:
    payload: Mapping[str, Any] = point.payload or {}
    nested = payload.get(_NESTED)
    flat = {**(nested if isinstance(nested, dict) else {}), **payload}
    if isinstance(nested, dict):
        flat.pop(_NESTED)
    key = next((name for name in _TEXTS if isinstance(flat.get(name), str)), None)
    content = flat.pop(key) if key else ""
    path = flat.get("section_path")
    if isinstance(path, list):
        flat["section_path"] = " > ".join(map(str, path))
    if isinstance(flat.get("section_path"), str):
        flat.setdefault("header_path", flat["section_path"])
    document = flat.get("document_id") or flat.get("source_url") or ""
    return QdrantChunk(
        id=str(point.id),
        content=content,
        score=float(getattr(point, "score", None) or 0.0),
        metadata=flat,
        document_id=str(document),
    )
