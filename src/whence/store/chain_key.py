"""The key that signs the chain of traces, and the newest entry of the chain, as files of a folder.

`key.pem` is the private key (Ed25519, PKCS 8, mode 600). `trusted` lists public keys whose signatures count,
64 hexadecimal digits a line; the folder's own is in it. `head.json` is a copy of the newest entry that a
process with this folder wrote: a table of entries that lacks it was cut. Other databases than that of the home
have files of other names.
"""

from __future__ import annotations

import binascii
import fcntl
import logging
import os
import tempfile
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import msgspec

from whence.schema.errors import ConfigError
from whence.schema.integrity import ChainEntry

if TYPE_CHECKING:
    from nacl.signing import SigningKey, VerifyKey

logger = logging.getLogger(__name__)

_KEY, _TRUSTED, _HEAD = "key.pem", "trusted", "head.json"
#: Lines around the base64 of a private key (RFC 7468, section 10).
_FIRST_LINE, _LAST_LINE = b"-----BEGIN PRIVATE KEY-----", b"-----END PRIVATE KEY-----"
#: What precedes the 32 bytes of an Ed25519 key in PKCS 8 (RFC 8410, section 7).
_PKCS8 = bytes.fromhex("302e020100300506032b657004220420")
#: Only the owner may sign.
_FOLDER_MODE, _KEY_MODE = 0o700, 0o600


class ChainKey:
    """Signs entries and remembers the newest one; several processes may use one folder.

    The key is made when it is first needed. In a folder that cannot be written nothing is signed.

    Args:
        folder: The folder.
        url: Address of the database; empty for that of the home. Each has its own file for the newest entry.
    """

    def __init__(self, folder: Path, url: str = "") -> None:
        self.folder = folder
        self._head = folder / _head_name(url)

    def sign(self, hash_: bytes) -> bytes:
        """Return the signature of a hash, 64 bytes; none when there is no key and none can be made."""
        return b"" if self._private is None else self._private.sign(hash_).signature

    @property
    def trusted(self) -> tuple[str, ...]:
        """Public keys whose signatures count, hexadecimal; none when the folder has no key."""
        try:
            lines = (self.folder / _TRUSTED).read_text(encoding="ascii").split()
        except FileNotFoundError:
            lines = []
        except (OSError, ValueError) as error:
            raise self._unreadable(_TRUSTED, error) from error
        own = _read_key(self.folder / _KEY)
        return tuple(dict.fromkeys(([] if own is None else [_public_hex(own)]) + lines))

    def verifier(self) -> Callable[[bytes, bytes], bool] | None:
        """Return what tells whether a hash has a trusted signature; None when no key is known."""
        trusted = self.trusted
        if not trusted:
            return None
        from nacl.signing import VerifyKey

        try:
            keys = [VerifyKey(bytes.fromhex(one)) for one in trusted]
        except ValueError as error:
            raise self._unreadable(_TRUSTED, error) from error
        return lambda hash_, signature: any(_verifies(key, hash_, signature) for key in keys)

    def head(self) -> ChainEntry | None:
        """Return the newest entry that is known here, or None.

        Raises:
            ConfigError: The file is damaged.
        """
        try:
            with self._head.open("rb") as file:
                # Not while another process writes it.
                fcntl.flock(file, fcntl.LOCK_SH)
                held = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._unreadable(self._head.name, error) from error
        return self._decode(held) if held else None

    def remember(self, entry: ChainEntry) -> None:
        """Keep an entry as the newest, unless a newer one is kept already."""
        if self._private is None:
            return
        descriptor = os.open(self._head, os.O_RDWR | os.O_CREAT, _KEY_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            held = os.pread(descriptor, 1 << 16, 0)
            if held and self._decode(held).number >= entry.number:
                return
            # One write, in place: a process that is killed leaves the old entry or the new one.
            os.pwrite(descriptor, msgspec.json.encode(entry).ljust(len(held)), 0)
        finally:
            os.close(descriptor)

    @cached_property
    def _private(self) -> SigningKey | None:
        path = self.folder / _KEY
        try:
            if not path.exists():
                _make_key(path)
            return _read_key(path)
        except OSError as error:
            logger.warning("traces are not signed: %s: %s", path, error.strerror)
        except ConfigError as error:
            logger.warning("traces are not signed: %s", error.message)
        return None

    def _decode(self, data: bytes) -> ChainEntry:
        try:
            return msgspec.json.decode(data, type=ChainEntry)
        except msgspec.MsgspecError as error:
            raise self._unreadable(self._head.name, error) from error

    def _unreadable(self, name: str, error: Exception) -> ConfigError:
        return ConfigError(
            f"{self.folder / name} cannot be read: {error}",
            hint="restore it from a backup; `whence verify` compares the stored traces with it",
        )


def _head_name(url: str) -> str:
    """Return the name of the file for a database: that of the home has none of its address, which may move."""
    if not url:
        return _HEAD
    parts = urlsplit(url)
    socket = sorted(one for one in parse_qsl(parts.query) if one[0] in {"host", "port"})
    where = f"{parts.netloc.rpartition('@')[2]}{parts.path} {socket}"
    return f"head-{sha256(where.encode()).hexdigest()[:16]}.json"


def _read_key(path: Path) -> SigningKey | None:
    """Read a private key; None when there is no file, or it belongs to somebody else."""
    try:
        data = path.read_bytes()
    except (FileNotFoundError, PermissionError):
        return None
    text = data.strip().removeprefix(_FIRST_LINE).removesuffix(_LAST_LINE)
    try:
        key = binascii.a2b_base64(b"".join(text.split()), strict_mode=True)
    except binascii.Error:
        key = b""
    if not key.startswith(_PKCS8) or len(key) != len(_PKCS8) + 32:
        raise ConfigError(
            f"{path} is not an Ed25519 key",
            hint="restore it from a backup, or remove it for a new one",
        )
    from nacl.signing import SigningKey

    return SigningKey(key[len(_PKCS8) :])


def _make_key(path: Path) -> None:
    """Write a new key, unless another process was first; its public key is trusted from now on."""
    from nacl.signing import SigningKey

    path.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    key = SigningKey.generate()
    text = binascii.b2a_base64(_PKCS8 + bytes(key))
    data = b"%s\n%s%s\n" % (_FIRST_LINE, text, _LAST_LINE)
    # Linked under its name when it is whole; `mkstemp` gives it mode 600.
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.link(name, path)
    except FileExistsError:
        return
    finally:
        Path(name).unlink()
    with (path.parent / _TRUSTED).open("a", encoding="ascii") as file:
        file.write(f"{_public_hex(key)}\n")


def _public_hex(key: SigningKey) -> str:
    return bytes(key.verify_key).hex()


def _verifies(key: VerifyKey, hash_: bytes, signature: bytes) -> bool:
    from nacl.exceptions import BadSignatureError

    try:
        key.verify(hash_, signature)
    except (BadSignatureError, ValueError):  # another length is no signature
        return False
    return True
