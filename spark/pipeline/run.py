"""Runs a pipeline: starts its queries, monitors them, and restarts them with a wider schema when
records have new fields.

After each batch the offsets are committed to the pipeline's group and the status file is replaced.
`pk spark pipeline stop`, Ctrl-C and SIGTERM stop the pipeline once the running batches have ended.
"""

import contextlib
import json
import signal
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from pk.spark.errors import SparkFailed
from pk.spark.files.causes import storage_cause
from pk.spark.files.object_path import ObjectPath, write_json
from pk.spark.files.store import settings_of
from pk.spark.pipeline.checkpoints import last_batch
from pk.spark.pipeline.definition import JdbcSource, Pipeline, TopicSink
from pk.spark.pipeline.failed_records import FailedRecord, FailedRecords
from pk.spark.pipeline.group_offsets import GroupOffsets
from pk.spark.pipeline.lasting import is_lasting, is_lasting_message
from pk.spark.pipeline.metrics import serving
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import Held, Lock, Status, StatusFile, hold, rows_of
from pk.spark.pipeline.upgrade import check_changes, remember, target_of
from pk.spark.reasons import reason
from pk.spark.session.interrupts import QuietPy4j
from pk.spark.session.local import HERE, OwnSpark, Where, launch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from pk.spark.pipeline.fields import Fields
    from pk.spark.pipeline.query import Query
    from pk.spark.pipeline.relations import Relations
    from pk.spark.text.json_columns import JsonFields

_POLL_S: Final = 0.2
_REMOTE_POLL_S: Final = 2.0
_BATCH_END_S: Final = 120
"""The longest time in seconds to wait for the end of a batch at a stop. An interrupted batch runs
again at the next start."""

_HEARTBEAT_S: Final = 5
_COUNT_S: Final = 60.0
"""The time in seconds between two counts of tables' small files."""

_CONNECT_BACK: Final = "Python worker failed to connect back"
"""Spark gives the process of a stream's reader ten seconds to start, which may be too short on a
busy machine."""

_OF_BATCH: Final = "raised by the Python Proxy"
"""py4j's words for an error in the function that writes a sink's batch."""

_GOES_ON: Final = "on_error = 'skip' or 'dlq' continues without it"
_CONNECT_ATTEMPTS: Final = 6
_GROWN_ATTEMPTS: Final = 6


_RESTART_S: Final = 1.0
_MOST_RESTART_S: Final = 60.0
"""The first and the longest wait before a restart, in seconds. The wait doubles with each restart,
until a batch has succeeded."""


class PipelineFailed(SparkFailed):
    """A pipeline ended because a record, a step or a sink failed."""

    def __init__(self, message: str, *, lasting: bool | None = None) -> None:
        super().__init__(message)
        self.lasting = lasting
        """Whether it would fail again until something is changed. None means that the message
        decides."""


class _JavaFailed(PipelineFailed):
    """Spark's JVM did not respond."""


@dataclass(frozen=True)
class _Failure:
    """Why the queries ended."""

    said: str
    query: "Query | None" = None
    """The query that failed; None if it did not start."""


def _why(failure: _Failure) -> str:
    """The cause of a failure in one sentence, with the sink if its batch failed."""
    why = storage_cause(failure.said) or reason(failure.said)
    sink = None if failure.query is None else failure.query.sink
    if sink is None or _OF_BATCH not in failure.said:
        return why
    return f"the sink {sink.name}, {target_of(sink)}: {why}"


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    status: Status
    stopped: bool
    """Whether the pipeline was asked to stop."""


@dataclass
class RunOptions:
    """The options for running a pipeline."""

    kafka: Mapping[str, str]
    """The options of its topics: `kafka.bootstrap.servers` and client configs."""

    once: bool = False
    restart: bool = False
    """Whether to start again, in a new Spark, after a failure that may go away."""

    metrics: tuple[str, int] | None = None
    """The address at which metrics are served."""

    cores: int = 2
    where: Where = HERE
    progress: Callable[[Status], None] = field(default=lambda _: None)
    say: Callable[[str], None] = field(default=lambda _: None)
    """Called with a message for the user."""


