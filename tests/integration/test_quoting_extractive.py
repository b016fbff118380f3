"""The extractive writer with the real embedder: it answers what the documents answer, and nothing else."""

from __future__ import annotations

import re

import pytest

from whence.models.late_interaction import SpanReader
from whence.models.local_embedder import LocalEmbedder
from whence.models.protocols import WriteRequest
from whence.quoting.extractive_writer import NOTHING_FOUND, ExtractiveWriter
from whence.schema.prompt import PromptResult

pytestmark = pytest.mark.models

#: A small library's handbook: eight passages, as a search would hand them to the writer.
DOCUMENTS = (
    """# Opening hours

The reading room is open from 9 a.m. to 8 p.m. on weekdays. On Saturdays it closes at 4 p.m., and on Sundays it
stays closed. During the summer holidays in August the library opens at 10 a.m.""",
    """# Loans

Books may be borrowed for 28 days. A loan can be renewed twice, unless another reader has reserved the book.
Reference works, maps and newspapers cannot be taken home. Each reader may have up to twelve items at once.""",
    """# Fees

Overdue books cost 20 cents per day and item. The fee is capped at 10 euros. Lost books must be replaced at the
current shop price, plus a handling charge of 5 euros. Children under 14 pay no overdue fees.""",
    """# Library card

To get a card you need:

- a photo identity card or a passport
- proof of address that is not older than three months

The card is free for residents. Visitors pay 15 euros per year. A lost card is replaced for 3 euros.""",
    """# Computers and printing

Twelve computers stand on the second floor. Sessions are limited to 60 minutes when others are waiting. Printing
costs 10 cents per black-and-white page and 40 cents per colour page. Wireless internet is free; the password hangs
at the information desk.""",
    """# Study rooms

| Room | Seats | Projector |
|------|-------|-----------|
| Ada | 4 | no |
| Babbage | 8 | yes |
| Curie | 12 | yes |

Rooms are booked online, at most two weeks ahead. Bookings lapse after 15 minutes without a visitor.""",
    """# History

The library was founded in 1887 by the merchant Helene Brandt, who left her collection of 4,000 volumes to the
city. The present building was designed by J. R. Olsen and opened in 1931. It was damaged by a flood in 1962.""",
    """# Donations

We gladly accept books in good condition. Encyclopaedias, school books and magazines are not taken. Donated books
that we cannot use are sold at the spring fair; the proceeds buy new children's books.""",
)

#: Question, and words of which the answer must contain all.
ANSWERABLE = (
    ("When does the reading room close on Saturdays?", ("4 p.m.",)),
    ("Is the library open on Sunday?", ("closed",)),
    ("What time do you open in August?", ("10 a.m.",)),
    ("How long can I borrow a book?", ("28 days",)),
    ("How often can a loan be renewed?", ("twice",)),
    ("Can I take newspapers home?", ("cannot be taken home",)),
    ("How many items can I have at the same time?", ("twelve",)),
    ("What is the fine for an overdue book?", ("20 cents",)),
    ("What happens if I lose a book?", ("replaced",)),
    ("Do children have to pay overdue fees?", ("under 14",)),
    ("What do I need to get a library card?", ("passport",)),
    ("How much is the card for visitors?", ("15 euros",)),
    ("What does a replacement for a lost card cost?", ("3 euros",)),
    ("How much does colour printing cost?", ("40 cents",)),
    ("Where are the computers?", ("second floor",)),
    ("How do I get the password for the wireless internet?", ("information desk",)),
    ("Which room has 12 seats?", ("Curie",)),
    ("How far in advance can a study room be booked?", ("two weeks",)),
    ("Who founded the library?", ("Helene Brandt",)),
    ("Who was the architect of the building?", ("Olsen",)),
    ("When was the flood?", ("1962",)),
    ("Do you accept old magazines as donations?", ("not taken",)),
    ("What is done with donated books that are not needed?", ("spring fair",)),
)

#: Near the subject or far from it, but not in the documents.
UNANSWERABLE = (
    "What is the capital of Mongolia?",
    "How do I bake sourdough bread?",
    "Who won the football world cup in 1998?",
    "How do I reset my email password?",
    "What is the boiling point of ethanol?",
    "Which vaccines do I need for Brazil?",
    "How do I configure a Kubernetes ingress?",
    "What is the salary of the mayor?",
    "When does the next train to Hamburg leave?",
    "Is there a cafeteria where I can eat lunch?",
    "How tall is the Eiffel Tower?",
    "Are dogs allowed inside?",
    "Which programming language should I learn first?",
    "What did the prime minister say about taxes?",
    "How many calories are in a banana?",
    "Where can I park my car?",
    "What is the square root of 144?",
    "Why is the sky blue?",
    "How do I apply for a job as a nurse?",
    "What is the exchange rate of the yen?",
    "What is the telephone number of the mayor's office?",
    "Who teaches the yoga class on Mondays?",
    "How much does a concert ticket cost?",
    "Can I rent a bicycle?",
    "When was the town hall built?",
    "How many rooms does the hotel have?",
    "What is the minimum wage?",
    "Is smoking permitted in restaurants?",
)


@pytest.fixture(scope="module")
def embedder() -> LocalEmbedder:
    return LocalEmbedder()


#: Answers by question, so that no test asks again what another one has asked.
_told: dict[tuple[bool, str], PromptResult] = {}


async def ask(embedder: LocalEmbedder | None, question: str) -> PromptResult:
    """Return the answer; the same question is asked once with and once without models."""
    key = (embedder is not None, question)
    if key not in _told:
        _told[key] = await write(embedder, question)
    return _told[key]


