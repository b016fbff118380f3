"""Links between passages in PostgreSQL: titles, mentions, and who links to whom."""
