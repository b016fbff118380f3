"""What language models send, cleaned: thinking apart, special tokens out, citations as `[n]`.

Models think aloud between tags, repeat tokens of their template, put a fence or an object of JSON around all,
end with a list of sources, and cite in a dozen writings: `[Source 1]`, `(Document 1)`, `[^1]`, `[1-3]`,
`<sup>1</sup>`, or between lenticular brackets. `clean_reply` reads a whole text; `ReplyStream` passes one on
piece by piece, and shows nothing that more text could change.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from importlib import resources
from typing import Final, NamedTuple

from whence.text.claims import code_spans
from whence.text.controls import CONTROLS
from whence.text.sentences import split_sentences

#: Tags around thoughts, and around calls of tools, which are no part of an answer either.
_NAMES: Final = r"(?:[\w-]{1,12}:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|scratchpad|tool_calls?|function_calls?)"
_THINK: Final = re.compile(
    rf"(?<!`)(?:<{_NAMES}\b[^<>\n]{{0,40}}>|\[THINK\]|<\|begin_of_thought\|>)", re.IGNORECASE
)
_THOUGHT: Final = re.compile(
    rf"(?<!`)(?:</{_NAMES}\s*>|\[/THINK\]|<\|end_of_thought\|>)", re.IGNORECASE
)
#: A message of another channel than that of the answer, as `gpt-oss` writes it, up to its end.
_CHANNEL: Final = re.compile(
    r"<\|channel\|>(?!final\b)\w*(?:<\|message\|>)?(?P<inner>.*?)(?:<\|end\|>|<\|start\|>|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_HEADER: Final = re.compile(
    r"<\|(?:channel|start|im_start|start_header_id|start_of_role)\|>[ \t]*\w{0,16}(?:<\|end_(?:header_id|of_role)\|>)?\s*"
)
#: What ends a turn; text after it is another turn that the model made up.
_TURN_END: Final = re.compile(
    r"<\|(?:im_end|eot_id|eom_id|end|endoftext|end_of_text|end_of_turn|return|eos)\|>|<end_of_turn>|<eos>|</s>"
    r"|<\uff5cend\u2581of\u2581sentence\uff5c>|<\|EOT\|>"
)
#: Special tokens, tags of an answer, and the tags of documents of our own prompt.
_TOKEN: Final = re.compile(
    r"<\|[\w/.-]{1,40}\|>|<\uff5c[^\uff5c<>\n]{1,40}\uff5c>|<(?:s|bos|pad|unk)>|<start_of_turn>[ \t]*\w*\n?|\[/?INST\]"
    r"|</?(?:answer|final_answer|response)>|</?(?:document|answer)-[0-9a-f]{6,}\b[^<>\n]{0,200}>|\[cite_start\]",
    re.IGNORECASE,
)
#: What sets colours on a terminal; the end may still come.
_ANSI: Final = re.compile(r"\x1b\[[0-?]{0,40}[ -/]{0,10}(?:[@-~]|\Z)")
_FENCE: Final = re.compile(
    r"\A(?P<mark>`{3,}|~{3,})[ \t]*+(?P<kind>[\w+-]*+)[ \t]*+\n(?P<body>.*?)\n?(?P=mark)\Z",
    re.DOTALL,
)
#: An object of JSON below one line that announces it.
_OBJECT_BELOW: Final = re.compile(
    r"\A[^`\n]{1,100}\n\s{0,4}(?P<mark>`{3})(?P<kind>json)[ \t]*\n(?P<body>.*?)(?:\n?(?P=mark)\s*)?\Z",
    re.DOTALL,
)
#: A tag around a whole answer; HTML has other elements for a part of a text.
_WRAPPER: Final = re.compile(r"<(output|result|reply|final|text|p|div|body|article|section)>\s*")
_LONGEST_TAG: Final = 10
#: Languages of a fence that holds text and no code.
_TEXT_KINDS: Final = frozenset(
    ("", "markdown", "md", "text", "txt", "plaintext", "plain", "json", "answer", "output")
)
#: Fields of an object that hold its text, the likeliest first.
_ANSWER_FIELDS: Final = ("answer", "response", "text", "content", "output", "result", "message")
_SUPERSCRIPTS: Final = str.maketrans(
    "\u00b9\u00b2\u00b3\u2070\u2074\u2075\u2076\u2077\u2078\u2079", "1230456789", "\u207d\u207e"
)
_SUPERSCRIPT: Final = "[\u00b9\u00b2\u00b3\u2070\u2074-\u2079\u207d\u207e]"
#: Where the sentence ends at which a number in round brackets may cite a document.
_SENTENCE_END: Final = re.compile(r"[ \t]*(?:[.!?\u2026\u3002\uff01\uff1f\n]|\Z)")
_FULL_STOPS: Final = (".", "!", "?", "\u2026", "\u3002", "\uff01", "\uff1f")
#: Characters that show nothing, before or after a text.
_UNSEEN: Final = " \t\n\ufeff\u200b\u200c\u200d\u2060"
_LIST: Final = r"\d{1,6}(?:\s{0,4}(?:[,;&+\u2013\u2014-]|and|und|et|y|e)\s{0,4}\d{1,6})*"
_RANGE: Final = re.compile(r"(\d{1,6})\s{0,4}[\u2013\u2014-]\s{0,4}(\d{1,6})")
#: Words from which on what stands behind a heading of sources is a sentence.
_SENTENCE_WORDS: Final = 4
#: From how many times the number of documents on a number in brackets may be a value of a text.
#: Chosen by hand.
_FAR: Final = 10
#: A range of more documents is none.
_LONGEST_RANGE: Final = 50
#: Writings in a row, at the end of a text, that may be citations.
_MOST_UNCLEAR: Final = 8
#: Visible characters of a beginning that may still turn out to be thinking.
_MOST_HELD: Final = 400
_FIRST_CITED: Final = re.compile(
    r"\]\s*[.!?\u3002]|[.!?\u3002][\"')\u201d]*\s*\[[\d, ]+\]|\[[\d, ]+\]\s*\n"
)
#: The end of a text that more text may turn into something else: a bracket, open or just closed, or a mark.
_OPEN_TAIL: Final = re.compile(
    r"(?<!\s)\s*+(?:<(?:sup|cite|ref)\b[^\n]{0,160}"
    r"|\\?[\[(\u3010\uff3b\u3014<\{]{1,2}[^\])\u3011\uff3d\u3015>\}\n]{0,90}"
    r"(?:[\])\u3011\uff3d\u3015>\}\\]{1,3}(?:\([^()\s]{0,300}\)?)?)?"
    rf"|[\^$]{{1,2}}[^\s]{{0,12}}|{_SUPERSCRIPT}{{1,20}}|`{{1,8}}|~{{1,8}}|\\[a-z]{{0,8}}(?:\{{[\d, ]{{0,40}}\}}?)?)?\Z"
)
_LINE_HELD: Final = re.compile(r"\n[^\S\n]*[^\n]{0,40}\Z")
_ENTRY: Final = re.compile(r"[ \t>*+\u2022-]*(?:\[\^?\d{1,6}\]|\(?\d{1,3}[.):]|[-*+\u2022][ \t])")
_DEFINITION: Final = re.compile(r"[ \t]*+[-*]?[ \t]*+\[\^?\d{1,6}\][ \t]*+:")


Cites = Callable[[str, str, int], bool]
"""Whether what is written, the second argument, cites a document by its number, the third, at the end of the
sentence that comes first; an empty sentence for a citation within one. What documents have cites nothing."""


class CleanReply(NamedTuple):
    """A text of a language model, cleaned."""

    text: str
    thinking: str = ""
    """What it thought aloud; empty for nothing."""
    removed: tuple[int, ...] = ()
    """Numbers of markers that name no document, which were left out, in order."""


@cache
def _words(kind: str) -> str:
    """Return the words of a kind in all languages, as alternatives of a pattern, the longest first."""
    text = (resources.files(__package__) / "reply_words.json").read_text("utf-8")
    split = str.split if kind == "sources" else lambda line: line.split("|")
    words = {word for line in json.loads(text)[kind].values() for word in split(line)}
    return "|".join(sorted(map(re.escape, words), key=lambda one: (-len(one), one)))


@cache
def _citation() -> re.Pattern[str]:
    """Return the pattern of a citation in any writing; each has its numbers in a group of its own."""
    noun = rf"(?:{_words('sources')})(?![^\W\d_])\.?"
    named = rf"(?:{noun}\s{{0,4}})?[#:_=\s-]{{0,8}}(?:no\.?|nr\.?|n[o\u00ba\u00b0]?|id)?[#:=\s\"']{{0,8}}"
    further = rf"(?:\s{{0,4}}(?:(?:[,;&]|and|und|et|y|e)\s{{0,4}}{named}|\s{noun}[\s:#]{{0,8}})\d{{1,6}})*"
    rest = r"[\"']?(?:\s{0,4}(?:\u2020|:(?!\d\d)|,\s{0,4}(?=[^\W\d]))[^\]\u3011\[\n]{0,100}|:\d{1,4}\u2020[^\]\u3011\n]{0,60})?\.?"
    inside = rf"{named}(?:\d{{1,6}}{further}|{_LIST})"
    link = r"(?:\([^()\s]{1,300}\))?"
    return re.compile(
        rf"\\?\[{{1,2}}\^?\s{{0,4}}(?P<square>{inside}){rest}\s{{0,4}}\\?\]{{1,2}}{link}"
        rf"|[\u3010\uff3b\u3014]\s{{0,4}}(?P<wide>{inside}){rest}\s{{0,4}}[\u3011\uff3d\u3015]"
        rf"|\((?:see |siehe |vgl\. ?|cf\. ?|voir )?(?P<round>{noun}\s{{0,4}}[#:]?\s{{0,4}}{_LIST}{further})\)"
        rf"|<(?P<tag>sup|cite|ref)\b[^<>\n]{{0,40}}>\s{{0,4}}(?:<a\b[^<>\n]{{0,80}}>)?\[?\^?(?P<tagged>{inside})\]?(?:</a>)?\s{{0,4}}</(?P=tag)>"
        rf"|(?:(?<=[^\W\d]{{3}})|(?<=[^\W\d]{{2}})(?=[\u00b9\u2074-\u2079])|(?<=[.!?,;:\"')\u201d])|(?<= )(?=\u207d))(?P<raised>{_SUPERSCRIPT}+(?:[,\u02d2]{_SUPERSCRIPT}+)*)"
        rf"|(?:(?<=[^\W\d]{{3}})|(?<=[.!?,;:\"')\u201d]))\$?\^\{{?\[?(?P<caret>\d{{1,3}})\]?\}}?[\^$]?(?!\w)"
        r"|\\cite\w?\{(?P<latex>\d{1,3}(?:,\s?\d{1,3}){0,9})\}"
        r"|[({]\s?(?P<bare>\d{1,3}(?:\s?[,;]\s?\d{1,3}){0,9})\s?[)}]|(?P<circled>[\u2460-\u2473]{1,5})"
        rf"|(?<![\w\[(/#.-])(?P<prose>{noun}\s{{1,4}}\d{{1,3}}(?:\s(?:and|und|et|y|e|&)\s\d{{1,3}}){{0,5}})(?![\w/-]|[.,:]\d)",
        re.IGNORECASE,
    )


def clean_reply(
    raw: str, documents: int, cites: Cites | None = None, *, labels: bool = False
) -> CleanReply:
    r"""Return a whole text of a model as a reader needs it.

    Args:
        raw: The text as it was sent.
        documents: How many documents can be cited.
        cites: Decides on writings that may be something else, as `(1)` or `document 1`; without it they are.
        labels: Whether words such as `answer:` in it mean what the prompt says.

    >>> clean_reply("<think>Is it [2]?</think>The smith is Ruza \u30101\u2020source\u3011.<|im_end|>", 2)
    CleanReply(text='The smith is Ruza [1].', thinking='Is it [2]?', removed=())
    >>> clean_reply("```\nOpen (Source 1). Closed [1-2][9].\n```", 2).text
    'Open [1]. Closed [1, 2].'
    >>> clean_reply("**Answer:** Open [n=1].", 2).text
    'Open [1].'
    """
    thinking, text = _without_thinking(_plain(raw))
    text = _without_tokens(text)
    before, text = ("", text) if labels else _without_labels(text)
    text = _unwrapped(text.strip(_UNSEEN))
    removed: dict[int, None] = {}
    text = _with_markers(_without_sources(text), documents, removed, cites)
    thinking = "\n".join(filter(None, (thinking, before)))
    return CleanReply(text.strip(), thinking, tuple(removed))


class ReplyStream:
    """Passes the text of a model on, piece by piece, as `clean_reply` returns it.

    What may be thinking, a marker or a list of sources waits until it is known. After a closing tag of thinking
    without an opening one the text begins again, below what was shown of it by then.

    Args:
        documents: How many documents can be cited.
        cites: See `clean_reply`.
    """

    def __init__(self, documents: int, cites: Cites | None = None) -> None:
        self._documents = documents
        self._cites = cites
        self._raw = ""
        self._read = 0
        self._shown = ""

    def add(self, piece: str, *, end: bool = False) -> str:
        """Return the text that can be shown now."""
        self._raw += piece
        # Reading all again for each piece of a long text would take its length squared.
        if not end and len(self._raw) - self._read < len(self._raw) >> 8:
            return ""
        self._read = len(self._raw)
        text = self._settled() if not end else self.whole().text
        if self._shown.startswith(text):
            return ""
        common = _common(self._shown, text)
        # What was shown was something else: the text goes on where both part, or begins again.
        again = 2 * common < len(self._shown)
        new = f"\n\n{text}" if again else text[common:]
        self._shown = text
        return new

    def whole(self) -> CleanReply:
        """Return what all pieces so far are together."""
        return clean_reply(self._raw, self._documents, self._cites)

    def _settled(self) -> str:
        """Return the beginning of the text that nothing can change any more."""
        raw = _plain(self._raw)
        thinking, text = _without_thinking(raw)
        if not thinking and _THINK.search(raw):
            return self._shown
        text = _without_tokens(text).lstrip(_UNSEEN)
        before, text = _without_labels(text)
        text = text.lstrip(_UNSEEN)
        held = not before and _preamble().match(text)
        if not text or held or _OBJECT_BELOW.match(text) or _may_be_wrapped(text):
            return self._shown
        text = text[: _OPEN_TAIL.search(text).start()]  # type: ignore[union-attr]
        # A line that has just begun may be an entry below a heading of sources.
        line = _LINE_HELD.search(text)
        begun = _begun_sources(text) or (line and _begun_sources(text[: line.start()]))
        if begun or line:
            text = text[: begun - 1 if begun else line.start()].rstrip()  # type: ignore[union-attr]
        for _ in range(_MOST_UNCLEAR):
            if not (unclear := _open_prose().search(text)):
                break
            text = text[: unclear.start()].rstrip()
        text = _with_markers(text, self._documents, {}, self._cites).rstrip()
        if not thinking and len(text) < _MOST_HELD and not _FIRST_CITED.search(text + "\n"):
            return self._shown
        return text


def _common(one: str, other: str) -> int:
    """Return how many characters two texts that differ have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _plain(raw: str) -> str:
    """Return a text without control characters, and with line feeds alone."""
    raw = _ANSI.sub("", raw) if "\x1b" in raw else raw
    return CONTROLS.sub("", raw.replace("\r\n", "\n").replace("\r", "\n"))


