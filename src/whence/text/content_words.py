"""Words for comparing a question with a sentence: lower case, light stems, no function words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping

__all__ = ("content_terms", "inverse_document_frequencies", "overlap")

_WORD = re.compile(r"\w+(?:['\u2019.-]\w+)*")
#: English function words and the words that questions are made of.
_FUNCTION_WORDS_TEXT = """a about above after again all also am an and any are as at be because been before being between both but
    by can could did do does doing don during each either else ever every few for from get gets give gives go got
    had has have having he her here hers him his how i if in into is it its itself just let like made make makes
    many may me might more most much must my no nor not of off on once one only or other our out over own per
    please put same say shall she should show so some such take tell than that the their them then there these
    they this those through to too under until up upon us use used using very was we were what when where which
    while who whom whose why will with within without would you your"""
_FUNCTION_WORDS = frozenset(_FUNCTION_WORDS_TEXT.split())
#: Common verbs whose forms no ending tells: past to base.
_IRREGULAR = {
    "began": "begin", "bought": "buy", "broke": "break", "broken": "break", "brought": "bring",
    "built": "build", "chose": "choose", "chosen": "choose", "drove": "drive", "fell": "fall",
    "felt": "feel", "found": "find", "grew": "grow", "held": "hold", "kept": "keep", "knew": "know",
    "known": "know", "left": "leave", "lost": "lose", "met": "meet", "paid": "pay", "ran": "run",
    "sent": "send", "sold": "sell", "spent": "spend", "stole": "steal", "stolen": "steal",
    "taken": "take", "taught": "teach", "thought": "think", "told": "tell", "took": "take",
    "wrote": "write", "written": "write", "won": "win",
}  # fmt: skip


def content_terms(text: str) -> list[str]:
    """Return the stems of the words that carry meaning, in order, repeats kept.

    Compound words give their parts as well, so that `e-mail` meets `mail`.

    >>> content_terms("How many opening hours does the café's e-mail desk have?")
    ['open', 'hour', 'cafe', 'e-mail', 'e', 'mail', 'desk']
    >>> content_terms("Fixes since v2.9.1") == content_terms("fixes since 2.9.1")
    True
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    folded = "".join(c for c in folded if not unicodedata.combining(c))
    pieces = (piece for word in _WORD.findall(folded) for piece in _pieces(word))
    return [_stem(piece) for piece in pieces if piece and piece not in _FUNCTION_WORDS]


def _pieces(word: str) -> list[str]:
    """Return a word without possessive, apostrophes and the v of a version, and the parts of a compound."""
    plain = re.sub(r"'s?\Z", "", word.replace("\u2019", "'")).replace("'", "")
    plain = re.sub(r"\Av(?=\d+\.)", "", plain)
    parts = re.split(r"[.-]", plain)
    return [plain, *parts] if len(parts) > 1 else [plain]


def _stem(word: str) -> str:
    """Cut the commonest endings; the same cut on both sides is all that matters here."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    for ending in ("ing", "ed"):
        if len(word) > len(ending) + 3 and word.endswith(ending):
            word = word[: -len(ending)]
            if word[-1] == word[-2] and word[-1] not in "lsz":
                word = word[:-1]
            return word.removesuffix("e")
    if len(word) > 4 and word.endswith(("sses", "shes", "ches", "xes")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


def inverse_document_frequencies(texts: Iterable[Iterable[str]]) -> dict[str, float]:
    """Return the weight of each term over some texts: log(1 + (N - n + 1/2) / (n + 1/2)), as in BM25.

    Cost: one pass over all terms.
    """
    counts: Counter[str] = Counter()
    total = 0
    for terms in texts:
        total += 1
        counts.update(set(terms))
    return {term: math.log1p((total - n + 0.5) / (n + 0.5)) for term, n in counts.items()}


def overlap(
    wanted: Iterable[str], found: Iterable[str], weights: Mapping[str, float], default: float
) -> float:
    """Return the weighted share of wanted terms that are found, 0 to 1; 0 when none is wanted."""
    wanted, found = set(wanted), set(found)
    total = sum(weights.get(term, default) for term in sorted(wanted))
    shared = sum(weights.get(term, default) for term in sorted(wanted & found))
    return shared / total if total else 0.0
