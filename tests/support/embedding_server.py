"""An embedding model for tests that reads a limited number of tokens, on servers that say so or not."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Literal

from tests.support.model_server import Answer, ok

Kind = Literal["cuts", "cuts, no count", "counts before", "refuses", "tei", "vllm", "constant"]
_DIMENSION = 64


class EmbeddingModel:
    """A bag of words over the first tokens; every word and mark is a token, and two are special.

    Args:
        limit: Tokens that it reads.
        kind: How its server treats a longer text, and what it says of its limit.
    """

    def __init__(self, limit: int, kind: Kind = "cuts") -> None:
        self.limit, self.kind = limit, kind
        self.read: set[str] = set()
        """Every token that it ever read."""

    def __call__(self, path: str, body: dict[str, Any]) -> Answer:
        """Answer a request."""
        if path == "/info" and self.kind == "tei":
            return ok({"max_input_length": self.limit, "max_client_batch_size": 3})
        if path == "/v1/models" and self.kind == "vllm":
            return ok({"data": [{"id": "m", "max_model_len": self.limit}]})
        if path != "/v1/embeddings":
            return 501, {}, b"<html>unsupported method</html>"
        tokens = [re.findall(r"\w+|[^\w\s]", text) for text in body["input"]]
        most = self.limit - 2
        if self.kind in ("refuses", "vllm") and any(len(one) > most for one in tokens):
            message = f"This model's maximum context length is {self.limit} tokens."
            return 400, {}, json.dumps({"error": {"message": message}}).encode()
        if self.kind == "tei" and len(tokens) > 3:
            return 422, {}, b'{"error": "batch size > maximum allowed batch size 3"}'
        kept = [one[:most] for one in tokens]
        self.read.update(*kept)
        counted = tokens if self.kind == "counts before" else kept
        usage = {"prompt_tokens": sum(len(one) + 2 for one in counted)}
        data = [{"index": place, "embedding": self._vector(one)} for place, one in enumerate(kept)]
        return ok({"data": data} | ({} if self.kind == "cuts, no count" else {"usage": usage}))

    def _vector(self, tokens: list[str]) -> list[float]:
        vector = [0.0] * _DIMENSION
        vector[0] = 0.01
        for token in tokens if self.kind != "constant" else ():
            vector[hashlib.sha256(token.encode()).digest()[0] % _DIMENSION] += 1.0
        return vector
