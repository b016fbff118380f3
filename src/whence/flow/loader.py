"""Reads a flow file: bytes in, a checked definition out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import yaml

from whence.broker.transport import RetryPolicy
from whence.flow.definition import (
    EXPLAIN,
    MAX_CONCURRENCY,
    MAX_PREFETCH,
    MAX_PROCESSORS,
    MAX_REPLICAS,
    FlowDefinition,
    InterfaceDefinition,
    ParameterDefinition,
    ParameterFile,
    ProcessorDefinition,
    did_you_mean,
    ports,
)
from whence.flow.registry import Registry
from whence.flow.topology import TopologyCheck
from whence.flow.yaml_nodes import (
    MAX_BYTES,
    THE_FLOW,
    FlowError,
    InvalidValue,
    Problem,
    TypedReader,
    compose_yaml,
    empty_mapping,
    type_fault,
)
from whence.processors.base import NoParameters, Processor
from whence.schema.errors import ConfigError
from whence.schema.topics import DEFAULT_NAMESPACE, full_topic

#: Flows that are part of Whence: in the wheel beside this module, else `flows/` of the repository.
_PACKAGED = Path(__file__).with_name("shipped")
_SHIPPED = _PACKAGED if _PACKAGED.is_dir() else Path(__file__).parents[3] / "flows"


def shipped_flows() -> tuple[str, ...]:
    """Return the names of the shipped flows in order."""
    return tuple(sorted(file.stem for file in _SHIPPED.glob("*.yaml")))


def find_flow(name: str | Path) -> Path:
    """Return the file of a flow.

    Args:
        name: A path, or the name of a shipped flow. A name with a suffix or a folder is a path.

    Raises:
        ConfigError: The name is not a path, and no shipped flow has it.
    """
    path = Path(name)
    if path.suffix or len(path.parts) != 1:
        return path
    names = shipped_flows()
    if str(name) not in names:
        raise ConfigError(
            f"there is no shipped flow {str(name)!r}{did_you_mean(str(name), names)}",
            hint=f"give the path of a YAML file, or one of {', '.join(names)}",
        )
    return _SHIPPED / f"{name}.yaml"


def load_flow(
    path: str | Path, *, values: Mapping[str, Any] | None = None, registry: Registry | None = None
) -> FlowDefinition:
    """Read and check a flow file.

    Args:
        path: The file, or the name of a shipped flow; see `find_flow`.
        values: Values of flow parameters that replace their defaults; strings are read as on a command line.
        registry: Registry of processor types.

    Raises:
        FlowError: The file is wrong; the error holds every problem found, the first one in its message.
        ConfigError: No shipped flow has this name, the file cannot be read, or a value does not fit its
            parameter.
    """
    file = find_flow(path)
    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(
            f"cannot read the flow file {file}: {error.strerror or error}",
            hint="give the path of a YAML file, or the name of a shipped flow",
        ) from error
    return parse_flow(data, source=str(file), values=values, registry=registry)


def parse_flow(
    data: bytes,
    *,
    source: str = "<flow>",
    values: Mapping[str, Any] | None = None,
    registry: Registry | None = None,
) -> FlowDefinition:
    """Check a flow given as bytes; otherwise as `load_flow`."""
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{source} is larger than {MAX_BYTES} bytes, too large for a flow file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start]
        line, column = before.count(b"\n") + 1, error.start - before.rfind(b"\n")
        problem = Problem(line, column, "not UTF-8", "save the file as UTF-8")
        raise FlowError(source, [problem]) from error
    reader = TypedReader(compose_yaml(text, source), source)
    return _Builder(reader, registry or Registry()).build(values or {})


_TYPES: Mapping[str, Any] = {
    "string": str,
    "integer": int,
    "number": float,
    "boolean": bool,
    "choice": str,
    "list": list[str],
}
_NUMERIC = ("integer", "number")


def read_parameters(
    reader: TypedReader, declared: Mapping[str, ParameterFile], values: Mapping[str, Any]
) -> dict[str, ParameterDefinition]:
    """Check the declarations and apply the caller's values.

    Raises:
        ConfigError: A value is given for an unknown parameter, or is out of its range.
    """
    found: dict[str, ParameterDefinition] = {}
    for name, one in declared.items():
        problems = len(reader.problems)
        _check(reader, name, one)
        if len(reader.problems) == problems:
            fields = msgspec.structs.asdict(one)
            found[name] = ParameterDefinition(name=name, value=one.default, **fields)
    return found if reader.problems else _with_values(found, values)


def _check(reader: TypedReader, name: str, one: ParameterFile) -> None:
    what, path = f"parameter {name!r}", ("parameters", name)
    for key, bound in (("minimum", one.minimum), ("maximum", one.maximum)):
        if bound is None:
            continue
        if one.type not in _NUMERIC:
            message = f"{what} is a {one.type}, which has no {key}"
            reader.report((*path, key), message, at_key=True)
        elif type_fault(bound, _TYPES[one.type]):
            reader.report((*path, key), f"{key} of {what} must be of type {one.type}")
    if one.minimum is not None and one.maximum is not None and one.minimum > one.maximum:
        reader.report((*path, "maximum"), f"maximum of {what} is below its minimum")
    if (one.choices is None) == (one.type == "choice"):
        key = "type" if one.choices is None else "choices"
        reader.report((*path, key), f"{what}: `choices` and type `choice` belong together")
        return
    reason = _refusal(one, one.default)
    if reason:
        reader.report((*path, "default"), f"the default of {what} {reason}")


def _refusal(one: ParameterFile, value: Any) -> str:
    """Return the reason why a parameter cannot have a value, or an empty text when it can."""
    if type_fault(value, _TYPES[one.type]):
        return f"must be of type {one.type}, not {value!r}"
    if one.type == "choice" and value not in (choices := list(one.choices or ())):
        return f"must be one of {', '.join(choices)}, not {value!r}{did_you_mean(value, choices)}"
    if one.minimum is not None and value < one.minimum:
        return f"must be at least {one.minimum}, not {value!r}"
    if one.maximum is not None and value > one.maximum:
        return f"must be at most {one.maximum}, not {value!r}"
    return ""


def _with_values(
    definitions: Mapping[str, ParameterDefinition], values: Mapping[str, Any]
) -> dict[str, ParameterDefinition]:
    found = dict(definitions)
    for name, given in values.items():
        if name not in found:
            raise ConfigError(
                f"the flow has no parameter {name!r}{did_you_mean(name, sorted(found))}",
                hint=f"its parameters: {', '.join(sorted(found)) or 'none'}",
            )
        value = _parse_option(given, found[name].type)
        reason = _refusal(found[name], value)
        if reason:
            raise ConfigError(f"parameter {name!r} {reason}")
        found[name] = msgspec.structs.replace(found[name], value=value)
    return found


def _parse_option(given: Any, kind: str) -> Any:
    """Return a value given as a string, as on a command line, in the parameter's type where it fits."""
    if not isinstance(given, str) or kind in ("string", "choice"):
        return given
    if kind == "list":
        return [word.strip() for word in given.split(",") if word.strip()]
    try:
        return msgspec.convert(given.strip(), _TYPES[kind], strict=False)
    except msgspec.ValidationError:
        return given


