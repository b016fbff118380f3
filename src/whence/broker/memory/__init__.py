"""The transport inside one process."""
