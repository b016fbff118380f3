"""Refused bundles: the error names member, line and reason."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_bundles import write_folder, write_zip

from whence.code.bundles.archive import BundleLimits
from whence.code.bundles.bundle import open_bundle
from whence.code.bundles.bundle_reader import BundleReader, validate_bundle
from whence.schema.errors import BadInput

META, CHUNKS, DEPENDENCIES = "repo_meta.json", "code/chunks.json", "code/dependencies.json"
BODIES, EDGES = "docs/sql_bodies.jsonl", "graph/edges.csv"
Files = dict[str, bytes]
Change = Callable[[Files], object]


def chunk(local_id: object = "C0001", **fields: Any) -> dict[str, Any]:
    return {"Id": local_id, "File": "a.cs", "Text": "class A { }", "acl_allow": [], **fields}


def body(key: object = "SQL:dbo.t", **fields: Any) -> dict[str, Any]:
    return {"key": key, "kind": "Table", "body": "CREATE TABLE t;", "acl_allow": [], **fields}


def as_json(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


def good_files() -> Files:
    return {
        META: as_json({"RepoName": "Fake", "Branch": "b", "HeadSha": "abc"}),
        CHUNKS: as_json([chunk("C0001"), chunk("C0002")]),
        DEPENDENCIES: as_json({"C0001": ["C0002"], "C0002": []}),
        BODIES: as_json(body()).replace(b"\n", b"") + b"\n",
        EDGES: b"from,to,relation\nSQL:dbo.t,C0001,ReferencedBy(C#)\n",
    }


def put(member: str, value: Any) -> Change:
    data = value if isinstance(value, bytes) else as_json(value)
    return lambda files: files.update({member: data})


def drop(member: str) -> Change:
    return lambda files: files.pop(member)


def second_chunk(**fields: Any) -> Change:
    """Replace the second of two chunks, so that places are not those of the first."""
    item = {**chunk("C0002"), **fields}
    return put(CHUNKS, [chunk(), {key: value for key, value in item.items() if value is not ...}])


def lines(*records: Any) -> Change:
    return put(BODIES, b"".join(json.dumps(record).encode() + b"\n" for record in records))


def refusal(path: Path, **options: Any) -> BadInput:
    with pytest.raises(BadInput) as caught:
        validate_bundle(open_bundle(path, **options))
    return caught.value


def test_the_base_bundle_is_valid(tmp_path: Path) -> None:
    """Without its one fault, no bundle of this module would be refused."""
    write_zip(good_files(), tmp_path / "good.zip")

    report = validate_bundle(open_bundle(tmp_path / "good.zip"))

    assert (report.nodes.total, report.edges.total, report.warnings) == (3, 2, ())


#: Name, change to a good bundle, what the message must name.
BAD: list[tuple[str, Change, list[str]]] = [
    ("no repo_meta", drop(META), [META, "missing"]),
    ("no chunks", drop(CHUNKS), ["chunks.json", "missing"]),
    ("meta no json", put(META, b"{"), [META, "not JSON"]),
    ("meta no object", put(META, []), [META, "not an object"]),
    ("meta key twice", put(META, b'{"HeadSha": "a", "HeadSha": "b"}'), [META, "HeadSha", "twice"]),
    ("meta no utf-8", put(META, b'{"RepoName":\n "\xff"}'), [META, "line 2", "UTF-8", "0xff"]),
    ("meta wide", put(META, "{}".encode("utf-16")), [META, "UTF-16"]),
    ("no revision", put(META, {"RepoName": "Fake"}), [META, "revision"]),
    ("revision no text", put(META, {"HeadSha": 7}), [META, "HeadSha", "string"]),
    ("repo with separator", put(META, {"RepoName": "a::b", "HeadSha": "x"}), [META, "a::b"]),
    ("chunks cut", put(CHUNKS, b'[\n{"Id": "C1"'), [CHUNKS, "line 2", "ends in the middle"]),
    ("chunks open", put(CHUNKS, b"[\n\n"), [CHUNKS, "line 3", "ends in the middle"]),
    ("chunks an object", put(CHUNKS, {}), [CHUNKS, "line 1", "an array"]),
    ("chunks empty", put(CHUNKS, b""), [CHUNKS, "an array"]),
    ("chunks with a tail", put(CHUNKS, b"[]\n\n x"), [CHUNKS, "line 3", "after its end"]),
    ("chunk no object", put(CHUNKS, b'[\n"C0001"]'), [CHUNKS, "line 2", "item 1", "object"]),
    ("broken item", put(CHUNKS, b'[\n{"Id": 1,}]'), [CHUNKS, "line 2", "item 1", "not JSON"]),
    ("brackets crossed", put(CHUNKS, b'[\n{"Id": [}]]'), [CHUNKS, "line 2", "item 1"]),
    ("no comma", put(CHUNKS, b"[\n1 2]"), [CHUNKS, "line 2", "item 1"]),
    ("two commas", put(CHUNKS, b"[\n1,,2]"), [CHUNKS, "line 2"]),
    ("a NaN", put(CHUNKS, b'[{"Id": "C1", "x": NaN}]'), [CHUNKS, "item 1", "NaN"]),
    ("deep", put(CHUNKS, b"[" * 100_000 + b"]" * 100_000), [CHUNKS, "item 1", "deeply"]),
    ("rights twice", put(CHUNKS, b'[{"Id":"C1","acl_allow":["hr"],"acl_allow":[]}]'), ["twice"]),
    ("chunk no utf-8", put(CHUNKS, b'[\n{\n"Id": "\xc3("}]'), [CHUNKS, "line 3", "UTF-8", "0xc3"]),
    ("chunks wide", put(CHUNKS, "[]".encode("utf-16")), [CHUNKS, "UTF-16"]),
    ("no id", second_chunk(Id=...), [CHUNKS, "item 2", "id", "missing"]),
    ("empty id", second_chunk(Id=""), [CHUNKS, "item 2", "id", "blank"]),
    ("blank id", second_chunk(Id="  "), [CHUNKS, "item 2", "id", "blank"]),
    ("id no text", second_chunk(Id=5), [CHUNKS, "item 2", "id", "5"]),
    ("id with space", second_chunk(Id=" C1"), [CHUNKS, "item 2", "space"]),
    ("id of two lines", second_chunk(Id="C\n1"), [CHUNKS, "item 2", "character"]),
    ("id with half a pair", second_chunk(Id="C\ud800"), [CHUNKS, "item 2", "character"]),
    ("id of other kind", second_chunk(Id="SQL:dbo.t"), [CHUNKS, "item 2", "SQL:dbo.t"]),
    ("id too long", second_chunk(Id="C" * 2000), [CHUNKS, "item 2", "longer"]),
    (
        "id twice",
        second_chunk(Id="C0001", Text="other"),
        [CHUNKS, "item 2", "C0001", "other content"],
    ),
    ("rights differ", second_chunk(Id="C0001", acl_allow=["hr"]), ["C0001", "other content"]),
    ("no acl", second_chunk(acl_allow=...), [CHUNKS, "item 2", "no ACL attribute"]),
    ("acl a string", second_chunk(acl_allow="hr"), [CHUNKS, "item 2", "acl_allow", "'hr'"]),
    ("acl an object", second_chunk(acl_allow={"hr": 1}), [CHUNKS, "item 2", "acl_allow"]),
    ("acl of numbers", second_chunk(acl_allow=[1]), [CHUNKS, "item 2", "acl_allow"]),
    ("acl with blank tag", second_chunk(acl_allow=[" "]), [CHUNKS, "item 2", "acl_allow"]),
    ("acl with NUL", second_chunk(acl_allow=["a\0"]), [CHUNKS, "item 2", "NUL"]),
    ("acl with half a pair", second_chunk(acl_allow=["\udc00"]), [CHUNKS, "item 2", "pair"]),
    ("acls differ", second_chunk(AclTags=["hr"]), ["item 2", "acl_allow", "AclTags", "different"]),
    ("null is not hr", second_chunk(acl_allow=None, acl_tags_any=["hr"]), ["item 2", "different"]),
    ("acl misspelt", second_chunk(acl_allow=..., ACL_Allow=[]), ["item 2", "ACL_Allow"]),
    ("bare acl", second_chunk(acl=["hr"]), ["item 2", "'acl'"]),
    (
        "label a string",
        second_chunk(classification_labels="secret"),
        ["item 2", "classification_labels"],
    ),
    (
        "labels differ",
        second_chunk(classification_labels=["a"], classification_labels_all=["b"]),
        ["item 2", "classification_labels", "different"],
    ),
    ("labels misspelt", second_chunk(classification_level=["secret"]), ["classification_level"]),
    ("bare labels", second_chunk(labels=["secret"]), ["item 2", "'labels'"]),
    ("levels differ", second_chunk(doc_level=10, clearance_level=20), ["item 2", "different"]),
    ("no level is not 20", second_chunk(doc_level=None, clearance_level=20), ["different"]),
    ("level a string", second_chunk(doc_level="20"), ["item 2", "doc_level", "'20'"]),
    ("level true", second_chunk(doc_level=True), ["item 2", "doc_level", "True"]),
    ("level below 0", second_chunk(doc_level=-1), ["item 2", "-1"]),
    ("text a list", second_chunk(Text=["a"]), ["item 2", "Text", "string"]),
    ("text with NUL", second_chunk(Text="a\0"), ["item 2", "Text", "NUL"]),
    ("text with half a pair", second_chunk(Text="\ud800"), ["item 2", "Text", "pair"]),
    ("file a number", second_chunk(File=3), ["item 2", "File", "string"]),
    ("part no number", second_chunk(ChunkPart="1"), ["item 2", "ChunkPart"]),
    ("dependencies a list", put(DEPENDENCIES, []), [DEPENDENCIES, "an object"]),
    (
        "targets no list",
        put(DEPENDENCIES, b'{\n"C0001": "C0002"}'),
        [DEPENDENCIES, "line 2", "list"],
    ),
    ("target no text", put(DEPENDENCIES, {"C0001": [2]}), [DEPENDENCIES, "C0001", "not an id"]),
    ("target blank", put(DEPENDENCIES, {"C0001": [" "]}), [DEPENDENCIES, "item 1", "blank"]),
    ("key no text", put(DEPENDENCIES, b"{1: []}"), [DEPENDENCIES, "key"]),
    ("no colon", put(DEPENDENCIES, b'{"C0001" []}'), [DEPENDENCIES, "colon"]),
    ("body no json", put(BODIES, b"\n\nSELECT 1\n"), [BODIES, "line 3", "not JSON"]),
    ("body no object", put(BODIES, b"[]\n"), [BODIES, "line 1", "object"]),
    ("body no utf-8", put(BODIES, b'\n{"key": "\xe9"}\n'), [BODIES, "line 2", "UTF-8"]),
    ("body no key", lines(body(), body("")), [BODIES, "line 2", "id", "blank"]),
    ("key without prefix", lines(body(), body("dbo.t")), [BODIES, "line 2", "SQL:schema.name"]),
    ("key only prefix", lines(body("SQL:")), [BODIES, "line 1", "'SQL:'"]),
    ("body no acl", lines(body(), {"key": "SQL:dbo.u"}), [BODIES, "line 2", "no ACL"]),
    ("key twice", lines(body(), body(), body(body="other")), [BODIES, "line 3", "other content"]),
    ("edges no columns", put(EDGES, b"source,target\na,b\n"), [EDGES, "line 1", "from"]),
    ("edges no to", put(EDGES, b"from,relation\na,b\n"), [EDGES, "line 1", "to_id or to"]),
    ("column twice", put(EDGES, b"from,to,to\n"), [EDGES, "line 1", "'to'", "twice"]),
    ("row too long", put(EDGES, b"from,to\na,b\na,b,c\n"), [EDGES, "line 3", "3 values"]),
    ("quote open", put(EDGES, b'from,to\n"a,b\n'), [EDGES, "CSV"]),
    ("edges no utf-8", put(EDGES, b"from,to\n\xff,b\n"), [EDGES, "line 2", "UTF-8"]),
    ("end no id", put(EDGES, b"from,to\nSQL:,C0001\n"), [EDGES, "line 2", "'SQL:'"]),
    (
        "end in small letters",
        put(EDGES, b"from,to\nsql:dbo.t,C0001\n"),
        [EDGES, "line 2", "sql:dbo.t"],
    ),
]


@pytest.mark.parametrize(
    ("change", "named"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
@pytest.mark.parametrize("form", ["zip", "folder"])
def test_a_bad_bundle_is_refused(
    tmp_path: Path, form: str, change: Change, named: list[str]
) -> None:
    """The one fault of a bundle is named with its member, its line or item, and the reason."""
    files = good_files()
    change(files)
    path = tmp_path / "bad"
    if form == "zip":
        write_zip(files, path, compression=zipfile.ZIP_DEFLATED)
    else:
        write_folder(files, path)

    message = refusal(path).message

    assert [part for part in ["bad", *named] if part not in message] == [], message


UNSAFE = ["../x.cs", "a/../../x.cs", "/etc/x", "C:/x", "..\\x", "a//x", "./x", "a/./x", ".."]


@pytest.mark.parametrize("name", UNSAFE)
def test_a_path_outside_the_archive_is_refused(tmp_path: Path, name: str) -> None:
    """No member may have an absolute path, a drive, `.` or `..`, with either slash."""
    write_zip(good_files() | {name: b""}, tmp_path / "bad.zip")

    assert "unsafe path" in refusal(tmp_path / "bad.zip").message


def test_a_path_below_the_folder_of_bodies_stays_there(tmp_path: Path) -> None:
    """A row of `nodes.csv` can read members of the bundle only."""
    (tmp_path / "secret.sql").write_bytes(b"secret")
    files = good_files()
    del files[BODIES]
    files["graph/nodes.csv"] = b"key,body_path,acl_allow\nSQL:dbo.t,../secret.sql,[]\n"
    write_folder(files, tmp_path / "bundle")
    contents = BundleReader(open_bundle(tmp_path / "bundle"))

    assert [node.text for node in contents.nodes() if node.kind == "sql"] == [""]


def test_links_are_refused(tmp_path: Path) -> None:
    """A link may lead anywhere, so neither an archive nor a folder may hold one."""
    (tmp_path / "elsewhere").mkdir()
    for number, target in enumerate(("elsewhere", "none", "file/repo_meta.json")):
        write_folder(good_files(), tmp_path / f"{number}")
        (tmp_path / f"{number}" / "link").symlink_to(tmp_path / target)
        assert "link" in refusal(tmp_path / f"{number}").message

    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        for name, data in good_files().items():
            archive.writestr(name, data)
        link = zipfile.ZipInfo("link")
        link.external_attr = 0o120777 << 16
        archive.writestr(link, "/etc/passwd")
    assert "bad.zip: link: is a link" in refusal(tmp_path / "bad.zip").message


def test_an_extreme_compression_ratio_is_refused(tmp_path: Path) -> None:
    """A member that unpacks to hundreds of times its size is refused, even if it is not needed."""
    files = good_files() | {"notes.txt": b"\0" * 5_000_000}
    write_zip(files, tmp_path / "bad.zip", compression=zipfile.ZIP_DEFLATED)

    message = refusal(tmp_path / "bad.zip").message

    assert "notes.txt" in message
    assert "compression ratio" in message


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (BundleLimits(max_members=4), "more than 4 files"),
        (BundleLimits(max_total_bytes=300), "more than 300"),
        (BundleLimits(max_item_bytes=50), "50 bytes"),
    ],
)
@pytest.mark.parametrize("form", ["zip", "folder"])
def test_limits_are_enforced(tmp_path: Path, form: str, limits: BundleLimits, reason: str) -> None:
    """Too many files, too many bytes or too long an item are refused with the limit."""
    write_zip(good_files(), tmp_path / "zip")
    write_folder(good_files(), tmp_path / "folder")

    assert reason in refusal(tmp_path / form, limits=limits).message


@pytest.mark.parametrize("member", [CHUNKS, DEPENDENCIES, BODIES, EDGES])
def test_an_item_beyond_the_limit_is_refused_with_its_line(tmp_path: Path, member: str) -> None:
    """The limit holds for each item, line and row, not for whole members."""
    long = "x" * 5000
    items = {
        CHUNKS: as_json([chunk(), chunk("C0002", Text=long)]),
        DEPENDENCIES: as_json({"C0001": [], "C0002": [long]}),
        BODIES: json.dumps(body()).encode() + b"\n" + json.dumps(body(body=long)).encode(),
        EDGES: f"from,to\n{long},b\n".encode(),
    }
    write_zip(good_files() | {member: items[member]}, tmp_path / "bad.zip")

    message = refusal(tmp_path / "bad.zip", limits=BundleLimits(max_item_bytes=2000)).message

    assert f"{member}, line " in message
    assert "2,000 bytes" in message


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04" + b"\0" * 100, b"not a zip"])
def test_a_file_that_is_not_an_archive_is_refused(tmp_path: Path, data: bytes) -> None:
    """The error names the file."""
    (tmp_path / "bad.zip").write_bytes(data)

    assert "bad.zip: is neither a folder nor a whole zip" in refusal(tmp_path / "bad.zip").message


def test_a_missing_path_is_refused(tmp_path: Path) -> None:
    """A missing path, and one that is neither file nor folder, are bad input."""
    os.mkfifo(tmp_path / "pipe")

    assert "none.zip: the file or folder does not exist" in refusal(tmp_path / "none.zip").message
    assert "neither a folder nor" in refusal(tmp_path / "pipe").message


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_twice_is_refused(tmp_path: Path) -> None:
    """Two members with one name are ambiguous."""
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        for name, data in [*good_files().items(), (CHUNKS, b"[]")]:
            archive.writestr(name, data)

    assert f"{CHUNKS}: is in the archive twice" in refusal(tmp_path / "bad.zip").message


def test_other_compression_methods_are_refused(tmp_path: Path) -> None:
    """Only stored and deflated members are read; others need far more memory to unpack."""
    write_zip(good_files(), tmp_path / "bad.zip", compression=zipfile.ZIP_LZMA)

    assert "deflate" in refusal(tmp_path / "bad.zip").message


def test_an_encrypted_member_is_refused(tmp_path: Path) -> None:
    """An encrypted member is an error."""
    write_zip(good_files(), tmp_path / "bad.zip")
    data = bytearray((tmp_path / "bad.zip").read_bytes())
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    (tmp_path / "bad.zip").write_bytes(data)

    assert "encrypted" in refusal(tmp_path / "bad.zip").message


def test_flipped_bits_are_found(tmp_path: Path) -> None:
    """A member whose checksum does not match is damaged, even if its JSON still parses."""
    write_zip(good_files(), tmp_path / "bad.zip")
    data = (tmp_path / "bad.zip").read_bytes()
    (tmp_path / "bad.zip").write_bytes(data.replace(b"class A { }", b"class B { }"))

    message = refusal(tmp_path / "bad.zip").message

    assert f"{CHUNKS}: is damaged" in message


def test_a_table_of_nodes_without_rights_is_refused(tmp_path: Path) -> None:
    """The older form has no column for an ACL; a missing ACL does not mean public."""
    files = good_files()
    del files[BODIES]
    files["graph/nodes.csv"] = b"key,kind\nSQL:dbo.t,TABLE\n"
    write_zip(files, tmp_path / "bad.zip")

    message = refusal(tmp_path / "bad.zip").message

    assert "graph/nodes.csv, line 2: has no ACL attribute" in message


@pytest.mark.parametrize(
    "row", [b"SQL:dbo.t", b"SQL:dbo.t,hr", b"SQL:dbo.t,'hr'", b'SQL:dbo.t,"""hr"""']
)
def test_a_cell_of_rights_is_a_list_or_empty(tmp_path: Path, row: bytes) -> None:
    """In a table, rights are JSON lists; a row that ends before them has none and is refused."""
    files = good_files()
    del files[BODIES]
    files["graph/nodes.csv"] = b"key,acl_allow\n" + row + b"\n"
    write_zip(files, tmp_path / "bad.zip")

    assert "graph/nodes.csv, line 2: " in refusal(tmp_path / "bad.zip").message


def test_messages_are_printable(tmp_path: Path) -> None:
    """Names from a bundle cannot move a terminal's cursor."""
    write_zip(good_files() | {"a\x1b[2J/../x": b""}, tmp_path / "bad\n.zip")

    assert refusal(tmp_path / "bad\n.zip").message.isprintable()


def test_nodes_edges_and_report_are_read_in_order(tmp_path: Path) -> None:
    """Edges are checked against the nodes, so they cannot be read before them, and nothing is read twice."""
    write_zip(good_files(), tmp_path / "good.zip")
    contents = BundleReader(open_bundle(tmp_path / "good.zip"))

    with pytest.raises(RuntimeError, match="in this order"):
        contents.edges()
    next(contents.nodes())
    with pytest.raises(RuntimeError, match="in this order"):
        next(contents.nodes())
    with pytest.raises(RuntimeError, match="in this order"):
        contents.report()
