"""Measuring retrieval and refusing what makes it worse."""
