"""The writer without a language model: it answers with spans of the documents, or says why it does not."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import pairwise

from whence.models.protocols import Embedder, SpanReading, WritePiece, WriteRequest
from whence.quoting.asked import value_spans
from whence.quoting.evidence_choice import Support, choose_evidence, weigh_document
from whence.quoting.evidence_spans import Span
from whence.quoting.tables import asked_cells, header_for, header_of, read_rows
from whence.quoting.units import FENCE_LINE, begins_in_code
from whence.schema.prompt import PromptResult, Quote, Shortfall
from whence.text.overlap import (
    Words,
    content_terms,
    inverse_document_frequencies,
    overlap,
    words_of,
)
from whence.text.sentences import Sentence, split_sentences

#: The answer when no span is relevant enough; constant, so that programs can recognize it.
NOTHING_FOUND = "Nothing was found in the documents that answers this question."

#: Most words of a term or lead-in that is shown in a path.
_MAX_PATH_WORDS = 12
_WORD = re.compile(r"\w+(?:[.'\u2019-]\w+)*")
_BACKTICKS = re.compile("`+")
_CODE_SPAN = re.compile(r"(`+[^`]*`+)")
#: A tag that a text is about; outside of code a reader of Markdown would take it for markup.
_TAG = re.compile(
    r"</?(?:a|b|br|code|d[dlt]|div|em|form|h[1-6]|head|i|img|input|li|link|ol|p|pre|script|span|strong|style|table"
    r"|t[dhr]|title|ul)\b[^<>\n]*>",
    re.IGNORECASE,
)
#: A number in brackets, which would look like a marker.
_LIKE_A_MARKER = re.compile(r"\[(\s*\d[\d\s,;]*)\]")


#: The beginning of an item of a list or a row of a table.
_BEGINS_BLOCK = re.compile(r"[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]|[ \t]*\|")
_SENTENCE_ENDS = tuple(".!?;:\u3002\uff01\uff1f")
_CLOSING = (")", "]", "}")
_NUMBERED = re.compile(r"\S*\d")
#: Least width of wrapped text in characters, and how far its lines may end before that.
_LEAST_WIDTH, _RAGGED = 50, 12


class ExtractiveWriter:
    """Answers with verbatim spans, each under its headings and followed by its marker. Deterministic.

    Args:
        embedder: Compares question and spans; without one, or when it fails, only the words count.
        reader: Compares them word by word, in place of the embedder.
    """

    model = "extractive"
    is_language_model = False

    def __init__(self, embedder: Embedder | None, reader: SpanReading | None = None) -> None:
        self._embedder = embedder
        self._reader = reader
        self.revision = embedder.model.revision if embedder is not None else ""

    async def write(self, request: WriteRequest) -> AsyncIterator[WritePiece]:
        """Yield the answer span by span, then the whole result.

        For `extract-concepts` the only concept is the question itself.
        """
        quotes: list[Quote] = []
        shortfall: Shortfall | None = None
        score: float | None = None
        if request.template_id == "extract-concepts":
            pieces = [request.query]
        else:
            choice = await choose_evidence(request, self._embedder, self._reader)
            spans = choice.spans if choice else ()
            words = words_of(request.query, request.documents)
            quotes = [
                Quote(
                    one.document + 1,
                    one.text,
                    tuple(_highlights(request.query, words, one)),
                )
                for one in spans
            ]
            pieces = list(_pieces(spans, request, words)) or [NOTHING_FOUND]
            score = choice.score if choice else None
            if choice and not spans:
                best = choice.document + 1
                shortfall = Shortfall(choice.reason, best, choice.score, choice.floor)
        for piece in pieces:
            yield WritePiece(text=piece)
        yield WritePiece(
            result=PromptResult(
                text="".join(pieces),
                model=self.model,
                quotes=tuple(quotes),
                score=score,
                shortfall=shortfall,
                language_model=False,
            )
        )

    async def weigh(self, request: WriteRequest, document: int) -> Support | None:
        """Return how well one document of a request answers; see `weigh_document`."""
        return await weigh_document(request, document, self._embedder, self._reader)

    async def aclose(self) -> None:
        """Do nothing: the caller closes the embedder."""


def _pieces(spans: tuple[Span, ...], request: WriteRequest, words: Words) -> Iterator[str]:
    """Yield each span under the path of its headings; a path that the span before had is not repeated."""
    before = ""
    for number, (span, text) in enumerate(_shown(spans, request.query, words)):
        path = _path(span)
        lines = [path, ""] if path and path != before else []
        before = path
        is_code = span.document + 1 in request.preformatted
        body = _fenced(text) if is_code else _rendered(text)
        ends_in_block = body.endswith(("```", "~~~", "|"))
        marker = f"[{span.document + 1}]"
        lines += [body, marker] if ends_in_block else [f"{body} {marker}"]
        yield ("\n\n" if number else "") + "\n".join(lines)


def _shown(spans: Sequence[Span], question: str, words: Words) -> Iterator[tuple[Span, str]]:
    """Yield each span with its text as it is shown: rows below their header, those of one table together."""
    place = 0
    while place < len(spans):
        span = spans[place]
        header = ""
        if _is_table(span) and span.unit.context:
            header = header_for(question, words, span.unit.context[-1])
        lines = [header, _dedented(span)] if header else [_dedented(span)]
        place += 1
        while header and place < len(spans) and _continues(span, spans[place]):
            lines.append(spans[place].text)
            place += 1
        yield span, "\n".join(lines)


def _continues(span: Span, other: Span) -> bool:
    """Return whether two spans are rows of one table."""
    return (
        other.document == span.document
        and other.unit.kind == span.unit.kind == "row"
        and other.unit.context == span.unit.context
    )


def _path(span: Span) -> str:
    """Return the headings, terms and lead-ins above a span, on one line."""
    *outer, heading = span.section.split(" > ")
    # A text without a title has its own beginning as heading.
    repeats = " ".join(span.text.split()).startswith(heading.rstrip(" \u2026"))
    above = [" > ".join(outer) if repeats else span.section]
    for text in span.unit.context:
        plain = text.lstrip("-*+ ").rstrip(":")
        repeated = plain.strip("`") == span.section.rsplit(" > ", 1)[-1].strip("`")
        if not plain.startswith("|") and len(plain.split()) <= _MAX_PATH_WORDS and not repeated:
            above.append(plain)
    return " > ".join(" ".join(one.split()) for one in above if one)


def _dedented(span: Span) -> str:
    """Return the text of a span, its lines as far to the left as its first one, which begins without spaces."""
    first, *below = span.text.split("\n")
    indents = [len(line) - len(line.lstrip()) for line in below if line.strip()]
    if not indents:
        return span.text
    # What is below a term or an item alone is indented more than it.
    nested = (
        {"definition": 4, "item": 2}.get(span.unit.kind, 0) if min(indents) == indents[0] else 0
    )
    lost = min(indents) - nested
    return "\n".join([first, *(line[lost:] for line in below)]) if lost > 0 else span.text


def _fenced(text: str) -> str:
    """Return code as a block of Markdown, with a fence that the code does not have."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _rendered(text: str) -> str:
    """Return a span as it is shown: lines of one paragraph joined, and the fences of code complete."""
    if len(FENCE_LINE.findall(text)) % 2:
        text = f"```\n{text}" if begins_in_code(text) else f"{text}\n```"
    parts = re.split(
        r"((?:^|(?<=\n))[ \t]*(?:```|~~~).*?(?:\n[ \t]*(?:```|~~~)[ \t]*(?=\n|\Z)|\Z))",
        text,
        flags=re.DOTALL,
    )
    return "".join(part if place % 2 else _rendered_prose(part) for place, part in enumerate(parts))


