"""Flow files: what is read from a good one, and that a broken one is refused at the right place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.broker.transport import RetryPolicy
from whence.flow.definition import FlowDefinition, check_report
from whence.flow.loader import find_flow, load_flow, parse_flow
from whence.flow.registry import Registry
from whence.flow.yaml_nodes import MAX_BYTES, FlowError
from whence.processors.base import Processor, Service
from whence.schema.errors import ConfigError
from whence.schema.message import Message


class Ask(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "loader-ask.v1"


class Tell(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "loader-tell.v1"


class Find(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "loader-find.v1"


class Event(Message, frozen=True, kw_only=True):
    TYPE: ClassVar[str] = "loader-event.v1"


ASK = Service(Ask, (Tell,))
FIND = Service(Find, (Tell,))


class FrontParameters(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    limit: Annotated[int, msgspec.Meta(ge=1, le=100)] = 20
    share: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    mode: Literal["dense", "hybrid"] = "dense"
    label: str = ""
    loud: bool = False

    def __post_init__(self) -> None:
        if self.loud and not self.label:
            raise ValueError("loud needs a label")


class Front(Processor):
    type_name = "front"
    serves = ASK
    calls = {"find": FIND, "second": FIND}
    optional_calls = frozenset({"second"})
    emits = {"events": Event}
    Parameters = FrontParameters


class Finder(Processor):
    type_name = "finder"
    serves = FIND


class Deep(Processor):
    type_name = "deep"
    serves = FIND
    calls = {"ask": ASK}


class Listener(Processor):
    type_name = "listener"
    consumes = Event


REGISTRY = Registry({cls.type_name: cls for cls in (Front, Finder, Deep, Listener)})

GOOD = """\
flow: sample
description: A front and what it needs.
parameters:
  limit:
    type: integer
    default: 10
    minimum: 1
    maximum: 50
    description: Most results.
processors:
  front:
    type: front
    replicas: 2
    concurrency: 8
    prefetch: 12
    parameters:
      limit: ${limit}
      mode: hybrid
    topics:
      request: front.request
      find: find.request
      events: events
    retry:
      max_attempts: 3
  finder:
    type: finder
    topics:
      request: find.request
  listener:
    type: listener
    topics:
      input: events
interfaces:
  ask:
    request: front.request
    response: front.response
  explain:
    topic: events
"""


def parse(text: str, **options: Any) -> FlowDefinition:
    return parse_flow(text.encode(), source="f.yaml", registry=REGISTRY, **options)


def line_of(text: str, part: str, nth: int = 1) -> int:
    """Return the line of the nth occurrence of `part`."""
    lines = [number for number, line in enumerate(text.split("\n"), 1) if part in line]
    return lines[nth - 1]


def test_a_good_flow_is_read_whole() -> None:
    """The definition has every value of the file, and full topic names."""
    flow = parse(GOOD)
    front = flow.processors[0]

    assert (flow.name, flow.source) == ("sample", "f.yaml")
    assert (front.name, front.type, front.cls) == ("front", "front", Front)
    assert (front.replicas, front.concurrency, front.prefetch) == (2, 8, 12)
    assert front.parameters == FrontParameters(limit=10, mode="hybrid")
    assert front.retry == RetryPolicy(max_attempts=3)
    assert front.inbound == "persistent://public/default/whence.front.request"
    assert "second" not in front.topics
    assert [processor.name for processor in flow.processors] == ["front", "finder", "listener"]
    assert flow.interface("explain").topic == "persistent://public/default/whence.events"


def test_the_namespace_is_in_every_topic() -> None:
    """A flow's own namespace replaces the default one everywhere."""
    flow = parse(GOOD.replace("flow: sample", "flow: sample\nnamespace: acme/prod"))

    topics = [topic for one in flow.processors for topic in one.topics.values()]
    assert all(topic.startswith("persistent://acme/prod/whence.") for topic in topics)


def test_the_check_report_names_processors_and_interfaces() -> None:
    """What `--check` prints has each processor's type and concurrency and full topic names."""
    report = check_report(parse(GOOD))

    first = report["processors"][0]
    assert (first["name"], first["type"], first["concurrency"]) == ("front", "front", 8)
    assert report["flow"] == "sample"
    assert report["interfaces"] == {
        "ask": {
            "request": "persistent://public/default/whence.front.request",
            "response": "persistent://public/default/whence.front.response",
        },
        "explain": {"topic": "persistent://public/default/whence.events"},
    }


