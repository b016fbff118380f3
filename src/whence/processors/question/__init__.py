"""The steps of one question, each in a file of its own, and the pure functions they stand on."""
