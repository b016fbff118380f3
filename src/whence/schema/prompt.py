"""Messages of the prompt service: a template and its variables in, text out, whole or in pieces."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from whence.schema.message import Message


class Quote(msgspec.Struct, frozen=True):
    """A verbatim passage that supports a marker of the answer."""

    marker: int
    """Number in the answer's `[n]`; 1 is the first document of the prompt."""
    text: str
    """The passage, verbatim from that document."""
    highlights: tuple[tuple[int, int], ...] = ()
    """Offsets in `text` of the words that answer."""


class Shortfall(msgspec.Struct, frozen=True):
    """Why a writer that only quotes gives no answer."""

    reason: str
    """A sentence with the numbers."""
    marker: int
    """Number of the best document."""
    score: float
    """Its score, 0 to 1."""
    floor: float
    """Least score of an answer."""


class PromptResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a writer."""

    response_type: Literal["text", "json"] = "text"
    """Kind of answer: free text, or `object` parsed from JSON."""
    text: str | None = None
    """The text; None for `json`."""
    object: Any = None
    """The parsed object; None for `text`."""
    in_token: int | None = None
    out_token: int | None = None
    model: str | None = None
    quotes: tuple[Quote, ...] = ()
    """Passages behind the markers of the text, in order of first use."""
    score: float | None = None
    """How well the best quote answers, 0 to 1; None for language models."""
    shortfall: Shortfall | None = None
    """Why there is no answer; None when there is one, and for language models."""
    language_model: bool | None = None
    """False when no language model was used; None when unknown."""
    revision: str = ""
    """Digest or version of the model's weights; empty when unknown."""
    template: str = ""
    """Template and its version, e.g. `document-prompt@1`; empty when none was used."""
    cost: float | None = None
    """What it cost by the price list of the service; None when that is not known."""
    currency: str = ""
    """Currency of the price list."""
    thinking: str = ""
    """What the model thought aloud, where the server sends that apart from the text."""
    cut: str = ""
    """Why the text may not be whole, a clause; empty for a whole one."""
    refused: str = ""
    """Why the model or its server declined to answer, a sentence; empty when it did not."""
    not_taken: tuple[str, ...] = ()
    """Parameters of the request that the server refuses; the text was written without them."""


_Seed = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
_Texts = Annotated[list[str], msgspec.Meta(max_length=16)]
_Penalty = Annotated[float, msgspec.Meta(ge=-2, le=2)]


class Sampling(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """Parameters of a language model beside temperature and most tokens, in the words of OpenAI's API.

    None leaves one to the writer. A server that refuses one by name is asked without it.
    """

    seed: Annotated[
        _Seed | None,
        msgspec.Meta(description="Equal seeds give equal texts, where the server can do that."),
    ] = None
    top_p: Annotated[
        _Share | None,
        msgspec.Meta(description="Share of the probability of the words chosen from."),
    ] = None
    stop: Annotated[
        str | _Texts | None,
        msgspec.Meta(description="Text, or texts, before which the answer ends."),
    ] = None
    presence_penalty: Annotated[
        _Penalty | None,
        msgspec.Meta(description="Above 0, words that were written become less likely."),
    ] = None
    frequency_penalty: Annotated[
        _Penalty | None, msgspec.Meta(description="The same for each time that a word was written.")
    ] = None
    reasoning_effort: Annotated[
        str | None, msgspec.Meta(description="How long a model thinks, such as `low`.")
    ] = None


class PromptRequest(Message, frozen=True, kw_only=True):
    """Ask a writer to fill a template."""

    TYPE: ClassVar[str] = "prompt-request.v1"

    template_id: str
    """`extract-concepts` (variable `query`), `complete-question` (`query`, as `documents` the earlier
    questions, oldest first, and as `previous` the last answer), `search-again` (`query`, `documents`, and as
    `searched` former queries) or `document-prompt` (`query`, `documents`, and
    as `outdated` the numbers, from 1, of those that are out of date, as `preformatted` the numbers of those
    whose line ends are those of code, as `sections` the headings above each, as
    `sources` their ids, versions and dates, as `leads` what stands above them, such as the header of their
    table)."""
    variables: dict[str, Any] = {}
    """Values for the template, JSON types only."""
    streaming: bool = False
    """True for pieces as they are written, the whole result in the last reply; False for one reply."""


class PromptResponse(Message, frozen=True, kw_only=True):
    """One piece of the text, or at the end the whole result."""

    TYPE: ClassVar[str] = "prompt-response.v1"

    piece: str = ""
    """Text since the last reply; empty in the last one."""
    result: PromptResult | None = None
    """The whole result, in the last reply only."""