def _without_thinking(text: str) -> tuple[str, str]:
    """Return what a model thought, and the rest."""
    thoughts: list[str] = []

    def take(match: re.Match[str]) -> str:
        thoughts.append(_TOKEN.sub("", _HEADER.sub("", match["inner"])))
        return ""

    text = _CHANNEL.sub(take, text)
    parts: list[str] = []
    reached = 0
    while begin := _THINK.search(text, reached):
        parts.append(text[reached : begin.start()])
        end = _THOUGHT.search(text, begin.end())
        thoughts.append(text[begin.end() : end.start() if end else len(text)])
        reached = end.end() if end else len(text)
    rest = "".join((*parts, text[reached:]))
    # A template may have written the opening tag.
    if lone := [*_THOUGHT.finditer(rest)]:
        thoughts.insert(0, _THOUGHT.sub("", rest[: lone[-1].start()]))
        rest = rest[lone[-1].end() :]
    return "\n".join(filter(None, (one.strip() for one in thoughts))), rest


def _without_tokens(text: str) -> str:
    text = _HEADER.sub("", text.lstrip(_UNSEEN))
    first = _TURN_END.search(text)
    while first and not text[: first.start()].strip():
        text = text[first.end() :]
        first = _TURN_END.search(text)
    return _TOKEN.sub("", text[: first.start()] if first else text)


