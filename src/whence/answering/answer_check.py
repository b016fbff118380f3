"""What the sentences of a language model's answer stand on, and whether a text is an answer at all.

In: the text, its citations and the passages that the writer received. Out: sentences without support, each with
a code and a message, and the refusal of a text that no citation supports.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

import msgspec

from whence.answering.prompts import section_of
from whence.schema.document_rag import BestPassage, Citation, Refusal, RefusalCode
from whence.schema.passages import Passage
from whence.schema.prompt import PromptResult, Quote
from whence.text.claims import Claim, read_claims, says_nothing
from whence.text.support import WORD_FOR_WORD, Check, Source


class CheckedAnswer(msgspec.Struct, frozen=True):
    """What the sentences of a language model's answer stand on."""

    supported: int = 0
    """How many sentences are supported by what they cite."""
    says_nothing: bool = False
    """Whether the first sentence that says something says that the documents do not answer."""
    faults: tuple[tuple[str, str], ...] = ()
    """Code and message of each sentence without support."""
    unsupported: tuple[tuple[int, int], ...] = ()
    """Offsets of these sentences."""
    quotes: tuple[Quote, ...] = ()
    """The sentences of the passages behind the markers, in order of first use."""
    added: tuple[Quote, ...] = ()
    """Those behind sentences without a marker."""


def check_answer(text: str, passages: Sequence[Passage], question: str = "") -> CheckedAnswer:
    """Compare each sentence of an answer with the passages that it cites.

    A sentence without a marker is held to the next marker of its paragraph, else to the passage that supports
    it in most of its words.

    Args:
        text: The answer, whose markers all name one of the passages.
        passages: What the writer received.
        question: What was asked.
    """
    supported, nothing = 0, []
    faults: list[tuple[str, str]] = []
    places: list[tuple[int, int]] = []
    quotes: dict[tuple[int, str], None] = {}
    added: dict[tuple[int, str], None] = {}
    sources = [_source(one) for one in passages]
    check = Check(text, question)
    claims = read_claims(text)
    for place, claim in enumerate(claims):
        markers = claim.markers or _markers_below(text, claims, place)
        cited = [sources[one - 1] for one in markers if 1 <= one <= len(passages)]
        # What a passage says word for word about documents is an answer.
        said = says_nothing(claim.text)
        nothing.append(said and not check.attributed(claim, cited, WORD_FOR_WORD))
        for marker in claim.markers:
            found = (
                sources[marker - 1].nearest(claim, _LEAST_OF_QUOTE)
                if 1 <= marker <= len(sources)
                else None
            )
            if found is not None:
                quotes[(marker, found)] = None
        if not claim.markers and (nothing[-1] or claim.is_short):
            continue
        if cited and check.supports(claim, cited):
            # Behind a refusal a pointer or a courtesy is no answer.
            supported += not any(nothing) or (not nothing[-1] and check.compares(claim, cited))
            continue
        if not claim.markers and (passage := check.attributed(claim, sources)):
            added[passage] = None
            supported += 1
            continue
        code, why = ("sentence_without_marker", "cites no passage")
        if claim.markers:
            code, why = ("sentence_unsupported", "is not supported by the passages that it cites")
        faults.append((code, f"a sentence {why}: {_shortened(claim.text)}"))
        places.append((claim.start, claim.end))
    return CheckedAnswer(
        supported,
        next(
            (one for one, claim in zip(nothing, claims, strict=True) if one or claim.markers),
            False,
        ),
        tuple(faults),
        tuple(places),
        tuple(Quote(marker, found) for marker, found in quotes),
        tuple(Quote(marker, found) for marker, found in added),
    )


class DoubtfulMarkers:
    """Decides whether a writing that may be something else, as `(1)` or `document 1`, cites a passage.

    It does when no passage and not the question has it, and, at the end of a sentence, the passage of that
    number supports the sentence.

    Args:
        passages: What the writer received.
        question: What was asked.
    """

    def __init__(self, passages: Sequence[Passage], question: str) -> None:
        self._passages = passages
        self._question = question
        self._known: dict[tuple[str, str, int], bool] = {}

    def __call__(self, sentence: str, written: str, number: int) -> bool:
        """See `Cites`."""
        key = (sentence, written, number)
        if key not in self._known:
            self._known[key] = self._cites(*key)
        return self._known[key]

    @cached_property
    def _sources(self) -> list[Source]:
        return [_source(one) for one in self._passages]

    @cached_property
    def _words(self) -> str:
        texts = (f"{one.text} {one.context}" for one in self._sources)
        return _word_line(" ".join((*texts, self._question)))

    def _cites(self, sentence: str, written: str, number: int) -> bool:
        if _word_line(written) in self._words:
            return False
        if not sentence:
            return True
        source, claims = self._sources[number - 1], read_claims(sentence)
        return (
            len(claims) == 1
            and not claims[0].is_short
            and Check(sentence, self._question).supports(claims[0], [source])
        )


_WORD = re.compile(r"[^\W_]+")


def _word_line(text: str) -> str:
    """Return the words of a text between blanks, without what else is written, to look for whole ones."""
    return f" {' '.join(_WORD.findall(text.casefold()))} "


#: A quote has at least this share of the words of the sentence with the marker.
_LEAST_OF_QUOTE = 0.2


def _source(passage: Passage) -> Source:
    names = [
        str(passage.metadata.get(one) or "")
        for one in ("source_file", "date", "version", "release")
    ]
    context = (section_of(passage), passage.lead, passage.document_id, *names)
    return Source(passage.text, "\n".join(filter(None, context)))


def _markers_below(text: str, claims: Sequence[Claim], place: int) -> tuple[int, ...]:
    """Return the markers that the paragraph of a claim has next."""
    for before, one in pairwise(claims[place:]):
        if "\n" in text[before.end : one.start]:
            break
        if one.markers:
            return one.markers
    return ()


def _shortened(text: str, most: int = 120) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}\u2026"


def refusal_of(
    citations: Sequence[Citation],
    result: PromptResult,
    passages: Sequence[Passage],
    checked: CheckedAnswer | None,
) -> Refusal | None:
    """Return why a text is no answer; None when citations support it.

    Args:
        citations: What the text cites.
        result: What the writer said of it.
        passages: What the writer received.
        checked: What its sentences stand on; None for a writer that only quotes.
    """
    code: RefusalCode = "below_evidence_floor"
    short = result.shortfall
    if short is not None:
        best = BestPassage(passages[short.marker - 1].chunk_id, short.score)
        return Refusal(code=code, reason=short.reason, best=best, floor=short.floor)
    if citations and (checked is None or checked.supported):
        return None
    if checked is not None and checked.says_nothing:
        reason = f"The model found no answer in the {len(passages)} passages that it received."
    elif citations:
        reason = "No sentence of the text is supported by the passages that it cites."
    else:
        reason = f"The text cites none of the {len(passages)} passages that the writer received."
    return Refusal(code=code, reason=reason)
