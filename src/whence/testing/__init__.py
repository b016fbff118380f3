"""Stubs and contract suites for authors of stores, transports and processors; also used by our own tests.

A contract suite is a class of pytest tests, for example `store_suite.StoreSuite`. Subclass it in a test module,
provide its fixtures, and run pytest: the suite is the specification that the protocol's docstrings summarise.

Open `store_suite` to write a store (then the suites of the optional protocols: `lexical_suite`, `filter_suite`,
`hidden_suite`, `passages_suite`, `symbols_suite`, `vocabulary_suite`, `ledger_suite`), `transport_suite` to
write a transport (it joins `delivery_suite`, `request_suite`, `lifecycle_suite` and `worker_suite`),
`retriever_suite` to write an embedder or a store for a `Retriever`, and `stub_clients`, `stub_models` and
`stub_context` to test a processor without services. `samples` makes messages.
"""
