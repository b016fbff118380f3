"""The bus: messages are bytes that travel from a publisher to consumer groups, at least once.

In go bytes with headers for a topic; out come deliveries, replies to requests, and dead letters. Open first:

- `transport`: the contract of a transport (publish, subscribe, request, stream) and its types.
- `worker`: from a topic to a handler; `delivery` is one message on its way: attempts, replies, settlement.
- `requests`: requests and replies on top of publish and subscribe.
- `connect`: from a URL to a transport, plug-ins included.

Other packages may use these, `clock`, `control`, `dead_letters`, `idempotency` and `retry`;
`connect` opens `memory` and `pulsar`. `whence.testing.transport_suite` tests any transport.
"""
