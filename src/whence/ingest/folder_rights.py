"""Rights of files by their path: the rules of `--rights FILE`.

```toml
[[rule]]
path = "**"
acl = ["staff"]

[[rule]]
path = "hr/salaries/**"
acl = ["hr"]
clearance = 2
```

Patterns are those of `.gitignore`, relative to the root, wherever the file of rules lies. The root is the
folder that is named; of a file that is named alone it is the known one around it, else its folder. The most
specific rule of a file holds: that with the most names without `*`, then with the most other characters. A
file without a rule is refused, so that a folder that nobody thought of does not become public. Tags only
narrow those of the run and of the document itself.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from whence.ingest.catalogue import normal
from whence.schema.access import DocumentTags
from whence.schema.errors import BadInput

_HINT = 'for example: [[rule]] path = "hr/**", acl = ["hr"], labels = [], clearance = 2'
_WILD = frozenset("*?[")
_MAX_BYTES = 2**20


class _Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    acl: list[str] = []
    labels: list[str] = []
    clearance: int = 0


class _RightsFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: list[_Rule]


class FolderRights:
    """The rules of a file."""

    def __init__(self, rules: Sequence[_Rule], name: str) -> None:
        from pathspec import GitIgnoreSpec

        self._name = name
        self._rules: list[tuple[tuple[int, int], Any, _Rule, DocumentTags]] = []
        for one in rules:
            pattern = normal(one.path.strip())
            if not pattern or pattern[0] in "#!":
                raise BadInput(f"{name}: {one.path!r} is no pattern of paths", hint=_HINT)
            try:
                spec = GitIgnoreSpec.from_lines([pattern])
                tags = DocumentTags(tuple(one.acl), tuple(one.labels), one.clearance)
            except (ValueError, BadInput) as error:
                raise BadInput(f"{name}: the rule for {one.path!r}: {error}", hint=_HINT) from error
            self._rules.append((_specificity(pattern), spec, one, tags))
        self._rules.sort(key=lambda rule: rule[0], reverse=True)

    def rule_of(self, path: str) -> tuple[str, DocumentTags]:
        """Return the pattern of the rule that holds for a path relative to its root, and its tags.

        Raises:
            BadInput: There is no such rule, or two that are equally specific and differ.
        """
        found = [rule for rule in self._rules if rule[1].match_file(path)]
        if not found:
            raise BadInput(
                f"no rule of {self._name} is for it; a rule with path = '**' is for all other files"
            )
        first, *others = [rule for rule in found if rule[0] == found[0][0]]
        other = next((rule for rule in others if rule[3] != first[3]), None)
        if other is not None:
            raise BadInput(
                f"the rules {first[2].path!r} and {other[2].path!r} of {self._name} are equally specific and differ"
            )
        return first[2].path, first[3]

    def tags_of(self, path: str) -> DocumentTags:
        """Return the tags of a path; errors as for `rule_of`."""
        return self.rule_of(path)[1]


def _specificity(pattern: str) -> tuple[int, int]:
    """Return the number of names without wildcards, and of characters that are no wildcards.

    >>> _specificity("hr/**") > _specificity("*.xlsx") > _specificity("**")
    True
    """
    names = [one for one in pattern.split("/") if one]
    literal = sum(1 for one in names if not _WILD & set(one))
    return literal, sum(len(one) - one.count("*") - one.count("?") for one in names)


def read_folder_rights(path: str | PathLike[str]) -> FolderRights:
    """Read a file of rules.

    Raises:
        BadInput: It cannot be read, or a rule is malformed.
    """
    name = os.fspath(path)
    try:
        data = Path(path).read_bytes()
        if len(data) > _MAX_BYTES:
            raise BadInput(f"{name} is longer than {_MAX_BYTES:,} bytes", hint=_HINT)
        rules = msgspec.convert(tomllib.loads(data.decode()), _RightsFile).rule
    except OSError as error:
        raise BadInput(f"{name} cannot be read: {error.strerror}", hint=_HINT) from error
    except (ValueError, msgspec.ValidationError) as error:
        raise BadInput(f"{name} is no file of rules: {error}", hint=_HINT) from error
    if not rules:
        raise BadInput(f"{name} has no rules", hint=_HINT)
    return FolderRights(rules, name)
