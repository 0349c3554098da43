"""A session of a Spark Connect server: `--remote sc://HOST:PORT`.

The server has the driver, so this process needs no Java. It sends the server the modules that
tasks import as artifacts of the session: pk as a zip, and the archives of libraries that the
caller names.
"""

import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

from pk.spark.errors import SparkFailed, SparkMissing
from pk.spark.session.package import ZIP, archive_name, sources, write_zip

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession
    from pyspark.sql.types import StructType

    from pk.spark.session.local import Where

INSTALL = "pip install 'pk-broker[connect]'"

_REACH_S = 30

_CONF = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}
"""Session configs that affect the contents of the files."""


class JobSpark(Protocol):
    """A Spark for a single job: in a JVM of its own, or a session of a Spark Connect server."""

    def session(self) -> "SparkSession":
        """The session; waits until it exists. Raises SparkFailed."""
        ...

    def kill(self) -> None:
        """Stop everything that is running, at once."""
        ...


def is_connect(spark: Any) -> bool:
    """Whether a session is a Spark Connect session."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def cancel(spark: Any) -> None:
    """Cancel the jobs of a session."""
    if is_connect(spark):
        spark.interruptAll()
    else:
        spark.sparkContext.cancelAllJobs()


def functions_of(frame: Any) -> Any:
    """The functions module of pyspark for a frame: a session of Spark Connect has its own."""
    if type(frame).__module__.startswith("pyspark.sql.connect."):
        from pyspark.sql.connect import functions

        return functions
    from pyspark.sql import functions

    return functions


def struct_of(spark: Any, text: str) -> "StructType":
    """The columns that DDL names, as `id BIGINT, name STRING`. Raises PySparkException if it is not
    DDL, ValueError for a type without columns."""
    from pyspark.sql.types import StructType

    if is_connect(spark):
        # The server parses the DDL.
        found = spark.client._analyze(method="ddl_parse", ddl_string=text).parsed
    else:
        found = StructType.fromDDL(text)
    if isinstance(found, StructType):
        return found
    raise ValueError(f"{text!r} has no columns")


def register(spark: "ConnectSession") -> None:
    """Register `format("pk")`, for tables and streams, with a session whose server does not have
    pk. Its Python needs pk's libraries, since Spark itself imports pyarrow there. Raises
    PySparkException."""
    from pyspark import cloudpickle

    from pk.spark import remote_source

    source = remote_source.with_modules(dict(sources()))
    cloudpickle.register_pickle_by_value(remote_source)
    try:
        spark.dataSource.register(source)
    finally:
        cloudpickle.unregister_pickle_by_value(remote_source)


class ConnectSpark:
    """A session of a Spark Connect server, made by `connect`. Leaving the context manager ends the
    session, but not the server."""

    def __init__(self, where: "Where") -> None:
        self._where = where
        self._session: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            self._session.stop()
            self._session = None

    def session(self) -> "SparkSession":
        """The session, to which pk has been sent. Raises SparkFailed."""
        if self._session is not None:
            return self._session
        import grpc
        from pyspark.errors import PySparkException
        from pyspark.sql.connect.client import DefaultChannelBuilder
        from pyspark.sql.connect.session import SparkSession

        url = self._where.remote or ""
        try:
            with DefaultChannelBuilder(url).toChannel() as channel:
                # Otherwise the session would retry for ten minutes.
                grpc.channel_ready_future(channel).result(_REACH_S)
            self._session = SparkSession.builder.remote(url).create()
            for key, value in (_CONF | dict(self._where.conf)).items():
                self._session.conf.set(key, value)
            self._ship()
        except grpc.FutureTimeoutError:
            raise SparkFailed(f"{url} cannot be reached: no answer in {_REACH_S} s") from None
        except (PySparkException, grpc.RpcError, OSError, ValueError) as e:
            raise SparkFailed(f"{url} gives an unexpected answer: {e}") from e
        return self._session

    def _ship(self) -> None:
        """Send pk and the archives to the server's workers."""
        names = [archive_name(archive) for archive in self._where.archives]
        with tempfile.TemporaryDirectory(prefix="pk-connect-") as folder:
            self._session.addArtifacts(str(write_zip(Path(folder) / ZIP, names)), pyfile=True)
        for archive in self._where.archives:
            path = os.path.abspath(archive.partition("#")[0])
            self._session.addArtifacts(f"{path}#{archive_name(archive)}", archive=True)

    def kill(self) -> None:
        """Cancel the session's jobs."""
        if self._session is not None:
            self._session.interruptAll()


def connect(where: "Where") -> ConnectSpark:
    """A session of the server `where.remote`, created at its first use. Raises SparkMissing."""
    try:
        import google.rpc.error_details_pb2  # noqa: F401
        import grpc_status  # noqa: F401
    except ImportError as e:
        raise SparkMissing(
            f"Spark Connect needs {e.name}, which is not installed; {INSTALL} installs it."
        ) from None
    return ConnectSpark(where)
