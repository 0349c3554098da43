"""Checks whether a reader with one Avro schema can read data written with another: Avro's schema
resolution, with the reasons.

The names of the reasons and their positions are those of Apache's `SchemaCompatibility`;
`tests/schemas` compares the results.
"""

from __future__ import annotations

from pk.core.schemas.avro.types import Type
from pk.core.schemas.compatibility import DIFFERENCES_MAX, Difference

_PROMOTIONS = {
    "long": frozenset({"int"}),
    "float": frozenset({"int", "long"}),
    "double": frozenset({"int", "long", "float"}),
    "bytes": frozenset({"string"}),
    "string": frozenset({"bytes"}),
}


def differences(reader: Type, writer: Type) -> list[Difference]:
    """Compare two schemas. Returns the reasons why the reader cannot read the writer's data, if
    any."""
    comparison = _Comparison()
    comparison.compare(reader, writer, "")
    return comparison.found


class _Comparison:
    def __init__(self, known: dict[tuple[int, int], list[Difference]] | None = None) -> None:
        self.found: list[Difference] = []
        self._known = {} if known is None else known
        """The results for pairs of types, so that each pair is compared only once, even in nested
        schemas."""

    def compare(self, reader: Type, writer: Type, path: str) -> None:
        """Add the incompatibilities of two types to `found`."""
        pair = id(reader), id(writer)
        known = self._known.get(pair)
        if known is None:
            self._known[pair] = []  # a type that contains itself adds nothing to its own result
            inner = _Comparison(self._known)
            inner._compare(reader, writer, path)
            known = self._known[pair] = inner.found
        self.found += known[: DIFFERENCES_MAX - len(self.found)]

    def _readable(self, reader: Type, writer: Type) -> bool:
        probe = _Comparison(self._known)
        probe.compare(reader, writer, "")
        return not probe.found

    def _compare(self, reader: Type, writer: Type, path: str) -> None:
        if writer.kind == "union":
            for index, branch in enumerate(writer.branches):
                if reader.kind == "union":
                    self._union(reader, branch, f"{path}/{index}")
                else:
                    self.compare(reader, branch, path)
        elif reader.kind == "union":
            self._union(reader, writer, path)
        elif reader.kind != writer.kind:
            if writer.kind not in _PROMOTIONS.get(reader.kind, ()):
                self._wrong_type(reader, writer, path)
        elif reader.items is not None and writer.items is not None:
            part = "items" if reader.kind == "array" else "values"
            self.compare(reader.items, writer.items, f"{path}/{part}")
        elif reader.kind == "fixed":
            self._same_name(reader, writer, path)
            if reader.size != writer.size:
                self._add(
                    "FIXED_SIZE_MISMATCH",
                    f"{path}/size",
                    "The size of FIXED type field at path '{path}' in the {new} schema does not "
                    "match with the {old} schema",
                    f"expected: {writer.size}, found: {reader.size}",
                )
        elif reader.kind == "enum":
            self._same_name(reader, writer, path)
            missing = [each for each in writer.symbols if each not in reader.symbols]
            if missing and reader.default_symbol is None:
                self._add(
                    "MISSING_ENUM_SYMBOLS",
                    f"{path}/symbols",
                    (
                        "The {new} schema is missing enum symbols '{info}' at path '{path}' in the "
                        "{old} schema"
                    ),
                    f"[{', '.join(missing)}]",
                )
        elif reader.kind in ("record", "error"):
            self._same_name(reader, writer, path)
            self._fields(reader, writer, path)

    def _union(self, reader: Type, writer: Type, path: str) -> None:
        if not any(self._readable(branch, writer) for branch in reader.branches):
            self._add(
                "MISSING_UNION_BRANCH",
                path or "/",
                (
                    "The {new} schema is missing a type inside a union field at path '{path}' in "
                    "the {old} schema"
                ),
                f"reader union lacking writer type: {writer.kind.upper()}",
            )

    def _same_name(self, reader: Type, writer: Type, path: str) -> None:
        if reader.short_name == writer.short_name or writer.name in reader.aliases:
            return
        self._add(
            "NAME_MISMATCH",
            f"{path}/name",
            "The name of the schema has changed (path '{path}')",
            f"expected: {writer.name}",
        )

    def _fields(self, reader: Type, writer: Type, path: str) -> None:
        written = {each.name: each for each in writer.fields}
        for index, wanted in enumerate(reader.fields):
            match = written.get(wanted.name) or next(
                (written[alias] for alias in wanted.aliases if alias in written), None
            )
            if match is not None:
                self.compare(wanted.type, match.type, f"{path}/fields/{index}/type")
            elif wanted.has_default:
                continue
            elif wanted.type.default_symbol is not None:
                # Apache's library compares the enumeration with the enclosing record, so it finds a
                # different type.
                self._wrong_type(wanted.type, writer, f"{path}/fields/{index}/type")
            else:
                self._add(
                    "READER_FIELD_MISSING_DEFAULT_VALUE",
                    f"{path}/fields/{index}",
                    "The field '{info}' at path '{path}' in the {new} schema has no default value "
                    "and is missing in the {old} schema",
                    wanted.name,
                )

    def _wrong_type(self, reader: Type, writer: Type, path: str) -> None:
        self._add(
            "TYPE_MISMATCH",
            path or "/",
            (
                "The type (path '{path}') of a field in the {new} schema does not match with the "
                "{old} schema"
            ),
            (
                f"reader type: {reader.kind.upper()} not compatible with writer type: "
                f"{writer.kind.upper()}"
            ),
        )

    def _add(self, kind: str, path: str, description: str, info: str) -> None:
        self.found.append(Difference(kind, path, description, info))
