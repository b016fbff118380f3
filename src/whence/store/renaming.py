"""What a renamed collection changes in the records of its answers."""

from __future__ import annotations

import json
from typing import Any

from whence.schema.codec import decode_as, to_builtins
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import BadInput
from whence.store.chunk_ids import split_collections

#: End of the predicate that states the collection of a question; the vocabulary is above the store.
_SETTING = "setting_collection"


def renamed_record(record: TraceRecord, former: str, name: str) -> TraceRecord:
    """Return the trace of a question about a collection that has another name now.

    Its chunks have the ids that they have under the new name, and a replay asks the collection of that name.
    Cost: linear in its triples.
    """
    names = split_collections(record.collection)
    if former not in names:
        return record
    asked = record.collection
    renamed = ",".join(dict.fromkeys(name if one == former else one for one in names))
    before, after = (f"urn:chunk:{one}:" for one in (former, name))

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return after + value[len(before) :] if value.startswith(before) else value
        if isinstance(value, dict):
            return {rename(key): rename(one) for key, one in value.items()}
        return [rename(one) for one in value] if isinstance(value, list | tuple) else value

    fields = to_builtins(record)
    found: dict[str, Any] = rename(fields) | {"collection": renamed}
    # A replay compares the settings of a stage with those of then.
    for event in found["events"]:
        for triple in event["triples"]:
            stated = triple["p"].get("iri", "").endswith(_SETTING)
            if stated and triple["o"].get("value") == asked:
                triple["o"]["value"] = renamed
    # The words of the question are those that were asked.
    found["question"] = record.question
    _rename_asked(found, asked, renamed)
    if former in record.collection_versions:
        versions = found["collection_versions"]
        versions[name] = versions.pop(former)
    return decode_as(json.dumps(found).encode(), TraceRecord)


def _rename_asked(found: dict[str, Any], asked: str, renamed: str) -> None:
    """Change the collection of a question that is to be asked again."""
    settings = found.get("settings", {})
    if settings.get("collection") == asked:
        settings["collection"] = renamed
    operation = settings.get("operation")
    if isinstance(operation, str):
        again = json.loads(operation) | {"collection": renamed}
        settings["operation"] = json.dumps(again, ensure_ascii=False, separators=(",", ":"))


def taken(name: str) -> BadInput:
    """Return the error that another collection has a name."""
    return BadInput(
        f"there is a collection {name!r} already",
        hint="choose another name, or remove that one first: whence collections --remove",
    )