# Each row: the replaced text, its replacement, a text on the faulty line, a part of the message.
BROKEN = {
    "unknown key of the flow": (
        "processors:",
        "procesors:",
        "procesors:",
        "did you mean 'processors'?",
    ),
    "unknown key of a processor": ("replicas:", "replica:", "replica:", "did you mean 'replicas'?"),
    "unknown type": ("type: finder", "type: findr", "type: findr", "did you mean 'finder'?"),
    "unknown port": ("find: find", "fnd: find", "fnd: find", "did you mean 'find'?"),
    "topic that nobody serves": (
        "find: find.request",
        "find: fnd.request",
        "find: fnd.request",
        (
            "no processor serves the topic 'fnd.request' (port 'find' of 'front'); did you mean"
            " 'find.request'?"
        ),
    ),
    "topic that nobody consumes": (
        "      events: events",
        "      events: evnts",
        "events: evnts",
        "no processor consumes the topic 'evnts' (port 'events' of 'front'); did you mean 'events'?",
    ),
    "input that nobody feeds": (
        "input: events",
        "input: evens",
        "input: evens",
        (
            "no processor publishes to the topic 'evens' (port 'input' of 'listener'); did you mean"
            " 'events'?"
        ),
    ),
    "request of the wrong type": (
        "find: find.request",
        "find: front.request",
        "find: front.request",
        (
            "port 'find' of 'front' sends loader-find.v1, but 'front' on 'front.request' takes"
            " loader-ask.v1"
        ),
    ),
    "required port left out": (
        "      find: find.request\n",
        "",
        "topics:",
        "processor 'front' has no topic for its port 'find'",
    ),
    "key written twice": (
        "    concurrency: 8",
        "    concurrency: 8\n    concurrency: 9",
        "concurrency: 9",
        "two writers of 'concurrency' in processor 'front': it has a value in line 14 already",
    ),
    "parameter written twice": (
        "      mode: hybrid",
        "      mode: hybrid\n      mode: dense",
        "mode: dense",
        "two writers of 'mode' in parameters of processor 'front'",
    ),
    "two flow parameters for one": (
        "limit: ${limit}",
        "limit: ${limit}${other}",
        "${other}",
        "two writers of 'limit' in parameters of processor 'front': 'limit' and 'other'",
    ),
    "unknown flow parameter": (
        "${limit}",
        "${limt}",
        "${limt}",
        "unknown parameter 'limt'; did you mean 'limit'?",
    ),
    "flow parameter inside text": (
        "mode: hybrid",
        "label: at-${limit}",
        "at-${limit}",
        "${limit} must stand alone",
    ),
    "unknown parameter of a processor": (
        "mode: hybrid",
        "mod: hybrid",
        "mod:",
        "did you mean 'mode'?",
    ),
    "parameter below its range": (
        "mode: hybrid",
        "share: -0.1",
        "share:",
        "'share' in parameters of processor 'front' is -0.1: expected `float` >= 0.0",
    ),
    "parameter of the wrong type": (
        "mode: hybrid",
        "share: much",
        "share:",
        "is 'much': expected `float`, got `str`",
    ),
    "unknown choice": ("mode: hybrid", "mode: hybird", "mode: hybird", "did you mean 'hybrid'?"),
    "parameters that do not fit together": (
        "mode: hybrid",
        "loud: true",
        "limit: ${limit}",
        "loud needs a label",
    ),
    "parameter that promises too much": (
        "maximum: 50",
        "maximum: 500",
        "limit: ${limit}",
        "parameter 'limit' may be 500, but 'limit' in parameters of processor 'front' not",
    ),
    "default out of range": (
        "default: 10",
        "default: 51",
        "default: 51",
        "the default of parameter 'limit' must be at most 50, not 51",
    ),
    "default of the wrong type": (
        "default: 10",
        "default: ten",
        "default: ten",
        "must be of type integer, not 'ten'",
    ),
    "unknown kind of parameter": (
        "type: integer",
        "type: interger",
        "type: interger",
        "did you mean 'integer'?",
    ),
    "list of other things": (
        "type: integer\n    default: 10",
        "type: list\n    default: [a, 1]",
        "default: [a, 1]",
        "must be of type list, not ['a', 1]",
    ),
    "range turned round": ("maximum: 50", "maximum: 0", "maximum: 0", "is below its minimum"),
    "no replica": ("replicas: 2", "replicas: 0", "replicas: 0", "expected `int` >= 1"),
    "too many replicas": ("replicas: 2", "replicas: 65", "replicas: 65", "expected `int` <= 64"),
    "too much concurrency": ("concurrency: 8", "concurrency: 257", "257", "expected `int` <= 256"),
    "a boolean is no number": ("concurrency: 8", "concurrency: true", "true", "got `bool`"),
    "unknown key of retry": (
        "max_attempts",
        "attempts",
        "attempts",
        "did you mean 'max_attempts'?",
    ),
    "no attempt": ("max_attempts: 3", "max_attempts: 0", "max_attempts", "expected `int` >= 1"),
    "bad topic name": (
        "input: events",
        "input: Events!",
        "Events!",
        "'Events!' is not a topic name",
    ),
    "two servers of one topic": (
        "  listener:\n    type: listener\n    topics:\n      input: events",
        "  another:\n    type: finder\n    topics:\n      request: find.request # 2",
        "# 2",
        "two processors serve the topic 'find.request': 'finder' and 'another'",
    ),
    "a cycle": (
        "type: finder\n    topics:\n      request: find.request",
        "type: deep\n    topics:\n      request: find.request\n      ask: front.request",
        "ask: front.request",
        "a cycle: front -> finder -> front (closed by port 'ask' of 'finder')",
    ),
    "interface to nowhere": (
        "  ask:\n    request: front.request",
        "  ask:\n    request: frnt.request",
        "frnt.request",
        "no processor serves the topic 'frnt.request' (interface 'ask'); did you mean 'front.request'?",
    ),
    "interface without a response": (
        "    response: front.response\n",
        "",
        "  ask:",
        "interface 'ask' must have `request` and `response`, or `topic`",
    ),
    "explain as a service": (
        "    topic: events",
        "    request: find.request\n    response: explain",
        "explain:",
        "interface 'explain' must have `topic`",
    ),
    "response that is something else": (
        "response: front.response",
        "response: events",
        "response: events",
        "the response topic 'events' is in use",
    ),
    "a list for a mapping": (
        "{limit}\n      mode: hybrid",
        "{limit}\n    retry: [1]",
        "retry: [1]",
        "not a list",
    ),
    "anchor": ("mode: hybrid", "mode: &a hybrid", "&a", "anchors and aliases are not allowed"),
    "tag": ("mode: hybrid", "mode: !!python/name:os.system x", "!!python", "tag"),
    "tab": ("    type: finder", "\ttype: finder", "\ttype", "not valid YAML"),
    "no name": ("flow: sample\n", "", "description:", "lacks the key 'flow'"),
    "bad processor name": ("  finder:", "  Finder_1:", "Finder_1", "is not a valid processor name"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_flow_is_refused_at_its_line(case: str) -> None:
    """Each fault is reported with file, line, what is wrong and the nearest valid name."""
    before, after, place, words = BROKEN[case]
    text = GOOD.replace(before, after, 1)
    assert text != GOOD

    with pytest.raises(FlowError) as caught:
        parse(text)

    places = [(problem.line, problem.message) for problem in caught.value.problems]
    expected = line_of(text, place)
    assert any(line == expected and words in message for line, message in places), places
    assert str(caught.value).startswith("f.yaml:")


def test_all_faults_are_found_at_once() -> None:
    """Faults do not hide one another, and the message counts them."""
    text = GOOD.replace("replicas: 2", "replicas: 0").replace("type: integer", "type: int")
    text = text.replace("input: events", "input: nowhere")

    with pytest.raises(FlowError) as caught:
        parse(text)

    assert len(caught.value.problems) == 3
    assert str(caught.value).startswith("f.yaml:5:11: 'type' in 'limit' in 'parameters' is 'int'")
    assert str(caught.value).endswith("(and 2 more, line 13, 32)")


def test_an_unknown_type_hides_no_topic() -> None:
    """A processor of an unknown type causes no further faults about its topics."""
    with pytest.raises(FlowError) as caught:
        parse(GOOD.replace("type: finder", "type: findr"))

    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b"flow: a\nproc\xff: b\n", 2, "not UTF-8"),
        (b"", 1, "the file is empty"),
        (b"# nothing\n", 1, "the file is empty"),
        (b"- a\n- b\n", 1, "the flow must be a mapping, not a list"),
        (b"flow: a\n---\nflow: b\n", 2, "a second document"),
        (b"flow: a\nx: \x07\n", 2, "not valid YAML"),
        (b"flow: a\nx: [1, 2\n", 3, "not valid YAML"),
        (b"flow: " + b"[" * 30 + b"]" * 30, 1, "nested more than 20 deep"),
        (b"flow: [" + b"1," * 30_000 + b"]", 1, "more than 20000 values"),
        (b"a: &a [x]\nb: [*a, *a]\n", 1, "anchors and aliases"),
        (b"b: *a\n", 1, "anchors and aliases"),
        (b"? [a]\n: b\n", 1, "a key of the flow must be a word, not a list"),
    ],
)
def test_malformed_files_are_refused(data: bytes, line: int, words: str) -> None:
    """Bytes that are not a bounded, plain YAML mapping are refused with their line."""
    with pytest.raises(FlowError) as caught:
        parse_flow(data, source="f.yaml", registry=REGISTRY)

    assert any(
        problem.line == line and words in problem.message for problem in caught.value.problems
    ), caught.value.problems


