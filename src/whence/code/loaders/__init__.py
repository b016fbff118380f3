"""Loaders of source code; `ingest.loader_registry` finds them."""
