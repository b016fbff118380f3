"""The transport over Apache Pulsar; only this package imports the client library.

`transport` publishes and subscribes; open it first. `client` opens producers, consumers and readers,
`subscription` receives and settles messages, `producer_pool` shares producers, `admin` asks for
statistics, `options` reads `WHENCE_PULSAR_...`, `errors` translates result codes, `schema_registry` describes
message types to the broker.
"""
