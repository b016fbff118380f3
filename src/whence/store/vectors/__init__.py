"""Ranking by vectors in PostgreSQL: graphs, how wide they look, and vectors held in memory."""
