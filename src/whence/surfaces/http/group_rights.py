"""What the groups of a token grant: their own names as access tags, or what a mapping file says.

```toml
unlisted_groups = "nothing"   # or "acl": each other group is an access tag

[groups.finance]
acl = ["finance"]
labels = ["internal"]
clearance = 2
write = true
```

A caller has what all of his groups grant together. Without a mapping, groups are access tags and nothing
else. A token without the claim reads public documents; a claim of another type refuses the token.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from whence.schema.errors import BadInput, ConfigError
from whence.surfaces.http.auth import AccessBody, InvalidToken
from whence.surfaces.http.watched_file import WatchedFile

#: Members of a claim that is inside another one are joined by dots; `\.` is a dot of a name.
_DOT = re.compile(r"(?<!\\)\.")
_EXAMPLE: Final = 'a group is [groups.NAME] with acl, labels, clearance or write; unlisted_groups is "nothing" or "acl"'


class Grant(AccessBody, frozen=True, forbid_unknown_fields=True):
    """What a group grants."""

    write: bool = False
    """Whether its members may store and remove documents."""


class GroupMapping(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The mapping file."""

    groups: dict[str, Grant] = {}
    """Grants by the exact name of the group."""
    unlisted_groups: Literal["nothing", "acl"] = "nothing"
    """What a group without an entry grants: nothing, or its name as an access tag."""

    def granted(self, groups: Iterable[str]) -> Grant:
        """Return what these groups grant together."""
        listed = [self.groups[name] for name in groups if name in self.groups]
        own = [name for name in groups if name not in self.groups]
        return Grant(
            acl=[tag for one in listed for tag in one.acl]
            + (own if self.unlisted_groups == "acl" else []),
            labels=[label for one in listed for label in one.labels],
            clearance=max((one.clearance for one in listed), default=0),
            write=any(one.write for one in listed),
        )


class GroupRights:
    """Maps the claims of a token to rights.

    Args:
        claim: Name of the claim; of one inside another, the names joined by dots.
        mapping: The mapping file; None for none.

    Raises:
        ConfigError: The mapping is malformed, or cannot be read.
    """

    def __init__(self, claim: str, mapping: Path | None = None) -> None:
        self._claim = claim
        self._path = tuple(name.replace("\\.", ".") for name in _DOT.split(claim))
        self._file = None if mapping is None else _watch(mapping)
        if self._file is not None:
            self._file.read()

    def granted(self, claims: Mapping[str, Any]) -> Grant:
        """Return what a token grants.

        Raises:
            InvalidToken: The claim is neither a list of strings nor a string, or is kept elsewhere.
            Unavailable: The mapping cannot be read.
        """
        mapping = _EVERY_GROUP if self._file is None else self._file.current()
        groups = self._groups(claims)
        if not all(name and "\0" not in name for name in groups):
            raise InvalidToken("the token names a group that is no access tag")
        return mapping.granted(dict.fromkeys(groups))

    def _groups(self, claims: Mapping[str, Any]) -> list[str]:
        value: Any = claims
        # A name with dots, such as an address, may stand for itself.
        for name in (self._claim,) if self._claim in claims else self._path:
            if not isinstance(value, dict):
                raise self._malformed()
            if name not in value:
                self._check_not_elsewhere(claims)
                return []
            value = value[name]
        if isinstance(value, str):
            return [name for name in value.split(" ") if name]
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self._malformed()
        return value

    def _check_not_elsewhere(self, claims: Mapping[str, Any]) -> None:
        """Refuse a token whose groups are too many to stand in it (OpenID Connect Core 1.0, section 5.6.2)."""
        elsewhere = claims.get("_claim_names")
        if isinstance(elsewhere, dict) and self._path[0] in elsewhere:
            raise InvalidToken("the groups are not in the token, because there are too many")

    def _malformed(self) -> InvalidToken:
        return InvalidToken("the groups of the token are neither a list of strings nor a string")


_EVERY_GROUP: Final = GroupMapping(unlisted_groups="acl")


def _watch(path: Path) -> WatchedFile[GroupMapping]:
    def parse(data: bytes) -> GroupMapping:
        found = msgspec.convert(tomllib.loads(data.decode("utf-8")), GroupMapping)
        for name, grant in found.groups.items():
            try:
                grant.access()
            except BadInput as error:
                raise ConfigError(f"{path}: {name!r}: {error.message}") from error
        return found

    return WatchedFile(path, parse, what="grants of groups", hint=_EXAMPLE)
