"""The errors of the Spark package. Each message says what to do next."""


class SparkError(Exception):
    """Base class of this package's own errors. The message is written for users."""


class SparkMissing(SparkError):
    """pyspark, pyarrow or a suitable Java is not installed."""


class SparkFailed(SparkError):
    """Spark did not start, or its job failed; the message has the reason that Spark gave."""


class TargetRefused(SparkFailed):
    """A table, database or directory does not accept the rows as they are; another attempt would
    fail in the same way."""


class OptionError(SparkError, ValueError):
    """An option of the data source or of an export is unknown or has an invalid value."""


class DataLost(SparkError):
    """Requested records no longer exist: they were deleted, or the topic was deleted and created
    again."""


class DirectoryRefused(SparkError):
    """The directory holds something other than an export of this topic; nothing was changed."""