def _rendered_prose(text: str) -> str:
    lines: list[str] = []
    paragraph: list[str] = []
    for line in text.split("\n"):
        begins = _BEGINS_BLOCK.match(line)
        indent = len(line) - len(line.lstrip())
        before = paragraph[-1] if paragraph else ""
        deeper = indent > len(before) - len(before.lstrip())
        if not before.strip() or not line.strip() or begins or deeper:
            lines += _unwrapped(paragraph)
            paragraph = []
        paragraph.append(line.rstrip())
    lines += _unwrapped(paragraph)
    text = _LIKE_A_MARKER.sub(r"(\1)", "\n".join(lines))
    parts = _CODE_SPAN.split(text)
    parts[::2] = [_TAG.sub(r"`\g<0>`", part) for part in parts[::2]]
    return "".join(parts)


def _unwrapped(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a paragraph as one if they were wrapped to fill a width.

    Lines of code, verse and addresses end where their author ended them: there the next word would have fitted.
    So do lines that are sentences each, and lines that begin with a number each, as those of a log. Where a
    line begins with a bracket that closes, the lines are code.
    """
    if any(line.lstrip().startswith(_CLOSING) for line in lines[1:]):
        return lines
    width = max(map(len, lines), default=0)
    are_sentences = all(line.endswith(_SENTENCE_ENDS) for line in lines[:-1])
    if are_sentences or all(map(_NUMBERED.match, lines)):
        return lines
    followed = ((line, below.split(maxsplit=1)[0]) for line, below in pairwise(lines))
    if len(lines) < 2 or width < _LEAST_WIDTH:
        return lines
    if not all(len(line) + 1 + len(word) > width - _RAGGED for line, word in followed):
        return lines
    return [" ".join([lines[0], *(line.strip() for line in lines[1:])])]


def _is_table(span: Span) -> bool:
    return span.unit.kind in ("row", "table")


def _highlights(question: str, words: Words, span: Span) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the words that answer in the text of a span."""
    if _is_table(span):
        yield from _asked_cells(question, words, span)
    else:
        yield from _said(question, span.text)


def _asked_cells(question: str, words: Words, span: Span) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the cells that a question asks for; of their row when it names no column."""
    above = header_for(question, words, span.unit.context[-1]) if span.unit.context else ""
    header = above or header_of(span.text)
    rows = read_rows(span.text)[0 if above or not header else 1 :]
    named = [header[slice(*cell)] for row in read_rows(header)[:1] for cell in row.cells]
    cells = [[span.text[slice(*cell)] for cell in row.cells] for row in rows]
    asked = asked_cells(question, words, named, cells)
    for place in asked.rows:
        row = rows[place].cells
        found = [row[at] for at in asked.columns if at < len(row) and row[at][0] < row[at][1]]
        yield from found or [(row[0][0], row[-1][1])]


def _said(question: str, quote: str) -> Iterator[tuple[int, int]]:
    """Yield the offsets of the words that answer: the nearest of several sentences, values in a single one."""
    sentences = [one for one in split_sentences(quote) if one.kind != "heading"]
    if not sentences:
        return
    wanted = content_terms(question)
    terms = [content_terms(quote[one.start : one.end]) for one in sentences]
    weights = inverse_document_frequencies(terms)
    values = [list(value_spans(question, quote[one.start : one.end])) for one in sentences]

    def relevance(place: int) -> float:
        return overlap(wanted, terms[place], weights, 1.0) + 0.3 * bool(values[place])

    best = max(range(len(sentences)), key=lambda place: (relevance(place), -place))
    sentence = sentences[best]
    if values[best]:
        yield from ((sentence.start + start, sentence.start + end) for start, end in values[best])
    elif len(sentences) > 1 and relevance(best) > 0:
        yield sentence.start, sentence.end
    else:
        yield from _shared_words(set(wanted), quote, sentence)


def _shared_words(wanted: set[str], quote: str, sentence: Sentence) -> Iterator[tuple[int, int]]:
    for match in _WORD.finditer(quote, sentence.start, sentence.end):
        if wanted.intersection(content_terms(match[0])):
            yield match.span()
