"""Explains in one sentence why Spark failed.

Spark's message has a hundred lines: the plan, the traces of Java and Python, and somewhere among
them the original error.

pk decides by error conditions, SQLSTATEs and Java's classes, not by the wording of messages. A few
failures have only a text. These are all the decisions that depend on one:

    decision                              text                            why there is no other way
    a query starts again, as its worker   Python worker failed to         a SparkException without a
    did not start in time (run.py)        connect back                    condition
    a query starts again, as its task     Task not serializable, and the  a SparkException without a
    was serialized too late               classes of its causes           condition
    (shared_variables.py)
    failing records are searched          SQLSTATEs and Java's classes    an error of foreachBatch
    (failed_steps.py)                                                     is the text of a trace
    a failure would come again            SQLSTATEs, pk's classes, and    the same; an assertion of
    (lasting.py)                          sources in the checkpoint ...   Spark's has no condition
    a batch failed at a JSON value, or    pk's own marks (json_values.py, an error of foreachBatch
    at a new version of a schema          registry_sources.py)
    a batch failed in its sink (run.py)   raised by the Python Proxy      the same
    why storage cannot be used            numbers of the system, S3's     obstore and deltalake give
    (files/causes.py)                     codes                           a text alone
    Spark's Python lacks pk (below)       the class pk.DefaultSource      the same
    the place of an error in a statement  line 1, pos 7                   an error of syntax has no
    (relations.py)                                                        query context
"""

import re
from typing import Any, Final

NO_DRIVER: Final = "no driver for this database"
DRIVER_JAR: Final = "give the path of its JDBC driver's jar as jars = ['DRIVER.jar'] in [spark]"
_NO_CONNECTION: Final = "08001"
"""The SQLSTATE of java.sql.DriverManager for a missing driver."""

_RAISED: Final = re.compile(
    r"(?m)^(?:: |Caused by: )?(?P<path>(?:[\w$<>]+\.)*)(?P<name>[\w$]+)(?:: (?P<said>.*))?$"
)
"""A line of a Java or Python trace that names an error."""

_BUILT_IN: Final = re.compile(r"\w*(Error|Exception|Exit|Interrupt)")
"""Exceptions that Python names without a module."""

_WRAPPERS: Final = frozenset(
    (
        "Py4JException",
        "Py4JJavaError",
        "SparkException",
        "StreamingQueryException",
        "PySparkException",
        "PythonException",
        "ExecutionException",
    )
)
"""Errors that only report another error."""

_NO_SOURCE: Final = "ClassNotFoundException: pk.DefaultSource"
"""Spark asked its Python for data sources, got none, and looked for a Java class instead."""

_END: Final = re.compile(
    r"\s*(?:\n|;?\s*line \d+,? pos \d+|SQLSTATE: \w+|==+ SQL|=== Streaming "
    r"Query|;\n|\n\n|JVM stacktrace)"
)


def silence_query_log() -> None:
    """Keep pyspark from logging the errors of queries with their Java traces: pk reports them
    itself."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def reason(failure: BaseException | str) -> str:
    """The innermost error of a failure, in Java or in Python.

    The text of a Java exception is in its JVM, so call this while the JVM runs.
    """
    text = str(failure).partition("=== Streaming Query")[0]
    if _NO_SOURCE in text:
        return (
            "Spark's Python does not find the data source pk: its path lacks the module pyspark_pk,"
            " or has another module pyspark_… that fails to load"
        )
    found = None
    for match in _RAISED.finditer(text):
        name, said = match["name"], match["said"]
        if name in _WRAPPERS or not (match["path"] or _BUILT_IN.fullmatch(name)):
            continue
        if said or match["path"]:
            found = said or name
    unsaid = "Spark gives no reason" if isinstance(failure, str) else type(failure).__name__
    return _sentence(found or text) or unsaid


def sentence(error: BaseException) -> str:
    """The first line of Spark's error, without the error's code and the plan that follows."""
    return _sentence(str(error)) or type(error).__name__


def _sentence(text: str) -> str:
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", _END.split(text.strip())[0])
    return " ".join(text.split()).rstrip(".")


def has_no_driver(error: BaseException) -> bool:
    """Whether the JVM has no JDBC driver for a URL, or lacks the class that an option names."""
    java: Any = getattr(error, "java_exception", None)
    while java is not None:
        name = java.getClass().getName()
        # Drivers raise classes of their own; java.sql.DriverManager raises this one.
        if name == "java.sql.SQLException" and java.getSQLState() == _NO_CONNECTION:
            return True
        if name == "java.lang.ClassNotFoundException":
            return True
        java = java.getCause()
    return False


def jdbc_sentence(error: BaseException) -> str:
    """The error of a database's driver; if the driver is missing, how to name one in a pipeline."""
    from pyspark.errors import AnalysisException

    if has_no_driver(error):
        return f"{NO_DRIVER}: {DRIVER_JAR}"
    if isinstance(error, AnalysisException):
        return sentence(error)
    match = re.search(r"(?:\w+\.)+\w*(?:Exception|Error): ([^\n]+)", str(error))
    return " ".join((match[1] if match else sentence(error)).split())