async def write(embedder: LocalEmbedder | None, question: str) -> PromptResult:
    """Have the answer written."""
    request = WriteRequest(template_id="document-prompt", query=question, documents=DOCUMENTS)
    writer = ExtractiveWriter(embedder, embedder and SpanReader(embedder))
    pieces = [piece async for piece in writer.write(request)]
    result = pieces[-1].result
    assert result is not None
    assert "".join(piece.text for piece in pieces) == result.text
    return result


async def test_answers_from_the_documents(embedder: LocalEmbedder) -> None:
    """A question is answered with the span that contains the answer; of 23 one may be missed."""
    missed = [
        (question, result.text)
        for question, needed in ANSWERABLE
        if (result := await ask(embedder, question))
        and not all(words in (result.text or "") for words in needed)
    ]

    assert len(missed) <= 1, missed


async def test_refuses_without_an_answer(embedder: LocalEmbedder) -> None:
    """A question without an answer gets the constant text and no quotes; of 28 one may be answered."""
    answered = [
        question
        for question in UNANSWERABLE
        if (result := await ask(embedder, question)).text != NOTHING_FOUND or result.quotes
    ]

    assert len(answered) <= 1, answered


async def test_every_span_has_a_marker_and_a_verbatim_quote(embedder: LocalEmbedder) -> None:
    """One to three spans, each with its marker, its quote and what answers in it."""
    for question, _ in ANSWERABLE:
        result = await ask(embedder, question)
        markers = [int(n) for n in re.findall(r"\[(\d+)\]", result.text or "")]

        assert [quote.marker for quote in result.quotes] == markers
        assert len(markers) <= 3
        assert bool(markers) == (result.text != NOTHING_FOUND)
        for quote in result.quotes:
            assert quote.text in DOCUMENTS[quote.marker - 1]
            assert all(quote.text[start:end].strip() for start, end in quote.highlights)


async def test_a_refusal_has_its_numbers(embedder: LocalEmbedder) -> None:
    """A refusal names the best document, its score and the floor that it is below."""
    result = await ask(embedder, UNANSWERABLE[0])

    assert result.shortfall is not None
    assert 0 <= result.shortfall.score < result.shortfall.floor
    assert f"{result.shortfall.floor:.2f}" in result.shortfall.reason


async def test_a_list_is_quoted_whole(embedder: LocalEmbedder) -> None:
    """The items under one lead-in stay together."""
    result = await ask(embedder, "What do I need to get a library card?")

    assert "photo identity card" in (result.text or "")
    assert "proof of address" in (result.text or "")


async def test_is_deterministic(embedder: LocalEmbedder) -> None:
    """The same question over the same documents gives the same answer."""
    question = ANSWERABLE[0][0]

    assert await write(embedder, question) == await ask(embedder, question)


async def test_words_alone_answer_most(embedder: LocalEmbedder) -> None:
    """Without vectors most questions are answered, and of those without an answer at most one in twenty is."""
    answered = 0
    for question, needed in ANSWERABLE:
        text = (await ask(None, question)).text or ""
        answered += all(words in text for words in needed)
    silent = [(await ask(None, question)).text == NOTHING_FOUND for question in UNANSWERABLE]

    assert sum(silent) >= 0.95 * len(silent)
    assert answered >= 0.8 * len(ANSWERABLE)


async def test_each_part_of_a_question_is_answered(
    embedder: LocalEmbedder,
) -> None:
    """Two questions in one sentence are answered from the two documents that contain the answers."""
    request = WriteRequest(
        template_id="document-prompt",
        query="Who approves travel abroad, and how much may a hotel in London cost a night?",
        documents=(
            "A hotel room in London may cost at most 210 euros a night.",
            "Travel abroad is approved by the head of your department.",
            "The canteen opens at eleven.",
        ),
    )
    pieces = [piece async for piece in ExtractiveWriter(embedder).write(request)]
    result = pieces[-1].result

    assert result is not None
    assert {quote.marker for quote in result.quotes} == {1, 2}


async def test_current_rules_come_before_old_ones(embedder: LocalEmbedder) -> None:
    """Of two versions the current is quoted, and the old one only where no other has the answer."""
    old = DOCUMENTS[1].replace("28 days", "14 days")
    request = WriteRequest(
        template_id="document-prompt",
        query="For how many days may I borrow a book?",
        documents=(old, DOCUMENTS[1]),
        outdated=frozenset({1}),
    )
    told = [piece async for piece in ExtractiveWriter(embedder).write(request)][-1].result
    assert told is not None
    assert "28 days" in (told.text or "")
    assert "14 days" not in (told.text or "")
    request = WriteRequest(
        template_id="document-prompt",
        query=request.query,
        documents=(old, DOCUMENTS[2]),
        outdated=frozenset({1}),
    )
    told = [piece async for piece in ExtractiveWriter(embedder).write(request)][-1].result
    assert told is not None
    assert "14 days" in (told.text or "")


async def test_code_is_quoted_line_by_line(embedder: LocalEmbedder) -> None:
    """As a block, with its comments and without joined lines; its fence is longer than one of its own."""
    code = '# Seconds to wait for a reply of the printer.\nTIMEOUT = 20  # "```" ends it'
    request = WriteRequest(
        template_id="document-prompt",
        query="How many seconds does it wait for the printer?",
        documents=("The canteen opens at eleven.", code),
        preformatted=frozenset({2}),
    )
    told = [piece async for piece in ExtractiveWriter(embedder).write(request)][-1].result

    assert told is not None
    assert told.text == f"````\n{code}\n````\n[2]"
