"""The passage graph in PostgreSQL: names of passages, where texts mention them, and the links between."""
