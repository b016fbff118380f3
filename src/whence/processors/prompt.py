"""The prompt service: a template and its variables in, text out, in pieces or whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from whence.answering.prompting import Prompting
from whence.answering.prompts import (
    DOCUMENT_PROMPT,
    EXTRACT_CONCEPTS,
    SEARCH_AGAIN,
    WRITER_LOCAL_ONLY,
    WRITER_WINDOW,
    write_request,
)
from whence.processors.base import PROMPT, Context, StreamingProcessor, closing
from whence.schema.errors import BadInput, InternalError
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult

if TYPE_CHECKING:
    from whence.models.protocols import Writer, WriteRequest


#: Templates that are filled with passages: only the writer gets them, whose place is known.
_READS_PASSAGES = frozenset({DOCUMENT_PROMPT, SEARCH_AGAIN})


class PromptParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of the prompt processor."""

    max_chars: Annotated[int, msgspec.Meta(ge=1)] = 4_000_000
    """Most characters of question and documents in one request; a larger one is refused."""


class PromptProcessor(StreamingProcessor):
    """Fills a template and has a writer answer it.

    Without a language model the only concept of a question is the question itself, which is not completed.
    """

    type_name = "prompt"
    summary = "a template and its variables to text"
    serves = PROMPT
    Parameters = PromptParameters
    needs = ("writer", "prompting")

    parameters: PromptParameters

    def __init__(
        self,
        parameters: PromptParameters | None = None,
        *,
        writer: Writer,
        prompting: Prompting = Prompting(),  # noqa: B008 - immutable
    ) -> None:
        super().__init__(parameters)
        self._writer = writer
        self._prompting = prompting

    async def handle_stream(
        self, message: PromptRequest, context: Context
    ) -> AsyncIterator[PromptResponse]:
        """Yield pieces when asked for them, then the whole result."""
        prompting = self._prompting
        if message.template_id in (WRITER_WINDOW, WRITER_LOCAL_ONLY):
            asks_window = message.template_id == WRITER_WINDOW
            yield PromptResponse(result=await self._window() if asks_window else self._local_only())
            return
        template = prompting.templates.get(message.template_id)
        if template is None:
            raise BadInput(
                f"there is no prompt template {message.template_id!r}",
                hint="one of " + ", ".join(prompting.templates),
            )
        writer, message = self._prepared(message)
        request = write_request(template, message.variables)
        size = sum(map(len, (request.query, *request.documents, *request.sections)))
        if size > self.parameters.max_chars:
            raise BadInput(
                f"a prompt of {size} characters; at most {self.parameters.max_chars} are taken",
                hint="ask for fewer documents, or raise `max_chars` of the prompt processor",
            )
        if (simple := self._without_model(request)) is not None:
            yield PromptResponse(result=simple)
            return
        result: PromptResult | None = None
        async with closing(writer.write(request)) as pieces:
            async for piece in pieces:
                result = piece.result or result
                if message.streaming and piece.text:
                    yield PromptResponse(piece=piece.text)
        if result is None:
            raise InternalError(f"writer {writer.model} ended without a result")
        known, model = result.language_model, result.model or writer.model
        signed = msgspec.structs.replace(
            result,
            model=model,
            cost=prompting.prices.cost(model, result.in_token, result.out_token),
            currency=prompting.prices.currency,
            revision=result.revision or getattr(writer, "revision", ""),
            language_model=writer.is_language_model if known is None else known,
            template=f"{template.template_id}@{template.version}",
        )
        yield PromptResponse(result=signed)

    def _prepared(self, message: PromptRequest) -> tuple[Writer, PromptRequest]:
        """Return the model that is asked, and the request with what the service adds to it or leaves out."""
        prompting, variables = self._prompting, message.variables
        if message.template_id not in _READS_PASSAGES:
            writer = prompting.rewriter or self._writer
            if prompting.local_only and _leaves(writer):
                # The last answer may stand on documents that must not be sent there.
                variables = {**variables, "previous": ""}
            return writer, msgspec.structs.replace(message, variables=variables)
        if message.template_id == DOCUMENT_PROMPT and (
            prompting.language or prompting.instructions
        ):
            own = {"language": prompting.language, "instructions": prompting.instructions}
            message = msgspec.structs.replace(message, variables=_joined(own, variables))
        return self._writer, message

    async def _window(self) -> PromptResult:
        """Return how many tokens the writer's model reads, as far as it says it."""
        ask = getattr(self._writer, "window", None)
        return PromptResult(response_type="json", object=await ask() if ask is not None else None)

    def _local_only(self) -> PromptResult:
        """Return the tags whose documents must not be sent to the writer."""
        writer = self._writer
        tags = sorted(self._prompting.local_only) if _leaves(writer) else []
        return PromptResult(response_type="json", object=tags, model=writer.model)

    def _without_model(self, request: WriteRequest) -> PromptResult | None:
        """Return the result of a request for which no model is asked; None for any other."""
        writer = self._writer
        if request.template_id == DOCUMENT_PROMPT:
            return None
        if not writer.is_language_model:
            return PromptResult(text=request.query, model=writer.model, language_model=False)
        if request.template_id == EXTRACT_CONCEPTS and self._prompting.concepts != "on":
            return PromptResult(text="", language_model=True)
        return None


def _leaves(writer: Writer) -> bool:
    """Return whether what a writer is sent leaves this machine; a plug-in may be anywhere."""
    return writer.is_language_model and bool(getattr(writer, "is_remote", True))


def _joined(own: dict[str, str], variables: dict[str, Any]) -> dict[str, Any]:
    """Return the variables of a request with the service's own wishes; those of the request go first."""
    asked = str(variables.get("instructions") or "")
    both = " ".join(filter(None, (own["instructions"], asked)))
    return {**own, **variables, "instructions": both}
