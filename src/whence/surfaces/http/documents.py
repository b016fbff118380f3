"""Collections and documents over HTTP.

| Path | Response |
|---|---|
| `GET /v1/collections` | the collections with documents that the caller may see |
| `GET /v1/collections/{collection}/documents` | its documents: `?limit=&after=&state=&order=newest` |
| `GET /v1/collections/{collection}/stale` | the documents that most answers stand on: `?since=30d`, `?limit=` |
| `POST /v1/collections/{collection}/documents` | store files of a form: the document of `whence index --json` |
| `GET /v1/collections/{collection}/documents/{id}` | a document: as `whence show --json`, with its `media` |
| `GET /v1/collections/{collection}/documents/{id}/answers` | the recorded answers that cite it |
| `POST /v1/collections/{collection}/documents/{id}/again` | read its file again, as `index --json` |
| `DELETE /v1/collections/{collection}/documents/{id}` | remove a document |

Storing and removing require a token that may write. Its holder stores documents that it may see itself, and
replaces and removes only such documents.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path, PurePosixPath
from typing import Any, Final

from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from whence.operations.citation_source import media_of
from whence.operations.documents import ListDocuments, Remove, Show
from whence.operations.history import ListCitingAnswers
from whence.operations.index import StoreFiles
from whence.operations.json_documents import document_json
from whence.operations.reading_again import ReadAgain
from whence.operations.stale import ListStale
from whence.schema.access import Access, DocumentTags
from whence.schema.errors import BadInput, NotFound
from whence.surfaces.http.auth import Caller, Forbidden
from whence.surfaces.http.failures import JsonResponse, error_document
from whence.surfaces.http.requests import access_of, clearance_of, limit_of
from whence.surfaces.http.service import Service

#: Files of one request at most, and bytes of a field that is no file.
_MOST_FILES: Final = 100
_MOST_FIELD_BYTES: Final = 4096
_FIELDS: Final = ("file", "acl", "label", "clearance")
#: Time limit of storing files, in seconds.
_UPLOAD_S: Final = 900.0
#: Names that indexing passes over, as those that begin with a dot.
_IGNORED: Final = ("node_modules", "__pycache__")
_ANSWERS: Final = "/answers"
_DOCUMENTS: Final = "/v1/collections/{collection}/documents"


class DocumentRoutes:
    """The handlers of these paths.

    Args:
        service: Does the work.
        caller: Returns the caller of a request.
    """

    def __init__(self, service: Service, caller: Callable[[Request], Awaitable[Caller]]) -> None:
        self._service = service
        self._caller = caller

    def routes(self) -> list[Route]:
        """Return the routing table."""
        one = f"{_DOCUMENTS}/{{document_id:path}}"
        return [
            Route("/v1/collections", self.collections),
            Route(_DOCUMENTS, self.documents),
            Route("/v1/collections/{collection}/stale", self.stale),
            Route(_DOCUMENTS, self.store, methods=["POST"]),
            Route(one, self.show),
            Route(one, self.remove, methods=["DELETE"]),
            Route(f"{one}/again", self.read_again, methods=["POST"]),
        ]

    async def collections(self, request: Request) -> Response:
        """List the collections."""
        caller = await self._caller(request)
        found = await self._service.collections(caller.access_for(access_of(request)))
        rows = [
            {"name": one.name, "documents": one.documents, "model": one.model.name} for one in found
        ]
        return JsonResponse({"collections": rows})

    async def documents(self, request: Request) -> Response:
        """List a page of documents."""
        caller = await self._caller(request)
        access = caller.access_for(access_of(request))
        collection = await self._find(request, access)
        limit, after = limit_of(request, 100), request.query_params.get("after", "")
        # One more tells whether there is a next page.
        state: Any = request.query_params.get("state") or None
        order: Any = request.query_params.get("order", "key")
        asked = ListDocuments(access, collection, limit + 1, after, state, order=order)
        rows = await self._service.run(caller, asked)
        more = rows[limit - 1].key if len(rows) > limit else None
        return JsonResponse({"collection": collection, "documents": rows[:limit], "next": more})

    async def stale(self, request: Request) -> Response:
        """List the documents on which most answers of the last days stand."""
        caller = await self._caller(request)
        access = caller.access_for(access_of(request))
        collection = await self._find(request, access)
        since = request.query_params.get("since", "30d")
        asked = ListStale(access, collection, since, limit_of(request, 20))
        rows = await self._service.run(caller, asked)
        return JsonResponse({"collection": collection, "since": since, "documents": rows})

    async def show(self, request: Request) -> Response:
        """Return a document with its text."""
        caller = await self._caller(request)
        access = caller.access_for(access_of(request))
        collection = await self._find(request, access)
        item = request.path_params["document_id"]
        try:
            found = await self._service.run(caller, Show(item, access, collection))
        except NotFound:
            # An id may end like this path.
            if not item.endswith(_ANSWERS):
                raise
            return await self._answers(caller, access, collection, item.removesuffix(_ANSWERS))
        media = media_of(found.source_file or found.document_id)
        return JsonResponse(document_json(found) | {"media": media})

    async def _answers(
        self, caller: Caller, access: Access, collection: str, document_id: str
    ) -> Response:
        asked = ListCitingAnswers(document_id, access, collection)
        answers = await self._service.run(caller, asked)
        return JsonResponse({"answers": answers, "count": len(answers)})

    async def remove(self, request: Request) -> Response:
        """Remove a document."""
        caller = await self._caller(request)
        caller.require_write()
        access = caller.access_for(access_of(request))
        collection = await self._find(request, access)
        document_id = request.path_params["document_id"]
        await self._service.run(caller, Remove(document_id, access, collection))
        return JsonResponse({"collection": collection, "document_id": document_id, "removed": True})

    async def read_again(self, request: Request) -> Response:
        """Read the file of a document again."""
        caller = await self._caller(request)
        caller.require_write()
        access = caller.access_for(access_of(request))
        collection = await self._find(request, access)
        asked = ReadAgain(request.path_params["document_id"], access, collection)
        return JsonResponse(await self._service.run(caller, asked, _UPLOAD_S))

    async def store(self, request: Request) -> Response:
        """Store the files of a form."""
        caller = await self._caller(request)
        caller.require_write()
        collection = request.path_params["collection"]
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            hint = "send the files as `multipart/form-data`, e.g. curl -F file=@notes.md"
            raise BadInput(f"a body of type {kind or 'unknown'!r} is not read", hint=hint)
        form = request.form(
            max_files=_MOST_FILES, max_fields=_MOST_FILES, max_part_size=_MOST_FIELD_BYTES
        )
        async with form as fields:
            tags = tags_for(caller, fields)
            files = files_of(fields)
            with tempfile.TemporaryDirectory(prefix="whence-upload-") as folder:
                await asyncio.to_thread(_write, Path(folder), files)
                writer = None if caller.speaks_for_others else caller.access
                rights = self._service.upload_rights
                stored = StoreFiles(writer, Path(folder), collection, tags, rights)
                report = await self._service.run(caller, stored, _UPLOAD_S)
        counts = report.documents
        document: dict[str, Any] = {
            name: getattr(report, name) for name in report.__struct_fields__
        }
        if counts.added or counts.updated or counts.unchanged:
            return JsonResponse(document, 201 if counts.added else 200)
        reasons = [f"{one.path}: {one.reason}" for one in report.failures] or list(report.skipped)
        refused = BadInput(
            f"no document was stored: {'; '.join(reasons) or 'the files have no text'}",
            hint="send text, pages, PDF, office files, sheets, mail, books or notebooks",
        )
        return JsonResponse(document | error_document(refused), 422)

    async def _find(self, request: Request, access: Access) -> str:
        """Return the name of the collection.

        Raises:
            NotFound: It has nothing that the reader may see, or does not exist.
        """
        name: str = request.path_params["collection"]
        if not await self._service.has_collection(access, name):
            raise NotFound(
                f"there is no collection {name!r}", hint="GET /v1/collections lists what there is"
            )
        return name


def tags_for(caller: Caller, fields: FormData) -> DocumentTags:
    """Return the tags of documents that a caller stores; those of a document itself narrow them further.

    Without `acl` the documents are for the readers of the caller's own tags.

    Raises:
        BadInput: A field is malformed.
        Forbidden: The caller lacks a tag, so it could not see what it stores.
    """
    given: dict[str, list[str]] = {}
    for name in ("acl", "label"):
        given[name] = [one for one in fields.getlist(name) if isinstance(one, str)]
    level = fields.get("clearance", "0")
    clearance = clearance_of(level if isinstance(level, str) else "")
    if caller.speaks_for_others:
        return DocumentTags(tuple(given["acl"]), tuple(given["label"]), clearance)
    own = caller.access
    lacking = [one for one in given["acl"] if one not in own.acl_tags]
    lacking += [one for one in given["label"] if one not in own.labels]
    if lacking or clearance > own.clearance:
        what = ", ".join(map(repr, lacking)) or f"clearance {clearance}"
        raise Forbidden(
            f"the token {caller.name!r} cannot store documents with {what}, which it may not see",
            hint="use tags, labels and a clearance of the token",
        )
    return DocumentTags(tuple(given["acl"] or own.acl_tags), tuple(given["label"]), clearance)


def files_of(fields: FormData) -> dict[PurePosixPath, UploadFile]:
    """Return the files of a form by their relative paths, which are the ids of their documents.

    Raises:
        BadInput: There is none, a field is unknown, or a name is no relative path or comes twice.
    """
    unknown = sorted(fields.keys() - set(_FIELDS))
    if unknown:
        raise BadInput(f"unknown field {unknown[0]!r}", hint=f"the fields are {', '.join(_FIELDS)}")
    files: dict[PurePosixPath, UploadFile] = {}
    for upload in fields.getlist("file"):
        if not isinstance(upload, UploadFile):
            raise BadInput("a field `file` has no file name", hint="curl -F file=@notes.md")
        path = _path_of(upload.filename or "")
        if path in files:
            raise BadInput(f"the file name {str(path)!r} comes twice")
        files[path] = upload
    if not files:
        raise BadInput("the form has no file", hint="name the field `file`")
    return files


def _path_of(name: str) -> PurePosixPath:
    parts = name.split("/")
    if not _are_safe(parts):
        raise BadInput(
            f"the file name {name!r} is no relative path of a document",
            hint="use names such as notes.md or guides/notes.md; none may begin with a dot",
        )
    return PurePosixPath(*parts)


def _are_safe(parts: Iterable[str]) -> bool:
    return all(
        part.strip()
        and part[0] != "."
        and part not in _IGNORED
        and not set(part) & {"\\", "\0"}
        and len(part.encode("utf-8", "replace")) <= 255
        for part in parts
    )


def _write(folder: Path, files: dict[PurePosixPath, UploadFile]) -> None:
    for path, upload in files.items():
        target = folder / path
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as stream:
                shutil.copyfileobj(upload.file, stream)
        except (FileExistsError, NotADirectoryError, UnicodeError) as error:
            raise BadInput(f"the file name {str(path)!r} is a folder or file already") from error