@cache
def _label() -> re.Pattern[str]:
    """Return the pattern of the label before an answer, at the beginning of a line: `**Answer:**`."""
    words = rf"(?:[^\W\d]+[ ]){{0,2}}(?:{_words('answer')})"
    return re.compile(
        rf"^[ \t]*(?:(?P<mark>\*\*|__|\*|_){words}[ ]?(?::(?P=mark)|(?P=mark)[ ]?:)|{words}[ ]?:(?!\*)|#{{1,6}}[ ]{words}:?[ ]*$)\s*",
        re.IGNORECASE | re.MULTILINE,
    )


@cache
def _preamble() -> re.Pattern[str]:
    """Return the pattern of a beginning that is labelled as something else than an answer."""
    words = rf"(?:[^\W\d]+[ ]){{0,2}}(?:{_words('preamble')})(?:[ ][^\W\d]+)?"
    return re.compile(
        rf"[\s#*_>-]{{0,12}}{words}[ ]?(?:[*_]{{0,2}}[ ]?:|[*_]{{1,2}}[ ]*\n|(?<=\w)\n)",
        re.IGNORECASE,
    )


@cache
def _open_prose() -> re.Pattern[str]:
    """Return the pattern of the end of a text that may go on to be a citation in words."""
    noun = rf"(?:{_words('sources')})"
    numbers = r"\d{1,3}(?:\s(?:(?:and|und|et|y|e|&|an|un)(?:\s\d{0,3})?)?){0,5}"
    return re.compile(
        rf"(?:(?<!\w){noun}\.?(?:\s{{0,4}}{numbers}[.,:/-]?)?|[({{]\s?\d[\d\s,;]{{0,40}}[)}}]|[\u2460-\u2473]{{1,5}})\s{{0,4}}\Z",
        re.IGNORECASE,
    )


