"""Verify a file of `whence explain --format evidence`: `python verify.py EVIDENCE.json PUBLIC_KEY`.

It needs Python 3.9, the file and the public key (64 hexadecimal digits, `whence verify --public-key`). It shows
that the holder of the key recorded this question, answer and trace at this time. Take the key and this program
from somebody you trust, not from the file alone.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from hashlib import sha256, sha512
from pathlib import Path
from typing import Any

Point = tuple[int, int, int, int]

FORMAT = "whence-evidence-1"
CHUNK, DIGEST = "urn:whence:ns#chunk", "urn:whence:ns#digest"
# Ed25519, RFC 8032 section 5.1: the field, the order of the base point, the constant of the curve.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P


def add(a: Point, b: Point) -> Point:
    """Add two points in extended coordinates (X, Y, Z, T)."""
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = f - e, h - g, h + g, f + e
    return e * f % P, g * h % P, f * g % P, e * h % P


def multiply(scalar: int, point: Point) -> Point:
    """Multiply a point by a number."""
    product: Point = (0, 1, 1, 0)
    while scalar:
        if scalar & 1:
            product = add(product, point)
        point = add(point, point)
        scalar >>= 1
    return product


def decode_point(data: bytes) -> Point | None:
    """Decode 32 bytes; None when they are no point of the curve."""
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if (x * x - square) % P or (sign and not x):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


BASE: Any = decode_point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(public_key: bytes, message: bytes, signature: bytes) -> bool:
    """Return whether an Ed25519 signature is right."""
    point = decode_point(public_key) if len(public_key) == 32 else None
    start = decode_point(signature[:32]) if len(signature) == 64 else None
    if point is None or start is None:
        return False
    scalar = int.from_bytes(signature[32:], "little")
    hashed = sha512(signature[:32] + public_key + message).digest()
    left = multiply(scalar, BASE)
    right = add(start, multiply(int.from_bytes(hashed, "little") % ORDER, point))
    same = not (left[0] * right[2] - right[0] * left[2]) % P
    return scalar < ORDER and same and not (left[1] * right[2] - right[1] * left[2]) % P


def chain_faults(evidence: dict[str, Any], public_key: str) -> Iterator[str]:
    """Yield what is wrong with the entries of the trace and the newest entry of the chain."""
    entries, head = evidence["entries"], evidence["head"]
    for entry in [*entries, head]:
        names = ("number", "kind", "answer_id", "digest", "written_at", "previous")
        fields = ["whence-chain-1", *(entry[name] for name in names)]
        text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"))
        hashed, signature = sha256(text.encode()).digest(), bytes.fromhex(entry["signature"])
        if hashed.hex() != entry["hash"]:
            yield f"entry {entry['number']} does not have its hash"
        elif not is_signed(bytes.fromhex(public_key), hashed, signature):
            yield f"entry {entry['number']} is not signed by this key"
    numbers = [entry["number"] for entry in entries]
    if sorted(set(numbers)) != numbers or numbers[-1] > head["number"]:
        yield "the entries are not in order"
    if {entry["answer_id"] for entry in entries} != {evidence["answer_id"]}:
        yield "the entries are those of another answer"
    if entries[0]["kind"] != "record" or not all(len(entry["digest"]) == 64 for entry in entries):
        yield "the trace was removed, or had faults before it was rewritten"


def trace_faults(evidence: dict[str, Any]) -> Iterator[str]:
    """Yield what of the file is not in the trace that its newest entry commits to."""
    hashes = [bytes.fromhex(one) for one in evidence["hidden"]]
    parts: dict[str, str] = {}
    nodes: dict[str, dict[str, str]] = {}
    for leaf in evidence["leaves"]:
        hashes.append(sha256(bytes.fromhex(leaf["salt"]) + leaf["text"].encode()).digest())
        name, _, parts[name] = leaf["text"].partition("\n")
        for line in parts[name].split("\n") if name.endswith("/triples") else ():
            subject, predicate, value, _, _ = json.loads(line.partition(" ")[2])
            nodes.setdefault(subject, {})[predicate] = value
    if sha256(b"".join(sorted(hashes))).hexdigest() != evidence["entries"][-1]["digest"]:
        yield "the trace is not the one that was recorded"
    for name in ("question", "answer_id", "answer", "recorded_at"):
        part = parts.get("answer/text" if name == "answer" else name, "null")
        if json.loads(part) != evidence[name]:
            yield f"{name} is not that of the trace"
    read = {(node.get(CHUNK), node.get(DIGEST)) for node in nodes.values()}
    for passage in evidence["passages"]:
        if (passage["chunk"], sha256(passage["text"].encode()).hexdigest()) not in read:
            yield f"passage {passage['chunk']} is not the one that was read"


def faults(evidence: Any, public_key: str) -> list[str]:
    """Return what is wrong with a file of evidence; nothing when it is good."""
    try:
        if evidence["format"] != FORMAT:
            return ["this is no evidence of a known format"]
        return [*chain_faults(evidence, public_key), *trace_faults(evidence)]
    except (LookupError, AttributeError, TypeError, ValueError, RecursionError) as error:
        return [f"the file is damaged: {type(error).__name__} {error}"]


def main(path: str, public_key: str) -> int:
    """Print the faults, or what was shown; return the exit status."""
    try:
        evidence = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        found = [f"the file cannot be read: {type(error).__name__} {error}"]
    else:
        found = faults(evidence, public_key)
    for line in found or [f"good: recorded {evidence['recorded_at']}"]:
        # What the file says must not reach the terminal as a control character.
        shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in line)
        sys.stdout.write(f"{shown}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]) if len(sys.argv) == 3 else __doc__)
