"""Explains in one sentence why a file, a table or a bucket cannot be read or written.

The errors of the libraries for files and tables have several lines, each in the library's own form,
and Spark reports them as parts of a trace. The cause is found by the parts that they have in
common: the operating system's error numbers, and S3's error codes.
"""

import re
from typing import Final

_KEYS: Final = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"
_HINTS: Final = {
    "InvalidAccessKeyId": f"check {_KEYS}",
    "SignatureDoesNotMatch": f"check {_KEYS}",
    "ExpiredToken": "AWS_SESSION_TOKEN in the environment has expired",
    "AccessDenied": "these credentials do not have the permission",
    "NoSuchBucket": "create the bucket, or check the URL and AWS_ENDPOINT_URL",
}
_XML: Final = re.compile(
    r"<Error>.*?<Code>(?P<code>\w+)</Code>(?:.*?<Message>(?P<said>[^<]*)</Message>)?", re.DOTALL
)
_ARROW: Final = re.compile(r"AWS Error (?P<code>\w+) during \w+ operation: (?P<said>[^\n]*)")
_STATUS: Final = re.compile(r"non-2xx status code\W[^\d<]*(?P<status>40[13] \w+)")
_UNREACHABLE: Final = (
    re.compile(
        r"Error performing \w+ (?P<server>https?://[^/\s]+)[^<]*?error sending request", re.DOTALL
    ),
    re.compile(r"HTTPS?ConnectionPool\(host='(?P<server>[^']+)'.*?\): Max retries exceeded"),
)
_SYSTEM: Final = {
    28: "the disk is full",
    122: "the disk quota is used up",
    13: "permission denied",
    30: "the file system is read-only",
}
_ERRNO: Final = re.compile(r"(?:\[[Ee]rrno |os error )(?P<number>\d+)[\])]")


_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m(?:↳\x1b\[0m)?")
"""The color codes and arrows at the beginning of the lines of deltalake's errors."""


def storage_cause(text: str) -> str | None:
    """The known cause that an error's text names, without a period; None if it names none."""
    text = _COLORS.sub("", text)
    for pattern in (_XML, _ARROW):
        if (found := pattern.search(text)) is not None:
            said = " ".join((found["said"] or "").split()).rstrip(".")
            code = found["code"]
            hint = f"; {_HINTS[code]}" if code in _HINTS else ""
            why = f"{said} ({code})" if said else code
            return f"the object storage refuses the request: {why}{hint}"
    if (found := _STATUS.search(text)) is not None:
        return f"the object storage refuses the request: {found['status']}; check {_KEYS}"
    for pattern in _UNREACHABLE:
        if (found := pattern.search(text)) is not None:
            return f"{found['server']} cannot be reached"
    for found in _ERRNO.finditer(text):
        if (said := _SYSTEM.get(int(found["number"]))) is not None:
            return said
    return None


def one_sentence(error: BaseException) -> str:
    """The cause of an error, or its text in one line if the cause is unknown."""
    text = _COLORS.sub("", str(error))
    return storage_cause(text) or " ".join(text.split()) or type(error).__name__
