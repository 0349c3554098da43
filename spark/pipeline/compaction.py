"""Compacts the table of a sink from time to time, after a batch.

The time is kept beside the checkpoint, so that it counts over restarts, and over runs with
`--once`. A compaction that fails does not end the pipeline: the batch is in the table already, and
the next attempt comes a period later.
"""

import json
import time
from collections.abc import Callable
from typing import Any

from pk.spark.files.object_path import write_json
from pk.spark.pipeline.definition import DeltaSink
from pk.spark.pipeline.places import Places
from pk.spark.tables.compaction import compact_delta


class Compaction:
    """The compactions of one sink."""

    def __init__(self, sink: DeltaSink, places: Places, say: Callable[[str], None]) -> None:
        """`say` shows the user a sentence about each compaction. Raises OSError."""
        assert sink.compact_s is not None
        self._sink = sink
        self._period_s = sink.compact_s
        self._places = places
        self._say = say
        self._last_s = self._remembered()

    def after_batch(self) -> None:
        """Compacts the table if it is time. Raises OSError."""
        now = time.time()
        if now - self._last_s < self._period_s:
            return
        self._last_s = now
        name = self._sink.name
        try:
            done = compact_delta(self._places.store(self._sink.delta))
        except Exception as e:  # deltalake has errors of its own  # noqa: BLE001
            said = " ".join(str(e).split())
            self._say(f"{name}: the table was not compacted: {said}. The next batches go on.")
            return
        write_json(self._places.compacted(name), {"at_s": now})
        if done.removed:
            self._say(f"{name}: {done.removed} files of the table were compacted to {done.added}.")

    def _remembered(self) -> float:
        """When the table was compacted last. A new table is not compacted at once."""
        place = self._places.compacted(self._sink.name)
        try:
            found: Any = json.loads(place.read_text())
        except FileNotFoundError:
            found = {"at_s": time.time()}
            write_json(place, found)
        return float(found["at_s"])