def settings(pipeline: Pipeline) -> dict[str, str]:
    """Spark's settings for a pipeline; those in its file take precedence."""
    return {
        "spark.app.name": pipeline.name,
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.streaming.numRecentProgressUpdates": "20",
        # Steps with transformWithState need this provider, and a checkpoint must keep the provider
        # that it began with.
        "spark.sql.streaming.stateStore.providerClass": (
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
        ),
        # If Spark is killed while it writes the first batch's offsets, a partial file remains, and
        # by default Spark then refuses the checkpoint forever. No other program writes there.
        "spark.sql.streaming.verifyCheckpointDirectoryEmptyOnStart": "false",
        **_s3a(),
        **pipeline.spark,
    }


def _s3a() -> dict[str, str]:
    """Hadoop's settings for S3, from the same environment variables that pk uses."""
    settings = settings_of("s3")
    endpoint, region = settings.get("aws_endpoint"), settings.get("aws_region")
    found: dict[str, str] = {}
    if endpoint is not None:
        found["spark.hadoop.fs.s3a.endpoint"] = endpoint
        found["spark.hadoop.fs.s3a.path.style.access"] = "true"
    if region is not None:
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found


def open_spark(
    pipeline: Pipeline, options: RunOptions, *, long: bool, inherited: tuple[int, ...] = ()
) -> OwnSpark:
    """Start a Spark for a pipeline. Raises SparkMissing, WrongPipeline, OSError."""
    places = Places(pipeline)
    for number, jar in enumerate(pipeline.jars):
        if not places.path(jar).exists():
            message = f"{places.path(jar)} does not exist"
            raise pipeline.problem(("spark", "jars", number), message)
    jars = [str(places.path(jar)) for jar in pipeline.jars]
    conf = settings(pipeline)
    if jars and options.where.on_cluster:
        conf = {"spark.jars": ",".join(jars), **conf}  # the workers need them too
    return launch(
        cores=options.cores,
        conf=conf,
        long=long,
        inherited=inherited,
        jars=jars,
        where=options.where,
    )


def run_pipeline(
    pipeline: Pipeline, options: RunOptions, spark: "SparkSession | None" = None
) -> Outcome:
    """Run a pipeline: with `once`, until the records present at the start are processed, and
    otherwise until it is asked to stop.

    It runs in `spark`, which must have the pipeline's `settings` and jars; without it, in a Spark
    of its own. Raises WrongPipeline, AlreadyRunning, PipelineFailed, SparkFailed, SparkMissing,
    KafkaError, ClientError, OSError.
    """
    places = Places(pipeline)
    with hold(places) as lock, _Signals() as signals, QuietPy4j():
        places.stop.unlink(missing_ok=True)
        status = StatusFile(places, pipeline.name)
        asked = _Asked(places, signals)

        def start() -> bool:
            given = (pipeline, places, options)
            if spark is not None:
                return _Run(*given, spark, status, signals, asked, lock).run()
            long, held = not options.once, lock.descriptors
            with open_spark(pipeline, options, long=long, inherited=held) as own:
                signals.kill = own.kill
                session = own.session()
                if options.where.on_cluster:
                    _send_steps(session, pipeline, places)
                try:
                    return _Run(*given, session, status, signals, asked, lock).run()
                except _JavaFailed as e:
                    raise PipelineFailed(own.ended_by() or str(e)) from e

        restarts = _Restarts(options, status, asked)
        try:
            for said in check_changes(pipeline, places):
                options.say(said)
            stopped = None
            with serving(options.metrics, lambda: status.value):
                while stopped is None:
                    try:
                        status.write("starting")
                        stopped = start()
                    except Exception as e:
                        if lock.lost or not restarts.wait(e):
                            raise
                        if asked():
                            stopped = True
        except KeyboardInterrupt:  # the second signal does not wait for the batches
            status.write("stopped")
            raise
        except BaseException as e:
            with contextlib.suppress(OSError):  # the checkpoint may have caused the failure
                status.write("failed", str(e) or type(e).__name__)
            raise
        status.write("stopped" if stopped else "finished")
        places.stop.unlink(missing_ok=True)
        return Outcome(status.value, stopped)


