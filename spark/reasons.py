"""The reason Spark failed, in one sentence.

Spark's message is a text of a hundred lines: the plan, the trace of Java and that of Python, and
somewhere among them the error that began it.
"""

import re
from typing import Final

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
    """Whether Java has no driver for the database."""
    return "No suitable driver" in str(error) or "ClassNotFoundException" in str(error)


def jdbc_sentence(error: BaseException) -> str:
    """The error of a database's driver; if there is no driver, how to name one."""
    from pyspark.errors import AnalysisException

    text = str(error)
    if has_no_driver(error):
        return (
            "no driver for this database: give the path of its JDBC driver's jar as"
            " jars = ['DRIVER.jar'] in [spark]"
        )
    if isinstance(error, AnalysisException):
        return sentence(error)
    match = re.search(r"(?:\w+\.)+\w*(?:Exception|Error): ([^\n]+)", text)
    return " ".join((match[1] if match else sentence(error)).split())
