"""Records whose bytes name their schema: decodes them for `consume` and `log cat`, and encodes them
for `produce`."""

import json
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pk.cli.exits import CommandError, Exit, Unusable
from pk.cli.records.readers import BadLine
from pk.cli.runtime.context import Context
from pk.cli.schemas.reach import USER_ENVIRONMENT, no_subject, refused, where
from pk.core.record.batch import Record

if TYPE_CHECKING:
    from pk.core.schemas.serialization import Deserializer
    from pk.net.schemas.blocking import Schemas


class Undecodable(ValueError):
    """The bytes of a record do not match their schema, or name none."""


class _Side(NamedTuple):
    """The key or the value of records, and how it is decoded."""

    wanted: str
    header: str
    deserializer: "Deserializer"


class RecordDecoder:
    """Decodes keys and values to JSON text."""

    def __init__(
        self, context: Context, key: str | None, value: str | None, at: str | None
    ) -> None:
        """`key` and `value` are languages, or auto; None leaves that part unchanged. Raises
        Unusable, CommandError."""
        schemas = _schemas(context, at)
        from pk.core.schemas.serialization import Deserializer
        from pk.core.schemas.wire_format import KEY_SCHEMA_ID, VALUE_SCHEMA_ID

        deserializer = Deserializer(schemas.by_id)
        self._key = None if key is None else _Side(key, KEY_SCHEMA_ID, deserializer)
        self._value = None if value is None else _Side(value, VALUE_SCHEMA_ID, deserializer)

    def decoded(self, record: Record) -> Record:
        """The record with JSON instead of bytes. Raises Undecodable, and CommandError if the
        registry does not answer."""
        if self._key is not None and record.key is not None:
            record = record._replace(key=_decode(self._key, record.key, record))
        if self._value is not None and record.value is not None:
            record = record._replace(value=_decode(self._value, record.value, record))
        return record


def _decode(side: _Side, data: bytes, record: Record) -> bytes:
    from pk.core.schemas.registry.errors import RegistryError
    from pk.core.schemas.schema import MissingLibrary, SchemaError, UnfitValue
    from pk.core.schemas.wire_format import SchemaId, WireFormatError, decode
    from pk.net.schemas.answers import RegistryUnreachable

    header = next((found for name, found in record.headers if name == side.header), None)
    try:
        wanted, _ = decode(data if header is None else header)
        if side.wanted != "auto":
            kind = side.deserializer.decoder_of(SchemaId(wanted.id, wanted.guid)).type.lower()
            if kind != side.wanted:
                raise Undecodable(f"its schema is {kind}, not {side.wanted}")
        value = side.deserializer.decode(data, header)
    except (WireFormatError, SchemaError, UnfitValue) as e:
        raise Undecodable(str(e)) from None
    except RegistryError as e:
        raise Undecodable(refused(e)) from None
    except (RegistryUnreachable, MissingLibrary) as e:
        raise CommandError(f"{e}.", Exit.NO_CONNECTION) from None
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _schemas(context: Context, at: str | None) -> "Schemas":
    from pk.core.schemas.schema import MissingLibrary
    from pk.net.schemas.blocking import Schemas

    user, _, password = os.environ.get(USER_ENVIRONMENT, "").partition(":")
    try:
        return Schemas(where(context, at), user=user or None, password=password)
    except MissingLibrary as e:
        raise CommandError(f"{e}.") from None
    except ValueError as e:
        raise Unusable(f"--schema-registry: {e}.") from None


def value_encoder(context: Context, schema: str, at: str | None) -> Callable[[bytes], bytes]:
    """The function that encodes JSON text with the schema that --schema names,
    SUBJECT[:VERSION][#MESSAGE]; it raises BadLine.

    Raises Unusable, CommandError.
    """
    schemas = _schemas(context, at)
    from pk.core.schemas.registry.errors import SUBJECT_NOT_FOUND, RegistryError
    from pk.core.schemas.schema import MissingLibrary, SchemaError, UnfitValue
    from pk.core.schemas.serialization import encoder
    from pk.net.schemas.answers import RegistryUnreachable

    named, _, message = schema.partition("#")
    subject, colon, version = named.rpartition(":")
    if not colon or not version.isdecimal():
        subject, version = named, "-1"
    try:
        schema_id, found = schemas.of_subject(subject, int(version))
        encode = encoder(found, schema_id, message or None)
    except RegistryError as e:
        said = f"{refused(e)}."
        if e.code == SUBJECT_NOT_FOUND:
            said = no_subject(e, subject, schemas.subjects())
        raise CommandError(f"--schema: {said}") from None
    except RegistryUnreachable as e:
        raise CommandError(f"{e}.", Exit.NO_CONNECTION) from None
    except (SchemaError, MissingLibrary) as e:
        raise CommandError(f"--schema: {e}.") from None

    def encode_text(text: bytes) -> bytes:
        try:
            value: Any = json.loads(text)
        except (ValueError, RecursionError) as e:
            raise BadLine(f"the value is not JSON: {e}") from None
        try:
            return encode(value)
        except UnfitValue as e:
            raise BadLine(str(e)) from None

    return encode_text
