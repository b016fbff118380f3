"""The transport over Apache Pulsar."""
