"""A corpus and readers made to find leaks: tags that differ by a hair, and rights of every shape.

Used with a brute-force oracle: what a reader may see is decided here by `Access.allows`, document by document.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Set
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whence.schema.access import Access, DocumentTags
from whence.schema.ingest import ChunkDraft, DocumentDraft
from whence.store.protocols import EmbeddedDocument

DIMENSION = 8
#: Tags that a careless comparison, an unescaped array or a folded case would take for one another.
TAGS = (
    "a", "A", "a ", " a", "a'", 'a"', "a,b", "{a}", "{a,b}", "(a)", "a\\", "a%", "a_", "*", "NULL", "null",
    "ä", "a\u0308", "\u0430", "a\u200b", "\u202ea", "😀", "a;--", "' OR 1=1 --", "a\nb", "a\tb", "0", "false",
    "a" * 10_000, "a" * 9_999, "public", "$1",
)  # fmt: skip
WORDS = tuple(f"word{letter}" for letter in "abcdefghijklmnop")


class AccessCorpus:
    """Documents with random tags, and the readers that come for them.

    Args:
        seed: The same seed gives the same corpus and the same readers.
        documents: How many.
        linked: Whether each names the title of another.
    """

    def __init__(self, seed: int, documents: int, *, linked: bool = False) -> None:
        self._linked = linked
        self._random = random.Random(seed)
        self._vectors = np.random.default_rng(seed)
        names = [f"doc-{number}" for number in range(documents)]
        self.tags = {name: self.random_tags() for name in names}
        self.words = {name: self._random.sample(WORDS, 3) for name in names}
        self.vectors = {name: self.random_vector() for name in names}
        self.facts = {name: self._random_facts() for name in names}
        self._gone: dict[str, DocumentTags] = {}
        self._readers: list[Access] = []
        self._visible: dict[Access, frozenset[str]] = {}

    def random_tags(self) -> DocumentTags:
        """Return the tags of a document: of most few, of some none, of some many."""
        pick = self._random
        acl = pick.sample(TAGS, pick.choice((0, 0, 1, 1, 2, 5)))
        labels = pick.sample(TAGS, pick.choice((0, 0, 0, 1, 2)))
        return DocumentTags(tuple(acl), tuple(labels), pick.choice((0, 0, 0, 1, 2, 2**31 - 1)))

    def random_access(self) -> Access:
        """Return a reader: nobody, everybody, holders of a few tags, and one of thousands."""
        pick = self._random
        kind = pick.random()
        if kind < 0.1:
            return Access.public()
        if kind < 0.15:
            return Access(frozenset(TAGS), frozenset(TAGS), 2**31 - 1)
        acl = set(pick.sample(TAGS, pick.randrange(6)))
        if kind < 0.17:
            acl |= {f"group-{number}" for number in range(5_000)}
        labels = pick.sample(TAGS, pick.choice((0, 1, 3, len(TAGS))))
        return Access(frozenset(acl), frozenset(labels), pick.choice((0, 0, 1, 2, 2**31 - 1)))

    def random_reader(self) -> Access:
        """Return a new reader, or as often one that came before: rights that are remembered may be outdated."""
        if self._readers and self._random.random() < 0.5:
            return self._random.choice(self._readers)
        self._readers.append(self.random_access())
        return self._readers[-1]

    def random_vector(self) -> NDArray[np.float32]:
        """Return a unit vector, float32, shape (DIMENSION,)."""
        vector = self._vectors.normal(size=DIMENSION)
        return (vector / np.linalg.norm(vector)).astype(np.float32)

    def random_words(self) -> str:
        """Return a query of one to three words, one of them perhaps in no document."""
        return " ".join(self._random.sample((*WORDS, "wordabsent"), self._random.randint(1, 3)))

    def random_names(self, most: int) -> list[str]:
        """Return some documents."""
        return self._random.sample(sorted(self.tags), self._random.randint(1, most))

    def _random_facts(self) -> dict[str, Any]:
        """Return what a document states: most a color and a year, few something of a kind of their own."""
        pick = self._random
        stated: dict[str, Any] = {"year": pick.randint(2000, 2009)}
        if pick.random() < 0.8:
            stated["color"] = pick.choice(("red", "green", ["green", "blue"]))
        if pick.random() < 0.02:
            stated["rare"] = "x"
        return stated

    def random_filters(self) -> dict[str, Any]:
        """Return conditions on what documents state, of every kind; on what few of them state, too."""
        return self._random.choice(
            (
                {"color": "green"},
                {"color": ["red", "blue"]},
                {"color": {"prefix": "gre"}, "year": {"gte": 2003}},
                {"year": {"gte": 2002, "lt": 2007}},
                {"rare": "x"},
            )
        )

    def kept(self, names: Set[str], filters: Mapping[str, Any]) -> Set[str]:
        """Return those of the documents that conditions of `random_filters` keep."""
        return {
            one
            for one in names
            if all(_holds(self.facts[one].get(key), wanted) for key, wanted in filters.items())
        }

    def state(self, names: Set[str], key: str) -> bool:
        """Return whether one of the documents states something of a kind."""
        return any(key in self.facts[one] for one in names)

    def random_limit(self) -> int:
        """Return how many results are asked for: a page, a few pages, or everything."""
        return self._random.choice((1, 3, 10, 10, 1_000))

    def visible(self, access: Access) -> frozenset[str]:
        """Return the documents that a reader may see; each is looked at once between two changes of rights."""
        if access not in self._visible:
            self._visible[access] = frozenset(
                name for name, tags in self.tags.items() if access.allows(tags)
            )
        return self._visible[access]

    def with_words(self, names: Set[str], words: str) -> Set[str]:
        """Return those of the documents that hold one of the words."""
        wanted = set(words.split())
        return {name for name in names if wanted.intersection(self.words[name])}

    def with_all_words(self, names: Set[str], words: str) -> Set[str]:
        """Return those of the documents that hold each of the words."""
        return {name for name in names if set(words.split()) <= set(self.words[name])}

    def embedded(self) -> list[EmbeddedDocument]:
        """Return the documents ready to be stored, one chunk each."""
        return [self._document(name) for name in self.tags]

    def _document(self, name: str) -> EmbeddedDocument:
        number = int(name.removeprefix("doc-"))
        text = f"{' '.join(self.words[name])} of {name}"
        if self._linked:
            text += f", see {_title(number * 7 % 101)}"
        draft = DocumentDraft(
            document_id=name,
            title=_title(number) if self._linked else "",
            chunks=(ChunkDraft(content=text, start=0, end=len(text)),),
            tags=self.tags[name],
            metadata=self.facts[name],
        )
        return EmbeddedDocument(draft=draft, vectors=self.vectors[name][np.newaxis])

    def remove(self, names: list[str]) -> list[str]:
        """Take documents out, and give their names back."""
        for name in names:
            self._gone[name] = self.tags.pop(name)
        self._visible.clear()
        return names

    def restore(self) -> list[EmbeddedDocument]:
        """Put back all documents that were taken out, with other tags, and give them ready to be stored."""
        names = list(self._gone)
        self._gone.clear()
        for name in names:
            self.retag(name)
        return [self._document(name) for name in names]

    def retag(self, name: str) -> DocumentTags:
        """Change the tags of a document, and return the new ones."""
        return self.set_tags(name, self.random_tags())

    def set_tags(self, name: str, tags: DocumentTags) -> DocumentTags:
        """Set the tags of a document, and return them."""
        self.tags[name] = tags
        self._visible.clear()
        return tags


def _title(number: int) -> str:
    return f"Ledger folio{number:03}"


def _holds(stated: Any, wanted: Any) -> bool:
    """Return whether a condition holds for what a document states; None when it states nothing."""
    values = stated if isinstance(stated, list) else [] if stated is None else [stated]
    if isinstance(wanted, list):
        return not set(values).isdisjoint(wanted)
    if isinstance(wanted, str):
        return wanted in values
    if "prefix" in wanted:
        return any(one.startswith(wanted["prefix"]) for one in values)
    return any(wanted.get("gte", one) <= one < wanted.get("lt", one + 1) for one in values)
