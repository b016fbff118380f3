"""Tokens of an identity provider: who is let in, with which rights, and how tokens are refused."""

from __future__ import annotations

import hashlib
import hmac
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.support.issuer import AUDIENCE, part, private_key, public_jwk, sign

from whence.schema import Access
from whence.schema.errors import ConfigError, Unavailable
from whence.surfaces.http.auth import Authenticator, Caller, InvalidToken, token_digest
from whence.surfaces.http.group_rights import GroupRights
from whence.surfaces.http.jwt_check import MOST_CHARACTERS, JwtCheck
from whence.surfaces.http.key_sets import ALGORITHMS, KeyFile

NOW = 1_800_000_000
ISSUER = "https://id.example/"
KINDS = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), "a"),
    "ES256": "p256",
    "ES384": "p384",
    "EdDSA": "ed",
}
KEYS = [
    public_jwk("a"),
    public_jwk("p256", "ES256"),
    public_jwk("p384", "ES384"),
    public_jwk("ed", "EdDSA"),
]
CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "anna", "iat": NOW, "exp": NOW + 300}


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    """Return a file with one key of each kind."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": KEYS}))
    return file


@pytest.fixture
def check(key_file: Path) -> JwtCheck:
    """Return a check whose clock stands still, without a mapping."""
    return check_with(key_file)


def check_with(
    key_file: Path, claim: str = "groups", mapping: Path | None = None, **options: Any
) -> JwtCheck:
    """Return a check."""
    rights = GroupRights(claim, mapping)
    return JwtCheck(ISSUER, AUDIENCE, KeyFile(key_file), rights, clock=lambda: NOW, **options)


async def refusal(check: JwtCheck, token: str) -> str:
    """Return the words with which a token is refused."""
    with pytest.raises(InvalidToken) as refused:
        await check.caller(token)
    assert refused.value.message.isascii()
    assert not set('"\\\r\n') & set(refused.value.message)
    return refused.value.message


@pytest.mark.parametrize("kind", sorted(ALGORITHMS))
async def test_each_algorithm_is_accepted(check: JwtCheck, kind: str) -> None:
    """A token that is signed with an allowed algorithm has the rights of its groups."""
    token = sign(CLAIMS | {"groups": ["staff", "Ä b"]}, KINDS[kind], kind)
    own = Caller("oidc:anna", Access(frozenset({"staff", "Ä b"})), expires_s=CLAIMS["exp"])
    assert await check.caller(token) == own


async def test_groups_grant_neither_labels_nor_writing(check: JwtCheck) -> None:
    """Claims with the names of rights grant nothing."""
    more = {"labels": ["secret"], "clearance": 9, "write": True, "speaks_for_others": True}
    caller = await check.caller(sign(CLAIMS | more | {"acl": ["board"]}))
    assert caller == Caller("oidc:anna", Access.public(), expires_s=CLAIMS["exp"])


def unsigned(algorithm: str, **header: Any) -> str:
    """Return a token without a signature."""
    return f"{part({'alg': algorithm, 'kid': 'a'} | header)}.{part(CLAIMS)}."


def keyed(algorithm: str, secret: bytes) -> str:
    """Return a token that is signed with a secret everybody has."""
    head = f"{part({'alg': algorithm, 'kid': 'a', 'typ': 'JWT'})}.{part(CLAIMS)}"
    digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[algorithm]
    return f"{head}.{part(hmac.digest(secret, head.encode(), digest))}"


def pem(name: str) -> bytes:
    """Return a public key as a file."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    key = private_key(name).public_key()
    return bytes(key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))


@pytest.mark.parametrize(
    "algorithm", ["none", "None", "NONE", "nOnE", "", "RS1", "ES512", "A256KW"]
)
async def test_other_algorithms_are_refused(check: JwtCheck, algorithm: str) -> None:
    """No algorithm but those listed is used, `none` above all."""
    assert await refusal(check, unsigned(algorithm)) == "the algorithm of the token is not allowed"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
