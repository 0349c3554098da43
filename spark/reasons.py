"""The reason Spark failed, in one sentence.

Spark's message is a text of a hundred lines: the plan, the trace of Java and that of Python, and
somewhere among them the error that began it.

pk decides by error conditions, SQLSTATEs and Java's classes, not by the words of messages. A few
failures have nothing but a text. These are all the places that decide by one:

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
"""The SQLSTATE of java.sql.DriverManager if it has no driver."""

_RAISED: Final = re.compile(
    r"(?m)^(?:: |Caused by: )?(?P<path>(?:[\w$<>]+\.)*)(?P<name>[\w$]+)(?:: (?P<said>.*))?$"
)
"""A line that names an error, as the traces of Java and Python have it."""

_BUILT_IN: Final = re.compile(r"\w*(Error|Exception|Exit|Interrupt)")
"""Errors that Python names without a module."""

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
"""Errors that only say that there was another one."""

_NO_SOURCE: Final = "ClassNotFoundException: pk.DefaultSource"
"""Spark asked its Python for data sources, got no answer, and looked for a class in Java."""

_END: Final = re.compile(
    r"\s*(?:\n|;?\s*line \d+,? pos \d+|SQLSTATE: \w+|==+ SQL|=== Streaming "
    r"Query|;\n|\n\n|JVM stacktrace)"
)


def silence_query_log() -> None:
    """Keeps pyspark from logging the errors of queries, each with the trace of its JVM: pk says
    them itself."""
    from pyspark.logger import PySparkLogger

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def reason(failure: BaseException | str) -> str:
    """The part of a failure's text that says why: the innermost error, in Java or in Python.

    The text of an error of Java is in its JVM: ask while that runs.
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
    """The first line of Spark's error, without its code and without the plan that follows."""
    return _sentence(str(error)) or type(error).__name__


def _sentence(text: str) -> str:
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", _END.split(text.strip())[0])
    return " ".join(text.split()).rstrip(".")


def has_no_driver(error: BaseException) -> bool:
    """Whether the JVM has no JDBC driver for a URL, or lacks the class that an option names."""
    java: Any = getattr(error, "java_exception", None)
    while java is not None:
        name = java.getClass().getName()
        # Drivers raise classes of their own; this one is java.sql.DriverManager's.
        if name == "java.sql.SQLException" and java.getSQLState() == _NO_CONNECTION:
            return True
        if name == "java.lang.ClassNotFoundException":
            return True
        java = java.getCause()
    return False


def jdbc_sentence(error: BaseException) -> str:
    """The error of a database's driver; if there is no driver, how a pipeline names one."""
    from pyspark.errors import AnalysisException

    if has_no_driver(error):
        return f"{NO_DRIVER}: {DRIVER_JAR}"
    if isinstance(error, AnalysisException):
        return sentence(error)
    match = re.search(r"(?:\w+\.)+\w*(?:Exception|Error): ([^\n]+)", str(error))
    return " ".join((match[1] if match else sentence(error)).split())
