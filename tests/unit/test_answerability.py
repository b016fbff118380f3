"""The measure that tells whether a text answers a question, and the kinds of things that questions ask for."""

from __future__ import annotations

import math

import pytest

from whence.quoting.answer_kinds import cannot_answer, holds_kind
from whence.quoting.answerability import FIELDS, Basis, Features, chances
from whence.quoting.evidence_spans import Span
from whence.quoting.units import Unit
from whence.text.overlap import words_of
from whence.text.question_words import ASKING_LANGUAGES, asked_kind, function_words

_PLAIN = Features(own=0.5, both=0.5, kind=0.0, numbers=0.0)


@pytest.mark.parametrize("basis", FIELDS)
def test_more_of_the_question_is_never_less_likely_to_answer(basis: Basis) -> None:
    """The probability rises with the share of the question's terms, and falls with numbers that are missing."""
    less, more = (_PLAIN._replace(own=share, both=share) for share in (0.2, 0.9))
    low, high, wrong = chances(basis, [less, more, more._replace(numbers=1.0)])

    assert 0.0 <= low < high <= 1.0
    assert wrong < high


@pytest.mark.parametrize("basis", FIELDS)
def test_any_features_have_a_probability(basis: Basis) -> None:
    """Extreme features overflow nothing."""
    extremes = [Features(*([value] * len(Features._fields))) for value in (-1e6, 0.0, 1e6)]

    assert all(0.0 <= one <= 1.0 and math.isfinite(one) for one in chances(basis, extremes))


@pytest.mark.parametrize(
    ("question", "language", "kind"),
    [
        ("How long is the trial?", "english", "duration"),
        ("Since when does it hold?", "english", "date"),
        ("Wie viele Tage Urlaub habe ich?", "german", "amount"),
        ("Wer genehmigt Reisen?", "german", "person"),
        ("Bis wann gilt das?", "german", "date"),
        ("Combien de temps dure le pr\u00e9avis ?", "french", "duration"),
        ("\u00bfCu\u00e1ndo abre la oficina?", "spanish", "date"),
        ("\u9001\u6599\u306f\u3044\u304f\u3089\u3067\u3059\u304b", "japanese", "price"),
        ("Was kostet die Kopie?", "german", "price"),
        ("\u00bfA qu\u00e9 hora abre?", "spanish", "clock"),
        (
            "\u0421\u043a\u043e\u043b\u044c\u043a\u043e \u0441\u0442\u043e\u0438\u0442 \u0431\u0438\u043b\u0435\u0442?",
            "russian",
            "price",
        ),
        ("\u8fd0\u8d39\u662f\u591a\u5c11", "chinese", "amount"),
        ("\u0633\u0627\u0644", "arabic", None),
        ("leave policy", "english", None),
        ("What is closed when it rains?", "english", "thing"),
        ("Who left when the bell rang?", "english", "person"),
        ("When the bell rang, who left?", "english", "person"),
        ("When did the man who founded it leave?", "english", "date"),
        ("Who says how many may come?", "english", "person"),
        ("\u00bfQu\u00e9 pasa cuando llueve?", "spanish", "thing"),
        ("Wie viel kostet es, wo der Ofen steht?", "german", "price"),
        (
            "\u0413\u0434\u0435-\u0442\u043e \u0435\u0441\u0442\u044c \u043f\u0435\u0447\u044c",
            "russian",
            None,
        ),
    ],
)
def test_words_that_ask_tell_the_kind(question: str, language: str, kind: str | None) -> None:
    """The longest word that asks decides; without one the kind is open."""
    assert asked_kind(question, language) == kind


