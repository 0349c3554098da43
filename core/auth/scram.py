"""SCRAM (RFC 5802, RFC 7677): both sides prove that they know a password without sending it.

A server stores a salt, a number of iterations and two keys derived from them and the password,
never the password. The client sends its name and a nonce. The server answers with the salt, the
iterations and the rest of the nonce. Then the client sends a proof that requires the password, and
the server one that requires the keys.

A server must not reveal which users exist: an unknown name gets a salt too, always the same one
(`unknown_user_credential`), and fails at the same step as a wrong password. As in Kafka, names and
passwords are not prepared by SASLprep, and there is no channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections import Counter
from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final, NamedTuple

from msgspec import Struct

from pk.core.auth.sasl import SCRAM_SHA_256, SCRAM_SHA_512, AuthenticationFailed, SaslError

ITERATIONS_MIN: Final = 4096
"""The minimum number of iterations that Kafka's servers and clients accept."""
ITERATIONS_MAX: Final = 16384
"""The maximum number of iterations that Kafka's controllers accept, because more would make every
login slow."""
SALT_BYTES: Final = 24
"""The size of the salts that pk creates."""
CLIENT_ITERATIONS_MAX: Final = 10_000_000
"""The maximum number of iterations for a client. A server that asks for more tries to keep the
client busy."""

_B64: Final = r"[A-Za-z0-9+/]*={0,2}"
_VALUE: Final = r"[^,\0]+"
_PRINTABLE: Final = r"[\x21-\x2B\x2D-\x7E]+"
_CLIENT_FIRST: Final = re.compile(
    rf"(n,(?:a=({_VALUE}))?,)(n=({_VALUE}),r=({_PRINTABLE})((?:,[A-Za-z]+={_VALUE})*))"
)
_SERVER_FIRST: Final = re.compile(
    rf"r=({_PRINTABLE}),s=({_B64}),i=([0-9]{{1,9}})(?:,[A-Za-z]+={_VALUE})*"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(c=({_B64}),r=({_PRINTABLE})(?:,[A-Za-z]+={_VALUE})*),p=({_B64})"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=({_VALUE})|v=({_B64}))(?:,[A-Za-z]+={_VALUE})*")
_BASE36: Final = re.compile(rb"[0-9a-z]+")
_DIGITS36: Final = b"0123456789abcdefghijklmnopqrstuvwxyz"


