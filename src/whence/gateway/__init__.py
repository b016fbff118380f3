"""Doors for other programs: HTTP, events, MCP and the web page."""
