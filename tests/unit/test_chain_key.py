"""The file of the key that signs traces: the form that other tools read and write."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519, x25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from whence.schema.errors import ConfigError
from whence.store.chain_key import ChainKey

PLAIN = NoEncryption()


def _pem(
    key: ed25519.Ed25519PrivateKey | x25519.X25519PrivateKey,
    kind: KeySerializationEncryption = PLAIN,
) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, kind)


def test_the_file_is_that_of_other_tools(tmp_path: Path) -> None:
    """A new key has the bytes that `cryptography` writes, and both make the same signatures."""
    ours = ChainKey(tmp_path)
    signature = ours.sign(b"digest")
    data = (tmp_path / "key.pem").read_bytes()
    theirs = load_pem_private_key(data, None)

    assert isinstance(theirs, ed25519.Ed25519PrivateKey)
    assert _pem(theirs) == data
    assert theirs.sign(b"digest") == signature
    assert ours.trusted == (theirs.public_key().public_bytes_raw().hex(),)


def test_a_key_of_another_tool_signs(tmp_path: Path) -> None:
    """A key that was written elsewhere signs, and only its own signatures count."""
    theirs = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(_pem(theirs))
    ours = ChainKey(tmp_path)
    verifies = ours.verifier()

    assert verifies is not None
    assert ours.sign(b"digest") == theirs.sign(b"digest")
    assert verifies(b"digest", theirs.sign(b"digest"))
    assert not verifies(b"other", theirs.sign(b"digest"))
    assert not verifies(b"digest", b"")
    assert not verifies(b"digest", b"x" * 63)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no key",
        _pem(x25519.X25519PrivateKey.generate()),
        _pem(ed25519.Ed25519PrivateKey.generate(), BestAvailableEncryption(b"secret")),
        _pem(ed25519.Ed25519PrivateKey.generate())[:-50],
    ],
    ids=["empty", "words", "other-curve", "encrypted", "cut"],
)
def test_what_is_no_key_is_refused(tmp_path: Path, data: bytes) -> None:
    """Anything else is an error that names the file, and signs nothing."""
    (tmp_path / "key.pem").write_bytes(data)

    with pytest.raises(ConfigError, match=r"key\.pem is not an Ed25519 key"):
        ChainKey(tmp_path).verifier()
    assert ChainKey(tmp_path).sign(b"digest") == b""


def test_a_key_to_trust_of_another_length_is_an_error(tmp_path: Path) -> None:
    """A line of `trusted` that is no public key is an error that names the file."""
    (tmp_path / "trusted").write_text("abcd\n")

    with pytest.raises(ConfigError, match="trusted cannot be read"):
        ChainKey(tmp_path).verifier()
