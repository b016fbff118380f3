"""One run of indexing: paths in, a stored collection and an `IndexReport` out.

Documents are read in another process, chunked in a thread, and sent to the flow in batches while the next ones
are read.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from whence.ingest.load_results import (
    LoadedDocument,
    LoadFailure,
    LoadResult,
    ReadSource,
    Skipped,
    Unchanged,
)
from whence.ingest.sources import display_path
from whence.operations.results import (
    DocumentCounts,
    Estimate,
    FileReport,
    IndexReport,
    PathFailure,
)
from whence.schema.errors import InternalError
from whence.schema.ingest import DocumentDraft, IngestRequest
from whence.store.source_states import FileState, SourceFileState
from whence.text.languages import language_code, language_of_document

if TYPE_CHECKING:
    from whence.ingest.catalogue import Catalogue, SourcePlace
    from whence.ingest.chunking import Chunker
    from whence.ingest.documents import KnownSources
    from whence.ingest.folder_rights import FolderRights
    from whence.ingest.passwords import Passwords
    from whence.ingest.reader import DocumentReader
    from whence.ingest.selection import Selection
    from whence.models.protocols import Embedder
    from whence.operations.index import Index
    from whence.operations.session import Session
    from whence.schema.access import Access
    from whence.schema.embedding import EmbeddingModel
    from whence.store.protocols import ChunkStore, Store

#: Documents and bytes of one message. A word is counted once for all passages of a message, so that four times
#: as much text takes half of the server. With the largest document at its end it stays within the 5 MiB of a
#: broker.
_BATCH_DOCUMENTS = 512
_BATCH_BYTES = 900_000
#: Bytes of the first message, so that something can be searched soon.
_FIRST_BYTES = 20_000
#: Documents, changed or not, after which a batch is sent and progress is reported.
_BATCH_OUTCOMES = 512
#: Messages in flight: one is stored while the next is read and chunked.
_IN_FLIGHT = 2
#: States of a file, the worst last: of several documents it counts.
_ORDER = ("skipped", "unchanged", "read", "failed")
_GONE = "its file was not found by the last run"
#: Texts that an estimate embeds, and bytes of a chunk in the database where there is no other measure.
_SAMPLE = 16
_CHUNK_BYTES = 8_000
#: Why a document is not stored for a writer.
_UNSEEN = "its own access tags hide it from the one who stores it"
_TAKEN = "its id is not available"
#: Timeout of one batch, in seconds. Embedding the largest takes about a minute on one slow core.
_BATCH_TIMEOUT_S = 900.0


async def index_paths(
    session: Session,
    asked: Index,
    *,
    writer: Access | None = None,
    upload: bool = False,
    only: Selection | None = None,
) -> IndexReport:
    """Index files and folders.

    Args:
        session: Of the engine.
        asked: What is indexed, and how.
        writer: Rights of who stores: documents that these do not see are neither stored nor replaced.
        upload: Whether the paths are of a folder that is not kept.
        only: What is looked at of folders, and what may be gone; None for all.
    """
    from whence.ingest.documents import count_documents
    from whence.operations.mirrors import mirrored
    from whence.operations.source_roots import open_catalogue, own_store
    from whence.store.field_boosts import parse_field_boosts
    from whence.store.validation import check_name

    check_name(asked.collection)
    weights = None if asked.boosts is None else parse_field_boosts(asked.boosts)
    mirrors = await mirrored(session, asked.paths)
    wanted = [one.path for one in mirrors]
    loading = await _Loading.prepare(session, asked)
    catalogue = None
    if all(path.exists() for path in wanted):
        catalogue = await open_catalogue(
            session, asked.collection, wanted, asked.root, upload=upload, dry_run=asked.dry_run
        )
    store = await own_store(session)
    run = _IndexRun(session, asked, lambda: count_documents(wanted, asked.exclude))
    run.upload = upload
    if catalogue is not None:
        run.store, run.known_files = store, catalogue.files
        run.known_id = catalogue.known_id
    loading = await loading.with_chosen_encoder(session, run, wanted)
    known = None
    if writer is None:
        known = await _known_sources(session, asked, loading.embedder)
    else:
        run.guard = partial(_hidden_from, writer, await session.store(), asked.collection)
    with session.readers.reader() as reader:
        report = await run.run(loading.documents(wanted, catalogue, known, reader, only))
    run.note_unfetched([failure for one in mirrors for failure in one.failures])
    run.note_named([path for path in wanted if not path.is_dir()])
    if asked.dry_run:
        report.estimate = await loading.estimate(run.chunks, run.characters, store)
        return report
    if catalogue is not None and store is not None and not upload:
        await _compare(run, store, catalogue, wanted, only, prune=asked.prune)
    if weights is not None:
        await (await session.store()).boost_fields(asked.collection, weights)
    await run.make_vectors(session, asked)
    return report


class _Loading(NamedTuple):
    """How the documents of a run are read."""

    asked: Index
    embedder: Any
    chunker: Chunker
    rights: FolderRights | None
    passwords: Passwords | None

    @classmethod
    async def prepare(cls, session: Session, asked: Index) -> _Loading:
        from whence.ingest.chunking import Chunker
        from whence.ingest.folder_rights import read_folder_rights
        from whence.ingest.passwords import read_passwords
        from whence.operations.pending_vectors import collection_embedder

        rights = None if asked.rights is None else read_folder_rights(asked.rights)
        passwords = None if asked.passwords is None else read_passwords(asked.passwords)
        embedder = await collection_embedder(session, asked.collection)
        if hasattr(embedder, "prepare"):
            await embedder.prepare()
        chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
        return cls(asked, embedder, chunker, rights, passwords)

    async def with_chosen_encoder(
        self, session: Session, run: _IndexRun, paths: Sequence[Path]
    ) -> _Loading:
        """Return this with the encoder of a new collection, and tell the run which it is."""
        from whence.ingest.chunking import Chunker
        from whence.operations.encoder_choice import choose_encoder

        # A reader of its own: the choice reads a few documents of those that were sent to it.
        with session.readers.reader() as reader:
            chosen = await choose_encoder(
                session,
                self.asked.collection,
                lambda: self.documents(paths, None, None, reader, None),
            )
        found = self
        if chosen is not None:
            embedder = chosen.embedder
            chunker = Chunker(embedder.count_tokens, max_tokens=embedder.max_tokens)
            found = self._replace(embedder=embedder, chunker=chunker)
            run.model = embedder.model
            run.report.encoder, run.report.encoder_reason = embedder.model.name, chosen.reason
        run.served = getattr(getattr(found.embedder, "encoder", None), "languages", ())
        return found

    def documents(
        self,
        paths: Sequence[Path],
        catalogue: Catalogue | None,
        known: KnownSources | None,
        reader: DocumentReader,
        only: Selection | None,
    ) -> Iterator[LoadResult]:
        from whence.ingest.documents import load_documents

        return load_documents(
            paths,
            chunker=self.chunker,
            tags=self.asked.tags,
            known=known,
            reader=reader,
            catalogue=catalogue,
            exclude=self.asked.exclude,
            rights=self.rights,
            encoding=self.asked.encoding,
            only=only,
            passwords=self.passwords,
        )

    async def estimate(self, chunks: int, characters: int, store: Store | None) -> Estimate:
        """Return the time of embedding, measured with a sample, and the disk by what is stored already."""
        begun = time.monotonic()
        text = ("word " * (characters // (5 * chunks)))[:4000] if chunks else ""
        sample = [f"{number} {text}" for number in range(min(chunks, _SAMPLE))]
        if sample:
            await self.embedder.embed(sample)
        rate = (time.monotonic() - begun) / max(1, len(sample))
        each = _CHUNK_BYTES
        for one in await store.collections() if store else ():
            if one.name == self.asked.collection and one.chunks and one.bytes:
                each = one.bytes // one.chunks
        return Estimate(seconds=round(rate * chunks, 1), bytes=each * chunks)


async def _compare(
    run: _IndexRun,
    store: Store,
    catalogue: Catalogue,
    paths: Sequence[Path],
    only: Selection | None,
    *,
    prune: bool,
) -> None:
    """Compare what is stored of some paths with what was found, note what is gone, and remove it if wanted."""
    collection, report = run.report.collection, run.report
    places = [catalogue.place(os.fspath(path)) for path in paths]
    for root in {place.root for place in places}:
        adopted = [one for one in catalogue.unrooted if run.ids.get(one) == root]
        if adopted:
            await store.adopt_documents(collection, root, adopted)
    missing = {
        document_id: file
        for document_id, file in catalogue.documents.items()
        if document_id not in run.ids
        and _is_at(places, file, only)
        and not run.is_inside_unread(document_id)
    }
    if prune:
        kept = {one: run.protector(*file, one) for one, file in missing.items()}
        failed = [file for file in kept.values() if file and file[1]]
        report.kept = len(failed)
        report.kept_by = sorted({file[0] for file in failed})
        report.kept_skipped = sum(file is not None and not file[1] for file in kept.values())
        report.unrooted = sum(one not in run.ids for one in catalogue.unrooted)
        removed = {one: file for one, file in missing.items() if kept[one] is None}
        report.documents.removed = await store.remove_documents(collection, list(removed))
        gone = set(removed.values()) - run.visited
        _report_removed(report, gone)
    else:
        removed, gone = {}, set(missing.values()) - run.visited
        report.gone = sum(run.protector(*file, one) is None for one, file in missing.items())
    stay = {} if prune else missing
    states = [
        SourceFileState(root=file[0], path=file[1], state="gone", reason=_GONE, document_id=one)
        for one, file in stay.items()
        if file in gone and run.protector(*file, one) is None
    ]
    forgotten = {
        file
        for file in catalogue.files
        if _is_at(places, file, only)
        and file not in run.visited
        and file not in stay.values()
        and run.protector(*file) is None
    }
    await store.note_files(collection, states, forgotten | run.secret)


def _report_removed(report: IndexReport, files: Collection[tuple[str, str]]) -> None:
    """Report files that were removed; one that was excluded is in the report already."""
    known = {(one.root, one.path): one for one in report.files}
    for file in sorted(files):
        if file in known:
            known[file].state = "removed"
        else:
            report.files.append(FileReport(path=file[1], root=file[0], state="removed"))


def _is_at(places: Iterable[SourcePlace], file: tuple[str, str], only: Selection | None) -> bool:
    """Return whether a file, by root and path, is at or below one of some places, and is looked at."""
    root, path = file
    return any(
        root == place.root
        and (
            path == place.prefix
            or (place.prefix[-1:] in ("", "/") and path.startswith(place.prefix))
        )
        and (only is None or only.has(f"{place.base.rstrip('/')}/{path}"))
        for place in places
    )


async def _hidden_from(
    writer: Access, store: ChunkStore, collection: str, drafts: Sequence[DocumentDraft]
) -> dict[str, str]:
    """Return why a writer may not store documents, by id."""
    states = await store.document_states(collection, [one.document_id for one in drafts])
    hidden = {one.document_id: _UNSEEN for one in drafts if not writer.allows(one.tags)}
    taken = {name: _TAKEN for name, state in states.items() if not writer.allows(state.tags)}
    return hidden | taken


async def _known_sources(session: Session, asked: Index, embedder: Embedder) -> KnownSources | None:
    from whence.ingest.documents import KnownSources

    if not session.runs_flow:
        return None
    store = await session.store()
    # Files that did not change stay as they are where the encoder of the collection is not here.
    model = await store.collection_model(asked.collection) or embedder.model
    loop = asyncio.get_running_loop()

    def find(ids: Sequence[str]) -> Callable[[], Mapping[str, str]]:
        # Called in the thread that reads documents; it reads on and waits for the result later.
        digests = store.source_digests(asked.collection, ids)
        return asyncio.run_coroutine_threadsafe(digests, loop).result

    tokenizer = f"{model.name} {model.revision}"
    return KnownSources(lookup=find, tokenizer=tokenizer, reads_all=asked.reread)


def _above(document_id: str) -> Iterator[str]:
    """Yield the ids of the documents that a document may be inside of."""
    at = document_id.find("/")
    while at >= 0:
        yield document_id[:at]
        at = document_id.find("/", at + 1)


class _Batch(msgspec.Struct):
    """Documents read together."""

    drafts: list[DocumentDraft]
    sources: dict[str, ReadSource] = {}
    """File of each document, by id."""
    outcomes: int = 0
    size: int = 0
    last: bool = True
    most: int = _BATCH_BYTES
    """Bytes from which on it is full."""

    @property
    def full(self) -> bool:
        return (
            len(self.drafts) >= _BATCH_DOCUMENTS
            or self.size >= self.most
            or self.outcomes >= _BATCH_OUTCOMES
        )


class _IndexRun:
    """Sends documents and counts outcomes.

    Memory is bounded by a few batches, plus the ids and states of all documents and files.
    """

    def __init__(self, session: Session, asked: Index, count_documents: Callable[[], int]) -> None:
        keep = asked.token_vectors
        self._token_vectors = session.settings.token_vectors if keep is None else keep
        self._client = session.client
        self._progress = asked.progress
        self._count = count_documents
        self._dry_run = asked.dry_run
        self._total: int | None = None
        self._done = 0
        self._batches = 0
        self._started = time.monotonic()
        self.ids: dict[str, str] = {}
        """Root of each document that was found, by id."""
        self.visited: set[tuple[str, str]] = set()
        """Root and path of each file that was found."""
        self.secret: set[tuple[str, str]] = set()
        """Files of which nobody but the owner may know."""
        self._files: dict[tuple[str, str], FileReport] = {}
        self._read_from: dict[tuple[str, str], ReadSource] = {}
        #: Of each file that may hold documents that were not found, its path, and whether it failed.
        self._protected: dict[tuple[str, str], tuple[str, bool]] = {}
        self._noted: list[SourceFileState] = []
        #: Reasons by path, as they are shown.
        self._unread: dict[str, str] = {}
        #: Documents that were not parsed, so that those inside them are not known.
        self._unread_wholes: set[str] = set()
        self._stopped = False
        self.store: Store | None = None
        """Takes the states of files; None when documents have no roots."""
        self.known_id: Callable[[str, str], str] = lambda *_: ""
        """Returns the id of a file's document, by root and path; empty when it has none."""
        self.known_files: Mapping[tuple[str, str], tuple[str, tuple[int, int, str]] | None] = {}
        """As of `Catalogue.files`: what is stored of a file that is unchanged is not stored again."""
        self.upload = False
        """Whether the files are not kept; then those that are not read are forgotten."""
        self.guard: Callable[[Sequence[DocumentDraft]], Awaitable[dict[str, str]]] | None = None
        """Returns why some documents may not be stored, by id."""
        self.model: EmbeddingModel | None = None
        """Model of a new collection, when it was chosen."""
        self.served: Collection[str] = ()
        """Languages that the encoder serves; empty when not known."""
        self.chunks = 0
        """Chunks of the documents that are new or changed."""
        self.characters = 0
        """Characters of these."""
        self.report = IndexReport(
            collection=asked.collection, documents=DocumentCounts(), failures=[]
        )

    async def run(self, documents: Iterator[LoadResult]) -> IndexReport:
        """Send all documents and return the report."""
        # Bounds memory: reading waits for storing.
        slots = asyncio.Semaphore(_IN_FLIGHT)
        counting = asyncio.create_task(self._count_all())
        try:
            async with asyncio.TaskGroup() as group:
                last = False
                while not last:
                    batch = await asyncio.to_thread(self._next_batch, documents)
                    last = batch.last
                    self._report_progress(batch.outcomes - len(batch.drafts))
                    if batch.drafts and not self._dry_run:
                        await slots.acquire()
                        group.create_task(self._send(batch, slots))
                    else:
                        await self._note_states()
        except BaseExceptionGroup as errors:  # callers expect the error itself
            raise errors.exceptions[0] from None
        finally:
            # A thread cannot be cancelled; the reading one stops at the next document.
            self._stopped = True
            counting.cancel()
        await self._note_states()
        self.report.seconds = self._elapsed()
        self.report.files = [self._files[key] for key in sorted(self._files)]
        return self.report

    def _elapsed(self) -> float:
        return round(time.monotonic() - self._started, 3)

    async def make_vectors(self, session: Session, asked: Index) -> None:
        """Make the vectors that passages wait for, or count these passages when nobody waits."""
        from whence.operations.pending_vectors import make_vectors

        if not asked.wait:
            if session.runs_flow:
                left = await (await session.store()).vector_progress(asked.collection)
                self.report.waiting = 0 if left is None else left.pending
            return
        made = await make_vectors(self._client, asked.collection, asked.on_vectors)
        self.report.embedded += made.embedded
        self.report.waiting, self.report.waiting_reason = made.waiting, made.reason
        for name, outcome in made.refused.items():
            self._fail(name, outcome.reason)
        self.report.seconds = self._elapsed()

    def is_inside_unread(self, document_id: str) -> bool:
        """Return whether a document is inside one that was not parsed, as an attachment is."""
        return not self._unread_wholes.isdisjoint(_above(document_id))

    def note_unfetched(self, failures: Iterable[PathFailure]) -> None:
        """Report the files of sources that could not be fetched."""
        for one in failures:
            self._fail(one.path, one.reason)

    def note_named(self, paths: Iterable[Path]) -> None:
        """Report the files that were named by themselves and not read."""
        unread = {path for path, why in self._unread.items() if why}
        self.report.not_read = [one for one in map(display_path, paths) if one in unread]

    def protector(self, root: str, path: str, document_id: str = "") -> tuple[str, bool] | None:
        """Return the file or folder that may hold a document of a file, and whether it failed."""
        # A document that a plug-in stored has the path of its file as id.
        found = self._protected.get((root, path)) or self._protected.get((root, document_id))
        if found is not None:
            return found
        for (other, folder), one in self._protected.items():
            if other == root and folder[-1:] in ("", "/") and path.startswith(folder):
                return one
        return None

    async def _count_all(self) -> None:
        if self._progress is not None:
            self._total = await asyncio.to_thread(self._count)
            self._report_progress(0)

    def _next_batch(self, documents: Iterator[LoadResult]) -> _Batch:
        first = self._batches == 0
        self._batches += 1
        batch = _Batch([], most=_FIRST_BYTES if first else _BATCH_BYTES)
        for item in documents:
            batch.outcomes += 1
            if isinstance(item, LoadedDocument):
                self._note_read(item.draft.document_id, item.kind, item.source)
                self._note_language(item.draft)
                self.report.read_again += item.is_again
                if item.source is not None:
                    batch.sources[item.draft.document_id] = item.source
                batch.drafts.append(item.draft)
                chunks = item.draft.chunks
                self.chunks += len(chunks)
                self.characters += sum(len(one.content) + len(one.embed_text) for one in chunks)
                batch.size += item.size
                if self._dry_run:
                    self._set_state(item.source, "read", draft=item.draft)
            elif isinstance(item, Unchanged):
                self._note_read(item.document_id, item.kind, item.source)
                self._unread_wholes.add(item.document_id)
                self.report.documents.unchanged += 1
                self._set_state(item.source, "unchanged")
            else:
                self._note_unread(item)
            if batch.full or self._stopped:
                batch.last = self._stopped
                break
        return batch

    def _note_read(self, document_id: str, kind: str, source: ReadSource | None) -> None:
        self.ids[document_id] = source.root if source else ""
        self.report.kinds[kind] = self.report.kinds.get(kind, 0) + 1

    def _note_unread(self, item: LoadFailure | Skipped) -> None:
        """Count a file or record that failed or was skipped."""
        source = ReadSource(
            root=item.root, file=item.file, document_id=self.known_id(item.root, item.file)
        )
        if item.tags is None:
            self.secret.add((item.root, item.file))
        else:
            source = msgspec.structs.replace(source, tags=item.tags)
        if isinstance(item, Skipped):
            source = msgspec.structs.replace(source, size=item.size)
        key = item.root, item.file
        # Of the state of a file nobody could tell which record or attachment it is about.
        place = f"line {item.line}" if item.line else item.part
        reason = f"{place}: {item.reason}" if place else item.reason
        self._unread[item.path] = item.reason
        if isinstance(item, LoadFailure):
            self._fail(item.path, item.reason)
            self._protected[key] = item.file or item.path, True
            if item.document_id is not None:
                self.ids.setdefault(item.document_id, item.root)
            self._set_state(source, "failed", reason)
            return
        self.report.documents.skipped += 1
        reasons = self.report.skipped
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
        if item.document_id is not None:
            self._protected.setdefault(key, (item.file, False))
        self._set_state(source, "skipped", reason, is_wanted=item.is_wanted, left_out=item.left_out)

    def _set_state(
        self,
        source: ReadSource | None,
        state: Literal["read", "unchanged", "skipped", "failed"],
        reason: str = "",
        *,
        draft: DocumentDraft | None = None,
        is_wanted: bool = True,
        left_out: Mapping[str, int] = {},
    ) -> None:
        """Report the state of a file; of several documents the worst counts."""
        if source is None or not source.file or source.file.endswith("/"):
            return
        key = source.root, source.file
        if is_wanted:
            self.visited.add(key)
        found = self._files.setdefault(
            key, FileReport(path=source.file, root=source.root, state=state)
        )
        if _ORDER.index(state) >= _ORDER.index(found.state):
            found.state, found.reason = state, reason or found.reason
        else:
            # What is inside a file that was read may be skipped before or after it is stored.
            found.reason = found.reason or reason
            source = self._read_from.get(key, source)
        if state in ("read", "unchanged"):
            found.document_id = source.document_id or None
            self._read_from[key] = source
        if draft is not None:
            found.encoding = draft.encoding or found.encoding
            left_out = draft.left_out
        for kind, count in left_out.items():
            found.left_out[kind] = found.left_out.get(kind, 0) + count
        if self.store is not None and source.root and is_wanted and key not in self.secret:
            self._note_state(source, found)

    def _note_state(self, source: ReadSource, found: FileReport) -> None:
        """Keep the state of a file for the store, unless it has it."""
        key = source.root, source.file
        read_as = source.document_id, (source.size, source.modified, source.digest)
        if found.state == "unchanged" and self.known_files.get(key) == read_as:
            return
        stored: FileState = "read"
        if found.state in ("failed", "skipped"):
            stored = "failed" if found.state == "failed" else "skipped"
        if self.upload and stored != "read":
            return
        self._noted.append(
            SourceFileState(
                root=source.root,
                path=source.file,
                state=stored,
                reason=found.reason,
                document_id=source.document_id,
                tags=source.tags,
                size=source.size,
                modified=source.modified,
                digest=source.digest,
            )
        )

    async def _note_states(self) -> None:
        """Store the states that were found out."""
        noted, self._noted = self._noted, []
        if noted and self.store is not None and not self._dry_run:
            await self.store.note_files(self.report.collection, noted)

    def _note_language(self, draft: DocumentDraft) -> None:
        if self.served:
            code = language_code(language_of_document(one.content for one in draft.chunks))
            if code not in self.served:
                self.report.not_served[code] = self.report.not_served.get(code, 0) + 1

    def _fail(self, path: str, reason: str) -> None:
        self.report.documents.failed += 1
        self.report.failures.append(PathFailure(path=path, reason=reason))

    async def _send(self, batch: _Batch, slots: asyncio.Semaphore) -> None:
        try:
            drafts: Sequence[DocumentDraft] = batch.drafts
            if self.guard is not None:
                drafts = await self._guarded(batch, self.guard)
            request = IngestRequest(
                collection=self.report.collection,
                documents=tuple(drafts),
                token_vectors=self._token_vectors,
                vectors_later=True,
                model=self.model,
            )
            response = await self._client.ingest(request, timeout_s=_BATCH_TIMEOUT_S)
        finally:
            slots.release()
        if len(response.outcomes) != len(drafts):
            raise InternalError(
                f"{len(drafts)} documents were sent and {len(response.outcomes)} accounted for"
            )
        counts = self.report.documents
        for outcome, draft in zip(response.outcomes, drafts, strict=True):
            source = batch.sources.get(outcome.document_id)
            if outcome.outcome == "failed":
                self._fail(outcome.document_id, outcome.reason)
                self._set_state(source, "failed", outcome.reason)
                continue
            setattr(counts, outcome.outcome, getattr(counts, outcome.outcome) + 1)
            self.report.embedded += outcome.embedded
            if outcome.outcome != "unchanged":
                self.report.chunks += outcome.chunks
                self.report.seconds_to_first_search = (
                    self.report.seconds_to_first_search or self._elapsed()
                )
            state = "unchanged" if outcome.outcome == "unchanged" else "read"
            self._set_state(source, state, draft=draft)  # type: ignore[arg-type]
        await self._note_states()
        self._report_progress(len(batch.drafts))

    async def _guarded(
        self,
        batch: _Batch,
        guard: Callable[[Sequence[DocumentDraft]], Awaitable[dict[str, str]]],
    ) -> list[DocumentDraft]:
        """Return the documents that may be stored; the others have failed."""
        refused = await guard(batch.drafts)
        for name, reason in refused.items():
            self._fail(name, reason)
            self._set_state(batch.sources.get(name), "failed", reason)
        return [one for one in batch.drafts if one.document_id not in refused]

    def _report_progress(self, more: int) -> None:
        self._done += more
        if self._progress is not None:
            total = self._total
            self._progress(self._done, None if total is None else max(total, self._done))
