"""Requests of OpenAI's API. Fields without effect are named in notes; those of `whence` are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec

from whence.operations.ask import MOST_PREVIOUS, Ask
from whence.schema.embedding import Purpose
from whence.schema.prompt import Sampling
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
#: Parameters that would change what an answer is: the values that do not, and what is said of others.
_REFUSED: Final[dict[str, tuple[tuple[Any, ...], str]]] = {
    "n": ((1,), "there is one answer"),
    "response_format": (("text",), "an answer is text with markers of its sources"),
    "tool_choice": (("auto", "none"), "answers come from documents, not from tools"),
    "function_call": (("auto", "none"), "answers come from documents, not from functions"),
    "modalities": ((["text"],), "an answer is text"),
}
#: Fields that say nothing of the answer.
_OF_THE_ACCOUNT: Final = frozenset(
    ("user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
     "prompt_cache_retention", "parallel_tool_calls")
)  # fmt: skip
#: Roles of messages that say how to answer.
_SYSTEM: Final = ("system", "developer")
#: Characters of such messages that are read.
_MOST_INSTRUCTIONS: Final = 8000
#: Characters of a value in an error, and names in a note.
_MOST_SHOWN: Final = 60
_MOST_NAMED: Final = 20
_Count = Annotated[int, msgspec.Meta(ge=1)]
_READ_ROLES: Final = frozenset((*_SYSTEM, "user", "assistant"))
_OTHER_PARTS: Final = "parts of messages other than text are ignored"
_OTHER_ROLES: Final = (
    "messages of roles other than system, developer, user and assistant are ignored"
)


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


class ChatBody(Sampling, frozen=True, kw_only=True, forbid_unknown_fields=False):
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
    response_format: Annotated[Any, msgspec.Meta(description="Type `text`.")] = None
    modalities: Annotated[Any, msgspec.Meta(description="`text`.")] = None
    tools: Annotated[Any, msgspec.Meta(description="Ignored, with a note.")] = None
    tool_choice: Annotated[Any, msgspec.Meta(description="`auto` or `none`.")] = None
    functions: Annotated[Any, msgspec.Meta(description="Ignored, with a note.")] = None
    function_call: Annotated[Any, msgspec.Meta(description="`auto` or `none`.")] = None
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
            BadInput: There is no question, a parameter wants another kind of answer, or a field of `whence`
                is wrong.
        """
        self._check_kind()
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

    def _check_kind(self) -> None:
        """Refuse parameters that want another kind of answer."""
        for name, (allowed, reason) in _REFUSED.items():
            value = getattr(self, name)
            if name == "response_format" and isinstance(value, dict):
                value = value.get("type")
            if value is not None and value not in allowed:
                said = f"{name} is {json.dumps(value)[:_MOST_SHOWN]}, and {reason}"
                raise BadParameter(name, said, f"leave {name} out")

    @property
    def to_writers(self) -> list[str]:
        """Names of the fields that are for a language model."""
        names = ("max_tokens", "max_completion_tokens", "temperature", *Sampling.__struct_fields__)
        said = [name for name in names if getattr(self, name) is not None]
        return said + [_SYSTEM[0]] * any(one.role in _SYSTEM and one.text for one in self.messages)

    def _of_writers(self) -> dict[str, Any]:
        """Return what the caller asks of the language model; system messages are instructions."""
        said = "\n".join(one.text for one in self.messages if one.role in _SYSTEM and one.text)
        given = {
            "answer_instructions": said[:_MOST_INSTRUCTIONS] or None,
            "writer_max_tokens": self.max_completion_tokens or self.max_tokens,
            "writer_temperature": self.temperature,
            "writer_sampling": {
                name: one
                for name in Sampling.__struct_fields__
                if (one := getattr(self, name)) is not None
            }
            or None,
        }
        return {name: value for name, value in given.items() if value is not None}

    def notes(self, given: Mapping[str, Any]) -> list[str]:
        """Return what was ignored of the fields of a request."""
        read = {*self.__struct_fields__, *_OF_THE_ACCOUNT} - {"tools", "functions"}
        # False, zero and the empty ones ask for nothing.
        ignored = [name[:_MOST_SHOWN] for name, one in given.items() if one and name not in read]
        notes = []
        if ignored:
            more = ", ..." if len(ignored) > _MOST_NAMED else ""
            notes.append(f"ignored: {', '.join(ignored[:_MOST_NAMED])}{more}")
        if any(one.role not in _READ_ROLES for one in self.messages):
            notes.append(_OTHER_ROLES)
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
