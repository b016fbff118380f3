"""The transport inside one process: `transport` has its topics and client, `faults` what tests inject.

Messages go in and out as bytes, as on Pulsar. Queues are in `broker.queue`. Open `transport` first.
"""
