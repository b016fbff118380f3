"""From files to documents cut into chunks: `documents.load` is the way in."""
