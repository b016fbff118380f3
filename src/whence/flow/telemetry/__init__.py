"""Telemetry of a running flow: Prometheus metrics, OpenTelemetry spans, probes and log lines.

In: `FlowHealth` of the runtime and the messages that it handles. Out: HTTP endpoints, spans, text lines.
Start reading at `monitor.py`.
"""
