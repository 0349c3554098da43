"""The data source as a session of Spark Connect registers it: by value, for a server that has pk as
an artifact of the session only (pk.spark.connect.register).

Spark puts a session's artifacts on the path of its Python processes, but not of those of streams:
they look for them in the folder of another job. So a stream is refused, in a process that cannot
import pk.
"""

from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from pk.spark.batch_reader import KafkaReader
    from pk.spark.sink.writer import KafkaBatchWriter
    from pk.spark.source import KafkaSource


class RemoteSource(DataSource):
    """Acts as a `KafkaSource`, for tables. Its methods raise OptionError.

    Being sent by value, it must not use what this module imports from pk.
    """

    @classmethod
    def name(cls) -> str:
        return "pk"

    def _source(self) -> "KafkaSource":
        from pk.spark.source import KafkaSource

        return KafkaSource(self.options)

    def schema(self) -> str | StructType:
        return self._source().schema()

    def reader(self, schema: StructType) -> "KafkaReader":
        return self._source().reader(schema)

    def writer(self, schema: StructType, overwrite: bool) -> "KafkaBatchWriter":
        return self._source().writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> NoReturn:
        raise ValueError(
            "a stream does not run on a Spark Connect server that has pk from its session only:"
            " Spark does not show the session's files to the processes of streams; install"
            " pk-broker in the server's Python"
        )

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:
        self.streamReader(schema)
