"""The row of a record, for every command that takes the formats of records."""

from typing import Annotated, Any, NotRequired, TypedDict

from pk.cli.output.rows import Shown


class RecordRow(TypedDict):
    """A record in JSON. A key or value that is not UTF-8 is in `key_b64` or `value_b64` instead."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: Annotated[str, Shown(word=True)]
    key: NotRequired[str | None]
    key_b64: NotRequired[str]
    value: NotRequired[str | None]
    value_b64: NotRequired[str]
    headers: list[list[Any]]


class ParsedRecordRow(TypedDict):
    """A record in JSON with --parse-json: keys and values that are JSON objects or arrays appear as
    such."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: Annotated[str, Shown(word=True)]
    key: NotRequired[Any]
    key_b64: NotRequired[str]
    value: NotRequired[Any]
    value_b64: NotRequired[str]
    headers: list[list[Any]]
