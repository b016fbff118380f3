"""Stub clients and contract suites for the tests of Whence's users and of its own."""
