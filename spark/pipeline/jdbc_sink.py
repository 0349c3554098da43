"""Writes rows to a database's table exactly once: inserts them, or updates and deletes rows by key.

Spark's tasks write a batch to a staging table, each in one transaction. The driver then moves the
rows to the table and stores the number of the batch, in one transaction of the database; a batch
whose number is already stored is skipped.

If a task is lost after its commit, Spark runs it again, and its rows would be staged twice. Staged
rows have unique numbers, so the task cannot commit again: the batch fails, and the next start
repeats it with an empty staging table.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

from pyspark.sql import functions as f
from pyspark.sql.types import DataType, DecimalType, DoubleType, FloatType

from pk.spark.errors import SparkFailed, TargetRefused
from pk.spark.pipeline.definition import JdbcSink
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.row_changes import DELETED, changes, key_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MARKERS: Final = "pk_pipeline_batches"
ROW: Final = "pk_staged_row"
"""The column of a staging table with the row number."""

_OWN: Final = ("user", "password", "driver")
"""Options that the driver's own connection uses too."""

_WHOLE: Final = frozenset((-6, 5, 4, -5))
_DECIMALS: Final = frozenset((2, 3))
"""Numbers of `java.sql.Types`: the whole ones are TINYINT to BIGINT, the decimals NUMERIC and
DECIMAL."""


