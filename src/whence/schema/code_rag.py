"""Message of code RAG: a question about a snapshot; the replies are those of `document_rag`."""

from __future__ import annotations

from typing import ClassVar, Final, Literal

from whence.schema.access import Access
from whence.schema.graph import Direction
from whence.schema.message import Message
from whence.schema.prompt import Sampling
from whence.schema.search import SearchMode
from whence.schema.texts import Prioritize, TextBudget

#: Name of the flow, its interface and its processor.
CODE_RAG: Final = "code-rag"


class CodeRagRequest(Message, frozen=True, kw_only=True):
    """Ask a question of a snapshot of code."""

    TYPE: ClassVar[str] = "code-rag-request.v1"

    # What only a question about documents can say.
    exact: ClassVar[bool] = False
    deep: ClassVar[bool] = False
    steps: ClassVar[int] = 0
    reusable: ClassVar[bool] = False
    history: ClassVar[tuple[str, ...]] = ()
    previous_answer: ClassVar[str] = ""
    revision_of: ClassVar[str] = ""
    answer_language: ClassVar[str] = ""
    answer_instructions: ClassVar[str] = ""
    writer_max_tokens: ClassVar[int | None] = None
    writer_temperature: ClassVar[float | None] = None
    writer_sampling: ClassVar[Sampling | None] = None

    access: Access
    """Rights of the reader."""
    question: str
    """The question; blank ones are refused."""
    snapshot: str = ""
    """Snapshot id, head sha, branch or tag; empty for the member of `set_name`."""
    set_name: str = ""
    """Set of snapshots; with `snapshot`, the set it must be in."""
    snapshot_source: Literal["primary", "secondary"] = "primary"
    """Which member of the set, when no snapshot is named."""
    answer_id: str = ""
    """Id of the answer; generated when empty. A redelivered question has the same id."""
    seed_limit: int = 0
    """Nodes of the search that the walk starts from, 1 or more; 0 for the flow's own."""
    doc_limit: int = 0
    """Most nodes, seeds included, 1 or more; 0 for the flow's own."""
    max_depth: int = 0
    """Most steps from a seed, 1 or more; 0 for the flow's own."""
    relations: tuple[str, ...] = ()
    """Relations to follow, with or without prefix; empty for the flow's own, `*` for all."""
    direction: Direction | None = None
    """Direction of the walk; None for the flow's own."""
    prioritize: Prioritize | None = None
    """Order of the texts; None for the flow's own."""
    budget: TextBudget | None = None
    """Budget of the texts; None for the flow's own."""
    mode: SearchMode | None = None
    """Search mode for the seeds; None for the flow's own."""
    streaming: bool = False
    """True for pieces of text as they are written."""
    explain: bool = True
    """False sends no explain events; the trace is recorded all the same."""
    record: bool = True
    """False records no trace."""
    day: str = ""
    """Day that the writer takes for today, `YYYY-MM-DD`; empty for that of the question."""
