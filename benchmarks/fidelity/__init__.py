"""How faithfully files are read: test files of document libraries, read here and by another reader."""
