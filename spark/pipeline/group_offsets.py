"""Commits the offsets of a pipeline to a consumer group, so that tools that show lag show the lag
of pipelines too.

Spark itself continues from its checkpoint and never reads them. The pipeline does not join the
group, which has offsets but no members. The metadata of each offset names the pipeline and its
batch, so that `pk why lag` recognizes it.
"""

import json
import time
from collections.abc import Iterable, Mapping

from pk.core.errors import KafkaError
from pk.core.values import TopicPartition
from pk.net.client.admin import Admin
from pk.net.client.config import AdminConfig, keys, parse
from pk.net.client.errors import ClientError
from pk.net.client.results import OffsetAndMetadata
from pk.spark.connections import connections
from pk.spark.files.object_path import Place
from pk.spark.pipeline.checkpoints import committed, last_batch
from pk.spark.pipeline.definition import Pipeline, TopicSource

METADATA_KEY = "pk.pipeline"
"""The first key in the metadata of a pipeline's offsets: {"pk.pipeline": "NAME", "batch": N,
"at_ms": N}."""


class GroupOffsets:
    """The committed offsets of a pipeline's group."""

    def __init__(self, pipeline: Pipeline, kafka: Mapping[str, str]) -> None:
        self._pipeline = pipeline
        self._kafka = kafka
        self._last: dict[TopicPartition, int] = {}
        self.problem: str | None = None
        """The reason why the last commit failed. The pipeline continues, and tries again after the
        next batch."""

    def commit(self, queries: Iterable[tuple[Place, frozenset[str]]]) -> None:
        """Commit, for each topic, the offsets up to which all queries that read it are done.
        `queries` are checkpoints and the sources that each query reads."""
        found, batch = self._found(list(queries))
        if not found or found == self._last:
            return
        now_ms = time.time_ns() // 1_000_000
        said = {METADATA_KEY: self._pipeline.name, "batch": batch, "at_ms": now_ms}
        metadata = json.dumps(said)
        try:
            connections().run(self._commit, found, metadata)
        except (KafkaError, ClientError) as e:
            self.problem = str(e)
            return
        self.problem = None
        self._last = found

    def _found(
        self, queries: list[tuple[Place, frozenset[str]]]
    ) -> tuple[dict[TopicPartition, int], int]:
        found: dict[TopicPartition, int] = {}
        batches = [-1]
        for source in self._pipeline.topics:
            readers = [path for path, sources in queries if source.name in sources]
            each = [committed(path, source.topic) for path in readers]
            if not each or not all(each):
                continue  # one of the queries has not finished a batch yet
            for tp in set().union(*each):
                # A query begins at offset 0 of a partition that it has not read yet.
                lowest = min(positions.get(tp, 0) for positions in each)
                found[tp] = min(lowest, found.get(tp, lowest))
            batches += [batch for path in readers if (batch := last_batch(path)) is not None]
        return found, max(batches)

    async def _commit(self, offsets: Mapping[TopicPartition, int], metadata: str) -> None:
        client = client_of(self._kafka, self._pipeline.topics)
        config = parse(AdminConfig, {k: v for k, v in client.items() if k in keys(AdminConfig)})
        cluster = await connections().cluster(self._kafka["kafka.bootstrap.servers"], config)
        answers = await Admin(cluster, config).alter_group_offsets(
            self._pipeline.group,
            {tp: OffsetAndMetadata(offset, metadata=metadata) for tp, offset in offsets.items()},
        )
        for error in answers.errors.values():
            raise error


def client_of(kafka: Mapping[str, str], sources: Iterable[TopicSource]) -> dict[str, str]:
    """The client configs of a pipeline, under Kafka's names."""
    found = dict(kafka)
    for source in sources:
        found.update(source.options)
    return {
        name.removeprefix("kafka."): value
        for name, value in found.items()
        if name.startswith("kafka.") and name != "kafka.bootstrap.servers"
    }
