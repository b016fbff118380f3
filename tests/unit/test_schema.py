"""Messages, rights, terms, errors and topics: guarantees on the wire and in memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.operations.ask import DocumentRagRequest
from whence.operations.operation import sentences
from whence.schema import (
    Access,
    DocumentTags,
    EmbeddingRequest,
    ErrorReply,
    Message,
    Term,
    Triple,
    decode,
    decode_as,
    encode,
    iri,
    literal,
    message_types,
)
from whence.schema.errors import (
    BadInput,
    CodecError,
    InternalError,
    NotFound,
    Overloaded,
    WhenceError,
    error_from_reply,
)
from whence.schema.topics import dead_letter_topic, full_topic, retry_topic, short_topic
from whence.testing.samples import sample

assert DocumentRagRequest.TYPE in message_types()
#: Other tests register messages of their own.
TYPES = [name for name, cls in message_types().items() if cls.__module__.startswith("whence.")]
GOLDEN = Path(__file__).parent / "golden"
GOLDEN_FILES = sorted(GOLDEN.glob("*.json"))

tags = st.text(min_size=1, max_size=4).filter(lambda tag: "\0" not in tag)
tag_sets = st.frozensets(tags, max_size=4)
levels = st.integers(0, 3)
accesses = st.builds(Access, tag_sets, tag_sets, levels)
document_tags = st.builds(DocumentTags, tag_sets, tag_sets, levels)


@pytest.mark.parametrize("name", TYPES)
def test_every_message_round_trips(name: str) -> None:
    """Decoding an encoded message returns an equal message, every field set."""
    message = sample(message_types()[name])

    assert decode(bytes(encode(message)), name) == message


@pytest.mark.parametrize("name", TYPES)
def test_every_message_has_a_golden_file(name: str) -> None:
    """The current form of each type has a golden file."""
    wire = encode(sample(message_types()[name])) + b"\n"

    assert wire in [path.read_bytes() for path in GOLDEN.glob(f"{name}.*.json")]


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: path.name)
def test_every_golden_file_decodes(path: Path) -> None:
    """Every form that was ever sent can be decoded."""
    name = path.name.rsplit(".", 2)[0]

    assert isinstance(decode(path.read_bytes(), name), message_types()[name])


@pytest.mark.parametrize("name", TYPES)
def test_every_field_of_a_message_is_described(name: str) -> None:
    """Each field has a docstring line below it in the source."""
    cls = message_types()[name]

    assert set(cls.__struct_fields__) <= sentences(cls).keys()


@given(st.frozensets(tags, max_size=8))
def test_equal_messages_have_equal_bytes(some: frozenset[str]) -> None:
    """The bytes do not depend on the order in which a set was filled."""
    one, other = Access(sorted(some)), Access(sorted(some, reverse=True))

    assert encode(one) == encode(other)


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"null", b'{"texts": 7}', b'{"texts": ["\xff"]}', b"[" * 100_000]
)
def test_undecodable_bytes_are_refused(payload: bytes) -> None:
    """The codec raises only `CodecError`, with the name of the type."""
    with pytest.raises(CodecError, match="embedding-request"):
        decode_as(payload, EmbeddingRequest)


@given(st.binary(max_size=200), st.sampled_from(TYPES))
def test_no_bytes_crash_the_codec(payload: bytes, name: str) -> None:
    """Random bytes either decode or raise `CodecError`."""
    try:
        message = decode(payload, name)
    except CodecError:
        return
    assert isinstance(message, Message)


def test_an_unknown_type_is_refused() -> None:
    """A type that is not registered cannot be decoded."""
    with pytest.raises(CodecError, match=r"nonsense\.v9"):
        decode(b"{}", "nonsense.v9")


def test_unknown_fields_are_ignored() -> None:
    """An additional field of a newer sender does not break an older reader."""
    message = decode(b'{"texts": ["a"], "new": 1}', "embedding-request.v1")

    assert message == EmbeddingRequest(texts=("a",))


def test_a_type_name_belongs_to_one_class() -> None:
    """A second class with the same `TYPE` is refused."""
    with pytest.raises(TypeError, match="already taken"):
        type("Twin", (Message,), {"TYPE": "error.v1"})


@given(document_tags)
def test_the_public_sees_untagged_documents_only(tags_: DocumentTags) -> None:
    """Without rights a document is visible exactly when it carries no tag at all."""
    assert Access.public().allows(tags_) == (tags_ == DocumentTags())


@given(accesses, document_tags)
def test_visibility_follows_the_rule(access: Access, tags_: DocumentTags) -> None:
    """Visible means: ACL empty or shared, all labels held, clearance sufficient."""
    acl = not tags_.acl or bool(access.acl_tags & set(tags_.acl))
    labels = set(tags_.labels) <= access.labels

    assert access.allows(tags_) == (acl and labels and tags_.clearance <= access.clearance)


@given(accesses, accesses, document_tags)
def test_an_intersection_grants_no_more_than_either(
    one: Access, other: Access, tags_: DocumentTags
) -> None:
    """A document visible to the intersection of two rights is visible to both."""
    if one.intersect(other).allows(tags_):
        assert one.allows(tags_)
        assert other.allows(tags_)


@pytest.mark.parametrize("bad", ["finance", [""], ["a\0b"], [7], None, 7, [None]])
@pytest.mark.parametrize("cls", [Access, DocumentTags])
def test_bad_tags_are_refused(cls: type, bad: object) -> None:
    """A tag is a non-empty string without NUL, in a list."""
    with pytest.raises(BadInput):
        cls(bad)


@pytest.mark.parametrize("bad", [-1, 2**31, 1.5, "3", True, None])
@pytest.mark.parametrize("cls", [Access, DocumentTags])
def test_bad_clearances_are_refused(cls: type, bad: object) -> None:
    """A clearance is an integer of 0 or more that PostgreSQL can hold."""
    with pytest.raises(BadInput):
        cls((), (), bad)


def test_tags_are_canonical() -> None:
    """Order and repeats of a document's tags are irrelevant."""
    assert DocumentTags(["b", "a", "b"]) == DocumentTags(("a", "b"))