class Mechanism(IntEnum):
    """SCRAM with a hash, numbered as in Kafka's protocol."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The name of the mechanism in SASL, such as `SCRAM-SHA-256`."""
        return self.name.replace("_", "-")

    @property
    def hash_name(self) -> str:
        """The name of the hash in hashlib."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"

    @classmethod
    def named(cls, sasl_name: str) -> Mechanism:
        """Return the mechanism with a SASL name. Raises ValueError."""
        return {SCRAM_SHA_256: cls.SCRAM_SHA_256, SCRAM_SHA_512: cls.SCRAM_SHA_512}[sasl_name]

    def hmac(self, key: bytes, text: bytes) -> bytes:
        """Return the HMAC with the mechanism's hash."""
        return hmac.digest(key, text, self.hash_name)

    def hash(self, data: bytes) -> bytes:
        """Return the mechanism's hash of data."""
        return hashlib.new(self.hash_name, data).digest()

    def salted_password(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return RFC 5802's `Hi`. Slow on purpose, some 2 ms for 4,096 iterations."""
        return hashlib.pbkdf2_hmac(self.hash_name, password.encode(), salt, iterations)


class ScramCredential(Struct, frozen=True):
    """A server's data about one user and one mechanism. It is secret, and its repr omits it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return object.__repr__(self)

    @classmethod
    def of_salted_password(
        cls, mechanism: Mechanism, salted: bytes, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Create the credential for a salted password, as in AlterUserScramCredentials."""
        client_key = mechanism.hmac(salted, b"Client Key")
        server_key = mechanism.hmac(salted, b"Server Key")
        return cls(salt, mechanism.hash(client_key), server_key, iterations)

    @classmethod
    def of_password(
        cls, mechanism: Mechanism, password: str, salt: bytes, iterations: int
    ) -> ScramCredential:
        """Create the credential for a password. Slow on purpose."""
        salted = mechanism.salted_password(password, salt, iterations)
        return cls.of_salted_password(mechanism, salted, salt, iterations)


class CredentialParameters(NamedTuple):
    """The properties of a credential that any client can see, apart from the salt itself."""

    iterations: int
    salt_bytes: int
    base36: bool
    """Whether the salt consists of letters and digits, as Kafka's own clients create it."""


def usual_parameters(known: Iterable[ScramCredential]) -> CredentialParameters:
    """Return the shape that most of the credentials have."""
    shapes = Counter(
        CredentialParameters(c.iterations, len(c.salt), _BASE36.fullmatch(c.salt) is not None)
        for c in known
    )
    usual = shapes.most_common(1)
    return usual[0][0] if usual else CredentialParameters(ITERATIONS_MIN, SALT_BYTES, False)


def unknown_user_credential(
    mechanism: Mechanism, name: str, secret: bytes, shape: CredentialParameters
) -> ScramCredential:
    """Return the fake credential of an unknown user. No password matches it, and it looks like real
    ones.

    The salt depends on the name and on `secret`, so that a second attempt, or another broker, gives
    the same one.
    """
    seed = f"{mechanism.sasl_name}\0{name}".encode()
    keyed = hmac.digest(secret, seed, "sha256")
    salt = hashlib.shake_256(secret + keyed).digest(shape.salt_bytes)
    if shape.base36:
        salt = bytes(_DIGITS36[byte % 36] for byte in salt)
    key = mechanism.hmac(secret, b"key\0" + seed)
    return ScramCredential(salt, key, key, shape.iterations)


class TokenLogin(NamedTuple):
    """The data with which a server verifies a delegation token."""

    owner: str
    expires_ms: int
    credential: ScramCredential


class ScramServer:
    """The server's side of an exchange."""

    def __init__(
        self,
        mechanism: Mechanism,
        find: Callable[[str], ScramCredential | None],
        unknown_user: Callable[[str], ScramCredential],
        nonce: str,
        find_token: Callable[[str], TokenLogin | None],
    ) -> None:
        """Begin an exchange. `find` returns the credentials of users, `find_token` those of
        delegation tokens by id, and `unknown_user` those of unknown users. `nonce` is random and
        printable, without a comma."""
        self._mechanism = mechanism
        self._find = find
        self._unknown_user = unknown_user
        self._nonce = nonce
        self._find_token = find_token
        self._owner = ""
        self._name = ""
        self._known = False
        self._credential: ScramCredential | None = None
        self._gs2 = b""
        self._auth_message = b""
        self.user: str | None = None
        self.expires_ms: int | None = None
        self.by_token = False

    def step(self, data: bytes) -> bytes:
        """Answer the client's first or final message. Raises SaslError."""
        if self._credential is None:
            return self._first(data)
        if self.user is not None:
            raise SaslError("the client sent more than two SCRAM messages")
        return self._final(data, self._credential)

    def _first(self, data: bytes) -> bytes:
        match = _CLIENT_FIRST.fullmatch(_text(data))
        if match is None:
            raise SaslError("Invalid SCRAM client first message format")
        gs2, authorization_id, bare, sasl_name, client_nonce, extensions = match.groups()
        self._name = _name_of(sasl_name)
        if authorization_id and _name_of(authorization_id) != self._name:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different "
                "from username"
            )
        found = self._found("tokenauth=true" in extensions.lower().split(","))
        self._known = found is not None
        self._credential = found or self._unknown_user(self._name)
        self._nonce = client_nonce + self._nonce
        self._gs2 = gs2.encode()
        salt = b64encode(self._credential.salt).decode()
        answer = f"r={self._nonce},s={salt},i={self._credential.iterations}"
        self._auth_message = f"{bare},{answer}".encode()
        return answer.encode()

    def _found(self, by_token: bool) -> ScramCredential | None:
        if not by_token:
            self._owner = self._name
            return self._find(self._name)
        token = self._find_token(self._name)
        if token is None:
            return None
        self._owner, self.expires_ms, self.by_token = token.owner, token.expires_ms, True
        return token.credential

    def _final(self, data: bytes, credential: ScramCredential) -> bytes:
        match = _CLIENT_FINAL.fullmatch(_text(data))
        if match is None:
            raise SaslError("Invalid SCRAM client final message format")
        without_proof, binding, nonce, proof = match.groups()
        if not nonce.endswith(self._nonce):
            # As in Kafka, only the end is compared: librdkafka before 2.6.1 sends the client's part
            # twice.
            raise SaslError("Invalid client nonce in the final client message.")
        if _bytes(binding) != self._gs2:
            raise SaslError("the client bound the exchange to another channel")
        text = self._auth_message + b"," + without_proof.encode()
        signature = self._mechanism.hmac(credential.stored_key, text)
        client_key = _xor(_bytes(proof), signature)
        fits = hmac.compare_digest(self._mechanism.hash(client_key), credential.stored_key)
        if not (fits and self._known):
            raise SaslError("Invalid client credentials")
        self.user = self._owner
        return b"v=" + b64encode(self._mechanism.hmac(credential.server_key, text))


