"""Why a query ended whose task could not be serialized, by Spark's own text of it."""

from __future__ import annotations

import pytest

from pk.spark.pipeline.shared_variables import has_grown, is_grown

# Spark 4.3's message, with some lines of its stack.
GROWN = """\
org.apache.spark.SparkException: Task not serializable
	at org.apache.spark.util.ClosureCleaner$.ensureSerializable(ClosureCleaner.scala:44)
	at org.apache.spark.rdd.RDD.mapPartitionsWithIndex(RDD.scala:908)
	at org.apache.spark.sql.execution.streaming.runtime.StreamExecution$$anon$1.run(StreamExecution.scala:236)
Caused by: java.lang.IllegalStateException: Illegal size 3 of collection, expected 8
	at scala.collection.generic.DefaultSerializationProxy.writeObject(DefaultSerializationProxy.scala:42)
	at java.base/java.io.ObjectOutputStream.writeObject0(ObjectOutputStream.java:1181)
	... 28 more
"""


def test_a_map_that_grew_is_known_by_the_cause() -> None:
    assert is_grown(GROWN)
    other = "java.util.ConcurrentModificationException"  # of another kind of map
    cause = "java.lang.IllegalStateException: Illegal size 3 of collection, expected 8"
    assert is_grown(GROWN.replace(cause, other))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Task not serializable", "Task failed"),
        ("Illegal size 3 of collection, expected 8", "the block manager has stopped"),
        ("Caused by: java.lang.IllegalStateException: Illegal", "Caused by: an illegal"),
        (
            "java.lang.IllegalStateException: Illegal size 3 of collection, expected 8",
            "java.io.NotSerializableException: java.lang.Thread",
        ),
    ],
)
def test_another_failure_is_none_of_these(old: str, new: str) -> None:
    assert old in GROWN
    assert not is_grown(GROWN.replace(old, new))


def test_the_stack_is_that_of_the_cause() -> None:
    class Cause(Exception):
        _stackTrace = GROWN

    class Failed(Exception):
        _cause = Cause()

    assert has_grown(Failed("Task not serializable"))
    assert not has_grown(Exception("Task not serializable"))
