"""Loaders: one file a format, from bytes to text and blocks."""