async def test_a_public_key_is_no_secret(check: JwtCheck, algorithm: str) -> None:
    """A token that is signed with the text of a public key as its secret is refused."""
    for secret in (pem("a"), json.dumps(KEYS[0]).encode(), KEYS[0]["n"].encode(), b""):
        token = keyed(algorithm, secret)
        assert await refusal(check, token) == "the algorithm of the token is not allowed"


@pytest.mark.parametrize(
    ("kind", "name"), [("ES256", "a"), ("RS256", "p256"), ("EdDSA", "p256"), ("PS512", "ed")]
)
async def test_a_key_is_used_with_its_own_algorithms(check: JwtCheck, kind: str, name: str) -> None:
    """A token that names a key of another kind than its algorithm is refused."""
    token = sign(CLAIMS, "foreign", kind, kid=name)
    assert await refusal(check, token) == "the token is not signed by its issuer"


async def test_a_foreign_key_is_refused(check: JwtCheck) -> None:
    """A token of another signer is refused, whatever it says of its key, and whatever key it brings."""
    foreign = public_jwk("foreign")
    for header in (
        {"kid": "a"},
        {"kid": "foreign"},
        {"kid": None},
        {"kid": "a", "jwk": foreign},
        {"kid": "a", "jku": "https://evil.example/keys"},
        {"kid": "a", "x5u": "https://evil.example/cert", "x5c": ["MIIB"]},
        {"kid": "../../etc/passwd"},
        {"kid": "https://evil.example/keys#a"},
        {"kid": "a' OR '1'='1"},
        {"kid": "a\0"},
        {"kid": ""},
    ):
        token = sign(CLAIMS, "foreign", **header)
        assert await refusal(check, token) == "the token is not signed by its issuer"


async def test_the_key_that_a_token_brings_is_ignored(check: JwtCheck) -> None:
    """Headers that name a key elsewhere change nothing for a valid token."""
    token = sign(CLAIMS, jku="https://evil.example/keys", jwk=public_jwk("foreign"))
    assert (await check.caller(token)).name == "oidc:anna"


async def test_a_token_without_a_key_name(check: JwtCheck) -> None:
    """A token that names no key is checked with every key of its algorithm."""
    assert (await check.caller(sign(CLAIMS, kid=None))).name == "oidc:anna"


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"crit": ["exp"]}, "critical"),
        ({"crit": []}, "critical"),
        ({"b64": False}, "critical"),
        ({"alg": ["RS256"]}, "algorithm"),
        ({"alg": {}}, "algorithm"),
        ({"alg": None}, "algorithm"),
        ({"typ": "dpop+jwt"}, "another type"),
        ({"typ": "logout+jwt"}, "another type"),
        ({"typ": ["JWT"]}, "another type"),
        ({"kid": 3}, "malformed"),
    ],
)
async def test_malformed_headers(check: JwtCheck, header: dict[str, Any], words: str) -> None:
    """A header with critical extensions, another type or a key without a name is refused."""
    algorithm = {"alg": "RS256", "typ": "JWT", "kid": "a"}
    signature = sign(CLAIMS).rpartition(".")[2]
    assert words in await refusal(check, f"{part(algorithm | header)}.{part(CLAIMS)}.{signature}")


@pytest.mark.parametrize("typ", [None, "JWT", "jwt", "at+jwt", "application/at+jwt"])
async def test_types_of_access_tokens(check: JwtCheck, typ: str | None) -> None:
    """A token without a type, and one of the type of access tokens, are accepted."""
    assert (await check.caller(sign(CLAIMS, typ=typ))).name == "oidc:anna"


