"""Processors of code; entry points of `whence.processors` name them."""
