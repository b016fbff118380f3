"""Comparison of two runs of a question: the differences by stage, each with its cause.

A cause is found from the most certain sign to the least. A difference that names documents which changed is due
to them. Any other has the cause of the whole: other settings, other models, other rights, else the documents
that changed between the two versions of the collection, which shift the statistics of all scores.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Literal

import msgspec

from whence.provenance.erasing import erased_chunks
from whence.provenance.trace import Trace
from whence.schema.access import Access
from whence.schema.document_rag import Answer
from whence.store.change_log import NetChanges
from whence.store.chunk_ids import parse_chunk_key

CauseKind = Literal["documents", "settings", "models", "rights", "erased", "statistics"]

#: Decimal places to which scores are compared: another processor or library may round the last bits of a
#: float32 differently.
_SCORE_PLACES = 5
#: Settings that say which version is read; what it has is compared.
_VERSION_SETTINGS = frozenset({"as_of"})
#: Settings of stages after the question; its other figures are results.
_STAGE_SETTINGS = frozenset({"fusion", "passage_graph", "prompt_template"})
#: Name of Whence itself among the models.
_SOFTWARE = "whence"


class DocumentChanges(msgspec.Struct, frozen=True, kw_only=True):
    """Ids of documents that the reader may see, each list sorted."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why two runs differ."""

    kind: CauseKind
    """`documents` when these documents are what differs, `statistics` when scores drifted because of them or of
    documents that are hidden now, `rights` when tags or the rights of the reader are others (documents
    that are hidden from the reader now are not named), `erased` when a document that has no name any more was
    erased, `models` also when a writer wrote the same passages up otherwise."""
    documents: DocumentChanges = DocumentChanges()


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """One difference between two runs."""

    stage: str
    what: str
    """`question`, `settings`, `models`, `concepts`, `candidates` (those of one side only), `texts`, `scores`,
    `order`, `kept`, `queries` (of steps), `added` (by steps), `citations` or `answer`."""
    before: Any
    after: Any
    cause: Cause


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two runs compared."""

    identical: bool
    answer_changed: bool
    """Whether the text or the citations differ."""
    differs: tuple[Difference, ...]
    """In the order of the stages; the first stage listed is where the runs diverged."""

    @property
    def drifted(self) -> bool:
        """Whether nothing differs but statistics, and the answer is the same."""
        return not self.answer_changed and all(
            one.cause.kind == "statistics" for one in self.differs
        )


class RecordedAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a question."""

    trace: Trace
    answer: Answer
    access: Access
    """Rights of its reader."""


def compare_answers(before: RecordedAnswer, after: RecordedAnswer, net: NetChanges) -> Comparison:
    """Compare two runs. Ids, times and durations are not compared.

    Args:
        before: One run.
        after: The other.
        net: What differs between the versions of the collection that they read.
    """
    ids = [{candidate.chunk_id for candidate in run.trace.candidates} for run in (before, after)]
    both = ids[0] & ids[1]
    one, other = _outcome(before, both), _outcome(after, both)
    refused = any(run.answer.refusal is not None for run in (before, after))
    _leave_out_unrecorded(one, other, refused=refused)
    keys = [key for key in one if one[key] != other[key]]
    if keys == [_MODELS] and _differing(one[_MODELS], other[_MODELS]) == [_SOFTWARE]:
        # Another version of Whence with the same result.
        keys = []
    causes = _Causes(before, after, net, keys, one, other)
    differs = tuple(_difference(key, one[key], other[key], causes.of(key)) for key in keys)
    changed = not {("synthesis", "citations"), ("synthesis", "answer")}.isdisjoint(keys)
    return Comparison(identical=not differs, answer_changed=changed, differs=differs)


_Key = tuple[str, str]
"""Stage and what differs."""
_SETTINGS: _Key = ("question", "settings")
_MODELS: _Key = ("question", "models")


