"""Queries that start at the same time, and the map of variables that they share in Spark.

Spark keeps one map of environment variables for a data source in Python, for all of its queries. A
query that starts the process of its source puts four more into the map, and at any moment another
query may be serializing it with a task of its own: if the map grows during that, the query ends
with "Task not serializable". A variable that the map has already does not make it grow. So the four
are put in before the first query starts; their values do not matter, since Spark sets them for each
process.

This uses Spark's internals. If it does not find the map, a query may still end with that error. No
task of its batch began, so it can continue from its checkpoint (`has_grown`).
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
    """Spark's map for the data source pk; None if this version of Spark keeps it elsewhere."""
    from py4j.protocol import Py4JError

    session: Any = spark._jsparkSession  # pyright: ignore[reportPrivateUsage] - the only way
    try:
        source = session.sessionState().dataSourceManager().lookupDataSource("pk")
        return source.dataSourceCls().envVars()
    except (Py4JError, PySparkException, TypeError):
        return None


def complete_shared_variables(spark: "SparkSession") -> None:
    """Puts in what queries put in when they start."""
    found = shared_variables(spark)
    if found is not None:
        for name in _VARIABLES:
            if name not in found:
                found[name] = ""


def has_grown(error: Any) -> bool:
    """Whether this is why a query ended."""
    cause = getattr(error, "_cause", None)  # the exception's own text does not name its causes
    return is_grown(str(getattr(cause, "_stackTrace", "")))


def is_grown(stack: str) -> bool:
    """Whether Java's text of an exception and its causes says so."""
    return _REFUSED in stack and _BECAUSE.search(stack) is not None
