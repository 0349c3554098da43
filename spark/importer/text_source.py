"""Reads CSV and JSON lines as the rows of an import.

Spark lists the files, decompresses them and divides them into blocks of whole lines. pk parses the
lines, because Spark's own readers of CSV and JSON alter values that they do not understand. A CSV
row may span several lines, and therefore blocks. If a file has several blocks, a Spark job first
counts the quotes of each: a block begins inside a row if the number of quotes before it is odd. The
lines that complete the row are then sent to the task that reads its beginning.

An expression that only names a JSON field gets the field's text or its JSON, unchanged. Fields in
other expressions have types: those of the schema, or those inferred from all lines.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pk.spark.errors import OptionError, SparkFailed
from pk.spark.importer.file_portions import Portion, file_portions
from pk.spark.importer.options import ImportOptions
from pk.spark.reasons import sentence
from pk.spark.text.text_options import dialect_of, has_header, text_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from pk.spark.text.csv_reader import Dialect
    from pk.spark.text.json_inference import Found

_LOOKED_AT: Final = 10_000
"""The number of lines that are searched for a field name before all lines are searched."""


@dataclass(frozen=True)
class TextRows:
    """The rows of text files, and the facts that later runs must reproduce."""

    frame: "DataFrame"
    facts: Mapping[str, Any]
    options: ImportOptions
    """The options, with their expressions in terms of the columns of `frame`."""

    lines_before: Callable[[int], int]
    """Returns the number of lines of its file that are before a portion, for tasks that do not know
    it."""


def open_text(
    spark: "SparkSession",
    options: ImportOptions,
    facts: Mapping[str, Any],
    done: Callable[[Portion], bool],
) -> TextRows:
    """Open text files. `done` returns whether earlier runs imported all of a portion. Raises
    OptionError, SparkFailed."""
    listing, own = text_options(options.kind, options.read)
    # Otherwise the value of the directory hour=05 would be the number 5.
    spark.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    reader = spark.read.format("text").options(lineSep="\n", **listing)
    files = reader.load(options.place)
    # The values in directory names, such as date=2026-01-31, are also columns of each row.
    folders = [f"`{name}`" for name in files.columns if name != "value"]
    lines = files.selectExpr("CAST(value AS BINARY) AS line", *folders)
    text = _Text(spark, options, lines, file_portions(lines), done)
    return text.csv(own, facts) if options.kind == "csv" else text.json(facts)


class _Text:
    def __init__(
        self,
        spark: "SparkSession",
        options: ImportOptions,
        lines: "DataFrame",
        portions: Sequence[Portion],
        done: Callable[[Portion], bool],
    ) -> None:
        self._spark = spark
        self._options = options
        self._lines = lines
        self._portions = portions
        files: dict[str, list[int]] = {}
        for number, portion in enumerate(portions):
            files.setdefault(portion.file, []).append(number)
        self._files = {
            name: sorted(numbers, key=lambda n: portions[n].begin)
            for name, numbers in files.items()
            if not all(done(portions[n]) for n in numbers)
        }
        """File → the numbers of its portions, in order; only files that are not imported
        completely."""

        self._folders = lines.schema.fields[1:]
        self._zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"

    # jobs over the lines

    def _run(
        self, frame: "DataFrame", run: Callable[[Iterable[Any]], Any], numbers: Sequence[int]
    ) -> list[Any]:
        """Apply a function to the rows of each portion, and return the results."""
        if not numbers:
            return []
        return self._spark.sparkContext.runJob(frame.rdd, lambda rows: [run(rows)], list(numbers))

    def _counts(self, numbers: Sequence[int]) -> list[tuple[int, int]]:
        """Count the lines and the quotes of each portion."""
        from pk.spark.importer.read_lines import CountLines

        task = CountLines()
        counts = self._lines.mapInArrow(lambda b: task(b), "lines BIGINT, quotes BIGINT")

        def add(rows: Iterable[Any]) -> tuple[int, int]:
            pairs = [(row[0], row[1]) for row in rows]
            return sum(a for a, _ in pairs), sum(b for _, b in pairs)

        return self._run(counts, add, numbers)

    def lines_before(self, number: int) -> int:
        """The number of lines of its file that are before a portion."""
        numbers = self._files[self._portions[number].file]
        return sum(lines for lines, _ in self._counts(numbers[: numbers.index(number)]))

    # CSV

    def csv(self, own: Mapping[str, str], facts: Mapping[str, Any]) -> TextRows:
        """The rows of CSV files. Raises OptionError, SparkFailed."""
        from pyspark.sql.types import StructType

        from pk.spark.importer.read_lines import ReadCsv
        from pk.spark.text.csv_types import checked_columns

        header = has_header(own)
        dialects = {name: dialect_of(name, own) for name in self._files}
        firsts = self._first_rows(dialects)
        columns = StructType()
        if "schema" in facts:
            columns = StructType.fromJson(json.loads(facts["schema"]))
        elif self._options.schema is not None:
            columns = _declared(self._spark, self._options.schema)
        starts: dict[int, Any] = {}
        for name, numbers in self._files.items():
            first = firsts[name]
            if first is None:
                continue  # the file is empty
            columns = checked_columns(name, first, columns, header=header)
            for each, start in self._starts(numbers, dialects[name], first, header):
                starts[each] = start
        if not columns.fields:
            raise OptionError(
                f"{self._options.source} has no header row with the names of the columns"
            )
        task = ReadCsv(columns, starts, self._zone)
        task.check()
        made = StructType([*columns.fields, *self._folders])
        frame = self._lines.mapInArrow(lambda batches: task(batches), made)
        return TextRows(frame, {**facts, "schema": columns.json()}, self._options, lambda number: 0)

    def _first_rows(self, dialects: Mapping[str, "Dialect"]) -> dict[str, Any]:
        from pk.spark.importer.read_lines import first_row_of
        from pk.spark.text.csv_reader import BadCsv

        found: dict[str, Any] = {}
        by_dialect: dict[Dialect, list[str]] = {}
        for name, dialect in dialects.items():
            by_dialect.setdefault(dialect, []).append(name)
        for dialect, names in by_dialect.items():

            def first(rows: Iterable[Any], dialect: "Dialect" = dialect) -> Any:
                return first_row_of((bytes(row[0]) for row in rows), dialect)

            numbers = [self._files[name][0] for name in names]
            for name, each in zip(names, self._run(self._lines, first, numbers), strict=True):
                if isinstance(each, BadCsv):
                    raise SparkFailed(f"{name}, line {each.line}: {each.reason}")
                found[name] = each
        return found

    def _starts(
        self, numbers: Sequence[int], dialect: "Dialect", first: Any, header: bool
    ) -> Iterable[tuple[int, Any]]:
        """Determine how each portion of a file begins."""
        from pk.spark.importer.read_lines import CsvPortion, begun_row

        skipped = first.lines if header else 0
        if len(numbers) == 1:
            return [(numbers[0], CsvPortion(dialect, first.crlf, skipped, 1))]
        counts = self._counts(numbers)
        inside = [False]
        line = [1]
        for lines, quotes in counts:
            inside.append(inside[-1] ^ (quotes % 2 == 1))
            line.append(line[-1] + lines)

        def begun(rows: Iterable[Any]) -> tuple[list[bytes], bool]:
            return begun_row(bytes(row[0]) for row in rows)

        within = [at for at in range(len(numbers)) if inside[at]]
        found = self._run(self._lines, begun, [numbers[at] for at in within])
        heads = dict(zip(within, found, strict=True))
        made: list[tuple[int, Any]] = []
        for at, number in enumerate(numbers):
            rest: list[bytes] = []
            for following in range(at + 1, len(numbers)):
                if following not in heads:
                    break
                head, ends = heads[following]
                rest += head
                if ends:
                    break
            head, ends = heads.get(at, ([], True))
            skip = skipped if at == 0 else len(head)
            # A portion in which no row ends belongs completely to an earlier portion's row.
            start = CsvPortion(dialect, first.crlf, skip, line[at], tuple(rest) if ends else ())
            made.append((number, start))
        return made

    # JSON lines

    def json(self, facts: Mapping[str, Any]) -> TextRows:
        """The rows of files of JSON lines. Raises OptionError."""
        from pyspark.sql.types import StringType, StructField, StructType

        from pk.spark.importer.read_lines import LINE, ReadJson
        from pk.spark.text.json_reader import Field, fields_of

        options = self._options
        typed = StructType()
        paths: dict[tuple[str, ...], str] = {}
        if options.schema is not None:
            typed = _declared(self._spark, options.schema)
        else:
            named = _Named(self._spark, options, [each.name for each in self._folders])
            paths = {path: f"_pk_field_{n}" for n, path in enumerate(sorted(named.alone))}
            if "schema" in facts:
                typed = StructType.fromJson(json.loads(facts["schema"]))
            else:
                self._check_names(named)
                if named.computed:
                    found = self._found()
                    typed = StructType(
                        [
                            StructField(name, each.type(name))
                            for name, each in found.fields.items()
                            if name.lower() in named.computed or "*" in named.computed
                        ]
                    )
            options = named.with_columns(paths)
        fields = [*fields_of(typed), *(Field(n, p, StringType()) for p, n in paths.items())]
        task = ReadJson(tuple(fields), self._zone, options.value is None)
        task.check()
        made = StructType([*task.schema.fields, *self._folders])
        frame = self._lines.mapInArrow(lambda batches: task(batches), made)
        value = options.value if options.value is not None else LINE
        return TextRows(
            frame,
            {**facts, "schema": typed.json()},
            replace(options, value=value),
            self.lines_before,
        )

    def _found(self, limit: int | None = None) -> "Found":
        """Infer the fields from the lines; with `limit`, only from the first ones."""
        from pk.spark.importer.read_lines import FindFields
        from pk.spark.text.json_inference import Found

        task = FindFields()
        lines = self._lines if limit is None else self._lines.limit(limit)
        whole = Found("object")
        for row in lines.mapInArrow(lambda b: task(b), "found BINARY").toLocalIterator():
            whole.merge(pickle.loads(row[0]))
        return whole

    def _check_names(self, named: "_Named") -> None:
        """Raise OptionError if no line has a field that an expression names."""
        if not named.alone:
            return
        found = self._found(_LOOKED_AT)
        if any(not found.has(path) for path in named.alone):
            found = self._found()
        for path in sorted(named.alone):
            if not found.has(path):
                option, text = named.alone[path]
                known = ", ".join(found.fields) or "none"
                raise OptionError(
                    f"{option} {text!r} is not an expression for these rows: no line has the "
                    f"field {'.'.join(path)}; the fields are {known}"
                )


class _Named:
    """The field names in the expressions of an import."""

    def __init__(
        self, spark: "SparkSession", options: ImportOptions, columns: Sequence[str]
    ) -> None:
        """`columns` are the columns that rows have in addition to the fields of the lines."""
        self._options = options
        self._columns = {name.lower() for name in columns}
        session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage] - Spark's parser
        self._parser = session.sessionState().sqlParser()
        self.alone: dict[tuple[str, ...], tuple[str, str]] = {}
        """Path → the option whose expression consists only of that field's name, and the
        expression."""

        self.computed: set[str] = set()
        """The names, in lower case, of fields that other expressions use."""

        self._paths: dict[str, tuple[str, ...]] = {}
        for option, text in (
            ("--key", options.key),
            ("--value", options.value),
            *((f"--header {name}", text) for name, text in options.headers),
        ):
            if text is not None:
                self._take(option, text)
        for option, text in (
            ("--timestamp", options.timestamp),
            ("--partition", options.partition),
        ):
            if text is not None:
                self._names(self._parsed(option, text))
        if "*" in self.computed:
            if options.value is None:
                raise OptionError("without --value, no other expression can use *: name the fields")
            # The rows must have only fields, since * means all columns.
            self.computed |= {path[0].lower() for path in self.alone}
            self.alone.clear()
            self._paths.clear()

    def _parsed(self, option: str, text: str) -> Any:
        from pyspark.errors import PySparkException

        try:
            return self._parser.parseExpression(text)
        except PySparkException as e:
            raise OptionError(f"{option} {text!r} is not an expression: {sentence(e)}") from e

    def _take(self, option: str, text: str) -> None:
        parsed = self._parsed(option, text)
        if _class(parsed) == "UnresolvedAttribute" and not self._is_column(parsed):
            path = _path(parsed)
            self._paths[text] = path
            self.alone.setdefault(path, (option, text))
        else:
            self._names(parsed)

    def _is_column(self, attribute: Any) -> bool:
        return _path(attribute)[0].lower() in self._columns

    def _names(self, parsed: Any) -> None:
        if _class(parsed) == "UnresolvedAttribute" and not self._is_column(parsed):
            self.computed.add(_path(parsed)[0].lower())
        elif _class(parsed) == "UnresolvedStar":
            self.computed.add("*")
        children = parsed.children()
        for number in range(children.size()):
            self._names(children.apply(number))

    def with_columns(self, columns: Mapping[tuple[str, ...], str]) -> ImportOptions:
        """The options, with columns in place of the expressions that are only a field's name."""

        def of(text: str | None) -> str | None:
            return columns[self._paths[text]] if text in self._paths else text

        options = self._options
        headers = tuple((name, of(text) or text) for name, text in options.headers)
        return replace(options, key=of(options.key), value=of(options.value), headers=headers)


def _class(expression: Any) -> str:
    return str(expression.getClass().getSimpleName())


def _path(attribute: Any) -> tuple[str, ...]:
    parts = attribute.nameParts()
    return tuple(str(parts.apply(number)) for number in range(parts.size()))


def _declared(spark: "SparkSession", text: str) -> "StructType":
    from pyspark.errors import PySparkException

    from pk.spark.connect import struct_of

    try:
        return struct_of(spark, text)
    except (PySparkException, ValueError) as e:
        said = f"the schema {text!r} is not one that Spark reads: {sentence(e)}"
        raise OptionError(said) from e
