"""Bundles of code: zip archives or folders with nodes, their texts and the edges between them."""
