"""What a renamed collection changes in the records of its answers."""

from __future__ import annotations

import json
from typing import Any

from whence.schema.codec import decode_as, to_builtins
from whence.schema.document_rag import TraceRecord
from whence.schema.errors import BadInput

#: End of the predicate that states the collection of a question; the vocabulary is above the store.
_SETTING = "setting_collection"


def renamed_record(record: TraceRecord, former: str, name: str) -> TraceRecord:
    """Return the trace of a question about a collection that has another name now.

    Its chunks have the ids that they have under the new name, and a replay asks the collection of that name.
    Cost: linear in its triples.
    """
    if record.collection != former:
        return record
    before, after = (f"urn:chunk:{one}:" for one in (former, name))

    def rename(value: Any) -> Any:
        if isinstance(value, str):
            return after + value[len(before) :] if value.startswith(before) else value
        if isinstance(value, dict):
            return {rename(key): rename(one) for key, one in value.items()}
        return [rename(one) for one in value] if isinstance(value, list | tuple) else value

    fields = to_builtins(record)
    found: dict[str, Any] = rename(fields) | {"collection": name}
    # A replay compares the settings of a stage with those of then.
    for event in found["events"]:
        for triple in event["triples"]:
            stated = triple["p"].get("iri", "").endswith(_SETTING)
            if stated and triple["o"].get("value") == former:
                triple["o"]["value"] = name
    # The words of the question are those that were asked.
    found["question"] = record.question
    settings = found.get("settings", {})
    if settings.get("collection") == former:
        settings["collection"] = name
    operation = settings.get("operation")
    if isinstance(operation, str):
        asked = json.loads(operation) | {"collection": name}
        settings["operation"] = json.dumps(asked, ensure_ascii=False, separators=(",", ":"))
    return decode_as(json.dumps(found).encode(), TraceRecord)


def taken(name: str) -> BadInput:
    """Return the error that another collection has a name."""
    return BadInput(
        f"there is a collection {name!r} already",
        hint="choose another name, or remove that one first: whence collections --remove",
    )
