"""Whether passages support a sentence: its numbers, negations, quantifiers, names and words.

A sentence is compared with the best one or two sentences of a passage, so that a number of another sentence
supports nothing. Words of negation and quantity are data (`reply_words.json`). A sentence in another language
than its passage is compared by its numbers, by its names (`names`), and by what it denies of these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from itertools import combinations, pairwise
from typing import Final, NamedTuple

import regex

from whence.text.claims import Claim, reply_words
from whence.text.languages import (
    DEFAULT_LANGUAGE,
    LANGUAGES_BY_SCRIPT,
    detect_language,
    guess_language,
    has_english,
)
from whence.text.names import Names
from whence.text.normalization import fold, function_words, snowball_stem
from whence.text.overlap import Words, inverse_document_frequencies, overlap
from whence.text.quantities import Quantity, quantities
from whence.text.sentences import split_sentences
from whence.text.values import month_number

#: A claim has at least this share of its words in a passage that supports it.
MIN_SUPPORT: Final = 0.34
#: A sentence without a marker is made in the words of a passage that has at least this share of them in one
#: sentence; what says a passage word for word has the second share. Of sentences of documentation, given with
#: their own passage and the five others nearest to them, 95 % are attributed, and 6 % where their own is left
#: out; by the second share it is 64 and 3 %. Of those made false one in ten is, by either. See
#: `python -m benchmarks.support --unmarked`.
ATTRIBUTED: Final = 0.7
WORD_FOR_WORD: Final = 0.9
#: Fewest words of a sentence that count when those of the question do not. Chosen by hand.
_LEAST_WORDS: Final = 3
#: Share of the words of a clause in the claim, from which its negation is about the claim.
_ABOUT: Final = 0.5
#: Share of the words of a claim by which a sentence may have fewer than the best one.
_SLACK: Final = 0.15
#: Sentences that a pair is made of.
_BEST: Final = 4
#: Words of a label beside its value at most, and how many sentences lie from it to the one that it belongs to.
_LABEL: Final = 2
_NEAR: Final = 2
#: A number in words counts without a unit from here: `two ways` may be counted by the model.
_LARGE: Final = 13
#: Share of the words of a claim in a clause from which the clause says the same, but for a name.
_SAME_CLAUSE: Final = 0.6
_WORD: Final = regex.compile(r"[\p{L}\p{M}\p{N}]+")
_CLAUSE: Final = regex.compile(r"[,;:()\u2013\u2014\n|]+")
_CAPITAL: Final = regex.compile(
    r"(?<![\p{L}\p{N}_])\p{Lu}[\p{L}\p{M}\p{N}]*(?:[-'\u2019.]\p{L}[\p{L}\p{M}\p{N}]*)*"
)
#: Languages that write every noun with a capital.
_CAPITAL_NOUNS: Final = frozenset(("german",))
#: Longest word in capitals that may be short for words of the passage.
_ACRONYM: Final = 6
#: What one language says by a negation and another by a limit: `no more than`, `seulement`, `ne ... que`.
_LIMITS: Final = frozenset(("negation", "only", "at_most", "at_least"))
_KINDS: Final = ("at_most", "at_least", "only", "all", "each", "negation")


class _Part(NamedTuple):
    """A sentence of a passage."""

    start: int
    end: int
    terms: frozenset[str]
    heading: str


class Source:
    """A passage that claims are compared with; its words are read once for all of them.

    Args:
        text: The passage.
        context: What stands above it: titles, headings, the header of its table, names of its file.
        language: Its language; by default that which its words show.
    """

    def __init__(self, text: str, context: str = "", language: str = "") -> None:
        self.text = text
        self.context = context
        self.language = language or guess_language(text) or DEFAULT_LANGUAGE
        self._words = Words(self.language, self.language)

    @cached_property
    def terms(self) -> frozenset[str]:
        """The content words of passage and context."""
        return self.terms_of(f"{self.text}\n{self.context}")

    @cached_property
    def _above(self) -> frozenset[str]:
        return self.terms_of(self.context)

    @cached_property
    def words(self) -> frozenset[str]:
        """The folded words of both, and their stems."""
        words = set(_WORD.findall(f"{self.text}\n{self.context}"))
        stems = (snowball_stem(one, self.language) for one in words)
        return frozenset((*map(fold, words), *stems))

    @cached_property
    def parts(self) -> list[_Part]:
        """Its sentences."""
        return [
            _Part(
                one.start,
                one.end,
                self.terms_of(self.text[one.start : one.end]),
                f"{one.heading} {one.lead}",
            )
            for one in split_sentences(self.text)
            if one.kind != "heading"
        ]

    @cached_property
    def counted(self) -> frozenset[str]:
        """The words behind its numbers, which count them."""
        found = quantities(self.text, [self.language])
        return frozenset().union(*(_counted(self.text, one) for one in found if not one.in_words))

    @cached_property
    def _weights(self) -> dict[str, float]:
        return inverse_document_frequencies(one.terms for one in self.parts)

    def terms_of(self, text: str) -> frozenset[str]:
        """Return the content words of a text in the language of the passage."""
        return frozenset(self._words.of_text(text))

    def shared(
        self, claim: Claim, numbers: frozenset[str], repeated: frozenset[str] = frozenset()
    ) -> Iterable[tuple[float, tuple[_Part, ...]]]:
        """Yield the share of the words of a claim in each sentence and above it, and that sentence.

        A sentence is tried alone, and with the value below it, as in `Default: 75`, that is one of `numbers`.
        Words that are `repeated` do not count, if some others are left.
        """
        wanted = self.terms_of(claim.text)
        if len(wanted - repeated) >= _LEAST_WORDS:
            wanted -= repeated
        for parts in _with_values(self.parts, numbers) if wanted else ():
            terms = frozenset().union(*(one.terms for one in parts))
            if wanted - terms:
                terms |= self.terms_of(parts[0].heading) | self._above
            if wanted & parts[0].terms:
                yield len(wanted & terms) / len(wanted), parts

    def nearest(self, claim: Claim, least: float) -> str | None:
        """Return the sentence that shares most words with a claim; None below a share of `least`."""
        wanted = self.terms_of(claim.text)
        best, most = None, 0.0
        for one in self.parts:
            share = overlap(wanted, one.terms, self._weights, 1.0)
            if share > most:
                best, most = self.text[one.start : one.end], share
        return best if most >= least else None


class Check:
    """Compares the sentences of one answer with passages.

    Args:
        answer: The answer; its language is that of all its sentences.
        question: The question; its words in capitals may stand for words of a passage.
    """

    def __init__(self, answer: str, question: str = "") -> None:
        guessed = guess_language(answer)
        self.language = guessed or DEFAULT_LANGUAGE
        self._is_unnamed = guessed is None
        self._is_english = self.language == DEFAULT_LANGUAGE and has_english(answer)
        self._is_clear = self.language != DEFAULT_LANGUAGE and self.language in (
            detect_language(answer),
            *LANGUAGES_BY_SCRIPT,
        )
        self._question = question
        self._asked = frozenset(fold(one) for one in _WORD.findall(question))
        self._names: dict[tuple[Source, ...], Names] = {}

    def supports(self, claim: Claim, sources: Sequence[Source]) -> bool:
        """Return whether passages together support a claim, which a short one without numbers always is."""
        own = [one for one in sources if self._shares_language(claim, one)]
        if not own:
            return self._supports_across(claim, sources)
        if not self._names_of(sources).have_identifiers(claim.text, self.language):
            return False
        if not self._names_stand(claim, sources):
            return False
        needed = self._needed(claim, own)
        wanted = {one: one.terms_of(claim.text) for one in own}
        if claim.is_short and not needed:
            # Words too few to compare may still say the opposite.
            whole = [
                (one, part)
                for one in own
                for part in one.parts
                if wanted[one] and wanted[one] <= part.terms
            ]
            return not whole or any(
                self._agrees(claim, (), [part], one, wanted[one]) for one, part in whole
            )
        missing = set.intersection(*[set(wanted[one] - one.terms) for one in own])
        total = max(len(one) for one in wanted.values())
        if not claim.is_short and total - len(missing) < MIN_SUPPORT * total:
            return False
        return any(
            self._agrees(claim, needed, evidence, source, wanted[source])
            for source in own
            for evidence in self._evidence(claim, needed, source, wanted[source])
        ) or (len(own) > 1 and self._agrees_together(claim, needed, own, wanted))

    def compares(self, claim: Claim, sources: Sequence[Source]) -> bool:
        """Return whether there is more to compare than names: words of the same language, or numbers."""
        if claim.is_short:
            return False
        shared = any(self._shares_language(claim, one) for one in sources)
        return shared or bool(self._needed(claim, sources))

    def attributed(
        self, claim: Claim, sources: Sequence[Source], least: float = ATTRIBUTED
    ) -> tuple[int, str] | None:
        """Return the number of the passage, from 1, in whose words a claim is made, and its nearest sentence.

        It supports the claim, and has at least a share `least` of its words in one sentence and above it. Of
        several passages the one with the largest share counts, of equals the first.
        """
        best, most = None, 0.0
        needed = self._needed(claim, sources)
        known = frozenset().union(*(one.terms for one in sources))
        for number, source in enumerate(() if claim.is_short else sources, start=1):
            numbers = _terms_of_numbers(claim, needed, source)
            # An answer repeats the question, also in words that no passage has.
            repeated = source.terms_of(self._question) - known
            for share, parts in source.shared(claim, numbers, repeated):
                if share <= most or share < least:
                    continue
                if self._stands_in(claim, needed, parts, source) or self.supports(claim, [source]):
                    best, most = (number, source.text[parts[0].start : parts[0].end]), share
        return best

    def _stands_in(
        self, claim: Claim, needed: Sequence[Quantity], parts: Sequence[_Part], source: Source
    ) -> bool:
        """Return whether some sentences have the numbers of a claim, and its passage the names."""
        wanted = source.terms_of(claim.text)
        names = self._names_of([source]).have_identifiers(claim.text, self.language)
        agrees = self._agrees(claim, needed, parts, source, wanted)
        return names and agrees and self._names_stand(claim, [source])

    def _shares_language(self, claim: Claim, source: Source) -> bool:
        """Return whether a claim has the language of a passage; a few words of it may not show it."""
        if source.language == self.language and not self._is_unnamed:
            return True
        # Names are in all languages.
        wanted = source.terms_of(_CAPITAL.sub(" ", claim.text)) or source.terms_of(claim.text)
        # One word may be the same in both.
        least = max(1 + self._is_english, 0.5 * len(wanted))
        return not self._is_clear and len(wanted & source.terms) >= least

    def _needed(self, claim: Claim, sources: Sequence[Source]) -> list[Quantity]:
        """Return the numbers of a claim that a passage must have."""
        known = [one.language for one in sources]
        # A few words do not show their language, and are read in that of their passages first.
        unknown = self.language == DEFAULT_LANGUAGE
        languages = dict.fromkeys((*known, self.language) if unknown else (self.language, *known))
        found = quantities(claim.text, [*languages])
        spans = {(one.start, one.end) for one in found if one.value is None}
        # Of a date the whole counts, not its parts.
        return [
            one
            for one in found
            if (one.value is None or (one.start, one.end) not in spans)
            and not (
                one.in_words
                and not one.unit
                and (one.value or 0) < _LARGE
                and not any(_counted(claim.text, one) & source.counted for source in sources)
            )
        ]

    def _evidence(
        self, claim: Claim, needed: Sequence[Quantity], source: Source, wanted: frozenset[str]
    ) -> Iterable[list[_Part]]:
        """Yield the sentences that may support a claim: the best ones alone, then pairs of them.

        The second of a pair brings words of its own, beside numbers and units, or is a label with its value.
        """
        numbers = _terms_of_numbers(claim, needed, source)
        topic = wanted - numbers or wanted
        ranked = sorted(source.parts, key=lambda one: (-len(topic & one.terms), one.start))[:_BEST]
        if not ranked:
            return
        most = len(topic & ranked[0].terms)
        yield from (
            [one]
            for one in ranked
            if len(topic & one.terms) >= max(most - _SLACK * len(topic), 0.5)
        )
        for first, second in combinations(ranked, 2):
            if len(topic & second.terms - first.terms) >= max(2, 0.25 * len(topic)):
                yield [first, second]
        for first in ranked[:2]:
            place = source.parts.index(first)
            for near in source.parts[max(0, place - _NEAR) : place + _NEAR + 1]:
                # `Default: 75 (seconds)` is a label with a value, and belongs to the sentence beside it.
                if near is not first and len(near.terms - numbers) <= _LABEL:
                    yield [first, near]

    def _agrees(
        self,
        claim: Claim,
        needed: Sequence[Quantity],
        evidence: Sequence[_Part],
        source: Source,
        wanted: frozenset[str],
    ) -> bool:
        """Return whether sentences have the numbers of a claim, and deny and limit what it does."""
        texts = [source.text[one.start : one.end] for one in evidence]
        context = " ".join((source.context, *(one.heading for one in evidence)))
        have = [one for text in texts for one in quantities(text, [source.language])]
        around = quantities(context, [source.language])
        for one in needed:
            in_context = any(one.agrees(other) and not other.unit for other in around)
            if not (any(map(one.agrees, have)) or in_context or _day_of(one, have, around)):
                return False
        return _same_quantifiers(claim.text, texts, source, wanted)

    def _agrees_together(
        self,
        claim: Claim,
        needed: Sequence[Quantity],
        sources: Sequence[Source],
        wanted: dict[Source, frozenset[str]],
    ) -> bool:
        """Return whether the best sentences of several cited passages support a claim together."""
        best = []
        for source in sources:
            evidence = next(iter(self._evidence(claim, needed, source, wanted[source])), None)
            if evidence is not None:
                best.append("\n".join(source.text[one.start : one.end] for one in evidence))
        context = "\n".join(one.context for one in sources)
        have = quantities("\n".join((*best, context)), [sources[0].language])
        if not all(any(map(one.agrees, have)) for one in needed):
            return False
        return _same_quantifiers(claim.text, best, sources[0], wanted[sources[0]])

    def _names_of(self, sources: Sequence[Source]) -> Names:
        known = tuple(sources)
        if known not in self._names:
            text = "\n".join(f"{one.context}\n{one.text}" for one in known)
            self._names[known] = Names(text, known[0].language)
        return self._names[known]

    def _supports_across(self, claim: Claim, sources: Sequence[Source]) -> bool:
        """Return whether passages of another language have the numbers and the names of a claim."""
        if not self._names_of(sources).stand(claim.text, "" if self._is_unnamed else self.language):
            return False
        needed = self._needed(claim, sources)
        if not needed:
            return True
        evidence = [
            (source, text)
            for source in sources
            for text in [source.text[one.start : one.end] for one in source.parts] or [source.text]
            if _has_numbers(needed, text, source)
        ]
        return any(
            _denies_alike(claim.text, self.language, text, source.language)
            for source, text in evidence
        )

    def _names_stand(self, claim: Claim, sources: Sequence[Source]) -> bool:
        """Return whether the names of a claim stand in its passages.

        A name has a capital inside of a sentence. At its beginning, and where every noun has one, a word counts
        as a name when the passage has another name in its place.
        """
        known = frozenset().union(*[one.words for one in sources])
        nouns = self.language in _CAPITAL_NOUNS
        stop = function_words(self.language)
        first = len(claim.text) - len(claim.text.lstrip(" \"'([*_-\u201c\u201e"))
        unclear = []
        for match in _CAPITAL.finditer(claim.text):
            word = match[0]
            parts = [fold(one) for one in _WORD.findall(word)]
            if len(word) < 2 or any(char.isdigit() for char in word) or fold(word) in stop:
                continue
            if all(
                one in known or snowball_stem(one, self.language) in known or one in stop
                for one in parts
            ):
                continue
            acronym = word.isupper() and len(word) <= _ACRONYM
            if acronym and fold(word) in self._asked:
                continue
            if match.start() <= first or nouns:
                unclear.append(word)
            elif month_number(word, (self.language, DEFAULT_LANGUAGE)) is None:
                return False
        return not unclear or not self._replaces(claim, sources, unclear)

    def _replaces(self, claim: Claim, sources: Sequence[Source], unclear: Sequence[str]) -> bool:
        """Return whether a clause says what a claim says, but with another name."""
        said = frozenset(map(fold, _WORD.findall(claim.text)))
        for source in sources:
            nearest = source.nearest(claim, 0.4) or ""
            others = source.terms_of(claim.text) - source.terms_of(" ".join(unclear))
            for clause in _CLAUSE.split(nearest):
                names = [
                    one
                    for one in _CAPITAL.findall(clause.strip())
                    if fold(one) not in said and len(one) > 1
                ]
                shared = others & source.terms_of(clause)
                if names and len(shared) >= _SAME_CLAUSE * len(others) > 0:
                    return True
        return False


def _counted(text: str, number: Quantity) -> frozenset[str]:
    """Return the word behind a number, folded; empty where none follows."""
    behind = _WORD.match(text, number.end + 1)
    return frozenset((fold(behind[0]),)) if behind else frozenset()


def _terms_of_numbers(claim: Claim, needed: Sequence[Quantity], source: Source) -> frozenset[str]:
    """Return the words of the numbers of a claim, and of their units."""
    spans = (claim.text[one.start : one.end + 12] for one in needed)
    return frozenset(term for one in spans for term in source.terms_of(one))


def _with_values(parts: Sequence[_Part], numbers: frozenset[str]) -> Iterable[tuple[_Part, ...]]:
    """Yield each sentence alone, then each with the value below it that has hardly other words."""
    yield from ((one,) for one in parts)
    if numbers:
        yield from (
            (one, value)
            for one, value in pairwise(parts)
            if value.terms & numbers and len(value.terms - numbers) <= _LABEL
        )


def _has_numbers(needed: Sequence[Quantity], text: str, source: Source) -> bool:
    """Return whether a sentence and what stands above its passage have numbers."""
    have = quantities(text, [source.language])
    around = quantities(source.context, [source.language])
    return all(
        any(map(one.agrees, [*have, *around])) or _day_of(one, have, around) for one in needed
    )


def _denies_alike(claim: str, language: str, text: str, other: str) -> bool:
    """Return whether a claim and a sentence in another language do not contradict each other.

    A claim may limit what a sentence denies, and the other way round; one word of a sentence of several clauses
    may deny something else.
    """
    said, have = _marks(claim, language), _marks(text, other)
    denying = reply_words()["negation"]
    if "negation" in said and not have & _LIMITS and other in denying:
        return False
    has_clauses = len(list(filter(str.strip, _CLAUSE.split(text)))) > 1
    return "negation" not in have or bool(said & _LIMITS) or has_clauses or language not in denying


def _day_of(needed: Quantity, have: Sequence[Quantity], around: Sequence[Quantity]) -> bool:
    """Return whether a date of a claim stands in the passage as a day of its month, and its year above it."""
    for form in needed.forms:
        year, _, rest = form.partition("-")
        month, _, day = rest.partition("-")
        if not (day.isdecimal() and month.isdecimal()):
            continue
        wanted = Quantity((str(int(day)),), f"month-{int(month)}", False, 0, 0)
        stands = any(wanted.agrees(one) and one.unit for one in have)
        if stands and any(year in one.forms for one in (*have, *around)):
            return True
    return False


def _same_quantifiers(
    claim: str, evidence: Sequence[str], source: Source, wanted: frozenset[str]
) -> bool:
    """Return whether sentences deny and limit what a claim says as it does."""
    said = _marks(claim, source.language)
    whole = frozenset().union(*[_marks(one, source.language) for one in evidence])
    if "only" in said and "only" not in whole:
        return False
    if "all" in said and not whole & {"all", "each"}:
        return False
    for kind, opposite in (("at_most", "at_least"), ("at_least", "at_most")):
        if kind in said and kind not in whole:
            return False
        if kind in whole and opposite in said and opposite not in whole:
            return False
    denied = any(
        "negation" in _marks(clause, source.language) and _is_about(clause, source, wanted)
        for one in evidence
        for clause in _CLAUSE.split(one)
    )
    if "negation" in said:
        return denied or bool(whole & {"negation"} and not wanted)
    return not denied


def _is_about(clause: str, source: Source, wanted: frozenset[str]) -> bool:
    terms = source.terms_of(clause)
    return not terms or len(terms & wanted) >= _ABOUT * len(terms)


def _marks(text: str, language: str) -> frozenset[str]:
    """Return the kinds of words of negation and quantity in a text."""
    found: set[str] = set()
    folded = fold(text.replace("\u2019", "'")).replace("n't", " not")
    # The longest phrases first: `no more than` denies nothing.
    for pattern, kinds in _phrases(language):
        if pattern.search(folded):
            found |= kinds
            folded = pattern.sub(" ", folded)
    return frozenset(found)


@cache
def _phrases(language: str) -> list[tuple[regex.Pattern[str], frozenset[str]]]:
    words = reply_words()
    kinds: dict[str, set[str]] = {}
    for kind in _KINDS:
        for phrase in filter(None, words[kind].get(language, "").split("|")):
            kinds.setdefault(fold(phrase), set()).add(kind)
    longest = sorted(kinds, key=lambda one: (-len(one.split()), one))
    return [
        (regex.compile(rf"(?<!\w){regex.escape(one)}(?!\w)"), frozenset(kinds[one]))
        for one in longest
    ]
