"""The prompt service: a template and its variables in, text out, in pieces or whole."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import msgspec

from whence.answering.prompts import DOCUMENT_PROMPT, TEMPLATES, write_request
from whence.processors.base import PROMPT, Context, StreamingProcessor, closing
from whence.schema.errors import BadInput, InternalError
from whence.schema.prompt import PromptRequest, PromptResponse, PromptResult

if TYPE_CHECKING:
    from whence.models.protocols import Writer


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
    needs = ("writer",)

    parameters: PromptParameters

    def __init__(self, parameters: PromptParameters | None = None, *, writer: Writer) -> None:
        super().__init__(parameters)
        self._writer = writer

    async def handle_stream(
        self, message: PromptRequest, context: Context
    ) -> AsyncIterator[PromptResponse]:
        """Yield pieces when asked for them, then the whole result."""
        writer = self._writer
        template = TEMPLATES.get(message.template_id)
        if template is None:
            raise BadInput(
                f"there is no prompt template {message.template_id!r}",
                hint="one of " + ", ".join(TEMPLATES),
            )
        request = write_request(template, message.variables)
        size = sum(map(len, (request.query, *request.documents, *request.sections)))
        if size > self.parameters.max_chars:
            raise BadInput(
                f"a prompt of {size} characters; at most {self.parameters.max_chars} are taken",
                hint="ask for fewer documents, or raise `max_chars` of the prompt processor",
            )
        if template.template_id != DOCUMENT_PROMPT and not writer.is_language_model:
            same = PromptResult(text=request.query, model=writer.model, language_model=False)
            yield PromptResponse(result=same)
            return
        result: PromptResult | None = None
        async with closing(writer.write(request)) as pieces:
            async for piece in pieces:
                result = piece.result or result
                if message.streaming and piece.text:
                    yield PromptResponse(piece=piece.text)
        if result is None:
            raise InternalError(f"writer {writer.model} ended without a result")
        known = result.language_model
        signed = msgspec.structs.replace(
            result,
            model=result.model or writer.model,
            revision=result.revision or getattr(writer, "revision", ""),
            language_model=writer.is_language_model if known is None else known,
            template=f"{template.template_id}@{template.version}",
        )
        yield PromptResponse(result=signed)