def test_terms_have_iri_and_value() -> None:
    """`.iri` of a literal and `.value` of an IRI are empty strings."""
    assert (literal("x").iri, literal("x").value) == ("", "x")
    assert (iri("urn:x").iri, iri("urn:x").value) == ("urn:x", "")
    assert Triple(iri("urn:s"), iri("urn:p"), literal("o")).g is None


def test_empty_fields_of_a_term_are_omitted() -> None:
    """Empty fields of a term are not encoded."""
    assert encode(Term("i", "urn:x")) == b'{"type":"i","iri":"urn:x"}'


@pytest.mark.parametrize(
    "error", [NotFound("no a", hint="look"), Overloaded("full", retry_after_s=2.0), BadInput("b")]
)
def test_errors_cross_the_broker_unchanged(error: WhenceError) -> None:
    """An error is decoded as the same class with the same texts."""
    reply = decode_as(encode(error.to_reply()), ErrorReply)
    back = error_from_reply(reply)

    assert type(back) is type(error)
    assert (back.message, back.hint, back.retry_after_s, back.retryable) == (
        error.message,
        error.hint,
        error.retry_after_s,
        error.retryable,
    )


def test_an_unknown_error_code_is_an_internal_error() -> None:
    """An error code of a newer version is decoded as an internal error."""
    back = error_from_reply(ErrorReply(code="new", message="m"))

    assert isinstance(back, InternalError)


def test_topic_names_are_full_pulsar_names() -> None:
    """Short and full names convert into each other; derived topics keep their parent's name."""
    topic = full_topic("embedding.request")

    assert topic == "persistent://public/default/whence.embedding.request"
    assert short_topic(topic) == "embedding.request"
    assert full_topic(topic) == topic
    assert full_topic("a", persistent=False).startswith("non-persistent://")
    assert retry_topic(topic, "g") == f"{topic}.g.retry"
    assert dead_letter_topic(topic) == f"{topic}.dlq"


@pytest.mark.parametrize("bad", ["", "Über", "a b", "a..b", "persistent://x", ".a"])
def test_invalid_topic_names_are_refused(bad: str) -> None:
    """A name that Pulsar or a reader could misinterpret is refused."""
    with pytest.raises(BadInput):
        full_topic(bad)


def test_messages_are_frozen() -> None:
    """A message cannot be changed."""
    with pytest.raises(AttributeError):
        EmbeddingRequest(texts=()).texts = ("a",)  # type: ignore[misc]


def test_defaults_of_a_message_are_not_shared() -> None:
    """Two messages never share a mutable default."""
    for cls in (message_types()[name] for name in TYPES):
        for field in msgspec.structs.fields(cls):
            assert not isinstance(field.default, list | set)