class _Restarts:
    """The restarts of a pipeline after failures that may go away. The wait before each doubles
    until a batch succeeds."""

    def __init__(self, options: RunOptions, status: StatusFile, asked: "_Asked") -> None:
        self._options = options
        self._status = status
        self._asked = asked
        self._pause_s = _RESTART_S
        self._batches = 0

    def wait(self, error: Exception) -> bool:
        """Wait before a restart. Returns False, without waiting, if the pipeline must not restart.
        A request to stop ends the wait."""
        if not self._options.restart or self._asked() or is_lasting(error):
            return False
        said, batches = str(error) or type(error).__name__, self._status.batches
        if batches > self._batches:
            self._pause_s = _RESTART_S
        self._batches = batches
        with contextlib.suppress(OSError):
            self._status.write("restarting", said)
        self._options.say(f"{said}; it starts again in {self._pause_s:g} s.")
        end = time.monotonic() + self._pause_s
        while time.monotonic() < end and not self._asked():
            time.sleep(_POLL_S)
        self._pause_s = min(self._pause_s * 2, _MOST_RESTART_S)
        return True


def _send_steps(session: "SparkSession", pipeline: Pipeline, places: Places) -> None:
    """Send the files of Python steps to a cluster's workers, which import them by module name."""
    for step in pipeline.steps:
        if step.python is not None:
            session.sparkContext.addPyFile(str(places.path(step.python.rpartition(":")[0])))


class _Signals:
    """A block that counts Ctrl-C and SIGTERM. The second signal kills Spark; the interrupted batch
    runs again at the next start."""

    def __init__(self) -> None:
        self.count = 0
        self.kill: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        if self.count > 1 and self.kill is not None:
            self.kill()


class _Asked:
    """A function that returns whether the pipeline was asked to stop, by a signal or by the file
    that `pk spark pipeline stop` creates."""

    def __init__(self, places: Places, signals: _Signals) -> None:
        self._stop = places.stop
        self._signals = signals
        self._checked_at = 0.0
        self._found = False

    def __call__(self) -> bool:
        if self._signals.count > 0:
            return True
        # Object storage is checked less often.
        now, remote = time.monotonic(), isinstance(self._stop, ObjectPath)
        if not self._found and (not remote or now - self._checked_at >= _REMOTE_POLL_S):
            self._checked_at = now
            with contextlib.suppress(OSError):  # the next check may succeed
                self._found = self._stop.exists()
        return self._found