def write_jdbc(
    sink: JdbcSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Write a batch, unless the database has it already. Raises SparkFailed, PySparkException."""
    spark = frame.sparkSession
    url = places.jdbc(sink.jdbc)
    with Database(spark, url, sink.options) as database:
        database.create_markers()
        if database.last_batch(identity) >= batch:
            return
        options = {**sink.options, "url": url}
        rows = frame
        upserts = sink.mode == "upsert"
        if upserts:
            # Not every database has a boolean type.
            frame = changes(sink, frame).withColumn(DELETED, f.col(DELETED).cast("int"))
            rows = frame.drop(DELETED)
        key = key_names(sink, rows) if upserts else sink.key
        if url.startswith("jdbc:sqlite:"):
            frame = frame.coalesce(1)  # SQLite allows one writer at a time
        if not database.exists(sink.table):
            database.create(sink.table, rows, key)
        staging = f"pk_staging_{identity.replace('-', '_').replace('.', '_')}"
        if database.exists(staging):
            database.run(f"DROP TABLE {staging}")
        staged = frame.withColumn(ROW, f.monotonically_increasing_id())
        database.create(staging, staged, [ROW])
        writer = staged.write.format("jdbc").options(**options).option("dbtable", staging)
        writer.mode("append").save()
        dialect = url.split(":")[1]
        if upserts:
            statements = [
                delete(dialect, sink.table, staging, key, DELETED),
                upsert(dialect, sink.table, staging, rows.columns, key, DELETED),
            ]
        else:
            statements = [upsert(dialect, sink.table, staging, rows.columns, key)]
        database.commit(statements, identity, batch)
        database.run(f"DROP TABLE {staging}")


def create_table(dialect: str, table: str, columns: str, key: Sequence[str]) -> str:
    """The statement that creates a table with a unique key. It is a single statement: if the
    process were killed between two, later upserts would be refused, or would insert a key twice."""
    # Db2 requires the columns of a unique key to be NOT NULL, and its MERGE does not need such a
    # key.
    unique = ", ".join(_quoted(dialect, name) for name in key) if dialect != "db2" else ""
    return f"CREATE TABLE {table} ({columns}{unique and f', UNIQUE ({unique})'})"


def upsert(
    dialect: str,
    table: str,
    staging: str,
    columns: Sequence[str],
    key: Sequence[str],
    deleted: str | None = None,
) -> str:
    """The statement, in a database's dialect, that writes the rows of a staging table to the table.
    Rows with 1 in the column `deleted` are skipped."""
    names = [_quoted(dialect, name) for name in columns]
    keys = [_quoted(dialect, name) for name in key]
    rest = [name for name in names if name not in keys]
    listed = ", ".join(names)
    where = "" if deleted is None else f" WHERE {_quoted(dialect, deleted)} = 0"
    plain = f"INSERT INTO {table} ({listed}) SELECT {listed} FROM {staging}{where}"
    if not keys:
        return plain
    if dialect in ("mysql", "mariadb"):
        sets = ", ".join(f"{name} = VALUES({name})" for name in rest or keys[:1])
        return f"{plain} ON DUPLICATE KEY UPDATE {sets}"
    if dialect in ("sqlite", "postgresql"):
        # Without WHERE, SQLite would parse ON as that of a join.
        does = f"UPDATE SET {', '.join(f'{n} = excluded.{n}' for n in rest)}" if rest else "NOTHING"
        always = "" if where else " WHERE true"
        return f"{plain}{always} ON CONFLICT ({', '.join(keys)}) DO {does}"
    matched = " AND ".join(f"t.{name} = s.{name}" for name in keys)
    sets = ", ".join(f"t.{name} = s.{name}" for name in rest)
    updates = f" WHEN MATCHED THEN UPDATE SET {sets}" if rest else ""
    values = ", ".join(f"s.{name}" for name in names)
    end = ";" if dialect == "sqlserver" else ""
    source = f"(SELECT {listed} FROM {staging}{where})" if where else staging
    return (
        f"MERGE INTO {table} t USING {source} s ON {matched}{updates}"
        f" WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({values}){end}"
    )


def delete(dialect: str, table: str, staging: str, key: Sequence[str], deleted: str) -> str:
    """The statement that deletes the rows of a table whose keys have a 1 in the column `deleted` of
    a staging table."""
    names = [_quoted(dialect, name) for name in key]
    same = " AND ".join(f"s.{name} = {table}.{name}" for name in names)
    marked = f"s.{_quoted(dialect, deleted)} = 1"
    return f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {staging} s WHERE {same} AND {marked})"


def _quoted(dialect: str, name: str) -> str:
    # Spark's dialects quote the columns of its tables in the same way.
    mark = "`" if dialect in ("mysql", "mariadb") else '"'
    return f"{mark}{name.replace(mark, mark * 2)}{mark}"


def has_driver(spark: "SparkSession", url: str, options: Any) -> bool:
    """Whether the driver's JVM has a JDBC driver for a URL."""
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - the only way to the driver's JVM
    given = {name.lower(): value for name, value in options.items()}
    try:
        if "driver" in given:
            jvm.java.lang.Class.forName(given["driver"])
        jvm.java.sql.DriverManager.getDriver(url)
    except Py4JJavaError:
        return False
    return True


class TableColumn(NamedTuple):
    """A column of a database's table."""

    name: str
    kind: str
    """The database's name for its type."""

    number: int
    """The number of its type in `java.sql.Types`."""

    whole: bool
    """Whether the column rounds fractions."""


def _has_fractions(kind: DataType) -> bool:
    return isinstance(kind, FloatType | DoubleType) or (
        isinstance(kind, DecimalType) and kind.scale > 0
    )


class Database:
    """A connection from the driver's JVM, used through py4j."""

    def __init__(self, spark: "SparkSession", url: str, options: Any) -> None:
        from py4j.protocol import Py4JJavaError

        jvm: Any = spark._jvm  # pyright: ignore[reportPrivateUsage] - the only way to the driver's JVM
        given = {name.lower(): value for name, value in options.items()}
        properties = jvm.java.util.Properties()
        for name in _OWN[:2]:
            if name in given:
                properties.setProperty(name, given[name])
        try:
            if "driver" in given:
                jvm.java.lang.Class.forName(given["driver"])
            self._connection: Any = jvm.java.sql.DriverManager.getConnection(url, properties)
            self._connection.setAutoCommit(False)
        except Py4JJavaError as e:
            raise SparkFailed(f"the database cannot be reached: {e.java_exception}") from e
        self._dialect = url.split(":")[1]
        self._jvm = jvm
        self._url = url

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.rollback()
        self._connection.close()

    def run(self, statement: str) -> None:
        """Execute a statement, and commit. Raises SparkFailed with the database's error."""
        self._execute(statement)
        self._connection.commit()

    def exists(self, table: str) -> bool:
        """Whether a table exists and can be read."""
        try:
            self._ask(f"SELECT 1 FROM {table} WHERE 1 = 0")
        except SparkFailed:
            self._connection.rollback()
            return False
        self._connection.commit()
        return True

    def create(self, table: str, frame: "DataFrame", key: Sequence[str] = ()) -> None:
        """Create a table with the columns of a data frame, in Spark's types for this database. Its
        `key` is unique, as upserts require.

        Spark's writer creates tables too, but only if it recognizes the database's error for a
        missing table.
        """
        self.run(create_table(self._dialect, table, self._columns(frame), key))

    def check_rows(self, table: str, frame: "DataFrame") -> None:
        """Raise SparkFailed if the rows have a type that the database lacks, a column that the
        table lacks, or values that the table would round."""
        from py4j.protocol import Py4JJavaError

        self._columns(frame)
        try:
            # This reads the database's header: a file may not be a SQLite database.
            self._connection.getMetaData().getTables(None, None, MARKERS, None).close()
        except Py4JJavaError as e:
            raise SparkFailed(f"the database cannot be read: {e.java_exception}") from e
        if not self.exists(table):
            return
        known = self.columns_of(table)
        for each in frame.schema.fields:
            column = known.get(each.name.lower())
            if column is None:
                has = ", ".join(found.name for found in known.values())
                raise TargetRefused(f"the table {table} has no column {each.name!r}; it has {has}")
            if column.whole and _has_fractions(each.dataType):
                raise TargetRefused(
                    f"the table's column {column.name} is {column.kind}, which would round its"
                    f" values: they are {each.dataType.simpleString().upper()}; cast them"
                )

    def columns_of(self, table: str) -> dict[str, "TableColumn"]:
        """The columns of a table, by name in lower case."""
        made = self._connection.createStatement()
        try:
            metadata = made.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
            found = [self._column_of(metadata, n + 1) for n in range(metadata.getColumnCount())]
        finally:
            made.close()
        return {each.name.lower(): each for each in found}

    def _column_of(self, metadata: Any, number: int) -> "TableColumn":
        kind = metadata.getColumnType(number)
        whole = kind in _WHOLE or (
            # A decimal without a precision may have any scale.
            kind in _DECIMALS
            and metadata.getPrecision(number) > 0
            and metadata.getScale(number) == 0
        )
        exact = self._dialect == "sqlite"  # SQLite's columns store values of other types unchanged
        name, shown = str(metadata.getColumnName(number)), str(metadata.getColumnTypeName(number))
        return TableColumn(name, shown, kind, whole and not exact)

    def _columns(self, frame: "DataFrame") -> str:
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import PySparkException

        jdbc = self._jvm.org.apache.spark.sql
        utils = jdbc.execution.datasources.jdbc.JdbcUtils
        dialect = jdbc.jdbc.JdbcDialects.get(self._url)
        java: Any = frame._jdf
        try:
            nothing = self._jvm.scala.Option.empty()
            return utils.schemaString(dialect, java.schema(), False, nothing)
        except (Py4JJavaError, PySparkException) as e:
            said = e.java_exception if isinstance(e, Py4JJavaError) else e
            raise TargetRefused(
                f"the database cannot create a table with these columns: {said}"
            ) from e

    def create_markers(self) -> None:
        """Create the table of batch numbers if it is missing."""
        if not self.exists(MARKERS):
            self.run(f"CREATE TABLE {MARKERS} (sink VARCHAR(250) PRIMARY KEY, batch BIGINT)")

    def last_batch(self, identity: str) -> int:
        """The number of a sink's last batch; -1 before the first."""
        found = self._ask(f"SELECT batch FROM {MARKERS} WHERE sink = '{identity}'")
        self._connection.commit()
        return -1 if found is None else found

    def commit(self, statements: Sequence[str], identity: str, batch: int) -> None:
        """Execute the statements and store the batch number, in one transaction."""
        for statement in statements:
            self._execute(statement)
        self._execute(f"DELETE FROM {MARKERS} WHERE sink = '{identity}'")
        self._execute(f"INSERT INTO {MARKERS} (sink, batch) VALUES ('{identity}', {batch})")
        self._connection.commit()

    def _execute(self, statement: str) -> None:
        from py4j.protocol import Py4JJavaError

        made = self._connection.createStatement()
        try:
            made.execute(statement)
        except Py4JJavaError as e:
            self._connection.rollback()
            raise SparkFailed(f"the database refused {statement!r}: {e.java_exception}") from e
        finally:
            made.close()

    def _ask(self, statement: str) -> int | None:
        """The number in the first row; None if there are no rows."""
        from py4j.protocol import Py4JJavaError

        made = self._connection.createStatement()
        try:
            rows = made.executeQuery(statement)
            return int(rows.getLong(1)) if rows.next() else None
        except Py4JJavaError as e:
            raise SparkFailed(f"the database refused {statement!r}: {e.java_exception}") from e
        finally:
            made.close()
