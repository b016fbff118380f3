"""Traces as text, RDF, pictures and JSON; each format is loaded only when it is asked for."""
