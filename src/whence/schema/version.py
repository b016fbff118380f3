"""The version of this software; reading it from the metadata of the distribution takes milliseconds."""

from typing import Final

#: The same as in `pyproject.toml`.
VERSION: Final = "0.1.0"
