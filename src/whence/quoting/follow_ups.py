"""Follow-up questions: whether a question needs the ones before it, and one that stands alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

import regex

from whence.text.overlap import Words
from whence.text.question_words import language_of_question

#: For each language, beginnings of a question that goes on with the one before it, and words that stand for
#: something named before. In other languages only a question that names nothing is a follow-up.
_PHRASES: Final[Mapping[str, tuple[str, str]]] = {
    "english": (
        r"and|or|but|also|then|(?:and )?(?:what|how) about|what if|why not|same for",
        (
            r"it|its|they|them|their|theirs|this|that|these|those|he|him|his|she|her|hers|there|one|ones|both"
            r"|the (?:former|latter|same|other|first|second|third|last)(?: one)?"
        ),
    ),
    "german": (
        r"und|oder|aber|auch|dann|was ist mit|wie ist es mit|wie sieht es (?:mit|bei)",
        (
            r"dies(?:e[rsnm]?)?(?=\W*\Z)|das(?=\W*\Z)|davon|dazu|dafür|dabei|damit"
            r"|darin|deren|dessen|dort"
        ),
    ),
    "french": (
        r"et|ou|mais|aussi|alors|et pour|qu'en est-il|pareil pour",
        r"il|elle|ils|elles|le|la|les(?=\W*\Z)|lui|leur|leurs|celui-ci|celle-ci|ceux-ci|cela|ça|ceci|y|en(?=\W*\Z)",
    ),
    "spanish": (
        r"y|o|pero|también|entonces|qué pasa con|lo mismo para",
        r"él|ella|ellos|ellas|lo|le|les|su|sus|esto|eso|ese|esa|este(?=\W*\Z)|esta(?=\W*\Z)|allí",
    ),
}
#: For each language, words that wish an answer in another form, length or language.
_WISHES: Final[Mapping[str, str]] = {
    "english": "short shorter brief briefly concise concisely long longer detail details elaborate expand summarize"
    " summarise summary sentence word words bullet bullets point points list table example examples simple simpler"
    " simplify plain easier rephrase reword rewrite translate explain repeat step steps english german french spanish"
    " italian dutch portuguese polish russian chinese japanese answer write make give say put tell show more less"
    " please",
    "german": "kurz kürzer knapp knapper ausführlich ausführlicher lang länger detail details einzelheiten"
    " zusammenfassen zusammenfassung fasse zusammen satz sätzen worten stichpunkte stichpunkten stichworten liste"
    " tabelle beispiel beispiele einfach einfacher umformulieren formuliere übersetze übersetzen erkläre erklären"
    " wiederhole schritt schritte englisch deutsch französisch spanisch italienisch antworte antwort schreibe mache"
    " gib sag zeige bitte mehr weniger nochmal",
    "french": "court courte bref brève brièvement long longue détail détails détaillé résume résumer résumé phrase mots"
    " points liste tableau exemple exemples simple simplement simplifie reformule traduis traduire explique répète"
    " étapes anglais allemand français espagnol italien réponds réponse écris fais donne dis plus moins encore",
    "spanish": "corto corta breve brevemente largo detalle detalles resume resumen frase palabras puntos lista tabla"
    " ejemplo ejemplos simple sencillo simplifica reformula traduce explica repite pasos inglés alemán francés español"
    " italiano responde respuesta escribe haz da dame di más menos",
}
#: What models write around a question, and the ends of one.
_AROUND: Final = " \t\"'`*_#>\u2018\u2019\u201c\u201d\u201e\u201a\u00ab\u00bb\u2039\u203a[]"
_ENDS: Final = regex.compile(r"[?\uff1f\u061f\u037e]")
_ENTRY: Final = regex.compile(r"\A(?:[-*+\u2022]|\(?\d{1,2}[.)])\s+")
_WRAPPED: Final = regex.compile(r"(?<=[^.:?!\n])\n(?=\p{Ll})")
#: Share of the words of what follows a question above which it is the reader's own wish.
_OWN: Final = 0.5
#: Questions at most that are put together.
_MOST_JOINED: Final = 3


@cache
def _patterns(language: str) -> tuple[regex.Pattern[str], regex.Pattern[str]] | None:
    """Return the patterns of what continues and of what refers; None in a language without them."""
    if language not in _PHRASES:
        return None
    continues, refers = _PHRASES[language]
    return (
        regex.compile(rf"\W*(?:{continues})\b", regex.IGNORECASE),
        regex.compile(rf"\b(?:{refers})\b", regex.IGNORECASE),
    )


def is_follow_up(question: str, language: str = "") -> bool:
    """Return whether a question names too little to be understood alone.

    It begins by going on with another one, or names nothing, or a word that stands for something comes before
    anything that it could stand for.

    Args:
        question: The question.
        language: Its language; by default that which its words show.

    >>> [is_follow_up(one) for one in ("And for contractors?", "Why?", "How do I configure it?")]
    [True, True, True]
    >>> is_follow_up("How do I rotate a log so that it keeps its name?")
    False
    >>> [is_follow_up(one) for one in ("Et pour les stagiaires ?", "Wie lange gilt das?", "¿Y cuánto cuesta?")]
    [True, True, True]
    """
    language = language or language_of_question(question, [*_PHRASES])
    words = Words(language, language)
    patterns = _patterns(language)
    if (patterns and patterns[0].match(question)) or not words.of_question(question):
        return True
    refers = patterns[1].search(question) if patterns else None
    if refers is None:
        return False
    # A verb alone is nothing that the word could stand for.
    return len(words.of_question(question[: refers.start()])) < 2


def _is_wish(question: str) -> bool:
    """Return whether a question only wishes the last answer in another form, in any of the languages."""
    for language, wishes in _WISHES.items():
        words = Words(language, language)
        known = frozenset(words.of_text(wishes))
        if all(one in known or one.isdecimal() for one in words.of_question(question)):
            return True
    return False


def standalone_question(question: str, earlier: Sequence[str], *, answered: bool = False) -> str:
    """Return a question that can be understood alone: a follow-up question after those that it goes on with.

    The questions from the last one that stands alone are put together, three at most: the first and the last.
    A question that is no follow-up is returned as it is.

    Args:
        question: The question.
        earlier: Those before it, oldest first.
        answered: Whether a language model answers, that can write an answer in another form.

    >>> standalone_question("And for contractors?", ["How many days of leave do we get?"])
    'How many days of leave do we get? And for contractors?'
    >>> standalone_question("Who approves travel?", ["How many days of leave do we get?"])
    'Who approves travel?'
    >>> standalone_question("In German, and shorter", ["Who approves travel?"], answered=True)
    'Who approves travel? In German, and shorter'
    """
    joined = [question]
    # A short question shows its language less than those before it.
    language = language_of_question(" ".join((question, *earlier)), [*_PHRASES])
    for before in reversed(earlier):
        wishes = answered and _is_wish(joined[0])
        if not (wishes or is_follow_up(joined[0]) or is_follow_up(joined[0], language)):
            break
        joined.insert(0, before)
    if len(joined) > _MOST_JOINED:
        joined = [joined[0], *joined[1 - _MOST_JOINED :]]
    return " ".join(" ".join(one.split()) for one in joined) if len(joined) > 1 else question


def read_completed(reply: str, question: str, earlier: Sequence[str], previous: str = "") -> str:
    r"""Return the question in the reply of a language model that completed one; empty when there is none.

    It is the first line that asks, without list mark, quotes or a label whose words nobody said. What follows
    it stays where the reader wished it. A line that asks nothing counts when it is the only one, and `question`
    asks nothing either, or it has no full stop. A question that shares no word with what was said is none.

    Args:
        reply: What the model wrote, cleaned.
        question: The question that it completed.
        earlier: Those before it.
        previous: The last answer.

    >>> read_completed("Rewritten: What may cats do?\n\nI named cats.", "And cats?", ["What may dogs do?"])
    'What may cats do?'
    >>> read_completed("I cannot do that.", "And cats?", ["What may dogs do?"])
    ''
    """
    language = language_of_question(" ".join((question, *earlier)), [*_PHRASES])
    words = Words(language, language)
    said = frozenset(words.of_text(" ".join((question, *earlier, previous))))
    asked = frozenset(words.of_text(question))
    lines = [one for one in _WRAPPED.sub(" ", reply).splitlines() if one.strip(_AROUND)]
    for place, line in enumerate(lines):
        found = _without_label(line, words, said)
        end = _ENDS.search(found)
        if end is None:
            states = found.endswith((".", "!")) and _ENDS.search(question)
            if len(lines) > 1 or states:
                continue
        found, after = (found[: end.end()], found[end.end() :]) if end else (found, "")
        terms = words.of_text(found)
        if terms and said.isdisjoint(terms):
            continue
        wish = " ".join(" ".join((after, *lines[place + 1 :])).split()).strip(_AROUND)
        own = words.of_text(wish)
        if own and sum(one in asked for one in own) > _OWN * len(own):
            found = f"{found} {wish}"
        return " ".join(found.split())
    return ""


def _without_label(line: str, words: Words, said: frozenset[str]) -> str:
    line = _ENTRY.sub("", line.strip(_AROUND)).strip(_AROUND)
    label, _, rest = line.partition(":")
    rest = rest.strip(_AROUND)
    return rest if rest and said.isdisjoint(words.of_text(label)) else line
