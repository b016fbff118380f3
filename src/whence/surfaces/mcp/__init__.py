"""The Model Context Protocol: `protocol` speaks it, `offer` has its tools, resources and prompts."""
