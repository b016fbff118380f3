"""Transports that carry messages, and the rules of retrying, replying and giving up."""
