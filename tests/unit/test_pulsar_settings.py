"""What can be said about the Pulsar transport without a broker: settings, errors, schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pulsar
import pytest
from pulsar.asyncio import PulsarException

from whence.broker.pulsar.admin import _add_up
from whence.broker.pulsar.errors import is_gone, translate
from whence.broker.pulsar.options import checked_url
from whence.broker.pulsar.schema_registry import MessageSchema, avro_record
from whence.broker.pulsar.transport import PulsarOptions, PulsarTransport
from whence.schema import EmbeddingRequest, SearchRequest, encode, message_types
from whence.schema.errors import BadInput, ConfigError, Overloaded, Unavailable, WhenceError
from whence.testing.samples import sample


def fits(value: Any, kind: Any, names: dict[str, Any]) -> bool:
    """Return whether a JSON value fits an Avro type; omitted fields have defaults."""
    if isinstance(kind, list):
        return any(fits(value, branch, names) for branch in kind)
    if isinstance(kind, str) and kind in names:
        return fits(value, names[kind], names)
    if isinstance(kind, str):
        plain = {"null": type(None), "boolean": bool, "string": str, "long": int}
        return type(value) is plain[kind] if kind in plain else type(value) in (int, float)
    if kind["type"] == "array":
        return isinstance(value, list) and all(fits(item, kind["items"], names) for item in value)
    if kind["type"] == "map":
        values = value.values() if isinstance(value, dict) else (value,)
        return isinstance(value, dict) and all(fits(v, kind["values"], names) for v in values)
    names[kind["name"]] = kind
    return isinstance(value, dict) and all(
        fits(value[field["name"]], field["type"], names)
        if field["name"] in value
        else "default" in field
        for field in kind["fields"]
    )


@pytest.mark.parametrize("name", message_types())
def test_every_message_fits_its_broker_schema(name: str) -> None:
    """The registered schema describes what the codec writes, complete and with defaults left out."""
    cls = message_types()[name]
    record = avro_record(cls)

    assert fits(json.loads(encode(sample(cls))), record, {})
    assert {field["name"] for field in record["fields"]} == set(cls.__struct_encode_fields__)
    required = {item.encode_name for item in msgspec.structs.fields(cls) if item.required}
    assert {field["name"] for field in record["fields"] if "default" not in field} == required


@pytest.mark.parametrize("name", message_types())
def test_defaults_are_of_the_first_branch(name: str) -> None:
    """Avro requires that a default fits the first branch of a union."""
    seen: dict[str, Any] = {}
    pending: list[Any] = [avro_record(message_types()[name])]
    checked = 0
    while pending:
        kind = pending.pop()
        if isinstance(kind, list):
            pending.extend(kind)
        elif isinstance(kind, dict):
            pending.extend(kind[part] for part in ("items", "values") if part in kind)
            for field in kind.get("fields", ()):
                seen.setdefault(kind["name"], kind)
                pending.append(field["type"])
                if "default" in field:
                    first = field["type"][0] if isinstance(field["type"], list) else field["type"]
                    assert fits(field["default"], first, seen), field
                    checked += 1

    assert checked or all("default" not in f for f in avro_record(message_types()[name])["fields"])


def test_a_schema_changes_no_body() -> None:
    """Registering a type changes no byte of a body."""
    schema = MessageSchema(SearchRequest)

    assert schema.decode(schema.encode(b'{"a":1}')) == b'{"a":1}'


def test_a_type_without_an_avro_form_is_refused() -> None:
    """Such a type is refused when it is registered, not when it is sent."""

    class Odd(msgspec.Struct):
        raw: msgspec.Raw

    with pytest.raises(ConfigError, match="RawType"):
        avro_record(Odd)


def test_a_topic_has_one_type() -> None:
    """Registering a second type for a topic is refused; the first again is not."""
    transport = PulsarTransport("pulsar://127.0.0.1:6650")
    transport.register_topic("embedding.request", EmbeddingRequest)
    transport.register_topic("embedding.request", EmbeddingRequest)

    with pytest.raises(ConfigError, match="embedding-request"):
        transport.register_topic("embedding.request", SearchRequest)


@pytest.mark.parametrize(
    "url",
    [
        "pulsar://",
        "pulsar://host",
        "http://host:8080",
        "pulsar://user:secret@host:6650",
        "pulsar://host:6650/path",
        "pulsar://host:6650?token=secret",
        "host:6650",
    ],
)
def test_bad_addresses_are_refused_without_their_secrets(url: str) -> None:
    """An invalid address is refused, and a password in it is not repeated."""
    with pytest.raises(ConfigError) as told:
        PulsarTransport(url)

    assert "user:secret" not in str(told.value)


@pytest.mark.parametrize("url", ["pulsar://a:1", "pulsar+ssl://a:1", "pulsar://a:1,b:2"])
def test_valid_addresses_are_accepted(url: str) -> None:
    """One or several brokers, with or without TLS, are an address."""
    assert checked_url(url) == checked_url(url + "/") == PulsarTransport(url).url == url


def test_options_come_from_the_environment() -> None:
    """Every option has a variable, numbers are parsed, and foreign variables are ignored."""
    given = {
        "WHENCE_PULSAR_TOKEN": "secret",
        "WHENCE_PULSAR_MAX_PENDING": "7",
        "WHENCE_PULSAR_SEND_TIMEOUT_S": "2.5",
        "WHENCE_PULSAR_NAMESPACE": "acme/search",
        "WHENCE_PULSAR_ADMIN_URL": "",
        "PATH": "/bin",
    }

    options = PulsarOptions.from_environment(given)

    expected = PulsarOptions(
        token="secret", max_pending=7, send_timeout_s=2.5, namespace="acme/search"
    )
    assert options == expected
    assert "secret" not in repr(options)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"token": "t", "token_file": "f"}, "token and token_file"),
        ({"oauth2_issuer_url": "https://issuer"}, "oauth2_private_key"),
        ({"tls_key": "k"}, "tls_certificate"),
        ({"namespace": "public"}, "public"),
        ({"max_pending": 0}, "max_pending"),
        ({"send_timeout_s": float("nan")}, "send_timeout_s"),
    ],
)
def test_bad_options_are_named(values: dict[str, Any], told: str) -> None:
    """Two ways to authenticate, incomplete pairs and values out of range are refused, and named."""
    with pytest.raises(ConfigError, match=told):
        PulsarOptions(**values)


def test_an_invalid_number_is_named() -> None:
    """The error names the variable with the invalid number."""
    with pytest.raises(ConfigError, match="WHENCE_PULSAR_MAX_PENDING"):
        PulsarOptions.from_environment({"WHENCE_PULSAR_MAX_PENDING": "many"})


def test_token_file_is_read_each_time(tmp_path: Path) -> None:
    """A renewed token is used from then on; a missing file is an error."""
    file = tmp_path / "token"
    file.write_text("one\n", encoding="utf-8")
    options = PulsarOptions(token_file=str(file))

    assert options.bearer() == "one"
    file.write_text("two", encoding="utf-8")
    assert options.bearer() == "two"
    file.unlink()
    with pytest.raises(ConfigError, match="token file"):
        options.authentication()


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"token": "t"},
        {"oauth2_issuer_url": "https://issuer", "oauth2_private_key": "/key"},
        {"tls_certificate": "/cert", "tls_key": "/key"},
    ],
)
def test_authentication_follows_the_options(values: dict[str, str]) -> None:
    """The client library gets the configured authentication, or none."""
    assert (PulsarOptions(**values).authentication() is not None) is bool(values)


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (pulsar.Result.ProducerQueueIsFull, Overloaded),
        (pulsar.Result.MemoryBufferIsFull, Overloaded),
        (pulsar.Result.MessageTooBig, BadInput),
        (pulsar.Result.IncompatibleSchema, BadInput),
        (pulsar.Result.AuthenticationError, ConfigError),
        (pulsar.Result.InvalidTopicName, ConfigError),
        (pulsar.Result.ConsumerBusy, Unavailable),
        (pulsar.Result.Timeout, Unavailable),
        (pulsar.Result.ConnectError, Unavailable),
    ],
)
def test_results_are_translated_to_errors(result: Any, kind: type[WhenceError]) -> None:
    """Each result code has an error class; its message has the operation, the address and the broker's text."""
    error = translate(PulsarException(result, "because"), "publish to t", "pulsar://a:1")

    assert type(error) is kind
    for part in ("publish to t", "pulsar://a:1", result.name, "because"):
        assert part in error.message
    assert error.hint


def test_only_closed_producers_are_replaced() -> None:
    """A producer that timed out is not replaced, because its message may be stored."""
    assert is_gone(PulsarException(pulsar.Result.AlreadyClosed))
    assert not is_gone(PulsarException(pulsar.Result.Timeout))


def test_statistics_separate_backlog_and_in_flight() -> None:
    """The backlog excludes unsettled messages; consumers of this process count theirs."""
    told = {
        "msgBacklog": 10,
        "earliestMsgPublishTimeInBacklog": 1_000,
        "consumers": [
            {"consumerName": "mine", "unackedMessages": 5},
            {"consumerName": "other", "unackedMessages": 2},
        ],
    }
    retries = {"msgBacklog": 3, "consumers": []}
    found = {"t": {"subscriptions": {"g": told}}, "r": {"subscriptions": {"g": retries}}, "x": {}}

    stats = _add_up(found, "g", {("t", "mine"): 1})

    assert (stats.backlog, stats.in_flight) == (10, 3)
    assert stats.oldest_age_s > 1_000_000
    assert _add_up(found, "nobody", {}) == (0, 0, 0.0)
