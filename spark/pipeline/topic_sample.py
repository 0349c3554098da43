"""Samples a topic's values, without Spark's JVM."""

from collections.abc import Mapping

from pk.spark.connections import connections
from pk.spark.read.options import parse_options
from pk.spark.read.plan import plan
from pk.spark.read.sample import sample


def topic_sample(kafka: Mapping[str, str], topic: str, count: int) -> list[bytes]:
    """About `count` values, from the start and the end of each partition. Raises KafkaError,
    ClientError."""
    options = parse_options({**kafka, "subscribe": topic})
    ranges = connections().run(plan, options)
    return sample(ranges, options.read, ["value"], count)["value"]
