"""Checking a collection with queries whose answers are known; nothing is changed by it."""
