"""Requests of OpenAI's API. Unknown fields are ignored; only those of `whence` are checked."""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from whence.operations.ask import MOST_PREVIOUS, Ask
from whence.schema.embedding import Purpose
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.bodies import read_operation
from whence.surfaces.openai.faults import BadParameter

#: Fields of `/v1/ask` that a conversation states otherwise.
_OF_THE_CONVERSATION: Final = (
    "question",
    "collection",
    "history",
    "previous_answer",
    "follow",
)
#: Fields without effect that a caller may rely on, and what is said of them.
_WITHOUT_EFFECT: Final = {
    "tools": "tools are ignored: answers come from the documents of the collection",
    "functions": "functions are ignored: answers come from the documents of the collection",
    "response_format": "response_format is ignored: answers are text with markers",
}
#: Roles of messages that say how to answer.
_SYSTEM: Final = ("system", "developer")
#: Characters of such messages that are read.
_MOST_INSTRUCTIONS: Final = 8000
_Count = Annotated[int, msgspec.Meta(ge=1)]
_OTHER_PARTS: Final = "parts of messages other than text are ignored"


class ChatMessage(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: str | list[Any] | None = None
    """Text, or parts of which those of type `text` are read."""

    @property
    def parts(self) -> list[Any]:
        """The content as a list of parts."""
        return self.content if isinstance(self.content, list) else []

    @property
    def text(self) -> str:
        """The text of all parts."""
        if isinstance(self.content, str):
            return self.content.strip()
        texts = (one.get("text") for one in self.parts if _is_text(one))
        return "\n".join(one for one in texts if isinstance(one, str)).strip()


class StreamOptions(msgspec.Struct, frozen=True):
    """How chunks are sent."""

    include_usage: bool | None = None
    """Whether a chunk before the last has the numbers of tokens."""


class ChatBody(msgspec.Struct, frozen=True, kw_only=True):
    """Answer the last question of a conversation from documents, with citations."""

    model: Annotated[str, msgspec.Meta(description="Name of the collection to answer from.")]
    messages: Annotated[
        list[ChatMessage],
        msgspec.Meta(
            description="The conversation. The last message of the user is the question; earlier ones complete it."
        ),
    ]
    stream: Annotated[
        bool | None,
        msgspec.Meta(description="Whether chunks are sent while the answer is written."),
    ] = None
    stream_options: Annotated[
        StreamOptions | None, msgspec.Meta(description="`include_usage`: tokens in a last chunk.")
    ] = None
    max_tokens: Annotated[_Count | None, msgspec.Meta(description="Most tokens of the answer.")] = (
        None
    )
    max_completion_tokens: Annotated[
        _Count | None, msgspec.Meta(description="The newer name of `max_tokens`.")
    ] = None
    temperature: Annotated[
        Annotated[float, msgspec.Meta(ge=0, le=2)] | None,
        msgspec.Meta(description="Temperature of the language model."),
    ] = None
    n: Annotated[Any, msgspec.Meta(description="Number of answers: 1.")] = None
    tools: Annotated[Any, msgspec.Meta(description="Ignored, with a note.")] = None
    functions: Annotated[Any, msgspec.Meta(description="Ignored, with a note.")] = None
    response_format: Annotated[Any, msgspec.Meta(description="Ignored, with a note.")] = None
    whence: Annotated[
        dict[str, Any] | None,
        msgspec.Meta(
            description="Fields of `/v1/ask` but for question, collection and those of the conversation, such as access and filters."
        ),
    ] = None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the numbers of tokens."""
        return bool(self.stream_options and self.stream_options.include_usage)

    def asked(self, caller: Caller) -> Ask:
        """Return the question, with the rights of its caller.

        Raises:
            BadInput: There is no question, several answers are wanted, or a field of `whence` is wrong.
        """
        if self.n not in (None, 1):
            raise BadParameter("n", f"n is {self.n!r}, and there is one answer", "leave n out")
        questions = [one.text for one in self.messages if one.role == "user" and one.text]
        if not questions:
            hint = "the last message of role `user` is the question"
            raise BadParameter("messages", "the conversation has no question", hint)
        own = dict(self.whence or {})
        for name in _OF_THE_CONVERSATION:
            if name in own:
                raise BadParameter("whence", f"whence.{name} is stated by the conversation")
        given: dict[str, Any] = {"question": questions[-1], "collection": self.model}
        given |= {"history": questions[:-1], "previous_answer": self._previous_answer()}
        given |= self._of_writers()
        return read_operation(own | given, Ask, caller, self.model)

    def _previous_answer(self) -> str:
        """Return the text of the last answer in the conversation."""
        answers = [one.text for one in self.messages if one.role == "assistant" and one.text]
        return answers[-1][:MOST_PREVIOUS] if answers else ""

    def _of_writers(self) -> dict[str, Any]:
        """Return what the caller asks of the language model; system messages are instructions."""
        said = "\n".join(one.text for one in self.messages if one.role in _SYSTEM and one.text)
        given = {
            "answer_instructions": said[:_MOST_INSTRUCTIONS] or None,
            "writer_max_tokens": self.max_completion_tokens or self.max_tokens,
            "writer_temperature": self.temperature,
        }
        return {name: value for name, value in given.items() if value is not None}

    def notes(self) -> list[str]:
        """Return what was ignored that the caller may rely on."""
        notes = [text for name, text in _WITHOUT_EFFECT.items() if getattr(self, name)]
        if any(not _is_text(part) for one in self.messages for part in one.parts):
            notes.append(_OTHER_PARTS)
        return notes


class EmbeddingsBody(msgspec.Struct, frozen=True, kw_only=True):
    """Turn texts into vectors."""

    model: Annotated[
        str,
        msgspec.Meta(
            description="The server's embedding model, or a collection that was made with it."
        ),
    ]
    input: Annotated[Any, msgspec.Meta(description="A text or a list of texts.")]
    encoding_format: Annotated[str, msgspec.Meta(description="float, or base64 of float32.")] = (
        "float"
    )
    dimensions: Annotated[
        int | None, msgspec.Meta(description="Length of the vectors; only that of the model.")
    ] = None
    input_type: Annotated[
        Purpose, msgspec.Meta(description="document, or query for texts that search.")
    ] = "document"


def _is_text(part: Any) -> bool:
    return isinstance(part, dict) and part.get("type", "text") == "text"