def _without_labels(text: str) -> tuple[str, str]:
    r"""Return what stands before an answer that has a label, and the answer without it.

    >>> _without_labels("Thought: the first one.\nFinal answer: It opens at nine.")
    ('Thought: the first one.', 'It opens at nine.')
    """
    before = ""
    text = text.lstrip(_UNSEEN)
    if _preamble().match(text) and (labels := [*_label().finditer(text)]):
        before, text = text[: labels[-1].start()].strip(), text[labels[-1].start() :]
    label = _label().match(text)
    return before, text[label.end() :] if label else text


def _may_be_wrapped(text: str) -> bool:
    """Return whether a text that begins so may be a whole answer in a fence, in a tag, in quotes or in JSON."""
    if text[0] == "{" or (text[0] == "[" and text[1:].lstrip()[:1] in ("", "{", '"')):
        return True
    if text[0] == '"':
        return not text[1:].partition('"')[2].strip()
    if text[0] == "<":
        tag = _WRAPPER.match(text)
        return not tag if len(text) < _LONGEST_TAG else bool(tag)
    if text[0] not in "`~":
        return False
    line, mark, rest = text.partition("\n")
    fence = re.match(r"`+|~+", text)
    assert fence is not None
    if len(fence[0]) < 3:
        return line == fence[0] and not mark
    if line[len(fence[0]) :].strip().lower() not in _TEXT_KINDS:
        return not mark
    _, closed, after = rest.partition("\n" + fence[0])
    return not (closed and after.strip("`~ \n"))


