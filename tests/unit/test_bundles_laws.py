"""Laws of bundles: ids round-trip, block sizes do not matter, and damage is always bad input."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.fake_bundles import bundle_files, write_folder, write_zip
from tests.support.fake_enterprise import fake_release

from whence.code.bundles.archive import Location, MemberStream
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import validate_bundle
from whence.code.bundles.json_stream import JsonElement, array_elements, object_elements
from whence.code.bundles.nodes import ACL_NAMES, CLEARANCE_NAMES, LABEL_NAMES, read_tags
from whence.code.bundles.tables import csv_rows, text_lines
from whence.schema.access import Access, DocumentTags
from whence.schema.code_ids import (
    CodeKind,
    canonical_id,
    kind_from_local_id,
    local_id_from_name,
    make_snapshot_id,
    validate_local_id,
)
from whence.schema.errors import BadInput, WhenceError
from whence.schema.relations import RelationFilter, strip_relation_prefix

MEMBER = Location("bundle", "member")
LIMIT = 1_000_000
#: Few letters and many colons, so that separators meet in all ways.
COLONS = st.text(alphabet="a:Б ", min_size=1, max_size=9)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")) | st.text(alphabet='\\"[]{},:\n é', max_size=8),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=5), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


class Pieces(MemberStream):
    """A stream that returns pieces of given sizes."""

    def __init__(self, data: bytes, sizes: Iterator[int]) -> None:
        super().__init__(io.BytesIO(data), MEMBER)
        self._sizes = sizes

    def read(self, size: int) -> bytes:
        return super().read(min(size, next(self._sizes)))


def sizes(draw_list: list[int]) -> Iterator[int]:
    yield from draw_list
    while True:
        yield draw_list[-1]


def whole(data: bytes) -> Pieces:
    return Pieces(data, sizes([LIMIT]))


def stream(data: bytes) -> MemberStream:
    return MemberStream(io.BytesIO(data), MEMBER)


def outcome(read: Callable[..., Iterator[JsonElement]], source: Pieces, limit: int = LIMIT) -> Any:
    """Return the elements, or the message of the refusal after those before it."""
    found: list[Any] = []
    try:
        found.extend(read(source, limit))
    except BadInput as error:
        found.append(error.message)
    return found


def is_named(place: str, action: Callable[[], object]) -> bool:
    """Return whether an action, if it refuses, says so with an error of ours that begins with the place."""
    try:
        action()
    except WhenceError as error:
        return error.message.startswith(place)
    return True


@given(COLONS, COLONS, st.sampled_from(["cs", "sql"]), COLONS)
def test_an_id_round_trips(repo: str, snapshot: str, kind: CodeKind, local: str) -> None:
    """The local id is read back from a joined id, and determines the kind."""
    local = f"SQL:{local}" if kind == "sql" else local
    try:
        text = canonical_id(repo, snapshot, kind, validate_local_id(local, kind))
    except BadInput:
        return

    assert local_id_from_name(text, repo, snapshot) == local
    assert kind_from_local_id(local) == kind


@pytest.mark.parametrize(
    ("repo", "snapshot", "kind", "local"),
    [("a", "b", "cs", ""), ("", "b", "cs", "C1"), ("a", "", "cs", "C1"), ("a", "b", "sql", "C1"),
     ("a", "b", "cs", "SQL:x"), ("a", "b", "cs", "C\n"), (":a", "b", "cs", "C1"), ("a", "b::c", "cs", "C1")],
)  # fmt: skip
def test_an_invalid_id_is_refused(repo: str, snapshot: str, kind: CodeKind, local: str) -> None:
    """A part that is missing, blank or malformed is an error."""
    with pytest.raises(BadInput):
        canonical_id(repo, snapshot, kind, validate_local_id(local, kind))


def test_a_snapshot_id_is_a_uuid_of_its_names() -> None:
    """The id of a snapshot follows the documented formula."""
    sha = "fdb0d25c05c0b1647d4954a0f1850aff13570970"

    assert make_snapshot_id("Fake", sha) == "d4578e80-0513-581a-8e08-fcc69a9c50b0"


@pytest.mark.parametrize("value", [None, 5, "", " ", "a ", "\x07", "a\u2028b"])
def test_a_local_id_is_a_line_of_text(value: object) -> None:
    """Ids are displayed and compared, so they contain no invisible characters."""
    with pytest.raises(BadInput):
        validate_local_id(value, "cs")


@given(st.sampled_from(["ReadsFrom", "Calls", "FK", "ReferencedBy(C#)", "dep"]), st.booleans(), st.booleans())  # fmt: skip
def test_a_relation_is_found_by_either_name(name: str, prefixed: bool, upper: bool) -> None:
    """With or without its prefix, in any case, a relation is followed; another one is not."""
    stored = f"sql_{name}"
    asked = stored if prefixed else name

    allowed = RelationFilter([asked.upper() if upper else asked.lower()])
    assert allowed.allows(stored)
    assert not allowed.allows("sql_Other")
    assert strip_relation_prefix(stored) == name


@pytest.mark.parametrize("allowed", [None, [], ["*"], ["FK", "*"]])
def test_no_list_of_relations_is_all(allowed: list[str] | None) -> None:
    """None, an empty list, or a list with a star: every relation is followed."""
    assert RelationFilter(allowed).allows("sql_Anything")


@given(
    st.lists(JSON, max_size=6),
    st.lists(st.integers(1, 9), min_size=1),
    st.sampled_from([None, 0, 2]),
)
def test_arrays_do_not_depend_on_block_sizes(
    values: list[Any], pieces: list[int], indent: int | None
) -> None:
    """Elements and their lines are the same for any block sizes, and equal the array."""
    data = json.dumps(values, indent=indent, ensure_ascii=len(pieces) % 2 == 0).encode()

    found = outcome(array_elements, Pieces(data, sizes(pieces)))
    assert found == outcome(array_elements, whole(data))
    assert [element.value for element in found] == values
    assert [element.location.item for element in found] == list(range(1, len(values) + 1))


@given(st.dictionaries(st.text(st.characters(codec="utf-8")), JSON, max_size=5), st.lists(st.integers(1, 9), min_size=1))  # fmt: skip
def test_objects_do_not_depend_on_block_sizes(values: dict[str, Any], pieces: list[int]) -> None:
    """Keys and values are the same for any block sizes, and equal the object."""
    data = json.dumps(values, indent=1).encode()

    found = outcome(object_elements, Pieces(data, sizes(pieces)))
    assert found == outcome(object_elements, whole(data))
    assert {element.key: element.value for element in found} == values


@given(
    st.integers(0, 40),
    st.integers(0, 255),
    st.lists(st.integers(1, 9), min_size=1),
    st.integers(1, 60),
)
def test_errors_do_not_depend_on_block_sizes(
    position: int, byte: int, pieces: list[int], limit: int
) -> None:
    """A damaged array yields the same elements and error for any block sizes."""
    data = bytearray(b'[{"a": "x\\"y", "b": [1, 2]},\n "c", true,\n{}]')
    data[position] = byte

    assert outcome(array_elements, Pieces(bytes(data), sizes(pieces)), limit) == outcome(
        array_elements, whole(bytes(data)), limit
    )


ODD = st.lists(
    st.sampled_from(
        [
            '{"a": "x}, {"}',
            '{"a": [{"b": 1}, {"b": 2}]}',
            '{"a": 1, "a": 2}',
            '{"a": 1, "\\u0061": "\\""}',
            '{"a": {"b": 1, "b": "\\u0022"}}',
            '{"a": "\\u0022 \\\\u0022", "b": [], "c": {}}',
            '{"a":\n"\\\\", "b": 123456789012345678901234567890}',
            '{"a": "\\ud800"}',
            '{"a": NaN}',
            '["x],", "y"]',
            '[["a"], ["b"],\n []]',
            "{\n}",
            "[]",
            '"s"',
            "-0.5",
            "",
        ]
    ),
    max_size=8,
)


@given(ODD, st.sampled_from([",", ", ", ",\n", "\n ,\n"]), st.sampled_from([9, 90, LIMIT]))
def test_unusual_elements_do_not_depend_on_block_sizes(
    items: list[str], comma: str, limit: int
) -> None:
    """Escapes, brackets in strings and invalid elements are read the same from single bytes and from blocks."""
    members = comma.join(f'"{n % 3}" :{one}' for n, one in enumerate(items))
    for read, text in (
        (array_elements, f"[{comma.join(items)}]"),
        (object_elements, f"{{{members}}}"),
    ):
        expected = outcome(read, whole(text.encode()), limit)
        assert outcome(read, Pieces(text.encode(), sizes([1])), limit) == expected


@given(st.lists(st.integers(0, 30), min_size=1, max_size=8))
def test_every_element_has_its_line(gaps: list[int]) -> None:
    """The line of an element is one more than the number of line ends before it."""
    data = b"[" + b",".join(b"\n" * gap + b"{}" for gap in gaps) + b"\n]\n"

    places = [element.location.line for element in array_elements(whole(data), LIMIT)]
    assert places == [1 + sum(gaps[: number + 1]) for number in range(len(gaps))]


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\1tn \n').map(str.encode))
def test_the_scanner_agrees_with_a_parser(data: bytes) -> None:
    """The scanner accepts exactly the arrays that a JSON parser accepts."""
    found = outcome(array_elements, whole(data))
    try:
        value = json.loads(
            data.decode(), object_pairs_hook=_no_repeats, parse_constant=_no_constant
        )
    except (ValueError, RecursionError):
        value = None

    accepted = [element.value for element in found if isinstance(element, JsonElement)]
    is_refused = len(accepted) < len(found)
    assert (None if is_refused else accepted) == (value if isinstance(value, list) else None)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _no_constant(name: str) -> None:
    raise ValueError(name)


def _drain(read: Callable[..., Iterator[Any]], data: bytes) -> None:
    for _ in read(stream(data), 100):
        pass


@given(st.binary(max_size=300))
def test_lines_and_rows_raise_only_bad_input(data: bytes) -> None:
    """Any bytes are lines and rows, or bad input."""
    for read in (text_lines, lambda *given: csv_rows(*given, required=())):
        assert is_named("bundle: member", partial(_drain, read, data))


ANY_TAGS = st.none() | st.lists(st.sampled_from(["hr", "finance", ""]) | st.integers(), max_size=3)
ANY_LEVEL = st.none() | st.integers(-1, 30) | st.booleans() | st.text(max_size=2)


@given(
    st.dictionaries(st.sampled_from(ACL_NAMES + LABEL_NAMES), ANY_TAGS | st.text(max_size=2)),
    st.dictionaries(st.sampled_from(CLEARANCE_NAMES), ANY_LEVEL),
)
def test_no_access_tag_is_lost(lists: dict[str, Any], levels: dict[str, Any]) -> None:
    """Every access tag of a node, under any name, is read, or the node is refused."""
    try:
        tags = read_tags(lists | levels)
    except BadInput:
        return

    assert any(name in lists for name in ACL_NAMES)
    for name, value in lists.items():
        assert set(value or ()) == set(tags.acl if name in ACL_NAMES else tags.labels)
    assert all((value or 0) == tags.clearance for value in levels.values())


@pytest.mark.parametrize("name", ["Acl_Allow", "acl-tags-any", "aclTags", "ACL", "Clearance", "doc level", "Classification"])  # fmt: skip
def test_a_name_that_resembles_an_access_tag_is_refused(name: str) -> None:
    """Ignoring a misspelt access tag would make the node public."""
    with pytest.raises(BadInput, match="not a known name of an access tag"):
        read_tags({"acl_allow": [], name: ["hr"]})


def test_an_empty_acl_is_public() -> None:
    """An empty list or null makes a node public."""
    assert Access.public().allows(read_tags({"acl_allow": [], "AclTags": []}))
    assert Access.public().allows(read_tags({"acl_allow": None, "AclTags": []}))
    assert read_tags({"AclTags": ["a"]}) == DocumentTags(("a",))


@pytest.fixture(scope="module")
def archive_bytes(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("fuzz") / "good.zip"
    files = bundle_files(fake_release("1.0"))
    small = {name: data if len(data) < 30_000 else b"[]" for name, data in files.items()}
    write_zip(small, path, compression=zipfile.ZIP_DEFLATED)
    return path.read_bytes()


@given(data=st.data())
@settings(
    max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_damaged_archive_raises_only_bad_input(
    archive_bytes: bytes, tmp_path: Path, data: st.DataObject
) -> None:
    """Changed, lost and repeated bytes of an archive are bad input, or do not matter."""
    damaged = bytearray(archive_bytes)
    # The directory at the end is small and decides most, so half of the damage is done there.
    starts = st.integers(0, len(damaged) - 1) | st.integers(len(damaged) - 900, len(damaged) - 1)
    for start in data.draw(st.lists(starts, min_size=1, max_size=4)):
        damaged[start : start + 1] = data.draw(st.binary(max_size=2))
        damaged += damaged[-1:] * 8
    (tmp_path / "damaged.zip").write_bytes(damaged)

    assert is_named("damaged.zip", lambda: validate_bundle(open_bundle(tmp_path / "damaged.zip")))


@given(data=st.data())
@settings(
    max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_a_damaged_folder_raises_only_bad_input(tmp_path: Path, data: st.DataObject) -> None:
    """Damage inside a member is bad input that names the bundle, or leaves a valid bundle."""
    files = bundle_files(fake_release("1.0"))
    name = data.draw(st.sampled_from(sorted(files)))
    damaged = bytearray(files[name][:4000])
    for start in data.draw(st.lists(st.integers(0, len(damaged) - 1), max_size=3)):
        damaged[start : start + 1] = data.draw(st.binary(max_size=3))
    write_folder(files | {name: bytes(damaged)}, tmp_path / "damaged")

    assert is_named("damaged: ", lambda: validate_bundle(open_bundle(tmp_path / "damaged")))


def test_an_input_error_is_bad_input() -> None:
    """An input error names the member."""
    broken = MemberStream(_Broken(), MEMBER)

    with pytest.raises(BadInput, match="bundle: member: is damaged or cannot be read"):
        list(array_elements(broken, LIMIT))


class _Broken(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise OSError("input/output error")
