"""Whence: retrieval that shows where every answer came from."""