@pytest.mark.parametrize(
    ("kind", "text", "language", "held"),
    [
        ("date", "It was founded in 1959.", "english", True),
        ("date", "It opens at 09:30.", "english", True),
        ("date", "It was founded by teachers.", "english", False),
        ("date", "Am 3. Februar 2026 begann es.", "german", True),
        ("amount", "The fee is 40 euro.", "english", True),
        ("amount", "Die Probezeit betr\u00e4gt sechs Monate.", "german", True),
        ("amount", "\u9001\u6599\u306f\u4e94\u767e\u5186\u3067\u3059\u3002", "japanese", True),
        ("amount", "The fee is high.", "english", False),
        ("person", "The smith is Ruza.", "english", True),
        ("person", "The smith is old.", "english", None),
        ("place", "It lies beside the till.", "english", None),
        ("date", "Es beginnt am 17. Mai.", "german", True),
        ("date", "El acto es el 17 de mayo.", "spanish", True),
        ("date", "\u4e94\u6708\u5341\u4e03\u65e5\u306b\u884c\u3046\u3002", "japanese", True),
        ("price", "A copy is 40 euro.", "english", True),
        ("price", "The trial lasts 6 months.", "english", False),
        ("price", "10\u67085\u65e5\u306b\u53c2\u52a0\u3067\u304d\u308b\u3002", "japanese", False),
        ("price", "\u6bcf\u592940\u5143\u3002", "chinese", True),
        ("price", "Rower kosztuje 75 z\u0142otych.", "polish", True),
        ("price", "Umowa trwa 5 lat.", "polish", False),
        ("duration", "Es kostet 40 Euro.", "german", False),
        (
            "duration",
            "\u534a\u5e74\u5185\u63d0\u524d\u4e24\u5468\u901a\u77e5\u3002",
            "chinese",
            True,
        ),
        ("clock", "It costs 40 euro.", "english", False),
        ("clock", "It opens at 8.", "english", True),
        ("person", "Das genehmigt die Leitung.", "german", None),
        ("reason", "Because it rains.", "english", None),
        ("date", "Immer montags von neun an.", "german", True),
        ("date", "W ka\u017cd\u0105 \u015brod\u0119 gramy w szachy.", "polish", True),
        ("date", "Empieza en marzo.", "spanish", True),
        ("date", "\u6bce\u9031\u571f\u66dc\u65e5\u306b\u96c6\u307e\u308b\u3002", "japanese", True),
        ("date", "Sobald die Miete bezahlt ist.", "german", None),
        ("date", "Die Miete ist zu hoch.", "german", False),
        ("place", "Der Ofen steht hinter der Schmiede.", "german", None),
        ("place", "Der Ofen wird im Juni geliefert.", "german", False),
        ("place", "Le four est dans la cour.", "french", None),
        ("place", "Le four ouvre en juin.", "french", False),
        ("place", "\u7089\u5728\u9662\u5b50\u91cc\u3002", "chinese", None),
        ("place", "\u7089\u5f88\u8d35\u3002", "chinese", False),
        ("person", "The lamp is very old.", "english", False),
        ("person", "They repair the lamp.", "english", None),
        ("person", "Das macht Hausmeister Novak.", "german", True),
        ("person", "Die Lampe ist sehr alt.", "german", False),
        ("person", "La commune ramasse les sacs.", "french", None),
        ("person", "Les sacs sont gris.", "french", False),
        ("person", "\u7089\u5f88\u8d35\u3002", "chinese", None),
        ("price", "Ge\u00f6ffnet von 16 bis 21 Uhr.", "german", False),
        ("price", "Ouvert de 7 h \u00e0 9 h.", "french", False),
        ("clock", "\u65e9\u4e0a8\u70b9\u5f00\u95e8\u3002", "chinese", True),
    ],
)
def test_a_text_holds_the_kind_or_not(
    kind: str, text: str, language: str, held: bool | None
) -> None:
    """Dates and amounts are read in any writing; a capital is no name where all nouns have one."""
    assert holds_kind(kind, text, "What is it?", language) is held  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("question", "text", "heading", "answers"),
    [
        ("Who is the director of the kiln?", "The kiln is hot in March.", "Kiln", False),
        ("Who is the director of the kiln?", "The director Ida Berg likes the kiln.", "", True),
        ("Who fires the kiln?", "The bakehouse fires the kiln.", "", True),
        ("Where is the kiln?", "The kiln opens in March.", "Kiln", False),
        ("Where is the kiln?", "It stands behind the forge.", "Kiln", True),
        ("When is the kiln hot?", "The kiln is very dear.", "Kiln", False),
        ("When is the kiln hot?", "From dawn on.", "Kiln > Saturday", True),
        ("When was the kiln built?", "Soon the door is closed.", "The kiln", False),
        ("When is the rent due?", "Before the 5th, always.", "Rent", True),
        (
            "When is the rent due?",
            "The rent is due as soon as you move in.",
            "The rent is due",
            True,
        ),
        ("Why is the kiln hot?", "The kiln is very dear.", "", True),
        ("When is the kiln hot?", "It rained on Monday. The kiln is very dear.", "", False),
        ("When is the kiln hot?", "The kiln is dear. It is heated on Mondays.", "", True),
        ("Where is the kiln?", "- The saw is in the shed.\n- The kiln is dear.", "", False),
        ("Where is the kiln?", "- The kiln is in the shed.\n- The saw is dear.", "", True),
        (
            "\u706b\u7089\u591a\u5c11\u94b1",
            "- \u67dc\u5b5040\u5143\u3002\n- \u706b\u7089\u5f88\u5927\u3002",
            "",
            False,
        ),
        ("Wo steht der Ofen?", "Der Ofen wird im Juni geliefert.", "", False),
        ("Wo steht der Ofen?", "Der Ofen steht hinter der Schmiede.", "", True),
        (
            "\u5408\u5bbf\u306f\u3069\u3053\u3067\u3059\u304b",
            "\u5408\u5bbf\u306f\u9ad8\u3044\u3002",
            "",
            False,
        ),
        (
            "\u5408\u5bbf\u306f\u3069\u3053\u3067\u3059\u304b",
            "\u5408\u5bbf\u306f\u6e56\u3067\u958b\u304f\u3002",
            "",
            True,
        ),
    ],
)
def test_a_text_without_the_thing_that_is_asked_for_is_no_answer(
    question: str, text: str, heading: str, answers: bool
) -> None:
    """Who, when and where are not answered by a sentence that has nobody, no time and no place.

    A time may stand in the heading. What has all words of a question may name somebody by a word that no table
    has. Items of a list say nothing of one another, and a sentence nothing of those before it. In Chinese and
    Japanese nothing shows that nobody is meant.
    """
    words = words_of(question, [text])
    section = frozenset(words.of_text(heading))
    unit = Unit(0, len(text), "list" if text.startswith("-") else "prose")
    span = Span(0, unit, text, heading, frozenset(words.of_text(text)), section)
    terms = frozenset(words.of_question(question))
    kind = asked_kind(question, words.asked)

    assert cannot_answer(kind, span, terms, question, words) is not answers


