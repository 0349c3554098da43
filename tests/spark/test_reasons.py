"""One sentence of what Spark says, which is a text of a hundred lines."""

from __future__ import annotations

from each import for_each

from pk.spark.reasons import reason

WORKER = """\
[PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "/usr/lib/pk/spark/sink/writer.py", line 41, in write
    return _written(rows, self.options, query_id, batch_id, query_id)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "/usr/lib/pk/spark/schemas/writing.py", line 82, in encode
    raise Unencodable(f"a row's {self.column} cannot be encoded: {e}") from None
pk.spark.schemas.writing.Unencodable: a row's value cannot be encoded: an integer is required
 SQLSTATE: 38000
=== Streaming Query ===
Identifier: p-rows [id = 790392d6-72fe-4080-90b5-759f30d28bef]
Current Committed Offsets: {}
"""
PROXY = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/usr/lib/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/usr/lib/pyspark/errors/exceptions/captured.py", line 262, in deco
    raise converted from None
pyspark.errors.exceptions.captured.PythonException: An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/usr/lib/pk/spark/schemas/writing.py", line 82, in encode
    raise Unencodable(f"a row's {self.column} cannot be encoded: {e}") from None
pk.spark.schemas.writing.Unencodable: a row's value cannot be encoded: an integer is required

=== Streaming Query ===
"""
CONVERTED = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/usr/lib/pyspark/errors/exceptions/captured.py", line 262, in deco
    raise converted from None
pyspark.errors.exceptions.captured.NumberFormatException: [CAST_INVALID_INPUT] The value 'x' \
of the type "STRING" cannot be cast to "INT". SQLSTATE: 22018
== SQL (line 1, position 8) ==
SELECT cast(value.name AS INT) AS n FROM orders
"""
JAVA = """\
An error occurred while calling o99.parquet.
: org.apache.spark.SparkException: [TASK_WRITE_FAILED] Task failed. SQLSTATE: 58030
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.taskFailed(QueryExecutionErrors.scala:771)
Caused by: java.io.IOException: No space left on device
\tat java.base/java.io.FileOutputStream.writeBytes(Native Method)
\t... 12 more
"""
NAMELESS = """\
An error occurred while calling o99.start.
: java.lang.NullPointerException
\tat org.apache.spark.Some.thing(Some.scala:1)
"""
STOPPED = """\
An error occurred while calling None.org.apache.spark.sql.classic.SparkSession.
: java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.
This stopped SparkContext was created at:

org.apache.spark.api.java.JavaSparkContext.<init>(JavaSparkContext.scala:59)
java.base/java.lang.Thread.run(Thread.java:840)

The currently active SparkContext was created at:

(No active SparkContext.)
         
\tat org.apache.spark.SparkContext.assertNotStopped(SparkContext.scala:128)
"""
STEP = """\
An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/home/me/steps.py", line 3, in totals
    return 1 / 0
           ~~^~~
ZeroDivisionError: division by zero
"""


@for_each(
    ("text", "said"),
    [
        (WORKER, "a row's value cannot be encoded: an integer is required"),
        (PROXY, "a row's value cannot be encoded: an integer is required"),
        (CONVERTED, 'The value \'x\' of the type "STRING" cannot be cast to "INT"'),
        (JAVA, "No space left on device"),
        (STOPPED, "Cannot call methods on a stopped SparkContext"),
        (NAMELESS, "NullPointerException"),
        (STEP, "division by zero"),
        ("[COLUMN_EXISTS] The column `id` exists. SQLSTATE: 42711", "The column `id` exists"),
        ("Writing: it failed\nCurrent State: ACTIVE", "Writing: it failed"),
        ("", "Spark gives no reason"),
    ],
)  # fmt: skip
def test_the_cause_is_the_sentence(text: str, said: str) -> None:
    assert reason(text) == said


def test_an_error_without_a_text_is_its_name() -> None:
    assert reason(TimeoutError()) == "TimeoutError"