class _Causes:
    """Finds the cause of each difference between two runs."""

    def __init__(
        self,
        before: RecordedAnswer,
        after: RecordedAnswer,
        net: NetChanges,
        keys: Iterable[_Key],
        one: Mapping[_Key, Any],
        other: Mapping[_Key, Any],
    ) -> None:
        self._net = net
        self._one, self._other = one, other
        self._documents = before.trace.documents | after.trace.documents
        self._erased = erased_chunks(before.trace) | erased_chunks(after.trace)
        self._of_all = self._cause_of_all(frozenset(keys), before.access != after.access)

    def of(self, key: _Key) -> Cause:
        """Return the cause of one difference."""
        if key in {_SETTINGS, ("question", "question")}:
            return Cause(kind="settings")
        if key[1] == "models":
            return Cause(kind="models")
        chunks = self._chunks(key)
        if not self._erased.isdisjoint(chunks):
            return Cause(kind="erased")
        documents = {self._document(chunk) for chunk in chunks}
        named = self._changes(documents)
        if named != DocumentChanges():
            tags_alone = documents.intersection(self._net.documents) <= {*self._net.tagged}
            return Cause(kind="rights" if tags_alone else "documents", documents=named)
        return self._of_all

    def _cause_of_all(self, keys: frozenset[_Key], other_rights: bool) -> Cause:
        """Return the cause of a difference that names no changed document."""
        net = self._net
        if net.settings or not keys.isdisjoint({_SETTINGS, ("question", "question")}):
            return Cause(kind="settings")
        if any(what == "models" for _, what in keys):
            return Cause(kind="models")
        if other_rights:
            return Cause(kind="rights")
        named = self._changes(net.documents)
        if net.documents:
            tags_alone = {*net.documents} <= {*net.tagged}
            return Cause(kind="rights" if tags_alone else "statistics", documents=named)
        if net.hidden:
            return Cause(kind="rights")
        if net.erased:
            return Cause(kind="erased")
        if ("step", "queries") in keys and not any(what == "kept" for _, what in keys):
            # The model read the same and searched for something else.
            return Cause(kind="models")
        only_written = all(stage == "synthesis" for stage, _ in keys)
        return Cause(kind="models" if only_written else "statistics")

    def _changes(self, documents: Container[str]) -> DocumentChanges:
        return DocumentChanges(
            added=tuple(one for one in self._net.added if one in documents),
            changed=tuple(one for one in self._net.changed if one in documents),
            removed=tuple(one for one in self._net.removed if one in documents),
        )

    def _chunks(self, key: _Key) -> frozenset[str]:
        """Return the chunks that one side alone has, or has with another text."""
        one, other = self._one[key], self._other[key]
        match key[1]:
            case "candidates":
                return frozenset(one) ^ frozenset(other)
            case "kept" | "added":
                return frozenset(one) ^ frozenset(other)
            case "texts":
                return frozenset(c for c in {**one, **other} if one.get(c) != other.get(c))
            case "citations" | "answer":
                cited = ("synthesis", "citations")
                differing = frozenset(self._one[cited]) ^ frozenset(self._other[cited])
                return frozenset(chunk_id for _, chunk_id, _ in differing)
        return frozenset()

    def _document(self, chunk_id: str) -> str:
        key = parse_chunk_key(chunk_id)
        return self._documents.get(chunk_id) or (key.document_id if key else "")


def _outcome(run: RecordedAnswer, both: Container[str]) -> dict[_Key, Any]:
    """Return what a run did by stage and kind; `both` are the candidates that both runs have."""
    trace, answer = run.trace, run.answer
    question = trace.stage("question")
    models = {model.role: model for stage in trace.stages for model in stage.run.models}
    shared = [c for c in trace.candidates if c.chunk_id in both]
    settings = question.run.settings if question else {}
    return {
        ("question", "question"): answer.question,
        _SETTINGS: {
            name: value for name, value in settings.items() if name not in _VERSION_SETTINGS
        }
        | {
            f"{stage.stage}_{name}": value
            for stage in trace.stages
            for name, value in stage.run.settings.items()
            if name in _STAGE_SETTINGS
        },
        _MODELS: {
            **{
                role: " ".join(filter(None, (one.name, one.precision)))
                for role, one in models.items()
            },
            **{f"{role}_revision": one.revision for role, one in models.items()},
            _SOFTWARE: trace.version,
        },
        ("grounding", "concepts"): list(trace.concepts),
        ("exploration", "candidates"): sorted(
            {c.chunk_id for c in trace.candidates if c.chunk_id not in both}
        ),
        ("exploration", "texts"): {c.chunk_id: c.digest for c in shared if c.digest},
        ("exploration", "scores"): {
            c.chunk_id: None if c.score is None else round(c.score, _SCORE_PLACES) for c in shared
        },
        ("exploration", "order"): [c.chunk_id for c in shared],
        ("focus", "kept"): [selection.chunk_id for selection in trace.selections],
        ("step", "queries"): [[one.query for one in step.queries] for step in trace.steps],
        ("step", "added"): [chunk_id for step in trace.steps for chunk_id in step.added],
        ("synthesis", "models"): answer.model,
        ("synthesis", "citations"): [(c.marker, c.chunk_id, c.quote) for c in answer.citations],
        ("synthesis", "answer"): answer.text,
    }


def _leave_out_unrecorded(one: dict[_Key, Any], other: dict[_Key, Any], *, refused: bool) -> None:
    """Leave out what only one run recorded: older versions record less, and a refusal needs fewer models."""
    for key in (_SETTINGS, _MODELS):
        for side, against in ((one[key], other[key]), (other[key], one[key])):
            for name in [*side]:
                optional = name.endswith(("_revision", *_STAGE_SETTINGS)) or name == _SOFTWARE
                optional = optional or (refused and key == _MODELS)
                if optional and not against.get(name):
                    del side[name]
                    against.pop(name, None)


def _differing(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def _difference(key: _Key, before: Any, after: Any, cause: Cause) -> Difference:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = _differing(before, after)
        before, after = ({key: side.get(key) for key in keys} for side in (before, after))
    return Difference(stage=key[0], what=key[1], before=before, after=after, cause=cause)
