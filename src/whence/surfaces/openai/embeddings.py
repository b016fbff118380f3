"""Vectors in the form of OpenAI's API."""

from __future__ import annotations

import base64
from typing import Any, Final

from whence.schema.embedding import EmbeddingResponse
from whence.surfaces.openai.bodies import EmbeddingsBody
from whence.surfaces.openai.faults import BadParameter

#: Texts of one request at most, as in that API.
_MOST_TEXTS: Final = 2048
_FORMATS: Final = ("float", "base64")


def texts_of(body: EmbeddingsBody) -> list[str]:
    """Return the texts of a request, after checking its other fields.

    Raises:
        BadInput: A field is out of range, or the input is not text.
    """
    if body.encoding_format not in _FORMATS:
        raise BadParameter(
            "encoding_format",
            f"unknown encoding_format {body.encoding_format!r}",
            "float or base64",
        )
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not isinstance(texts, list) or not texts:
        raise BadParameter("input", "the input is neither a text nor a list of texts")
    if len(texts) > _MOST_TEXTS:
        raise BadParameter("input", f"{len(texts)} texts; at most {_MOST_TEXTS} are taken")
    for text in texts:
        if isinstance(text, int | list):
            raise BadParameter(
                "input",
                "the input has numbers of tokens, which mean other words here",
                "send texts",
            )
        if not isinstance(text, str) or not text.strip():
            raise BadParameter("input", "the input has a blank text, or one that is no text")
    return texts


def embeddings_document(
    body: EmbeddingsBody, found: EmbeddingResponse, counts: list[int] | None, most: int
) -> dict[str, Any]:
    """Return the vectors.

    Args:
        body: The request.
        found: The vectors and their model.
        counts: Tokens of each text; None when they are not known.
        most: Tokens that the model reads of a text.
    """
    import numpy as np

    rows = np.frombuffer(found.vectors, dtype="<f4").reshape(-1, found.model.dimension)
    total = None if counts is None else sum(min(one, most) for one in counts)
    cut = [place for place, one in enumerate(counts or ()) if one > most]
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": place,
                "embedding": base64.b64encode(row.tobytes()).decode()
                if body.encoding_format == "base64"
                else row.tolist(),
            }
            for place, row in enumerate(rows)
        ],
        "model": found.model.name,
        "usage": None if total is None else {"prompt_tokens": total, "total_tokens": total},
        "whence": {"max_tokens": most, "truncated": cut},
    }