@given(st.binary(max_size=300))
def test_any_bytes_give_a_flow_or_a_clear_error(data: bytes) -> None:
    """No input makes the reader fail with anything but a configuration error."""
    with pytest.raises(ConfigError):
        parse_flow(data, registry=REGISTRY)


@given(st.text(alphabet="flow:processs -{}[]&*!|>'\"\n\t#0a", max_size=120))
def test_any_text_gives_a_flow_or_a_clear_error(text: str) -> None:
    """No near-YAML makes the reader fail with anything but a configuration error."""
    with pytest.raises(ConfigError):
        parse_flow(text.encode(), registry=REGISTRY)


def test_a_huge_file_is_refused_unread(tmp_path: Path) -> None:
    """A file above the limit is refused before it is parsed."""
    file = tmp_path / "huge.yaml"
    file.write_bytes(b"#" * (MAX_BYTES + 1))

    with pytest.raises(ConfigError, match="too large for a flow file"):
        load_flow(file, registry=REGISTRY)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that is not there is a configuration error that names it."""
    with pytest.raises(ConfigError, match=r"cannot read the flow file .*absent\.yaml"):
        load_flow(tmp_path / "absent.yaml")


def test_values_of_older_yaml_are_strings() -> None:
    """`on` and `yes` are strings, and so is `12:30`."""
    flow = parse(GOOD.replace("mode: hybrid", 'label: "on"\n      mode: dense'))
    other = parse(GOOD.replace("mode: hybrid", "label: 12:30"))

    assert flow.processors[0].parameters.label == "on"  # type: ignore[attr-defined]
    assert other.processors[0].parameters.label == "12:30"  # type: ignore[attr-defined]


@given(st.integers(-1000, 1000))
def test_a_value_is_accepted_exactly_when_in_range(limit: int) -> None:
    """A flow parameter accepts exactly the values from minimum to maximum."""
    if 1 <= limit <= 50:
        flow = parse(GOOD, values={"limit": limit})
        assert flow.processors[0].parameters.limit == limit  # type: ignore[attr-defined]
        assert flow.parameters[0].value == limit
    else:
        with pytest.raises(ConfigError, match="parameter 'limit' must be at"):
            parse(GOOD, values={"limit": limit})


@pytest.mark.parametrize(
    ("gone", "taken", "refused"), [("maximum: 50", 99, 0), ("minimum: 1", 1, 51)]
)
def test_a_range_may_be_open_at_one_end(gone: str, taken: int, refused: int) -> None:
    """A flow parameter with one bound is checked against that bound."""
    text = GOOD.replace(f"    {gone}\n", "")
    assert parse(text, values={"limit": taken}).parameters[0].value == taken
    with pytest.raises(ConfigError, match="parameter 'limit' must be at"):
        parse(text, values={"limit": refused})


@given(st.integers(-300, 600))
def test_a_literal_is_checked_like_a_parameter(limit: int) -> None:
    """A value in the file is accepted exactly when it is in the range of the processor's parameter."""
    text = GOOD.replace("limit: ${limit}", f"limit: {limit}")
    if 1 <= limit <= 100:
        assert parse(text).processors[0].parameters.limit == limit  # type: ignore[attr-defined]
    else:
        with pytest.raises(FlowError, match=rf"f\.yaml:17:14: .*limit.* is {limit}"):
            parse(text)


