"""Whence as a retriever of Haystack; needs the extra `haystack`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from whence.integrations.passages import FrameworkPassage, PassageSource
from whence.schema.access import Access
from whence.schema.errors import BadInput, missing_extra

try:
    from haystack import Document, component, default_from_dict, default_to_dict
    from haystack.utils import Secret, deserialize_secrets_inplace
except ImportError as error:
    raise missing_extra("haystack", "the retriever for Haystack") from error

_RANGES: Final = {">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


@component
class WhenceRetriever:
    """Finds passages of a collection; see `whence.integrations.passages.FrameworkPassage` for their metadata.

    Args:
        collection: Collection to search.
        top_k: Most documents.
        url: Address of `whence serve`; empty for an engine in this process.
        token: Token for that server.
        home: Home of the engine; the usual one when empty.
        acl: Access tags of the reader; public documents only when empty.
        labels: Labels of the reader.
        clearance: Clearance of the reader.
        mode: `hybrid`, `dense` or `bm25`.
        filters: Conditions on metadata, in Haystack's form.
        cited_only: Whether to ask, and return what the answer quotes.
    """

    def __init__(
        self,
        collection: str = "default",
        *,
        top_k: int = 5,
        url: str = "",
        token: Secret | None = None,
        home: str = "",
        acl: list[str] | None = None,
        labels: list[str] | None = None,
        clearance: int = 0,
        mode: str = "hybrid",
        filters: dict[str, Any] | None = None,
        cited_only: bool = False,
    ) -> None:
        self.collection, self.top_k, self.url, self.token = collection, top_k, url, token
        self.home, self.acl, self.labels, self.clearance = home, acl, labels, clearance
        self.mode, self.filters, self.cited_only = mode, filters, cited_only
        self._source = PassageSource(
            collection,
            url=url,
            token=(token.resolve_value() or "") if token else "",
            home=home,
            access=Access(frozenset(acl or ()), frozenset(labels or ()), clearance),
            mode=mode,
            filters=to_filters(filters) if filters else None,
            cited_only=cited_only,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the component for a pipeline file; a token is named, not written."""
        given: dict[str, Any] = default_to_dict(
            self,
            collection=self.collection,
            top_k=self.top_k,
            url=self.url,
            token=self.token.to_dict() if self.token else None,
            home=self.home,
            acl=self.acl,
            labels=self.labels,
            clearance=self.clearance,
            mode=self.mode,
            filters=self.filters,
            cited_only=self.cited_only,
        )
        return given

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> WhenceRetriever:
        """Return the component that `to_dict` described."""
        deserialize_secrets_inplace(data["init_parameters"], keys=["token"])
        made: WhenceRetriever = default_from_dict(cls, data)
        return made

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Find passages; `filters` hold beside those of the component."""
        further = to_filters(filters) if filters else None
        found = self._source.find(query, top_k or self.top_k, further)
        return {"documents": [_document(one) for one in found]}

    @component.output_types(documents=list[Document])
    async def run_async(
        self, query: str, top_k: int | None = None, filters: dict[str, Any] | None = None
    ) -> dict[str, list[Document]]:
        """Find passages without blocking the event loop."""
        further = to_filters(filters) if filters else None
        found = await self._source.afind(query, top_k or self.top_k, further)
        return {"documents": [_document(one) for one in found]}

    def close(self) -> None:
        """Close the engine or the connection; a later search opens it again."""
        self._source.close()


def to_filters(filters: Mapping[str, Any]) -> dict[str, Any]:
    """Return Haystack's filters in Whence's form.

    >>> to_filters({"field": "meta.year", "operator": ">=", "value": 2020})
    {'year': {'gte': 2020}}

    Raises:
        BadInput: An operator is unknown.
    """
    operator = filters.get("operator")
    if "conditions" in filters:
        parts = [to_filters(one) for one in filters["conditions"]]
        if operator in ("AND", "OR"):
            return {operator.lower(): parts}
        if operator == "NOT":
            return {"not": {"and": parts}}
    elif isinstance(filters.get("field"), str):
        key, value = filters["field"].removeprefix("meta."), filters.get("value")
        match operator:
            case "==":
                return {key: value}
            case "!=":
                return {"not": {key: value}}
            case "in":
                return {key: {"any": value}}
            case "not in":
                return {"not": {key: {"any": value}}}
            case str() if operator in _RANGES:
                return {key: {_RANGES[operator]: value}}
    raise BadInput(
        f"{operator!r} is no operator of a filter",
        hint="use ==, !=, >, >=, <, <=, in, not in; AND, OR, NOT with conditions",
    )


def _document(passage: FrameworkPassage) -> Document:
    return Document(id=passage.id, content=passage.text, meta=passage.metadata, score=passage.score)
