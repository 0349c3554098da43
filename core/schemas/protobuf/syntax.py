"""Converts .proto text to a file descriptor.

proto-schema-parser parses the syntax; this file converts its tree to a `FileDescriptorProto`. Names
of types stay as written: protobuf's own pool resolves and checks them (`descriptors.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pk.core.schemas.schema import SchemaError, missing_library

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        ServiceDescriptorProto,
    )

FIELD_NUMBER_MAX: Final = (1 << 29) - 1
ENUM_NUMBER_MAX: Final = (1 << 31) - 1
DEPTH_MAX: Final = 100

_SCALARS: Final = {
    "double": 1,
    "float": 2,
    "int64": 3,
    "uint64": 4,
    "int32": 5,
    "fixed64": 6,
    "fixed32": 7,
    "bool": 8,
    "string": 9,
    "bytes": 12,
    "uint32": 13,
    "sfixed32": 15,
    "sfixed64": 16,
    "sint32": 17,
    "sint64": 18,
}
_OPTIONAL, _REQUIRED, _REPEATED = 1, 2, 3
_LABELS: Final = {"OPTIONAL": _OPTIONAL, "REQUIRED": _REQUIRED, "REPEATED": _REPEATED}


def parse_text(text: str, name: str) -> FileDescriptorProto:
    """Convert .proto text to a descriptor with the file's name. Raises SchemaError."""
    try:
        from antlr4.error.ErrorListener import ErrorListener
        from google.protobuf import descriptor_pb2
        from proto_schema_parser.parser import Parser
    except ImportError as e:
        raise missing_library(e) from None

    class Strict(ErrorListener):
        """Raises the errors that the parser's library would print and ignore."""

        def syntaxError(
            self, recognizer: Any, offendingSymbol: Any, line: int, column: int, msg: str, e: Any
        ) -> None:
            raise SchemaError(f"line {line}, column {column + 1}: {msg[:200]}")

    def strict(recognizer: Any) -> None:
        recognizer.removeErrorListeners()
        recognizer.addErrorListener(Strict())

    try:
        parsed: Any = Parser(setup_lexer=strict, setup_parser=strict).parse(text)
    except SchemaError:
        raise
    except RecursionError:
        raise SchemaError("messages are nested too deep") from None
    except (ValueError, AttributeError, TypeError, IndexError) as e:
        raise SchemaError(f"not a .proto file: {e}") from None
    if parsed.edition is not None:
        raise SchemaError(
            f"editions are not supported (edition {parsed.edition}): use proto2 or proto3"
        )
    file = descriptor_pb2.FileDescriptorProto(name=name)
    syntax = parsed.syntax or "proto2"
    if syntax not in ("proto2", "proto3"):
        raise SchemaError(f"unknown syntax: {syntax}")
    if syntax == "proto3":
        file.syntax = syntax
    _Builder(syntax == "proto3").file(file, parsed.file_elements)
    return file


def _kind(element: Any) -> str:
    return type(element).__name__