def _unwrapped(text: str) -> str:
    """Return an answer without the fence, the tag, the quotes or the JSON around all of it."""
    if (tag := _WRAPPER.match(text)) and text.endswith(f"</{tag[1]}>"):
        text = text[tag.end() : -len(tag[1]) - 3].strip()
    fence = _FENCE.match(text) or _OBJECT_BELOW.match(text)
    if fence and fence["kind"].lower() in _TEXT_KINDS and fence["mark"] not in fence["body"]:
        text = fence["body"].strip()
    if text[:1] + text[-1:] in ("{}", "[]", '""'):
        try:
            return _text_of_json(json.loads(text, strict=False)) or text
        except (ValueError, RecursionError):
            pass
    return text


def _text_of_json(found: object) -> str:
    """Return the text of an object that a model made of its answer, with the numbers that it cites."""
    if isinstance(found, str):
        return found.strip()
    if isinstance(found, list):
        return _text_of_json(found[0]) if len(found) == 1 else ""
    if not isinstance(found, dict):
        return ""
    texts = {str(name).lower(): one for name, one in found.items() if isinstance(one, str)}
    named = (texts[name] for name in _ANSWER_FIELDS if texts.get(name, "").strip())
    text = next(named, max(texts.values(), key=len, default="")).strip()
    if not text and len(found) == 1:
        return _text_of_json(next(iter(found.values())))
    if not text or _citation().search(text):
        return text
    lists = (one for one in found.values() if isinstance(one, list))
    cited = next((one for one in lists if one and all(type(part) is int for part in one)), [])
    return f"{text} [{', '.join(map(str, cited))}]" if cited else text