@pytest.mark.parametrize("skew", [0, 60, None])
@pytest.mark.parametrize(
    ("claim", "accepted", "refused", "words"),
    [
        ("exp", 1, 0, "expired"),
        ("nbf", 0, 1, "not valid yet"),
        ("iat", 0, 1, "not valid yet"),
    ],
)
async def test_times_to_the_second(
    key_file: Path, skew: int | None, claim: str, accepted: int, refused: int, words: str
) -> None:
    """A token is valid from `nbf` and `iat` on and before `exp`, give or take the skew of clocks."""
    options = {} if skew is None else {"skew_s": skew}
    check = check_with(key_file, **options)
    sign_of = -1 if claim == "exp" else 1
    at = NOW + sign_of * (60 if skew is None else skew)
    assert (await check.caller(sign(CLAIMS | {claim: at + accepted}))).name == "oidc:anna"
    assert words in await refusal(check, sign(CLAIMS | {claim: at + refused}))


WRONG = {
    "iss": [None, "", "https://id.example", "https://ID.example/", "https://evil.example/", 3, [ISSUER]],
    "aud": [None, "", "Whence", "whence ", "other", [], ["other"], [["whence"]], {"whence": 1}, 3,
            ["whence", 3]],
    "sub": [None, "", 3, ["anna"]],
    "exp": [None, str(NOW + 300), True, [NOW + 300], -1, -(10**40), "never", {}],
    "nbf": [str(NOW), False, [], 10**40, 1e300],
    "iat": [str(NOW), True, {}, 10**40],
}  # fmt: skip


@pytest.mark.parametrize(
    ("claim", "value"), [(claim, value) for claim, values in WRONG.items() for value in values]
)
async def test_wrong_claims(check: JwtCheck, claim: str, value: Any) -> None:
    """A missing, foreign or malformed claim refuses the token."""
    assert await refusal(check, sign(CLAIMS | {claim: value}))
    if value is None and claim in ("iss", "aud", "sub", "exp"):
        assert await refusal(check, sign({k: v for k, v in CLAIMS.items() if k != claim}))


async def test_one_audience_of_several(check: JwtCheck) -> None:
    """A token for several servers is accepted by each."""
    assert (await check.caller(sign(CLAIMS | {"aud": ["other", AUDIENCE]}))).name == "oidc:anna"


REPEATED = json.dumps(CLAIMS)[:-1].encode()


@pytest.mark.parametrize(
    "payload",
    [
        REPEATED + b', "sub": "root"}',
        REPEATED + b', "groups": ["staff"], "groups": ["board"]}',
        REPEATED + b', "groups": ["staff"], "group\\u0073": ["board"]}',
        REPEATED + b', "realm": {"roles": [], "roles": ["board"]}}',
        REPEATED + b', "groups": ["\\ud800"]}',
        REPEATED + b', "groups": ["\xff"]}',
        REPEATED + b', "x": NaN}',
        REPEATED + b', "x": ' + b"9" * 5000 + b"}",
        REPEATED + b', "x": ' + b"[" * 5000 + b"]" * 5000 + b"}",
        REPEATED + b', "x": ' + b'{"a":' * 40 + b"1" + b"}" * 40 + b"}",
        b"[]", b'"x"', b"null", b"", b"\x1f\x8b\x08\x00", REPEATED,
    ],
)  # fmt: skip
async def test_odd_payloads(check: JwtCheck, payload: bytes) -> None:
    """A signed payload that repeats a member, nests deeply, or is no JSON object is refused."""
    assert await refusal(check, sign(payload)) == "the token is malformed"


@pytest.mark.parametrize(
    "header",
    [
        b'{"alg": "RS256", "kid": "a", "alg": "none"}',
        b'{"alg": "RS256", "kid": "b", "kid": "a"}',
        b"[" * 9000, b"[]", b"{", b"\xff", b"", b'{"alg": "RS256", "x": ' + b"9" * 5000 + b"}",
    ],
)  # fmt: skip
async def test_odd_headers(check: JwtCheck, header: bytes) -> None:
    """A header that repeats a member or is no JSON object is refused."""
    signature = sign(CLAIMS).rpartition(".")[2]
    token = f"{part(header)}.{part(CLAIMS)}.{signature}"
    assert await refusal(check, token) == "the token is malformed"