class _Run:
    """One run of a pipeline in a Spark session."""

    def __init__(
        self,
        pipeline: Pipeline,
        places: Places,
        options: RunOptions,
        spark: "SparkSession",
        status: StatusFile,
        signals: _Signals,
        asked: "_Asked",
        lock: Lock | Held,
    ) -> None:
        self._pipeline = pipeline
        self._places = places
        self._options = options
        self._spark = spark
        self._status = status
        self._signals = signals
        self._lock = lock
        self._asked = asked
        self._offsets = GroupOffsets(pipeline, options.kafka)
        self._identity = _identity(places, pipeline)
        self._seen: dict[str, int] = {}
        """The number of each query's last batch whose progress report was added to the status."""

        self._failed = FailedRecords(places.failed_records)
        self._connects = 0
        self._grown = 0
        self._written = 0.0
        self._counted = -_COUNT_S

    def run(self) -> bool:
        """Run the pipeline, and return whether it was asked to stop. Raises PipelineFailed."""
        from py4j.protocol import Py4JError

        try:
            return self._run()
        except (Py4JError, ConnectionError) as e:
            if self._killed:
                raise KeyboardInterrupt from e
            raise _JavaFailed(reason(e)) from e

    def _run(self) -> bool:
        from pk.spark.pipeline.fields import Fields

        spark = self._spark
        fields = Fields(self._pipeline, self._places, self._options.kafka)
        known = fields.known(spark)
        fields.remember(known)
        watchers = self._watch_databases(spark)
        try:
            while True:
                failure = self._round(spark, known, watchers)
                if failure is None:
                    return self._asked()
                found = self._after(failure, spark, known, fields)
                if found is None:
                    return True
                known = found
        finally:
            for watcher in watchers:
                watcher.stop()

    def _watch_databases(self, spark: "SparkSession") -> list["_Watcher"]:
        found: list[_Watcher] = []
        for source in self._pipeline.sources:
            if isinstance(source, JdbcSource):
                found.append(_Watcher(spark, self._pipeline, self._places, source))
        for watcher in found:
            watcher.look()
            if not self._options.once:
                watcher.start()
        return found

    def _round(
        self,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        watchers: list["_Watcher"],
    ) -> _Failure | None:
        """Run the queries until they end. Returns why they failed, if they did."""
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from pk.spark.pipeline.shared_variables import complete_shared_variables
        from pk.spark.pipeline.sinks import start

        planned = self._planned(spark, known, self._versions(spark, known, self._options.say))
        self._write_letters(spark, planned)
        complete_shared_variables(spark)
        running: dict[str, StreamingQuery] = {}
        once = self._options.once
        try:
            for query in planned:
                running[query.name] = start(
                    self._pipeline,
                    self._places,
                    self._options.kafka,
                    query,
                    self._identity,
                    once,
                    self._options.say,
                )
            remember(self._pipeline, self._places)
            self._status.write("running")
            return self._watch(planned, running, watchers)
        except (PySparkException, Py4JError) as e:
            return _Failure(str(e))  # now: a Java exception's text is still in its JVM
        finally:
            for query in running.values():
                if not self._killed and query.isActive:
                    query.stop()

    @property
    def _killed(self) -> bool:
        return self._signals.count > 1

    def _watch(
        self,
        planned: list["Query"],
        running: Mapping[str, "StreamingQuery"],
        watchers: list["_Watcher"],
    ) -> _Failure | None:
        from pk.spark.pipeline.shared_variables import HAS_GROWN, has_grown

        while True:
            active = [query for query in running.values() if query.isActive]
            self._report(planned, running)
            for name, query in running.items():
                if query.isActive:
                    continue
                error = query.exception()
                if error is not None:
                    said = HAS_GROWN if has_grown(error) else str(error)
                    return _Failure(said, next(each for each in planned if each.name == name))
                if not self._options.once:
                    return _Failure(f"the query {name} ended")
            if not active:
                return None
            if self._asked():
                self._stop(planned, running)
                return None
            for watcher in watchers:
                if watcher.problem is not None:
                    raise PipelineFailed(watcher.problem)
            if self._lock.lost:
                raise PipelineFailed(
                    "another process has taken over this pipeline, or may have done so"
                )
            time.sleep(_POLL_S)

    def _stop(self, planned: list["Query"], running: Mapping[str, "StreamingQuery"]) -> None:
        """Stop each query once its batch has ended."""
        deadline = time.monotonic() + _BATCH_END_S
        for query in running.values():
            batch = _batch(query)
            while (
                query.isActive
                and query.status["isTriggerActive"]
                and query.status["isDataAvailable"]  # an idle query checks for news in its trigger
                and _batch(query) == batch
                and time.monotonic() < deadline
                and not self._killed
            ):
                time.sleep(_POLL_S)
            if self._killed:
                raise KeyboardInterrupt
            query.stop()
        self._report(planned, running)

    def _report(self, planned: list["Query"], running: Mapping[str, "StreamingQuery"]) -> None:
        """Update the status from the queries' progress reports."""
        from pk.spark.pipeline.table_sinks import small_files

        new = False
        for name, query in running.items():
            for report in query.recentProgress:
                progress: dict[str, Any] = json.loads(report.json)
                if progress["batchId"] <= self._seen.get(name, -1):
                    continue
                done = last_batch(self._places.query(name))
                if done is None or done < progress["batchId"]:
                    continue  # not a finished batch, such as a report that there was no new data
                self._seen[name] = progress["batchId"]
                self._status.see(name, progress, rows_of(progress))
                new = True
        if new:
            self._offsets.commit(
                (self._places.query(query.name), query.sources) for query in planned
            )
            self._connects = self._grown = 0
        if new and time.monotonic() - self._counted > _COUNT_S:
            self._counted = time.monotonic()
            for query in planned:
                count = None if query.sink is None else small_files(query.sink, self._places)
                if count is not None:
                    self._status.small_files[query.name] = count
        if new or time.monotonic() - self._written > _HEARTBEAT_S:
            self._written = time.monotonic()
            self._status.write("running", self._offsets.problem)
            self._options.progress(self._status.value)

    def _after(
        self,
        failure: _Failure,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        fields: "Fields",
    ) -> "dict[str, JsonFields] | None":
        """Handle a failure. Returns the fields for a restart, or None if a stop was requested in
        the meantime. Raises PipelineFailed if a restart would not help."""
        from pk.spark.pipeline import json_values
        from pk.spark.pipeline.failed_steps import is_of_values
        from pk.spark.pipeline.registry_sources import is_new_version
        from pk.spark.pipeline.shared_variables import HAS_GROWN

        if self._killed:
            raise KeyboardInterrupt
        said = failure.said
        if is_new_version(said):
            return dict(known)
        new = json_values.parse_new_fields(said)
        if new is not None:
            name, seen = new
            [source] = [s for s in self._pipeline.topics if s.name == name]
            refusal = partial(self._refusal, spark, known, name)
            wider = fields.widen(spark, known[name], source, seen, refusal, self._options.say)
            found = {**known, name: wider}
            fields.remember(found)
            return found
        bad = json_values.parse_bad_record(said)
        if bad is not None:
            raise PipelineFailed(f"a record does not parse: {bad}; {_GOES_ON}", lasting=True)
        if _CONNECT_BACK in said and self._connects < _CONNECT_ATTEMPTS:
            self._connects += 1
            return dict(known)
        if said == HAS_GROWN and self._grown < _GROWN_ATTEMPTS:
            self._grown += 1
            self._options.say(f"{said}; it starts again from its checkpoint.")
            return dict(known)
        of_values = storage_cause(said) is None and is_of_values(said)
        if failure.query is not None and failure.query.sink is not None and of_values:
            return self._without_failing(failure.query, said, spark, known, fields)
        raise PipelineFailed(_why(failure), lasting=is_lasting_message(said))

    def _refusal(
        self,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        source: str,
        before: "JsonFields",
        after: "JsonFields",
    ) -> str | None:
        """Why the pipeline cannot continue with the fields `after` of a source; None if it can.
        Raises WrongPipeline if it cannot continue with the fields `before` either."""
        from pk.spark.pipeline.widening import widening_refusal

        versions = self._versions(spark, known)

        def planned(given: "JsonFields") -> "list[Query]":
            return self._ready(spark, {**known, source: given}, versions)

        return widening_refusal(self._places, planned(before), lambda: planned(after))

    def _versions(
        self,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        say: Callable[[str], None] = lambda _: None,
    ) -> dict[str, dict[str, str]]:
        """Source → the options that set its schema versions. Stores the versions. Raises
        WrongPipeline, OSError."""
        from pk.spark.pipeline.registry_sources import RegistryVersions

        versions = RegistryVersions(self._pipeline, self._places, self._options.kafka)
        found = versions.options(lambda given: self._ready(spark, known, given), say)
        versions.remember()
        return found

    def _ready(
        self,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        versions: Mapping[str, Mapping[str, str]],
    ) -> "list[Query]":
        """Plan the queries, check that their rows fit the sinks' schemas, and register missing
        schemas. Raises WrongPipeline."""
        from pk.spark.pipeline.registry_sources import check_encoders
        from pk.spark.pipeline.sinks import topic_options

        found = self._planned(spark, known, versions)
        for query in found:
            if isinstance(query.sink, TopicSink):
                options = topic_options(self._pipeline, self._options.kafka, query.sink)
                given = (self._pipeline, query.sink, options, query.frame.schema)
                check_encoders(*given, register=True)
        return found

    def _planned(
        self,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        versions: Mapping[str, Mapping[str, str]],
    ) -> "list[Query]":
        """Plan the queries. Raises WrongPipeline."""
        from pk.spark.pipeline.relations import Builder
        from pk.spark.pipeline.sinks import queries

        pipeline, places, kafka = self._pipeline, self._places, self._options.kafka

        def built(without: Sequence[FailedRecord] = ()) -> "Relations":
            given = (spark, pipeline, places, kafka, known, versions)
            return Builder(*given, without=without).build()

        names = [sink.name for sink in pipeline.sinks]
        own = {name: built(without) for name in names if (without := self._failed.of(name))}
        return queries(pipeline, places, built(), kafka, own)

    def _without_failing(
        self,
        query: "Query",
        said: str,
        spark: "SparkSession",
        known: "Mapping[str, JsonFields]",
        fields: "Fields",
    ) -> "dict[str, JsonFields] | None":
        """Find the records with which a step fails, and skip them from now on, as `on_error` says.
        Raises PipelineFailed if there are none, or if `on_error` is "stop"."""
        from pk.spark.pipeline.failed_steps import MOST, Interrupted, Search, Unsearchable

        pipeline, kafka = self._pipeline, self._options.kafka
        versions = self._versions(spark, known)
        search = Search(spark, pipeline, self._places, kafka, known, versions, self._asked)
        stops = pipeline.on_error == "stop"
        if not stops:
            self._options.say(
                f"{query.name}: {reason(said)}. The batch runs again in parts, to find the"
                " failing records."
            )
        try:
            batch, found, other = search.find(
                query, self._failed.of(query.name), 1 if stops else MOST + 1
            )
        except Interrupted:
            return None
        except Unsearchable as e:
            raise PipelineFailed(
                f"{reason(said)}; pk cannot find the failing record: {e}",
                lasting=is_lasting_message(said),
            ) from e
        if other is not None:
            return self._after(_Failure(other), spark, known, fields)
        if not found:
            why = "no record of the batch fails by itself"
            raise PipelineFailed(f"{reason(said)}; {why}", lasting=is_lasting_message(said))
        if stops:
            [first] = found
            message = f"a step fails with a record: {first.place}: {first.why}; {_GOES_ON}"
            raise PipelineFailed(message, lasting=True)
        if len(found) > MOST:
            raise PipelineFailed(
                f"a step fails with more than {MOST:,} records of a batch; the first is"
                f" {found[0].place}: {found[0].why}",
                lasting=True,
            )
        self._failed.add(query.name, batch, found)
        if pipeline.on_error == "skip":
            self._failed.written(query.name)
        self._status.dead_letters += len(found)
        return dict(known)

    def _write_letters(self, spark: "SparkSession", planned: list["Query"]) -> None:
        """Write the failed records to the topic of dead letters, before their batch runs without
        them."""
        from pk.spark.pipeline.failed_steps import StepLetters

        if self._pipeline.on_error == "dlq":
            given = (spark, self._pipeline, self._places, self._options.kafka, self._identity)
            for query in planned:
                StepLetters(*given).write(query, self._failed)


