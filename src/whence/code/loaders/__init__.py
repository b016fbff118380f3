"""Loaders of source code; entry points of `whence.loaders` name them."""