@pytest.mark.parametrize(
    "signature", [b"", b"\0" * 64, b"\0" * 63 + b"\1", b"\xff" * 64, b"\0" * 256]
)
@pytest.mark.parametrize(("kind", "name"), [("ES256", "p256"), ("EdDSA", "ed"), ("RS256", "a")])
async def test_signatures_of_zeros(check: JwtCheck, kind: str, name: str, signature: bytes) -> None:
    """A signature of zeros or of another length is no signature."""
    token = f"{part({'alg': kind, 'kid': name})}.{part(CLAIMS)}.{part(signature)}"
    assert await refusal(check, token) == "the token is not signed by its issuer"


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=40))
def test_random_tokens_are_refused(first: str, second: str, third: str) -> None:
    """Whatever stands between two dots is refused, and nothing else happens."""
    import asyncio

    check = JwtCheck(ISSUER, AUDIENCE, NoKeys(), GroupRights("groups"))
    assert asyncio.run(refusal(check, f"{first}.{second}.{third}"))


class NoKeys:
    """Has no keys."""

    async def matching(self, kid: str | None, algorithm: str) -> list[Any]:
        return []


async def test_changed_tokens_are_refused(check: JwtCheck) -> None:
    """A token of which any letter is another one is refused."""
    token = sign(CLAIMS, "ed", "EdDSA")
    assert await check.caller(token)
    for place in range(0, len(token), 7):
        other = "A" if token[place] != "A" else "B"
        assert await refusal(check, token[:place] + other + token[place + 1 :])


async def test_huge_tokens_are_refused_unread(check: JwtCheck) -> None:
    """A token over the limit is refused before it is decoded; one below it is read."""
    groups = [f"group-{number:06}" for number in range(600)]
    token = sign(CLAIMS | {"groups": groups})
    assert len(token) < MOST_CHARACTERS
    assert len((await check.caller(token)).access.acl_tags) == 600
    assert "characters" in await refusal(check, sign(CLAIMS | {"groups": groups * 2}))
    for length, words in ((16_384, "malformed"), (16_385, "more than 16384 characters")):
        assert words in await refusal(check, f"..{'x' * (length - 2)}")


async def test_keys_that_are_not_for_signatures(tmp_path: Path) -> None:
    """Keys for encryption, symmetric, small or malformed ones check nothing; the others of their set do."""
    unfit: list[Any] = [
        public_jwk("a", kid="enc", use="enc"),
        public_jwk("a", kid="enc2", key_ops=["encrypt"]),
        public_jwk("a", kid="enc3", key_ops="verify"),
        public_jwk("a", kid="kind", kty=["RSA"]),
        public_jwk("p256", "ES256", kid="kind2") | {"kty": "RSA"},
        public_jwk("a", kid="kind3") | {"kty": "EC"},
        public_jwk("p256", "ES256", kid="kind4") | {"kty": "OKP"},
        public_jwk("a", kid="enc4", alg="RSA-OAEP"),
        public_jwk("a", kid="enc5", alg="HS256"),
        public_jwk("a", kid="enc6", alg=["RS256"]),
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct", "alg": "HS256"},
        public_jwk("big", "ES512"),
        public_jwk("p256", "ES256", kid="curve") | {"crv": "P-384"},
        public_jwk("p256", "ES256", kid="curve2") | {"crv": "secp256k1"},
        public_jwk("p256", "ES256", kid="point") | {"y": part(b"\1" * 32)},
        public_jwk("a", kid="short", n=part(b"\xff" * 128)),
        public_jwk("a", kid="broken", n=3),
        public_jwk("a", kid="broken2", e=None),
        {"kty": "RSA", "kid": "empty"},
        {"kty": "RSA", "kid": ["a"]},
        "a",
        None,
    ]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [*unfit, public_jwk("a")]}))
    keys = KeyFile(file)
    usable = [key.kid for kind in ALGORITHMS for key in await keys.matching(None, kind)]
    assert set(usable) == {"a"}
    file.write_text(json.dumps({"keys": unfit}))
    with pytest.raises(Unavailable):
        await keys.matching(None, "RS256")
    with pytest.raises(ConfigError, match="no key for signatures"):
        KeyFile(file)


