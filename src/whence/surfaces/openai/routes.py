"""Routes of OpenAI's API.

| Path | Response |
|---|---|
| `POST /v1/chat/completions` | an answer; as chunks with `"stream": true` |
| `GET /v1/models`, `GET /v1/models/{id}` | the collections that the caller may see |
| `POST /v1/embeddings` | vectors |
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from whence.operations.ask import Ask
from whence.schema.access import Access
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.events import EVENT_STREAM, STREAM_HEADERS, OnStage, OnText, stream_events
from whence.surfaces.http.failures import JsonResponse
from whence.surfaces.http.requests import parse_body, read_json
from whence.surfaces.http.service import Service
from whence.surfaces.openai.bodies import ChatBody, EmbeddingsBody
from whence.surfaces.openai.completions import ChatChunks, Completion
from whence.surfaces.openai.embeddings import embeddings_document, texts_of
from whence.surfaces.openai.faults import BadParameter, ModelNotFound


class OpenAiRoutes:
    """The handlers of these paths.

    Args:
        service: Does the work.
        caller: Returns the caller of a request.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        service: Service,
        caller: Callable[[Request], Awaitable[Caller]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._service = service
        self._caller = caller
        self._clock = clock

    def routes(self) -> list[Route]:
        """Return the routing table."""
        return [
            Route("/v1/chat/completions", self.chat, methods=["POST"]),
            Route("/v1/models", self.models),
            Route("/v1/models/{model}", self.model),
            Route("/v1/embeddings", self.embeddings, methods=["POST"]),
        ]

    async def chat(self, request: Request) -> Response:
        """Answer the last question of a conversation."""
        caller = await self._caller(request)
        given = await read_json(request)
        body = parse_body(given, ChatBody)
        asked = body.asked(caller)
        await self._find(body.model, asked.access)
        address = request.app.state.public_url or f"{request.url.scheme}://{request.url.netloc}"
        completion = Completion(
            body.model, int(self._clock()), address, body.notes(given), body.to_writers
        )
        if not body.stream:
            answer = await self._service.ask(caller, asked)
            return JsonResponse(completion.document(answer, await self._usage(body, asked, answer)))

        async def question(on_text: OnText, on_stage: OnStage) -> dict[str, Any]:
            answer = await self._service.ask(caller, asked, on_text=on_text, on_stage=on_stage)
            return answer | {"usage": await self._usage(body, asked, answer)}

        # Once chunks are sent the status cannot say that there are too many requests.
        self._service.check_ask(caller, asked)
        chunks = ChatChunks(completion, include_usage=body.includes_usage)
        stream = stream_events(question, chunks)
        return StreamingResponse(stream, media_type=EVENT_STREAM, headers=STREAM_HEADERS)

    async def models(self, request: Request) -> Response:
        """List the collections that the caller may see."""
        caller = await self._caller(request)
        names = await self._service.collections(caller.access_for(None))
        return JsonResponse({"object": "list", "data": [_model(one.name) for one in names]})

    async def model(self, request: Request) -> Response:
        """Return one collection."""
        caller = await self._caller(request)
        name = request.path_params["model"]
        await self._find(name, caller.access_for(None))
        return JsonResponse(_model(name))

    async def embeddings(self, request: Request) -> Response:
        """Return vectors of texts."""
        caller = await self._caller(request)
        body = parse_body(await read_json(request), EmbeddingsBody)
        texts = texts_of(body)
        model = await self._service.embedding_model()
        if body.model != model.name:
            found = await self._service.collections(caller.access_for(None), body.model)
            if not found:
                raise _missing(body.model)
            if found[0].model != model:
                hint = f"the server's own is {model.name}"
                text = (
                    f"the collection {body.model!r} was made with the model {found[0].model.name}"
                )
                raise BadParameter("model", text, hint)
        if body.dimensions not in (None, model.dimension):
            text = (
                f"dimensions is {body.dimensions}; vectors of {model.name} have {model.dimension}"
            )
            raise BadParameter("dimensions", text, "leave dimensions out")
        vectors, counts, most = await self._service.embed(caller, texts, body.input_type)
        return JsonResponse(embeddings_document(body, vectors, counts, most))

    async def _find(self, model: str, access: Access) -> None:
        """Refuse a collection without documents that the reader may see."""
        if not await self._service.collections(access, model):
            raise _missing(model)

    async def _usage(
        self, body: ChatBody, asked: Ask, answer: dict[str, Any]
    ) -> dict[str, int] | None:
        """Return the tokens of models where they are known, else those of the questions and the answer.

        The latter are counted with the embedding model's tokenizer; None where that is an estimate.
        """
        read, written = answer["in_token"], answer["out_token"]
        if read is None or written is None:
            counts = await self._service.count_tokens(
                [*asked.history, asked.question, answer["answer"]]
            )
            if counts is None:
                return None
            read, written = sum(counts[:-1]), counts[-1]
        return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}


def _missing(name: str) -> ModelNotFound:
    return ModelNotFound(
        f"the model {name!r} does not exist or you do not have access to it",
        hint="GET /v1/models lists the models, which are collections",
    )


def _model(name: str) -> dict[str, Any]:
    # The time at which a collection was made is not for readers.
    return {"id": name, "object": "model", "created": 0, "owned_by": "whence"}
