"""Works around a race between queries that start at the same time and share a map in Spark.

For a Python data source, Spark keeps one map of environment variables, which all queries share. A
query that starts the process of its source adds four variables to the map. If another query is
serializing the map with a task at that moment, that query ends with "Task not serializable".
Setting a variable that is already in the map does not make the map grow. So the four variables are
added before the first query starts; their values do not matter, since Spark sets them for each
process.

This uses Spark's internals. If the map is not found, a query may still end with that error. No task
of its batch has started then, so the query can be restarted from its checkpoint (`has_grown`).
"""

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HAS_GROWN: Final = "Spark could not send a task while another query of the pipeline started"

_VARIABLES: Final = (
    "SPARK_LOCAL_DIRS",
    "SPARK_AUTH_SOCKET_TIMEOUT",
    "SPARK_BUFFER_SIZE",
    "SPARK_PYTHON_RUNTIME",
)
_REFUSED: Final = "SparkException: Task not serializable"
_BECAUSE: Final = re.compile(
    r"Caused by: java\.(?:lang\.IllegalStateException: Illegal size \d+ of collection"
    r"|util\.ConcurrentModificationException)"
)


def shared_variables(spark: "SparkSession") -> Any:
    """Spark's map of variables for the data source pk; None if this version of Spark keeps it
    elsewhere."""
    from py4j.protocol import Py4JError

    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage] - the only way
    try:
        source = session.sessionState().dataSourceManager().lookupDataSource("pk")
        return source.dataSourceCls().envVars()
    except (Py4JError, PySparkException, TypeError):
        return None


def complete_shared_variables(spark: "SparkSession") -> None:
    """Add the variables that queries add when they start."""
    found = shared_variables(spark)
    if found is not None:
        for name in _VARIABLES:
            if name not in found:
                found[name] = ""


def has_grown(error: Any) -> bool:
    """Whether a query ended because the map grew while it was serialized."""
    cause = getattr(error, "_cause", None)  # the exception's own text does not name its causes
    return is_grown(str(getattr(cause, "_stackTrace", "")))


def is_grown(stack: str) -> bool:
    """Whether Java's text of an exception and its causes names this error."""
    return _REFUSED in stack and _BECAUSE.search(stack) is not None