async def test_each_key_is_tried_when_a_token_names_none(tmp_path: Path) -> None:
    """A token without a key name is checked by every key of its kind; one that names a key, by that alone."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [public_jwk("other"), public_jwk("a")]}))
    assert await check_with(file).caller(sign(CLAIMS, kid=None))
    assert await refusal(check_with(file), sign(CLAIMS, kid="other"))
    assert await KeyFile(file).matching("none", "RS256") == []


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("[]", "{file} is no JSON Web Key Set: it has no list `keys`", ""),
        ('{"keys": 3}', "{file} is no JSON Web Key Set: it has no list `keys`", ""),
        (
            '{"keys": []}',
            "{file} has no key for signatures",
            "the algorithms are ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512",
        ),
        ("{", "the keys in {file} are malformed", 'a JSON Web Key Set is {"keys": [...]}'),
    ],
)
def test_a_malformed_key_file(tmp_path: Path, text: str, words: str, hint: str) -> None:
    """A file without keys is refused with its name and what a correct one has."""
    file = tmp_path / "keys.json"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        KeyFile(file)
    assert refused.value.message.startswith(words.format(file=file))
    assert refused.value.hint == hint or not hint
    file.unlink()
    with pytest.raises(ConfigError, match=f"cannot read the keys in {file}: No such file"):
        KeyFile(file)


async def test_a_key_is_bound_to_its_stated_algorithm(tmp_path: Path) -> None:
    """A key whose `alg` is stated checks no other algorithm."""
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [public_jwk("a", alg="RS256")]}))
    check = check_with(file)
    assert await check.caller(sign(CLAIMS))
    assert await refusal(check, sign(CLAIMS, kind="PS256"))


async def test_private_members_of_a_set_are_not_read(tmp_path: Path) -> None:
    """A set that contains a private key by mistake still checks signatures."""
    from jwt.algorithms import RSAAlgorithm

    file = tmp_path / "keys.json"
    private = RSAAlgorithm.to_jwk(private_key("a"), as_dict=True) | {"kid": "a"}
    file.write_text(json.dumps({"keys": [private | {"key_ops": ["verify"]}]}))
    assert (await check_with(file).caller(sign(CLAIMS))).name == "oidc:anna"


async def test_a_key_that_leaves_the_file_is_refused(key_file: Path) -> None:
    """A change of the file holds for the next token; a malformed file checks nothing."""
    check = check_with(key_file)
    token = sign(CLAIMS)
    assert await check.caller(token)
    key_file.write_text(json.dumps({"keys": [public_jwk("new")]}))
    assert await refusal(check, token) == "the token is not signed by its issuer"
    assert await check.caller(sign(CLAIMS, "new"))
    key_file.write_text("{")
    with pytest.raises(Unavailable):
        await check.caller(sign(CLAIMS, "new"))


CLAIMED = [
    ("groups", {}, []),
    ("groups", {"groups": []}, []),
    ("groups", {"_claim_names": {"address": "src1"}}, []),
    ("groups", {"_claim_names": "groups"}, []),
    ("groups", {"groups": ["a", "A", "a ", "a"]}, ["a", "A", "a "]),
    ("groups", {"groups": "a  b"}, ["a", "b"]),
    ("groups", {"groups": "a\tb\u00a0c"}, ["a\tb\u00a0c"]),
    ("groups", {"groups": ["*", "%", "a\u0308", "\u00e4"]}, ["*", "%", "a\u0308", "\u00e4"]),
    ("realm_access.roles", {"realm_access": {"roles": ["a"]}}, ["a"]),
    ("realm_access.roles", {"realm_access": {}}, []),
    ("realm_access.roles", {"realm_access.roles": ["b"], "realm_access": {"roles": ["a"]}}, ["b"]),
    (r"resource_access.my\.app.roles", {"resource_access": {"my.app": {"roles": ["a"]}}}, ["a"]),
    ("https://whence.example/groups", {"https://whence.example/groups": ["a"]}, ["a"]),
]


@pytest.mark.parametrize(("claim", "claims", "acl"), CLAIMED)
async def test_groups_become_access_tags(
    key_file: Path, claim: str, claims: dict[str, Any], acl: list[str]
) -> None:
    """Groups are compared exactly; a token without the claim reads public documents."""
    caller = await check_with(key_file, claim).caller(sign(CLAIMS | claims))
    assert caller.access == Access(frozenset(acl))


@pytest.mark.parametrize(
    ("claim", "claims"),
    [
        *(("groups", {"groups": wrong}) for wrong in (
            None, 3, True, {}, {"a": 1}, [3], [None], [["a"]], ["a", 3], [""], ["a\0"], "a\0",
        )),
        ("realm_access.roles", {"realm_access": "roles"}),
        ("realm_access.roles", {"realm_access": ["roles"]}),
        ("realm_access.roles", {"realm_access": {"roles": {"a": 1}}}),
        ("groups", {"_claim_names": {"groups": "src1"}, "_claim_sources": {"src1": {}}}),
    ],
)  # fmt: skip
async def test_malformed_groups_refuse_the_token(
    key_file: Path, claim: str, claims: dict[str, Any]
) -> None:
    """A claim of another type refuses the token; nobody silently reads with fewer rights."""
    words = await refusal(check_with(key_file, claim), sign(CLAIMS | claims))
    assert words in (
        "the groups of the token are neither a list of strings nor a string",
        "the groups are not in the token, because there are too many",
        "the token names a group that is no access tag",
    )


MAPPING = """
[groups.finance]
acl = ["finance", "books"]
clearance = 2
[groups."9d0e-guid"]
labels = ["internal"]
clearance = 1
write = true
["groups"."*"]
acl = ["board"]
"""


@pytest.mark.parametrize(
    ("groups", "unlisted", "wanted"),
    [
        (["finance"], "nothing", Caller("oidc:anna", Access(frozenset({"finance", "books"}), frozenset(), 2))),
        (["9d0e-guid"], "nothing", Caller("oidc:anna", Access(frozenset(), frozenset({"internal"}), 1), may_write=True)),
        (["Finance", "staff", "finance "], "nothing", Caller("oidc:anna", Access.public())),
        (["staff"], "acl", Caller("oidc:anna", Access(frozenset({"staff"})))),
        (["finance", "staff", "9d0e-guid"], "acl", Caller(
            "oidc:anna", Access(frozenset({"finance", "books", "staff"}), frozenset({"internal"}), 2), may_write=True)),
        ([], "acl", Caller("oidc:anna", Access.public())),
    ],
)  # fmt: skip
async def test_a_mapping_grants_what_it_says(
    key_file: Path, tmp_path: Path, groups: list[str], unlisted: str, wanted: Caller
) -> None:
    """A group grants what its entry says; without one nothing, if the file does not say so; `*` is a name."""
    file = tmp_path / "groups.toml"
    file.write_text(f'unlisted_groups = "{unlisted}"\n{MAPPING}')
    check = check_with(key_file, mapping=file)
    found = await check.caller(sign(CLAIMS | {"groups": groups}))
    assert found == replace(wanted, expires_s=CLAIMS["exp"])


@pytest.mark.parametrize(
    "text",
    [
        "[groups.a]\nrole = 'x'", "[groups.a]\nclearance = -1", "[groups.a]\nacl = ['']",
        "[groups.a]\nacl = 'finance'", "unlisted_groups = 'all'", "[groups", "groups = 3", "[other]",
        "[groups.a]\nwrite = 'yes'", "[groups.a]\nspeaks_for_others = true",
    ],
)  # fmt: skip
async def test_a_malformed_mapping(key_file: Path, tmp_path: Path, text: str) -> None:
    """A malformed mapping is refused at the start, and grants nothing afterwards."""
    file = tmp_path / "groups.toml"
    file.write_text(MAPPING)
    check = check_with(key_file, mapping=file)
    token = sign(CLAIMS | {"groups": ["finance"]})
    assert (await check.caller(token)).access.clearance == 2
    file.write_text(text)
    with pytest.raises(Unavailable):
        await check.caller(token)
    with pytest.raises(ConfigError, match=r"groups\.toml") as refused:
        GroupRights("groups", file)
    assert refused.value.message.startswith(("the grants of groups in", str(file)))
    file.write_text("")
    assert (await check.caller(token)).access == Access.public()


#: Claims as the documentation of providers shows them, with our issuer and audience.
PROVIDERS = {
    "keycloak": (
        "realm_access.roles",
        {"typ": "Bearer", "azp": "cli", "session_state": "5", "acr": "1", "aud": ["whence", "account"],
         "realm_access": {"roles": ["finance", "offline_access", "uma_authorization"]},
         "resource_access": {"account": {"roles": ["view-profile"]}},
         "scope": "openid profile email", "sid": "5", "email_verified": False,
         "preferred_username": "anna", "groups": ["/staff"]},
        {"finance", "offline_access", "uma_authorization"},
    ),
    "entra": (
        "groups",
        {"nbf": NOW, "aio": "E2", "appid": "6731", "appidacr": "1", "idp": "https://sts.windows.net/t/",
         "oid": "c34", "rh": "0.AX", "roles": ["Reader"], "scp": "access", "tid": "t", "uti": "u", "ver": "2.0",
         "groups": ["8f0a3c1e-0000-4000-8000-000000000001"]},
        {"8f0a3c1e-0000-4000-8000-000000000001"},
    ),
    "auth0": (
        "https://whence.example/groups",
        {"aud": ["whence", "https://example.eu.auth0.com/userinfo"], "azp": "my_client", "gty": "password",
         "scope": "openid profile", "permissions": ["read:docs"],
         "https://whence.example/groups": ["finance"]},
        {"finance"},
    ),
    "google": (
        "groups",
        {"azp": "1.apps.googleusercontent.com", "email": "anna@example.com", "email_verified": True,
         "at_hash": "x", "name": "Anna", "hd": "example.com"},
        set(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_tokens_of_known_providers(key_file: Path, provider: str) -> None:
    """Tokens in the form of Keycloak, Entra ID, Auth0 and Google are accepted with their groups."""
    claim, claims, acl = PROVIDERS[provider]
    typ = "at+jwt" if provider == "auth0" else "JWT"
    caller = await check_with(key_file, claim).caller(sign(CLAIMS | claims, typ=typ))
    assert caller.access == Access(frozenset(acl))


async def test_a_jwt_is_never_looked_up_in_the_tokens_file(check: JwtCheck) -> None:
    """A token of three parts is checked by the issuer's keys only; any other one by the file only."""
    forged = unsigned("none")
    board = Caller("board", Access(frozenset({"board"})))
    tokens = {token_digest(forged): board, token_digest("a.b"): board}
    both = Authenticator(Access.public(), tokens, jwt=check)
    with pytest.raises(InvalidToken, match="algorithm"):
        await both.caller(f"Bearer {forged}")
    assert await both.caller("Bearer a.b") == board
    assert (await both.caller(f"Bearer {sign(CLAIMS)}")).name == "oidc:anna"
    # Without an issuer the file decides.
    assert await Authenticator(Access.public(), tokens).caller(f"Bearer {forged}") == board


async def test_a_broken_token_is_not_anonymous(check: JwtCheck) -> None:
    """A refused token is refused, also where requests without one may read more than public documents."""
    rights = Authenticator(Access(frozenset({"staff"})), jwt=check)
    for header in ("Bearer x.y.z", "Bearer", "Bearer ", "Basic eA==", "Bearer ..", "x.y.z"):
        with pytest.raises(Exception, match=r"token|scheme|algorithm"):
            await rights.caller(header)