def _batch(query: "StreamingQuery") -> int | None:
    last = query.lastProgress
    return None if last is None else last["batchId"]


def _identity(places: Places, pipeline: Pipeline) -> str:
    """The id that distinguishes the batches of this pipeline's checkpoint from those of others.
    Created if missing."""
    try:
        return str(json.loads(places.identity.read_text())["id"])
    except FileNotFoundError:
        identity = uuid.uuid4().hex[:16]
        write_json(places.identity, {"id": identity, "name": pipeline.name})
        return identity


class _Watcher:
    """A thread that looks for changes of a database's table."""

    def __init__(
        self, spark: "SparkSession", pipeline: Pipeline, places: Places, source: JdbcSource
    ) -> None:
        from pk.spark.pipeline.jdbc_changes import Changes

        places.spool(source.name).mkdir(parents=True, exist_ok=True)
        self._changes = Changes(spark, places, source)
        self._pipeline = pipeline
        self._source = source
        self._pause_s = source.every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="pk changes", daemon=True)
        self.problem: str | None = None

    def look(self) -> None:
        """Read new changes into the spool. Raises WrongPipeline."""
        from pk.spark.reasons import has_no_driver, jdbc_sentence

        try:
            self._changes.look()
        except Exception as e:
            path = (*self._source.path, "jdbc")
            passing = not has_no_driver(e)
            raise self._pipeline.problem(path, jdbc_sentence(e), passing=passing) from e

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._end.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        from pk.spark.reasons import jdbc_sentence

        while not self._end.wait(self._pause_s):
            try:
                self._changes.look()
            except Exception as e:  # noqa: BLE001 (the main thread raises it)
                self.problem = jdbc_sentence(e)
                return
