"""What goes wrong on the way between Kafka and Spark, each with the next step in its sentence."""


class SparkError(Exception):
    """Base of the errors that this package raises on purpose; the message is for people."""


class SparkMissing(SparkError):
    """pyspark, pyarrow or a Java that Spark runs on is not installed."""


class SparkFailed(SparkError):
    """Spark did not start, or a job of it failed; the message holds the reason that Spark gave."""


class OptionError(SparkError, ValueError):
    """An option of the data source or an export that is unknown, or whose value is not valid."""


class DataLost(SparkError):
    """Records that were asked for are not there any more: deleted, or the topic was made again."""


class DirectoryRefused(SparkError):
    """The directory of an export holds what is not an export of this topic; nothing was touched."""