def test_values_are_read_as_on_a_command_line() -> None:
    """A string given for an integer is read as one, and refused when it is none."""
    assert parse(GOOD, values={"limit": "7"}).parameters[0].value == 7
    with pytest.raises(ConfigError, match="must be of type integer, not 'seven'"):
        parse(GOOD, values={"limit": "seven"})
    with pytest.raises(ConfigError, match="did you mean 'limit'"):
        parse(GOOD, values={"limits": 7})


def test_a_list_is_read_from_the_file_and_from_a_command_line() -> None:
    """A parameter of type list gives a processor several strings; on a command line commas divide them."""
    text = find_flow("code-rag").read_text().replace("default: []", "default: [Calls, FK]")

    def relations(**values: Any) -> Any:
        flow = parse(text, values={name.replace("_", "-"): one for name, one in values.items()})
        (processor,) = flow.only(("code-rag",))
        return processor.parameters.relations  # type: ignore[attr-defined]

    assert relations() == ("Calls", "FK")
    assert relations(graph_relations="ReadsFrom, WritesTo") == ("ReadsFrom", "WritesTo")
    assert relations(graph_relations=[]) == ()
    with pytest.raises(FlowError, match="'relations' in parameters of processor 'code-rag'"):
        relations(graph_relations=[" "])


def test_only_selects_processors_in_order() -> None:
    """`only` keeps the file's order and names the nearest processor for an unknown one."""
    flow = parse(GOOD)

    assert [one.name for one in flow.only(("listener", "front"))] == ["front", "listener"]
    assert flow.only(()) == flow.processors
    with pytest.raises(ConfigError, match="no processor 'findr'; did you mean 'finder'"):
        flow.only(("findr",))