class _Builder:
    def __init__(self, proto3: bool) -> None:
        self._proto3 = proto3

    def file(self, file: FileDescriptorProto, elements: Iterable[Any]) -> None:
        for each in elements:
            match _kind(each):
                case "Package":
                    file.package = each.name
                case "Import":
                    if each.public:
                        file.public_dependency.append(len(file.dependency))
                    if each.weak:
                        file.weak_dependency.append(len(file.dependency))
                    file.dependency.append(each.name)
                case "Option":
                    _option(file.options, each)
                case "Message":
                    self._message(file.message_type.add(), each, 0)
                case "Enum":
                    self._enum(file.enum_type.add(), each)
                case "Extension":
                    self._extension(file.extension, each, None, 0)
                case "Service":
                    self._service(file.service.add(), each)
                case _:
                    pass

    def _message(self, out: DescriptorProto, given: Any, depth: int) -> None:
        if depth > DEPTH_MAX:
            raise SchemaError(f"messages are nested more than {DEPTH_MAX} deep")
        out.name = given.name
        optional: list[FieldDescriptorProto] = []
        for each in given.elements:
            match _kind(each):
                case "Field":
                    field = self._field(out.field.add(), each)
                    if (
                        self._proto3
                        and each.cardinality is not None
                        and each.cardinality.value == "OPTIONAL"
                    ):
                        optional.append(field)
                case "MapField":
                    self._map(out, each)
                case "Group":
                    self._group(out, out.field.add(), each, depth)
                case "OneOf":
                    self._oneof(out, each, depth)
                case "Option":
                    _option(out.options, each)
                case "Message":
                    self._message(out.nested_type.add(), each, depth + 1)
                case "Enum":
                    self._enum(out.enum_type.add(), each)
                case "Extension":
                    self._extension(out.extension, each, out, depth)
                case "ExtensionRange":
                    for start, end in _ranges(each.ranges, FIELD_NUMBER_MAX):
                        added = out.extension_range.add(start=start, end=end + 1)
                        for option in each.options:
                            _option(added.options, option)
                case "Reserved":
                    for start, end in _ranges(each.ranges, FIELD_NUMBER_MAX):
                        out.reserved_range.add(start=start, end=end + 1)
                    out.reserved_name.extend(_unquoted(each.names))
                case _:
                    pass
        for field in optional:
            field.proto3_optional = True
            field.oneof_index = len(out.oneof_decl)
            out.oneof_decl.add(name=f"_{field.name}")

    def _field(self, out: FieldDescriptorProto, given: Any) -> FieldDescriptorProto:
        out.name, out.number = given.name, int(given.number)
        label = _OPTIONAL if given.cardinality is None else _LABELS[given.cardinality.value]
        if given.cardinality is None and not self._proto3 and not getattr(given, "in_oneof", False):
            raise SchemaError(
                f"field {given.name} needs a label (optional, required or repeated) in proto2"
            )
        if label == _REQUIRED and self._proto3:
            raise SchemaError(f"field {given.name}: proto3 has no required fields")
        out.label = cast("Any", label)
        _set_type(out, given.type)
        self._field_options(out, given.options)
        return out

    def _field_options(self, out: FieldDescriptorProto, options: Iterable[Any]) -> None:
        for each in options:
            if each.name == "json_name":
                out.json_name = str(each.value)
            elif each.name == "default":
                out.default_value = _default(each.value)
            else:
                _option(out.options, each)

    def _map(self, out: DescriptorProto, given: Any) -> None:
        field = out.field.add(name=given.name, number=int(given.number), label=_REPEATED)
        name = "".join(part[:1].upper() + part[1:] for part in given.name.split("_")) + "Entry"
        field.type_name, field.type = name, cast("Any", 11)
        self._field_options(field, given.options)
        entry = out.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, kind) in enumerate(
            (("key", given.key_type), ("value", given.value_type)), 1
        ):
            inner = entry.field.add(name=part, number=number, label=_OPTIONAL)
            _set_type(inner, kind)

    def _group(
        self, out: DescriptorProto, field: FieldDescriptorProto, given: Any, depth: int
    ) -> None:
        if self._proto3:
            raise SchemaError(f"group {given.name}: proto3 has no groups")
        field.name, field.number = given.name.lower(), int(given.number)
        label = given.cardinality.value if given.cardinality is not None else "OPTIONAL"
        field.label = cast("Any", _LABELS[label])
        field.type, field.type_name = cast("Any", 10), given.name
        self._message(out.nested_type.add(), given, depth + 1)

    def _oneof(self, out: DescriptorProto, given: Any, depth: int) -> None:
        index = len(out.oneof_decl)
        decl = out.oneof_decl.add(name=given.name)
        for each in given.elements:
            match _kind(each):
                case "Field":
                    each.in_oneof = True
                    field = self._field(out.field.add(), each)
                    field.oneof_index = index
                case "Group":
                    field = out.field.add()
                    self._group(out, field, each, depth)
                    field.oneof_index = index
                case "Option":
                    _option(decl.options, each)
                case _:
                    pass

    def _enum(self, out: EnumDescriptorProto, given: Any) -> None:
        out.name = given.name
        for each in given.elements:
            match _kind(each):
                case "EnumValue":
                    value = out.value.add(name=each.name, number=int(each.number))
                    for option in each.options:
                        _option(value.options, option)
                case "EnumReserved":
                    for start, end in _ranges(each.ranges, ENUM_NUMBER_MAX):
                        out.reserved_range.add(start=start, end=end)
                    out.reserved_name.extend(_unquoted(each.names))
                case "Option":
                    _option(out.options, each)
                case _:
                    pass

    def _extension(self, out: Any, given: Any, around: DescriptorProto | None, depth: int) -> None:
        for each in given.elements:
            match _kind(each):
                case "Field":
                    self._field(out.add(extendee=given.typeName), each)
                case "Group" if around is not None:
                    self._group(around, out.add(extendee=given.typeName), each, depth)
                case "Group":
                    raise SchemaError(
                        f"group {each.name}: an extension's group must be inside a message"
                    )
                case _:
                    pass

    def _service(self, out: ServiceDescriptorProto, given: Any) -> None:
        out.name = given.name
        for each in given.elements:
            match _kind(each):
                case "Method":
                    method = out.method.add(
                        name=each.name,
                        input_type=each.input_type.type,
                        output_type=each.output_type.type,
                    )
                    if each.input_type.stream:
                        method.client_streaming = True
                    if each.output_type.stream:
                        method.server_streaming = True
                    for option in each.elements:
                        if _kind(option) == "Option":
                            _option(method.options, option)
                case "Option":
                    _option(out.options, each)
                case _:
                    pass


