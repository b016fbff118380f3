"""The whole house behind one object: index, search, ask, explain."""

from whence.engine.engine import Engine
from whence.engine.results import IndexReport
from whence.retrieval.results import RetrievalResult, RetrievedChunk, SearchReport

__all__ = ("Engine", "IndexReport", "RetrievalResult", "RetrievedChunk", "SearchReport")