class ScramClient:
    """The client's side of an exchange."""

    def __init__(
        self, mechanism: Mechanism, user: str, password: str, nonce: str, by_token: bool = False
    ) -> None:
        """Begin an exchange. `nonce` is random and printable, without a comma. With `by_token`,
        `user` is the id of a delegation token."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        name = user.replace("=", "=3D").replace(",", "=2C")
        self._bare = f"n={name},r={nonce}" + (",tokenauth=true" if by_token else "")
        self._signature: bytes | None = None
        self._begun = False
        self.complete = False

    def step(self, data: bytes) -> bytes:
        """Return the first message, then the proof, and an empty message once the server has proved
        its identity. The second step is slow on purpose: see `Mechanism.salted_password`. Raises
        SaslError."""
        if not self._begun:
            self._begun = True
            return f"n,,{self._bare}".encode()
        if self._signature is None:
            return self._prove(_text(data))
        if not self.complete:
            self._check(_text(data), self._signature)
        return b""

    def _prove(self, server_first: str) -> bytes:
        match = _SERVER_FIRST.fullmatch(server_first)
        if match is None:
            raise SaslError("Invalid SCRAM server first message format")
        nonce, salt, iterations = match[1], _bytes(match[2]), int(match[3])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise SaslError("Invalid server nonce: does not start with client nonce")
        if iterations < ITERATIONS_MIN:
            raise SaslError(
                f"Requested iterations {iterations} is less than the minimum {ITERATIONS_MIN} for"
                f" {self._mechanism.sasl_name}"
            )
        if iterations > CLIENT_ITERATIONS_MAX:
            raise SaslError(f"the server asks for {iterations} iterations")
        without_proof = f"c=biws,r={nonce}"
        text = f"{self._bare},{server_first},{without_proof}".encode()
        salted = self._mechanism.salted_password(self._password, salt, iterations)
        client_key = self._mechanism.hmac(salted, b"Client Key")
        signature = self._mechanism.hmac(self._mechanism.hash(client_key), text)
        self._signature = self._mechanism.hmac(self._mechanism.hmac(salted, b"Server Key"), text)
        return f"{without_proof},p={b64encode(_xor(client_key, signature)).decode()}".encode()

    def _check(self, server_final: str, signature: bytes) -> None:
        match = _SERVER_FINAL.fullmatch(server_final)
        if match is None:
            raise SaslError("Invalid SCRAM server final message format")
        if match[1]:
            raise SaslError(f"the server refused the login: {match[1][:100]}")
        if not hmac.compare_digest(_bytes(match[2]), signature):
            raise SaslError(
                "Invalid server signature in server final message: the server does not know the "
                "password"
            )
        self.complete = True


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as e:
        raise SaslError("a SCRAM message that is not UTF-8") from e


def _bytes(base64: str) -> bytes:
    try:
        return b64decode(base64, validate=True)
    except (Base64Error, ValueError) as e:
        raise SaslError("a SCRAM message with wrong base64") from e


def _name_of(sasl_name: str) -> str:
    name = sasl_name.replace("=2C", ",")
    if "=" in name.replace("=3D", ""):
        raise SaslError("Invalid username: = must be written =3D")
    return name.replace("=3D", "=")


def _xor(one: bytes, other: bytes) -> bytes:
    if len(one) != len(other):
        raise SaslError("a SCRAM proof of the wrong length")
    return bytes(a ^ b for a, b in zip(one, other, strict=True))
