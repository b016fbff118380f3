"""From files to documents cut into chunks."""
