"""Prometheus metrics of a running pipeline, derived from its status and served like a broker's
(`pk.metrics.listener`)."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pk.core.metrics import Kind, Metric, Sample
from pk.spark.connections import connections
from pk.spark.errors import SparkFailed, SparkMissing
from pk.spark.pipeline.status import QueryStatus, Status

if TYPE_CHECKING:
    from pk.net.metrics.listener import MetricsListener


def metrics_of(status: Status) -> list[Metric]:
    """All metrics, with the values of a status. Counters start at 0 with each run."""
    name, queries = status["pipeline"], status["queries"]
    last = status["last_error"]

    def whole(text: str, kind: Kind, said: str, *values: float) -> Metric:
        samples = [Sample(value, {"pipeline": name}) for value in values]
        return Metric(f"pk.spark:type=Pipeline,name={text}", kind, said, samples, ("pipeline",))

    def by_sink(
        text: str, kind: Kind, said: str, value: Callable[[QueryStatus], float | None]
    ) -> Metric:
        samples = [
            Sample(found, {"pipeline": name, "sink": query["name"]})
            for query in queries
            if (found := value(query)) is not None
        ]
        labels = ("pipeline", "sink")
        return Metric(f"pk.spark:type=Pipeline,name={text}", kind, said, samples, labels)

    lags = [
        Sample(
            each["lag"],
            {
                "pipeline": name,
                "sink": query["name"],
                "topic": each["topic"],
                "partition": str(each["partition"]),
            },
        )
        for query in queries
        for each in query["partitions"]
    ]
    return [
        whole("Running", "gauge", "1 while the queries run, else 0", status["state"] == "running"),
        whole(
            "Restarts", "counter", "Times that --restart started Spark again", status["restarts"]
        ),
        whole(
            "DeadLetters",
            "counter",
            "Records that failed: dead letters, or left out with on_error = skip",
            status["dead_letters"],
        ),
        whole(
            "LastErrorSeconds",
            "gauge",
            "When the pipeline failed last, in seconds since 1970",
            *(() if last is None else (last["at_ms"] / 1000,)),
        ),
        by_sink("Rows", "counter", "Rows that a sink's query has read", lambda q: q["rows"]),
        by_sink(
            "LastBatchSeconds",
            "gauge",
            "When a sink's last batch ended, in seconds since 1970",
            lambda q: None if q["ended_ms"] is None else q["ended_ms"] / 1000,
        ),
        by_sink("BatchMs", "gauge", "How long a sink's last batch took", lambda q: q["batch_ms"]),
        by_sink(
            "SmallFiles",
            "gauge",
            "Files below 32 MB in a sink's table of Delta or Iceberg",
            lambda q: q["small_files"],
        ),
        Metric(
            "pk.spark:type=Pipeline,name=Lag",
            "gauge",
            "Records of a partition not yet read when a sink's last batch ended",
            lags,
            ("pipeline", "sink", "topic", "partition"),
        ),
    ]


@contextmanager
def serving(address: tuple[str, int] | None, status: Callable[[], Status]) -> Iterator[int | None]:
    """Serve the metrics of the current status during the block; yields the port. Raises
    SparkMissing, SparkFailed."""
    if address is None:
        yield None
        return
    try:
        from pk.net.metrics.listener import MetricsListener
    except ModuleNotFoundError as e:
        message = f"{e.name} is not installed; pip install 'pk-broker[metrics]' installs it."
        raise SparkMissing(message) from None

    async def collect() -> Sequence[Metric]:
        return metrics_of(status())

    def ready() -> str | None:
        state = status()["state"]
        return None if state == "running" else f"the pipeline is {state}"

    listener = MetricsListener(collect, ready)
    _bind(listener, address)
    job = connections().start(listener.serve)
    try:
        yield listener.port
    finally:
        connections().cancel(job)


def _bind(listener: "MetricsListener", address: tuple[str, int]) -> None:
    try:
        connections().run(listener.bind, *address)
    except Exception as e:
        said = str(e).removeprefix("pk.metrics.listener: ")
        raise SparkFailed(f"the metrics cannot be served: {said}") from e
