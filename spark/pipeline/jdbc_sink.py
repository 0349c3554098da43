"""A table of a database as a sink: rows are inserted, or updated or deleted by their key, exactly
once.

Spark's tasks write a batch into a staging table, each in one transaction. The driver then moves it
into the table in one transaction of the database, together with the number of the batch; a batch
whose number is there is left out.

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
"""The column of a staging table with the number of a row."""

_OWN: Final = ("user", "password", "driver")
"""Options that the driver's own connection needs too."""

_WHOLE: Final = frozenset((-6, 5, 4, -5))
_DECIMALS: Final = frozenset((2, 3))
"""`java.sql.Types`: from TINYINT to BIGINT, NUMERIC and DECIMAL."""


def write_jdbc(
    sink: JdbcSink, places: Places, identity: str, frame: "DataFrame", batch: int
) -> None:
    """Writes a batch. Raises SparkFailed, PySparkException."""
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
            # Not every database has booleans.
            frame = changes(sink, frame).withColumn(DELETED, f.col(DELETED).cast("int"))
            rows = frame.drop(DELETED)
        key = key_names(sink, rows) if upserts else sink.key
        if url.startswith("jdbc:sqlite:"):
            frame = frame.coalesce(1)  # SQLite has one writer at a time
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
    """The statement that makes a table with a unique key. One statement, since a kill between two
    would leave a table that later upserts are refused for, or that gets a key twice."""
    # Db2 takes only columns that are NOT NULL, and its MERGE needs no unique key.
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
    """The statement that moves the rows of a staging table, in the words of a database. Rows with a
    1 in the column `deleted` stay there."""
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
        # Without WHERE, SQLite takes ON for that of a join.
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
    """The statement that deletes the rows of a table whose keys are in rows of a staging table with
    a 1 in the column `deleted`."""
    names = [_quoted(dialect, name) for name in key]
    same = " AND ".join(f"s.{name} = {table}.{name}" for name in names)
    marked = f"s.{_quoted(dialect, deleted)} = 1"
    return f"DELETE FROM {table} WHERE EXISTS (SELECT 1 FROM {staging} s WHERE {same} AND {marked})"


def _quoted(dialect: str, name: str) -> str:
    # Spark's own dialects quote the columns of its tables in the same way.
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
    """The database's name of its type."""

    number: int
    """Its type in `java.sql.Types`."""

    whole: bool
    """Whether it rounds fractions."""


def _has_fractions(kind: DataType) -> bool:
    return isinstance(kind, FloatType | DoubleType) or (
        isinstance(kind, DecimalType) and kind.scale > 0
    )


class Database:
    """A connection of the driver's JVM, through py4j."""

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
        """One statement, committed. Raises SparkFailed with what the database says."""
        self._execute(statement)
        self._connection.commit()

    def exists(self, table: str) -> bool:
        """Whether a table can be read."""
        try:
            self._ask(f"SELECT 1 FROM {table} WHERE 1 = 0")
        except SparkFailed:
            self._connection.rollback()
            return False
        self._connection.commit()
        return True

    def create(self, table: str, frame: "DataFrame", key: Sequence[str] = ()) -> None:
        """Makes a table with the columns of a frame, in Spark's types for this database. Its `key`
        is unique, as an upsert needs it.

        Spark's writer creates tables too, but only if it knows the database's error for a missing
        one.
        """
        self.run(create_table(self._dialect, table, self._columns(frame), key))

    def check_rows(self, table: str, frame: "DataFrame") -> None:
        """Raises SparkFailed if the rows have a type that the database lacks, or a column that its
        table lacks, or whose values the table would round."""
        from py4j.protocol import Py4JJavaError

        self._columns(frame)
        try:
            # It reads the database; a file of SQLite may be of another kind.
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
        """The columns of a table, by their names in lower case."""
        made = self._connection.createStatement()
        try:
            told = made.executeQuery(f"SELECT * FROM {table} WHERE 1 = 0").getMetaData()
            found = [self._column_of(told, n + 1) for n in range(told.getColumnCount())]
        finally:
            made.close()
        return {each.name.lower(): each for each in found}

    def _column_of(self, told: Any, number: int) -> "TableColumn":
        kind = told.getColumnType(number)
        whole = kind in _WHOLE or (
            # Without a precision it is a decimal of any scale.
            kind in _DECIMALS and told.getPrecision(number) > 0 and told.getScale(number) == 0
        )
        exact = self._dialect == "sqlite"  # its columns keep values of other types as they are
        name, shown = str(told.getColumnName(number)), str(told.getColumnTypeName(number))
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
            raise TargetRefused(f"the database cannot have a table of these columns: {said}") from e

    def create_markers(self) -> None:
        """Makes the table of the numbers of batches."""
        if not self.exists(MARKERS):
            self.run(f"CREATE TABLE {MARKERS} (sink VARCHAR(250) PRIMARY KEY, batch BIGINT)")

    def last_batch(self, identity: str) -> int:
        """The last batch of a sink; -1 before the first."""
        found = self._ask(f"SELECT batch FROM {MARKERS} WHERE sink = '{identity}'")
        self._connection.commit()
        return -1 if found is None else found

    def commit(self, statements: Sequence[str], identity: str, batch: int) -> None:
        """The statements and the batch's number, in one transaction."""
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
        """The number in the first row; None without rows."""
        from py4j.protocol import Py4JJavaError

        made = self._connection.createStatement()
        try:
            rows = made.executeQuery(statement)
            return int(rows.getLong(1)) if rows.next() else None
        except Py4JJavaError as e:
            raise SparkFailed(f"the database refused {statement!r}: {e.java_exception}") from e
        finally:
            made.close()
