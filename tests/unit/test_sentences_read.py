"""Texts in other languages than English are read sentence by sentence (`evidence_spans.sentences_of`)."""

from __future__ import annotations

from whence.models.protocols import WriteRequest
from whence.quoting.evidence_spans import all_spans, sentences_of
from whence.text.overlap import words_of

_TEXT = (
    "Die Probezeit dauert sechs Monate. Der Urlaub umfasst 28 Tage. Das Gehalt kommt am Monatsende."
)


def test_each_sentence_is_read_once_and_verbatim() -> None:
    """Every sentence of a paragraph is a span of its own, with the place that it has in the passage."""
    request = WriteRequest(
        template_id="document-prompt",
        query="Wie lange ist die Probezeit?",
        documents=(_TEXT,),
        sections=("Vertrag",),
    )
    words = words_of(request.query, request.documents)
    found = sentences_of(all_spans(request, words) * 2, words)

    assert [one.text for one in found] == [
        "Die Probezeit dauert sechs Monate.",
        "Der Urlaub umfasst 28 Tage.",
        "Das Gehalt kommt am Monatsende.",
    ]
    assert [_TEXT[one.unit.start : one.unit.end] for one in found] == [one.text for one in found]


def test_a_table_stays_whole() -> None:
    """Rows are read with their columns."""
    table = "| Ding | Preis |\n|---|---|\n| Kopie | 2 Euro. |\n| Karte | 5 Euro. |"
    request = WriteRequest(
        template_id="document-prompt",
        query="Was kostet eine Kopie?",
        documents=(table,),
        sections=("Preise",),
    )
    words = words_of(request.query, request.documents)
    spans = all_spans(request, words)

    assert sentences_of(spans, words) == spans
