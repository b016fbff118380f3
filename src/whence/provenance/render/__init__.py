"""Traces as terminal tree, JSON, RDF and SVG; each module is imported only when its format is asked for."""
