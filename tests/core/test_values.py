"""Ids, and the text by which they are printed."""

from itertools import chain, repeat

from pk.core.values import new_id, uuid_from_text, uuid_text


def test_no_id_looks_like_an_option() -> None:
    """One of 64 would begin with '-'."""
    drawn = chain((b"\xf8" + bytes(15), b"\xfb" * 16), repeat(b"\xfc" * 16))
    assert uuid_text(b"\xf8" + bytes(15)).startswith("-")
    assert new_id(lambda count: next(drawn)[:count]) == b"\xfc" * 16
    assert uuid_from_text(uuid_text(b"\xfc" * 16)) == b"\xfc" * 16
