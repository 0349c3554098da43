"""The error code for a fenced producer."""

from pk.core.errors import ErrorCode


def error_in_version(code: int, version: int, fenced_since: int) -> int:
    """Return the error `code` for a response of this version: before `fenced_since`, clients know
    PRODUCER_FENCED as INVALID_PRODUCER_EPOCH (KIP-588)."""
    if code == ErrorCode.PRODUCER_FENCED and version < fenced_since:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