def _begun_sources(text: str) -> int:
    """Return where a list of sources may begin, that goes on to the end of a text; 0 for nowhere.

    It begins with a line that only names sources, or with the definition of a note, and every line below is an
    entry. A line of sources alone, `Sources: [1], [2]`, is one, too.
    """
    lines = list(re.finditer(r"[^\n]+", text))
    start = 0
    for line in reversed(lines):
        words = line[0]
        if _heads_sources(words):
            return line.start()
        if not (_ENTRY.match(words) or _cites_only(words)):
            break
        start = line.start() if _DEFINITION.match(words) else start
    return start


def _heads_sources(line: str) -> bool:
    noun = rf"(?:{_words('sources')})"
    head = rf"[\s#*_>-]*(?:\w+\s+)?{noun}(?:\s+\w+)?[\s*_]*(?::[\s*_]*(?P<rest>.*)|\Z)"
    found = re.match(head, line, re.IGNORECASE)
    if not found:
        return False
    rest = _citation().sub("", found["rest"] or "")
    return not (len(rest.split()) >= _SENTENCE_WORDS and rest.rstrip().endswith((".", "!", "?")))


def _cites_only(line: str) -> bool:
    return bool(_citation().search(line)) and not re.search(r"\w", _citation().sub("", line))


def _without_sources(text: str) -> str:
    begun = _begun_sources(text)
    return text[:begun].rstrip().removesuffix("---").rstrip() if begun else text


def _with_markers(text: str, documents: int, removed: dict[int, None], cites: Cites | None) -> str:
    """Return a text whose citations are written `[n]`, without those of no document.

    Numbers of those that were left out are added to `removed`.
    """
    code = code_spans(text)
    parts: list[str] = []
    start = 0
    for match in _citation().finditer(text):
        if any(begin <= match.start() < end for begin, end in code):
            continue
        numbers = _numbers(match)
        known = [one for one in numbers if 1 <= one <= documents]
        # Raised numbers and words in brackets may be something else.
        if not known and match["square"] is None and match["wide"] is None:
            continue
        if _is_doubtful(match) and not (known == numbers and _accepted(match, known, cites)):
            continue
        if not known and all(_is_value(one, documents, cites) for one in numbers):
            parts += (text[start : match.start()], match["square"] or match["wide"])
            start = match.end()
            continue
        removed |= dict.fromkeys(one for one in numbers if one not in known)
        prose = match["prose"]
        named = re.match(r"\D*", prose)[0] if prose else ""  # type: ignore[index]
        before = text[start : match.start()]
        parts.append(before if known else before.rstrip(" \t"))
        parts.append(f"{named}[{', '.join(map(str, known))}]" if known else "")
        start = match.end()
    return "".join((*parts, text[start:]))


def _is_value(number: int, documents: int, cites: Cites | None) -> bool:
    """Return whether a number in brackets is a value that the documents have, as in `[429] or [503]`.

    Invented markers are near those that the model was given.
    """
    return number > _FAR * documents and cites is not None and not cites("", str(number), number)


def _is_doubtful(match: re.Match[str]) -> bool:
    return bool(match["bare"] or match["circled"] or match["prose"])


def _accepted(match: re.Match[str], numbers: list[int], cites: Cites | None) -> bool:
    """Return whether a writing that may be something else is taken for a citation."""
    text = match.string
    if cites is None:
        return False
    if match["prose"]:
        return all(cites("", match[0], one) for one in numbers)
    line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()].rstrip()
    if not line or not (line.endswith(_FULL_STOPS) or _SENTENCE_END.match(text, match.end())):
        return False
    sentences = split_sentences(line)
    written = f"{line.split()[-1]} {match[0]}"
    return bool(sentences) and all(
        cites(line[sentences[-1].start :], written, one) for one in numbers
    )


def _numbers(match: re.Match[str]) -> list[int]:
    """Return the numbers of a citation, each once, ranges written out."""
    raised, circled = match["raised"], match["circled"]
    inside = raised.translate(_SUPERSCRIPTS) if raised else ""
    inside = inside or " ".join(str(ord(one) - 0x245F) for one in circled or "")
    groups = ("square", "wide", "round", "tagged", "caret", "latex", "bare", "prose")
    inside = inside or next(filter(None, map(match.group, groups)))

    def written_out(found: re.Match[str]) -> str:
        first, last = int(found[1]), int(found[2])
        if not first < last <= first + _LONGEST_RANGE:
            return found[0]
        return " ".join(map(str, range(first, last + 1)))

    return list(dict.fromkeys(map(int, re.findall(r"\d+", _RANGE.sub(written_out, inside)))))