def _set_type(out: FieldDescriptorProto, name: str) -> None:
    if name in _SCALARS:
        out.type = cast("Any", _SCALARS[name])
    else:
        out.type_name = name  # a message or an enum: the pool will find out


def _ranges(given: Sequence[str], maximum: int) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for each in given:
        first, _, last = str(each).partition(" to ")
        try:
            start = int(first, 0)
            end = start if not last else maximum if last.strip() == "max" else int(last, 0)
        except ValueError:
            raise SchemaError(f"not a range: {each}") from None
        found.append((start, end))
    return found


def _unquoted(names: Iterable[str]) -> list[str]:
    return [each.strip("\"'") for each in names]


def _default(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return getattr(value, "name", None) or str(value)


def _option(out: Any, given: Any) -> None:
    """Set a known option; keep any other as it is written."""
    field = out.DESCRIPTOR.fields_by_name.get(given.name)
    value: Any = given.value
    if field is not None and field.name != "uninterpreted_option" and field.message_type is None:
        if field.enum_type is not None:
            number = field.enum_type.values_by_name.get(getattr(value, "name", None) or str(value))
            if number is None:
                raise SchemaError(f"option {given.name} has no value {_default(value)}")
            setattr(out, field.name, number.number)
            return
        try:
            setattr(out, field.name, value)
        except (TypeError, ValueError):
            raise SchemaError(f"option {given.name} cannot be {_default(value)}") from None
        return
    kept = out.uninterpreted_option.add()
    for part, extension in _name_parts(given.name):
        kept.name.add(name_part=part, is_extension=extension)
    if isinstance(value, bool):
        kept.identifier_value = "true" if value else "false"
    elif isinstance(value, str):
        kept.string_value = value.encode()
    elif isinstance(value, int):
        if value >= 0:
            kept.positive_int_value = value
        else:
            kept.negative_int_value = value
    elif isinstance(value, float):
        kept.double_value = value
    elif _kind(value) == "Identifier":
        kept.identifier_value = value.name
    else:
        kept.aggregate_value = _aggregate(value)


def _name_parts(name: str) -> list[tuple[str, bool]]:
    parts: list[tuple[str, bool]] = []
    rest = name
    while rest:
        if rest.startswith("("):
            inner, _, rest = rest[1:].partition(")")
            parts.append((inner, True))
            rest = rest.removeprefix(".")
        else:
            plain, bracket, after = rest.partition(".(")
            parts += [(each, False) for each in plain.split(".") if each]
            rest = f"({after}" if bracket else ""
    return parts


def _aggregate(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_aggregate(each) for each in cast("list[Any]", value)) + "]"
    elements = getattr(value, "elements", None)
    if elements is not None:
        inner = (each for each in elements if _kind(each) == "MessageLiteralField")
        return "{ " + ", ".join(f"{each.name}: {_aggregate(each.value)}" for each in inner) + " }"
    return getattr(value, "name", None) or str(value)
