"""Processors of code; `flow.registry` names them."""
