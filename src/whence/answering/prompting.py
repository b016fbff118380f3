"""How the prompt service asks its models: templates, language, instructions, and which model is asked."""

from __future__ import annotations

import hashlib
import string
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from whence.answering.prompts import TEMPLATES, Template
from whence.models.prices import Prices
from whence.schema.errors import ConfigError

if TYPE_CHECKING:
    from whence.models.protocols import Writer

Concepts = Literal["auto", "on", "off"]

_FIELDS: Final = frozenset(("query", "documents", "note", "language"))
_DIGITS: Final = 12


class Prompting(msgspec.Struct, frozen=True, kw_only=True):
    """What holds for all questions of a service."""

    templates: Mapping[str, Template] = msgspec.field(default_factory=lambda: TEMPLATES)
    """By id."""
    language: str = ""
    """Language of answers; empty for that of the question."""
    instructions: str = ""
    """What the model is told beside the rules."""
    local_only: frozenset[str] = frozenset()
    """Labels and ACL tags whose documents are sent to no writer on another machine."""
    prices: Prices = Prices()
    """What models cost."""
    concepts: Concepts = "on"
    """Whether a language model is asked what to search for; `auto` does not ask it, for it costs a call before
    anything is searched."""
    rewriter: Writer | None = None
    """Model for concepts and for completing questions; None for the one that writes answers."""

    async def aclose(self) -> None:
        """Close the model for concepts."""
        if self.rewriter is not None:
            await self.rewriter.aclose()


def read_templates(folder: Path | None) -> Mapping[str, Template]:
    """Return the templates, those of a folder before our own; a folder has them as `ID.toml`.

    A file has the texts `system` and `prompt`; the latter has `{query}`, and may have `{documents}`, `{note}`
    and `{language}`. The digest of its bytes stands in traces.

    Raises:
        ConfigError: The folder or a file cannot be read, or a file is no template.
    """
    if folder is None:
        return TEMPLATES
    if not folder.is_dir():
        raise ConfigError(f"there is no folder {folder} (WHENCE_PROMPTS)", hint="name a folder")
    found = {file.stem: _read(file) for file in sorted(folder.glob("*.toml"))}
    return {**TEMPLATES, **found}


def _read(file: Path) -> Template:
    if file.stem not in TEMPLATES:
        names = ", ".join(f"{one}.toml" for one in TEMPLATES)
        raise ConfigError(f"{file} is the template of no prompt", hint=f"one of {names}")
    try:
        data = file.read_bytes()
        fields = tomllib.loads(data.decode("utf-8-sig"))
        system, prompt = fields["system"], fields["prompt"]
        named = {name for _, name, _, _ in string.Formatter().parse(prompt) if name is not None}
    except OSError as error:
        raise ConfigError(f"cannot read {file}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"{file} is no template: {error}", hint="it has the texts system and prompt"
        ) from error
    needed = {"query", "documents"} if "{documents}" in TEMPLATES[file.stem].prompt else {"query"}
    if not isinstance(system, str) or not needed <= named <= _FIELDS:
        raise ConfigError(
            f"{file} is no template: its prompt has the fields {', '.join(sorted(named)) or 'none'}",
            hint=f"it needs {', '.join(sorted(needed))}, and may have {', '.join(sorted(_FIELDS))}",
        )
    digest = hashlib.sha256(data).hexdigest()[:_DIGITS]
    return Template(template_id=file.stem, version=f"sha256:{digest}", system=system, prompt=prompt)
