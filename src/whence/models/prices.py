"""What language models cost by a price list of the user's own.

The list is a file in TOML: `currency = "EUR"`, and for each model a table `[models."NAME"]` with `input` and
`output`, the prices of a million tokens that it reads and writes. A model without a price costs an unknown sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from whence.schema.errors import ConfigError

_MILLION: Final = 1_000_000
_Price = Annotated[float, msgspec.Meta(ge=0)]


class ModelPrice(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices of a million tokens."""

    input: _Price = 0.0
    output: _Price = 0.0


class Prices(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A price list."""

    currency: str = ""
    models: Mapping[str, ModelPrice] = {}

    def cost(self, model: str, read: int | None, written: int | None) -> float | None:
        """Return what a text cost; None when the price of the model or a number of tokens is not known.

        Args:
            model: Its name, with or without `@HOST`; a price for a name with its host goes first.
            read: Tokens that it read.
            written: Tokens that it wrote.

        >>> list_ = Prices(models={"m": ModelPrice(input=2.0, output=10.0)})
        >>> list_.cost("m@host", 500_000, 10_000), list_.cost("other", 1, 1), list_.cost("m", None, 1)
        (1.1, None, None)
        """
        price = self.models.get(model) or self.models.get(model.partition("@")[0])
        if price is None or read is None or written is None:
            return None
        return (read * price.input + written * price.output) / _MILLION


def read_prices(file: Path | None) -> Prices:
    """Return the list in a file; an empty one without a file.

    Raises:
        ConfigError: The file cannot be read, or is no price list.
    """
    if file is None:
        return Prices()
    try:
        return msgspec.toml.decode(file.read_bytes(), type=Prices)
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror} (WHENCE_PRICES)") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} is no price list: {error} (WHENCE_PRICES)",
            hint='it has lines such as [models."NAME"], input = 0.5, output = 1.5',
        ) from error
