"""The embedded PostgreSQL: its programs, home and settings, and a life cycle that processes share."""
