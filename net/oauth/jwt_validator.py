"""Validates the JWTs of logins: signed by a key of the provider, for this audience, by this issuer,
not expired (KIP-768)."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple, cast

from pk.core.auth.oauthbearer import TOKEN_CHARS_MAX, TokenRefused, ValidToken
from pk.net.oauth.jwks import Jwks

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
"""The algorithms with a public key. A shared secret does not belong in a JWKS, and `none` is no
signature."""
_KINDS: Final = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}


class LibraryMissing(Exception):
    """PyJWT is not installed."""


def library() -> Any:
    """Return PyJWT. Raises LibraryMissing, which says what to install."""
    try:
        return importlib.import_module("jwt")
    except ImportError:
        raise LibraryMissing(
            "OAUTHBEARER needs the library PyJWT: pip install 'pk-broker[oauth]'"
        ) from None


class Expected(NamedTuple):
    """The expected claims of a token."""

    audience: tuple[str, ...]
    """The token must name one of these audiences; if empty, it must name none."""
    issuer: str | None
    clock_skew_s: int
    scope_claim: str
    sub_claim: str


def parse_key(fields: dict[str, Any]) -> Any:
    """Parse a signature key of a JWKS. Raises ValueError if it is not one."""
    jwt = library()
    if fields.get("use", "sig") != "sig" or fields.get("kty") not in _KINDS.values():
        raise ValueError("not a key for signatures")
    public = {name: value for name, value in fields.items() if name != "d"}
    try:
        return jwt.PyJWK(public)
    except jwt.PyJWTError as e:
        raise ValueError(str(e)) from None


class JwtValidator:
    """Validates tokens. Raises LibraryMissing if PyJWT is not installed."""

    def __init__(self, jwks: Jwks, expected: Expected) -> None:
        self.jwks = jwks
        self._expected = expected
        self._jwt = library()

    def validate(self, token: str) -> ValidToken:
        """Return the token's principal and expiry. Raises TokenRefused, KeysNeeded."""
        if len(token) > TOKEN_CHARS_MAX:
            raise TokenRefused("it is too long")
        try:
            header = self._jwt.get_unverified_header(token)
        except (self._jwt.PyJWTError, RecursionError) as e:
            raise TokenRefused(f"it is not a JWT ({type(e).__name__})") from None
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise TokenRefused(f"its algorithm is not one of {', '.join(ALGORITHMS)}")
        if "crit" in header:
            raise TokenRefused("it has critical headers")
        claims = self._claims(token, algorithm, key_id if isinstance(key_id, str) else None)
        self._check_scope(claims)
        name, expires = claims.get(self._expected.sub_claim), claims["exp"]
        if not isinstance(name, str) or not name.strip():
            raise TokenRefused(f"its claim {self._expected.sub_claim!r} names no user")
        return ValidToken(name.strip(), int(expires) * 1000)

    def _claims(self, token: str, algorithm: str, key_id: str | None) -> dict[str, Any]:
        kind = _KINDS[algorithm[:2]]
        keys = [key for key in self.jwks.keys(key_id) if key.key_type == kind]
        if not keys or (key_id is None and len(keys) > 1):
            raise TokenRefused(
                "none of the provider's keys (sasl.oauthbearer.jwks.endpoint.url) matches it"
            )
        expected = self._expected
        try:
            return self._jwt.decode(
                token,
                keys[0].key,
                algorithms=[algorithm],
                audience=list(expected.audience) or None,
                issuer=expected.issuer,
                leeway=expected.clock_skew_s,
                options={"require": ["exp", "iat"], "verify_sub": False, "verify_jti": False},
            )
        except (self._jwt.PyJWTError, ValueError, TypeError, RecursionError) as e:
            raise TokenRefused(_why(type(e).__name__)) from None

    def _check_scope(self, claims: dict[str, Any]) -> None:
        scope = claims.get(self._expected.scope_claim, [])
        listed = cast(list[Any], scope) if isinstance(scope, list) else [scope]
        if not all(isinstance(one, str) and one.strip() for one in listed):
            raise TokenRefused(f"its claim {self._expected.scope_claim!r} is not a scope")


_REASONS: Final = {
    "ExpiredSignatureError": "it has expired",
    "ImmatureSignatureError": "it is not valid yet",
    "InvalidIssuedAtError": "its claim 'iat' is not a time",
    "InvalidAudienceError": "it is for another audience (sasl.oauthbearer.expected.audience)",
    "InvalidIssuerError": "it is from another issuer (sasl.oauthbearer.expected.issuer)",
    "InvalidSignatureError": "its signature is wrong",
    "MissingRequiredClaimError": "a claim is missing: exp, iat, or the expected aud or iss",
}


def _why(name: str) -> str:
    return _REASONS.get(name, f"it is invalid ({name})")