def test_what_the_question_names_itself_is_not_what_it_asks_for() -> None:
    """A number, date or name of the question does not answer it."""
    assert not holds_kind("amount", "After 5 it closes.", "How many of the 5?", "english")
    assert not holds_kind("date", "In 1959 it rained.", "When in 1959?", "english")
    assert not holds_kind("person", "So said Ruza.", "Who is Ruza?", "english")


@pytest.mark.parametrize("language", sorted(ASKING_LANGUAGES))
def test_each_language_has_words_for_all_kinds(language: str) -> None:
    """The words that ask count as function words, so that they are not looked for in documents."""
    assert len(function_words(language)) > 20


@pytest.mark.parametrize(
    ("text", "question", "language"),
    [
        ("The western gate closes at eight.", "When does the western gate close?", "english"),
        ("Das Tor schlie\u00dft um acht.", "Wann schlie\u00dft das Tor?", "german"),
        ("La porte ferme \u00e0 huit.", "Quand ferme la porte ?", "french"),
    ],
)
def test_a_small_number_without_a_unit_may_be_an_hour(
    text: str, question: str, language: str
) -> None:
    """It does not rule a text out where a time is asked for; a text without any number is."""
    assert holds_kind("date", text, question, language) is not False
    without = " ".join(text.split()[:-2])
    assert holds_kind("date", without, question, language) is False