_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_NAMESPACE = re.compile(r"[A-Za-z0-9_.-]+/[A-Za-z0-9_.-]+\Z")

Text = Annotated[str, msgspec.Meta(min_length=1)]


class ProcessorFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `processors`."""

    type: Text
    replicas: Annotated[int, msgspec.Meta(ge=1, le=MAX_REPLICAS)] = 1
    concurrency: Annotated[int, msgspec.Meta(ge=1, le=MAX_CONCURRENCY)] = 1
    prefetch: Annotated[int, msgspec.Meta(ge=1, le=MAX_PREFETCH)] | None = None
    parameters: yaml.Node | None = None
    topics: dict[str, Text] = {}
    retry: RetryPolicy = RetryPolicy()


class InterfaceFile(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of `interfaces`."""

    request: Text | None = None
    response: Text | None = None
    topic: Text | None = None


class FlowFile(msgspec.Struct, frozen=True, kw_only=True):
    """A flow file."""

    REQUIRED = ("flow", "processors")

    flow: Text = ""
    description: Text = ""
    namespace: Text = DEFAULT_NAMESPACE
    parameters: dict[str, ParameterFile] = {}
    processors: dict[str, yaml.Node] = {}
    interfaces: dict[str, InterfaceFile] = {}


class _Builder:
    def __init__(self, reader: TypedReader, registry: Registry) -> None:
        self._reader = reader
        self._registry = registry
        self._namespace = DEFAULT_NAMESPACE

    def build(self, values: Mapping[str, Any]) -> FlowDefinition:
        reader = self._reader
        file = FlowFile()
        with suppress(InvalidValue):
            file = reader.convert(reader.root, FlowFile, THE_FLOW)
        self._check_names(file)
        self._namespace = file.namespace
        parameters = read_parameters(reader, file.parameters, values)
        reader.parameters = parameters
        built = [self._processor(name, node) for name, node in file.processors.items()]
        processors = [one for one in built if one is not None]
        interfaces = self._interfaces(file.interfaces)
        # A topic that nothing serves may belong to the processor whose type is unknown.
        TopologyCheck(processors, interfaces, reader, complete=None not in built).run()
        if reader.problems:
            raise FlowError(reader.source, reader.problems)
        return FlowDefinition(
            name=file.flow,
            description=file.description,
            namespace=file.namespace,
            parameters=tuple(parameters.values()),
            processors=tuple(processors),
            interfaces=tuple(interfaces),
            source=reader.source,
        )

    def _check_names(self, file: FlowFile) -> None:
        names: list[tuple[tuple[str, ...], str, str]] = []
        if file.flow:
            names.append((("flow",), file.flow, "flow"))
        names += [(("processors", name), name, "processor") for name in file.processors]
        names += [(("interfaces", name), name, "interface") for name in file.interfaces]
        for path, name, what in names:
            if not _NAME.match(name):
                self._reader.report(
                    path,
                    f"{name!r} is not a valid {what} name",
                    "use lower-case words joined by -, e.g. text-fetcher",
                    at_key=len(path) > 1,
                )
        if not _NAMESPACE.match(file.namespace):
            self._reader.report(
                ("namespace",),
                f"{file.namespace!r} is not a valid namespace",
                f"use TENANT/NAME, e.g. {DEFAULT_NAMESPACE}",
            )
        if len(file.processors) > MAX_PROCESSORS or not (file.processors or self._reader.problems):
            message = f"a flow must have 1 to {MAX_PROCESSORS} processors"
            self._reader.report(("processors",), message)

    def _processor(self, name: str, node: yaml.Node) -> ProcessorDefinition | None:
        """Return a processor; None when its type is unknown."""
        reader, what = self._reader, f"processor {name!r}"
        try:
            file: ProcessorFile = reader.convert(node, ProcessorFile, what)
            cls = self._registry.get(file.type)
        except InvalidValue:
            return None
        except ConfigError as error:
            reader.report(("processors", name, "type"), error.message, error.hint)
            return None
        # With wrong parameters the topics are checked all the same; then the problems are raised.
        parameters: msgspec.Struct = NoParameters()
        with suppress(InvalidValue):
            given = file.parameters or empty_mapping(node)
            parameters = reader.convert(given, cls.Parameters, f"parameters of {what}")
        return ProcessorDefinition(
            name=name,
            type=cls.type_name,
            cls=cls,
            parameters=parameters,
            topics=self._topics(name, cls, file.topics),
            retry=file.retry,
            replicas=file.replicas,
            concurrency=file.concurrency,
            prefetch=file.prefetch,
        )

    def _topics(
        self, name: str, cls: type[Processor], declared: Mapping[str, str]
    ) -> dict[str, str]:
        """Return full topics by port; unknown ports, bad names and missing ports are reported."""
        what, path = f"processor {name!r}", ("processors", name, "topics")
        topics: dict[str, str] = {}
        for port, topic in declared.items():
            if port not in ports(cls):
                self._reader.report(
                    (*path, port),
                    f"unknown port {port!r} of {what}{did_you_mean(port, ports(cls))}",
                    f"its ports: {', '.join(ports(cls))}",
                    at_key=True,
                )
            elif full := self._full_topic((*path, port), topic):
                topics[port] = full
        for port in ports(cls):
            if port not in cls.optional_calls and not self._reader.has((*path, port)):
                self._reader.report(
                    path,
                    f"{what} has no topic for its port {port!r}",
                    f"add `{port}: TOPIC` to its topics",
                    at_key=True,
                )
        return topics

    def _interfaces(self, declared: Mapping[str, InterfaceFile]) -> list[InterfaceDefinition]:
        found = []
        for name, one in declared.items():
            given = {key: text for key, text in msgspec.structs.asdict(one).items() if text}
            if set(given) not in ({"request", "response"}, {"topic"}) or (
                name == EXPLAIN and not one.topic
            ):
                wanted = "`topic`" if name == EXPLAIN else "`request` and `response`, or `topic`"
                message = f"interface {name!r} must have {wanted}"
                self._reader.report(("interfaces", name), message, at_key=True)
                continue
            topics = {
                key: self._full_topic(("interfaces", name, key), text)
                for key, text in given.items()
            }
            if all(topics.values()):
                found.append(InterfaceDefinition(name=name, **topics))
        return found

    def _full_topic(self, path: tuple[str, ...], topic: str) -> str:
        """Return the full name of a topic, or an empty text when the name is reported as wrong."""
        try:
            return full_topic(topic, namespace=self._namespace)
        except ConfigError as error:
            self._reader.report(path, error.message, error.hint)
            return ""
