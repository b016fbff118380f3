"""From a folder of source code to a bundle: what is defined there, and what depends on what."""
