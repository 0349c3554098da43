"""Unsigned tokens of OAUTHBEARER: a JWT whose algorithm is `none` (RFC 7515, appendix A.5), as
Apache Kafka accepts and sends them if no provider is configured.

They prove nothing: any client can claim any identity. Brokers accept them only with
`pk.sasl.oauthbearer.unsecured=true`, which is for tests and development.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from typing import Any, Final, cast

from pk.core.auth.oauthbearer import TOKEN_CHARS_MAX, TokenRefused, ValidToken

UNSECURED: Final = "pk.sasl.oauthbearer.unsecured"
LOGIN: Final = "unsecuredLogin"
_VALIDATOR: Final = "unsecuredValidator"
_LIFETIME_S: Final = 3600


def asks_for_unsecured(options: Mapping[str, str]) -> bool:
    """Whether the options of a login specify an unsigned token."""
    return any(name.startswith(LOGIN) for name in options)


def unsecured_token(options: Mapping[str, str], now_s: float) -> str:
    """Create a token from a login's options: `unsecuredLoginStringClaim_NAME`, `…NumberClaim_NAME`,
    `…ListClaim_NAME` (its first character is the separator), `…PrincipalClaimName`,
    `…LifetimeSeconds`. Raises ValueError, which quotes no value."""
    claims: dict[str, Any] = {}
    for name, text in options.items():
        kind, _, claim = name.partition("Claim_")
        if not claim:
            continue
        if kind == f"{LOGIN}String":
            claims[claim] = text
        elif kind == f"{LOGIN}Number":
            claims[claim] = _number(name, text)
        elif kind == f"{LOGIN}List":
            claims[claim] = text[1:].split(text[0]) if text else []
    principal = options.get(f"{LOGIN}PrincipalClaimName", "sub")
    if not isinstance(claims.get(principal), str) or not claims[principal].strip():
        raise ValueError(f"{LOGIN}StringClaim_{principal} is missing: the name to log in with")
    lifetime = f"{LOGIN}LifetimeSeconds"
    life_s = _number(lifetime, options.get(lifetime, str(_LIFETIME_S)))
    if life_s <= 0:
        raise ValueError(f"{lifetime} must be above 0")
    # The claim has whole ms, as in Kafka. A broker reads its clock in ms, and the token must
    # already be valid.
    begins_s = int(now_s * 1000) / 1000
    claims |= {"iat": begins_s, "exp": begins_s + life_s}
    return f"{_part({'alg': 'none'})}.{_part(claims)}."


def validate_unsecured(token: str, options: Mapping[str, str], now_ms: int) -> ValidToken:
    """Return the principal that a token claims, and its expiry. `options` are those of the
    listener's login: `unsecuredValidatorPrincipalClaimName`, `…ScopeClaimName`, `…RequiredScope`,
    `…AllowableClockSkewMs`. Raises TokenRefused."""
    parts = token.split(".")
    if len(token) > TOKEN_CHARS_MAX or len(parts) != 3:
        raise TokenRefused("it is not a JWT")
    header, claims = _decoded(parts[0]), _decoded(parts[1])
    if header.get("alg") != "none":
        raise TokenRefused(f"it is signed, but {UNSECURED} accepts only unsigned tokens")
    if parts[2]:
        raise TokenRefused("its algorithm is none, but it has a signature")
    skew_ms = int(options.get(f"{_VALIDATOR}AllowableClockSkewMs", "0"))
    name = claims.get(options.get(f"{_VALIDATOR}PrincipalClaimName", "sub"))
    if not isinstance(name, str) or not name.strip():
        raise TokenRefused("it names no user")
    expires_ms, issued_ms = _time_ms(claims, "exp"), _time_ms(claims, "iat")
    if expires_ms is None:
        raise TokenRefused("its claim 'exp' is missing")
    if now_ms - skew_ms >= expires_ms:
        raise TokenRefused("it has expired")
    if issued_ms is not None and (issued_ms > now_ms + skew_ms or issued_ms >= expires_ms):
        raise TokenRefused("it is not valid yet, or ends before it begins")
    _check_scope(claims, options)
    return ValidToken(name, expires_ms)


def check_validator(options: Mapping[str, str]) -> None:
    """Raise ValueError if the options of a listener's login are invalid."""
    name = f"{_VALIDATOR}AllowableClockSkewMs"
    if _number(name, options.get(name, "0")) < 0 or not options.get(name, "0").isdecimal():
        raise ValueError(f"{name} must be a number of ms")


def _check_scope(claims: Mapping[str, Any], options: Mapping[str, str]) -> None:
    scope = claims.get(options.get(f"{_VALIDATOR}ScopeClaimName", "scope"), [])
    listed = cast(list[Any], scope) if isinstance(scope, list) else [str(scope).strip()]
    missing = set(options.get(f"{_VALIDATOR}RequiredScope", "").split()) - set(map(str, listed))
    if missing:
        raise TokenRefused(f"it lacks the scope {min(missing)}")


def _number(name: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name} is not a number") from None
    return int(number) if number.is_integer() else number


def _time_ms(claims: Mapping[str, Any], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefused(f"its claim {name!r} is not a time")
    return int(value * 1000)


def _part(fields: Mapping[str, Any]) -> str:
    text = json.dumps(fields, separators=(",", ":"))
    return urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _decoded(part: str) -> dict[str, Any]:
    try:
        found = json.loads(urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (ValueError, RecursionError):
        raise TokenRefused("it is not a JWT") from None
    if not isinstance(found, dict):
        raise TokenRefused("it is not a JWT")
    return cast("dict[str, Any]", found)
