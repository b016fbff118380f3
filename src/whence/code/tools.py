"""Tools of the Model Context Protocol for code, which the entry-point group `whence.tools` names."""

from __future__ import annotations

from typing import Any

from whence.code.operations import Expand
from whence.operations.json_documents import expand_document
from whence.surfaces.http.auth import Caller
from whence.surfaces.http.service import Service
from whence.surfaces.mcp.offer import Tool


async def _expand(service: Service, caller: Caller, asked: Expand, _: object) -> dict[str, Any]:
    return expand_document(await service.run(caller, asked))


EXPAND = Tool("expand", "Dependencies of code", Expand, _expand)
