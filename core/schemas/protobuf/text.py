"""The canonical .proto text of a file, which a registry stores even if a client sent another form.

Parsing it gives the same file: messages keep their positions, including those that protobuf creates
for maps, since a record identifies its message by position.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from pk.core.schemas.protobuf.syntax import ENUM_NUMBER_MAX, FIELD_NUMBER_MAX

if TYPE_CHECKING:
    from google.protobuf.descriptor_pb2 import (
        DescriptorProto,
        EnumDescriptorProto,
        FieldDescriptorProto,
        FileDescriptorProto,
        ServiceDescriptorProto,
    )

_SCALARS: Final = {
    1: "double",
    2: "float",
    3: "int64",
    4: "uint64",
    5: "int32",
    6: "fixed64",
    7: "fixed32",
    8: "bool",
    9: "string",
    12: "bytes",
    13: "uint32",
    15: "sfixed32",
    16: "sfixed64",
    17: "sint32",
    18: "sint64",
}
_LABELS: Final = {1: "optional ", 2: "required ", 3: "repeated "}
_GROUP: Final = 10


def canonical(file: FileDescriptorProto) -> str:
    """Return the canonical text of a file whose names are resolved."""
    writer = _Writer(file.syntax == "proto3")
    sections: list[list[str]] = [[f'syntax = "{file.syntax or "proto2"}";']]
    if file.package:
        sections[0].append(f"package {file.package};")
    public, weak = set(file.public_dependency), set(file.weak_dependency)
    imports = [
        f'import {"public " if i in public else "weak " if i in weak else ""}"{each}";'
        for i, each in enumerate(file.dependency)
    ]
    sections.append(sorted(imports))
    sections.append([f"option {each};" for each in sorted(_options(file.options))])
    sections += [list(writer.message(each)) for each in file.message_type]
    sections += [list(writer.enum(each)) for each in file.enum_type]
    sections += [list(writer.extensions(file.extension, file.package))]
    sections += [list(writer.service(each)) for each in file.service]
    return "\n\n".join("\n".join(lines) for lines in sections if lines) + "\n"


class _Writer:
    def __init__(self, proto3: bool) -> None:
        self._proto3 = proto3

    def message(self, given: DescriptorProto) -> Iterator[str]:
        yield f"message {given.name} {{"
        yield from _indented(self._body(given))
        yield "}"

    def _body(self, given: DescriptorProto) -> Iterator[str]:
        for each in sorted(_options(given.options, skip=("map_entry",))):
            yield f"option {each};"
        yield from _reserved(given, FIELD_NUMBER_MAX, 1)
        for each in given.extension_range:
            options = _bracketed(list(_options(each.options)))
            yield f"extensions {_range(each.start, each.end - 1, FIELD_NUMBER_MAX)}{options};"
        written = _Nested(given, self)
        real = [i for i in range(len(given.oneof_decl)) if not _is_synthetic(given, i)]
        begun: set[int] = set()
        for field in given.field:
            inside = field.oneof_index if field.HasField("oneof_index") else -1
            if inside in real:
                if inside not in begun:
                    begun.add(inside)
                    yield from self._oneof(given, inside, written)
                continue
            yield from self._field(given, field, written)
        yield from written.rest()
        for each in given.enum_type:
            yield from self.enum(each)
        yield from self.extensions(given.extension, "")

    def _oneof(self, given: DescriptorProto, index: int, written: _Nested) -> Iterator[str]:
        members = [
            each
            for each in given.field
            if each.HasField("oneof_index") and each.oneof_index == index
        ]
        decl = given.oneof_decl[index]
        yield f"oneof {decl.name} {{"
        for each in sorted(_options(decl.options)):
            yield f"  option {each};"
        for each in members:
            yield from _indented(self._field(given, each, written, label=False))
        yield "}"

    def _field(
        self,
        given: DescriptorProto | None,
        field: FieldDescriptorProto,
        written: _Nested | None,
        *,
        label: bool = True,
    ) -> Iterator[str]:
        entry = written.entry_of(field) if written is not None else None
        if entry is not None and written is not None:
            yield from written.before(entry)
            key, value = entry.field
            kind, prefix = f"map<{self._type(key)}, {self._type(value)}>", ""
        else:
            kind, prefix = self._type(field), self._label(field) if label else ""
        options = _bracketed(self._field_options(field))
        if field.type == _GROUP and written is not None:
            group = written.take(field)
            yield f"{prefix}group {group.name} = {field.number} {{"
            yield from _indented(self._body(group))
            yield "}"
            return
        yield f"{prefix}{kind} {field.name} = {field.number}{options};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.label == 1 and self._proto3 and not field.proto3_optional:
            return ""
        return _LABELS[field.label]

    def _type(self, field: FieldDescriptorProto) -> str:
        return _SCALARS.get(field.type) or field.type_name

    def _field_options(self, field: FieldDescriptorProto) -> list[str]:
        found = list(_options(field.options))
        if field.HasField("default_value"):
            text = field.default_value
            found.append(f"default = {_quoted(text) if field.type in (9, 12) else text}")
        if field.HasField("json_name") and field.json_name != _json_name(field.name):
            found.append(f"json_name = {_quoted(field.json_name)}")
        return sorted(found)

    def enum(self, given: EnumDescriptorProto) -> Iterator[str]:
        yield f"enum {given.name} {{"
        for each in sorted(_options(given.options)):
            yield f"  option {each};"
        yield from _indented(_reserved(given, ENUM_NUMBER_MAX, 0))
        for value in given.value:
            yield f"  {value.name} = {value.number}{_bracketed(sorted(_options(value.options)))};"
        yield "}"

    def extensions(self, given: Any, package: str) -> Iterator[str]:
        for each in given:
            yield f"extend {each.extendee} {{"
            yield from _indented(self._field(None, each, None))
            yield "}"

    def service(self, given: ServiceDescriptorProto) -> Iterator[str]:
        yield f"service {given.name} {{"
        for each in sorted(_options(given.options)):
            yield f"  option {each};"
        for method in given.method:
            sent = "stream " if method.client_streaming else ""
            answered = "stream " if method.server_streaming else ""
            head = (
                f"rpc {method.name} ({sent}{method.input_type}) returns "
                f"({answered}{method.output_type})"
            )
            options = [f"    option {each};" for each in sorted(_options(method.options))]
            if options:
                yield f"  {head} {{"
                yield from options
                yield "  }"
            else:
                yield f"  {head};"
        yield "}"


class _Nested:
    """The nested messages of one message, including the entries of maps. They must be written in
    order."""

    def __init__(self, given: DescriptorProto, writer: _Writer) -> None:
        self._left = list(given.nested_type)
        self._writer = writer

    def entry_of(self, field: FieldDescriptorProto) -> DescriptorProto | None:
        """Return the entry message that protobuf made for a map field; None for any other field."""
        name = field.type_name.rpartition(".")[2]
        return next((e for e in self._left if e.name == name and e.options.map_entry), None)

    def before(self, entry: DescriptorProto) -> Iterator[str]:
        """Write the messages before an entry message, which is omitted."""
        while self._left:
            each = self._left.pop(0)
            if each is entry or each.name == entry.name:
                return
            yield from self._writer.message(each)

    def take(self, field: FieldDescriptorProto) -> DescriptorProto:
        """Return the message of a group, and remove it from the messages to write."""
        name = field.type_name.rpartition(".")[2]
        found = next(each for each in self._left if each.name == name)
        self._left.remove(found)
        return found

    def rest(self) -> Iterator[str]:
        """Write the remaining messages."""
        for each in self._left:
            yield from self._writer.message(each)


def _is_synthetic(given: DescriptorProto, index: int) -> bool:
    return any(
        each.proto3_optional and each.HasField("oneof_index") and each.oneof_index == index
        for each in given.field
    )


def _indented(lines: Iterator[str]) -> Iterator[str]:
    return (f"  {line}" for line in lines)


def _reserved(given: Any, maximum: int, beyond: int) -> Iterator[str]:
    ranges = [_range(each.start, each.end - beyond, maximum) for each in given.reserved_range]
    if ranges:
        yield f"reserved {', '.join(ranges)};"
    if given.reserved_name:
        yield f"reserved {', '.join(map(_quoted, given.reserved_name))};"


def _range(start: int, end: int, maximum: int) -> str:
    return str(start) if start == end else f"{start} to {'max' if end == maximum else end}"


def _bracketed(options: list[str]) -> str:
    return f" [{', '.join(options)}]" if options else ""


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _options(options: Any, skip: tuple[str, ...] = ()) -> Iterator[str]:
    for field, value in options.ListFields():
        if field.name == "uninterpreted_option":
            for each in value:
                yield _uninterpreted(each)
        elif field.message_type is None and field.name not in skip and not hasattr(value, "append"):
            yield f"{field.name} = {_option_value(field, value)}"


def _option_value(field: Any, value: Any) -> str:
    if field.enum_type is not None:
        return field.enum_type.values_by_number[value].name
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _uninterpreted(option: Any) -> str:
    name = ".".join(
        f"({part.name_part})" if part.is_extension else part.name_part for part in option.name
    )
    for kind in (
        "identifier_value",
        "positive_int_value",
        "negative_int_value",
        "double_value",
        "aggregate_value",
    ):
        if option.HasField(kind):
            return f"{name} = {getattr(option, kind)}"
    return f"{name} = {_quoted(option.string_value.decode('utf-8', 'replace'))}"
