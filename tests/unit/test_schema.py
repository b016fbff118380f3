"""Messages: what they promise on the wire and in memory."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
def test_every_message_survives_the_wire(name: str) -> None:
    """Decoding what was encoded gives an equal message, every field set."""
    message = sample(message_types()[name])

    assert decode(bytes(encode(message)), name) == message


@pytest.mark.parametrize("name", TYPES)
def test_every_message_has_a_golden_file_of_its_present_form(name: str) -> None:
    """The present form of each type is kept, so that the next change is measured against it."""
    wire = encode(sample(message_types()[name])) + b"\n"

    assert wire in [path.read_bytes() for path in GOLDEN.glob(f"{name}.*.json")]


@pytest.mark.parametrize("path", GOLDEN_FILES, ids=lambda path: path.name)
def test_every_golden_file_still_decodes(path: Path) -> None:
    """Whatever was ever sent can be read for ever."""
    name = path.name.rsplit(".", 2)[0]

    assert isinstance(decode(path.read_bytes(), name), message_types()[name])


@pytest.mark.parametrize("name", TYPES)
def test_every_field_of_a_message_is_described(name: str) -> None:
    """Each field has a docstring line below it in the source."""
    import inspect

    source = inspect.getsource(message_types()[name])
    for field in message_types()[name].__struct_fields__:
        after = source.split(f"\n    {field}:", 1)[1]
        assert after.split("\n", 2)[1].strip().startswith('"""'), field


@given(st.frozensets(tags, max_size=8))
def test_equal_messages_have_equal_bytes(some: frozenset[str]) -> None:
    """The order in which a set was filled does not show on the wire."""
    one, other = Access(sorted(some)), Access(sorted(some, reverse=True))

    assert encode(one) == encode(other)


@pytest.mark.parametrize(
    "payload", [b"", b"{", b"[]", b"null", b'{"texts": 7}', b'{"texts": ["\xff"]}', b"[" * 100_000]
)
def test_bytes_that_are_no_message_are_refused_by_name(payload: bytes) -> None:
    """Nothing but `CodecError` leaves the codec, and it names the type."""
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
    """A newer sender's extra field does not break an older reader."""
    message = decode(b'{"texts": ["a"], "new": 1}', "embedding-request.v1")

    assert message == EmbeddingRequest(texts=("a",))


def test_two_types_cannot_share_a_name() -> None:
    """A wire name belongs to one class."""
    with pytest.raises(TypeError, match="already taken"):
        type("Twin", (Message,), {"TYPE": "error.v1"})


@given(document_tags)
def test_the_public_sees_untagged_documents_only(tags_: DocumentTags) -> None:
    """Without rights a document is visible exactly when it carries no tag at all."""
    assert Access.public().allows(tags_) == (tags_ == DocumentTags())


@given(accesses, document_tags)
def test_visibility_is_the_rule(access: Access, tags_: DocumentTags) -> None:
    """Visible = ACL empty or shared, labels all held, level not above."""
    acl = not tags_.acl or bool(access.acl_tags & set(tags_.acl))
    labels = set(tags_.labels) <= access.labels

    assert access.allows(tags_) == (acl and labels and tags_.clearance <= access.clearance)


@given(accesses, accesses, document_tags)
def test_narrowing_never_opens(one: Access, other: Access, tags_: DocumentTags) -> None:
    """What both together see, each of them sees."""
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
    """Order and repeats of a document's tags carry no meaning."""
    assert DocumentTags(["b", "a", "b"]) == DocumentTags(("a", "b"))


def test_terms_answer_iri_and_value() -> None:
    """Reading `.iri` of a literal and `.value` of an IRI gives an empty string, never an error."""
    assert (literal("x").iri, literal("x").value) == ("", "x")
    assert (iri("urn:x").iri, iri("urn:x").value) == ("urn:x", "")
    assert Triple(iri("urn:s"), iri("urn:p"), literal("o")).g is None


def test_a_plain_term_is_small_on_the_wire() -> None:
    """Empty fields do not travel."""
    assert encode(Term("i", "urn:x")) == b'{"type":"i","iri":"urn:x"}'


@pytest.mark.parametrize(
    "error", [NotFound("no a", hint="look"), Overloaded("full", retry_after_s=2.0), BadInput("b")]
)
def test_errors_cross_the_broker_unchanged(error: WhenceError) -> None:
    """An error arrives as the same class with the same words."""
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
    """A newer error is still an error."""
    back = error_from_reply(ErrorReply(code="new", message="m"))

    assert isinstance(back, InternalError)


def test_topic_names_are_full_pulsar_names() -> None:
    """Short and full names translate into each other; derived topics keep their parent's name."""
    topic = full_topic("embedding.request")

    assert topic == "persistent://public/default/whence.embedding.request"
    assert short_topic(topic) == "embedding.request"
    assert full_topic(topic) == topic
    assert full_topic("a", persistent=False).startswith("non-persistent://")
    assert retry_topic(topic, "g") == f"{topic}.g.retry"
    assert dead_letter_topic(topic) == f"{topic}.dlq"


@pytest.mark.parametrize("bad", ["", "Über", "a b", "a..b", "persistent://x", ".a"])
def test_bad_topic_names_are_refused(bad: str) -> None:
    """A name that Pulsar or a reader could misread is refused."""
    with pytest.raises(BadInput):
        full_topic(bad)


def test_messages_are_frozen() -> None:
    """A message cannot change once it is made."""
    with pytest.raises(AttributeError):
        EmbeddingRequest(texts=()).texts = ("a",)  # type: ignore[misc]


def test_defaults_of_a_message_are_not_shared() -> None:
    """Two messages never share a mutable default."""
    for cls in (message_types()[name] for name in TYPES):
        for field in msgspec.structs.fields(cls):
            assert not isinstance(field.default, list | set)
