"""Models that embed, rerank and write, local or behind an API."""
