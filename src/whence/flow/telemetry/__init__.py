"""What a running flow tells of itself: Prometheus metrics, OpenTelemetry spans, and probes."""
