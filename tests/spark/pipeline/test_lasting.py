"""A pipeline's permanent failures, and how a run continues after others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
from each import for_each

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.errors import ConfigError, ConnectFailed, NoBrokers
from pk.spark.errors import DataLost, OptionError, SparkFailed, SparkMissing, TargetRefused
from pk.spark.pipeline.definition import WrongPipeline, parse_pipeline
from pk.spark.pipeline.document import Position, Problem
from pk.spark.pipeline.lasting import is_lasting
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import Status, read_status

FILE = """
name = "p"
checkpoint = "cp"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "out"
"""


def wrong(*, passing: bool) -> WrongPipeline:
    here = Position(1, 1)
    return WrongPipeline("p.toml", [Problem(here, "a", passing=True), Problem(here, "b", passing)])


LASTING = (
    wrong(passing=False),
    OptionError("x"),
    SparkMissing("x"),
    DataLost("x"),
    ConfigError("x"),
    KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    SparkFailed("pk.spark.errors.TargetRefused: the table's column a is long"),
    SparkFailed("a\npk.core.errors.KafkaError: SASL_AUTHENTICATION_FAILED: no\nb"),
    SparkFailed("[UNRESOLVED_COLUMN] A column … SQLSTATE: 42703"),
    SparkFailed("There are [1] sources in the checkpoint offsets and now there are [2] sources"),
)
PASSING = (
    wrong(passing=True),
    KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS),
    NoBrokers([ConnectFailed("a:1", "refused")]),
    OSError(28, "No space left on device"),
    SparkFailed("Spark's Java ended with -9 while starting"),
    SparkFailed("java.net.ConnectException: Connection refused"),
    SparkFailed("pk.core.errors.KafkaError: UNKNOWN_TOPIC_OR_PARTITION: topic 'orders'"),
)


@for_each("error", LASTING, ids=str)
def test_what_somebody_must_change_lasts(error: Exception) -> None:
    assert is_lasting(error)


@pytest.mark.parametrize("error", PASSING, ids=str)
def test_what_may_be_back_later_passes(error: Exception) -> None:
    assert not is_lasting(error)


def test_a_refused_table_is_a_failure_of_spark() -> None:
    assert issubclass(TargetRefused, SparkFailed)


class Failing:
    """A Spark whose uses fail, one after the other."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)

    def __getattr__(self, name: str) -> object:
        raise self.errors.pop(0)


Run = Callable[[Failing, Callable[[str], None]], Any]


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(parse_pipeline(FILE, str(tmp_path / "p.toml")))


@pytest.fixture
def run(places: Places, monkeypatch: pytest.MonkeyPatch) -> Run:
    pytest.importorskip("pyspark")
    from pk.spark.pipeline import run as module

    monkeypatch.setattr(module, "_RESTART_S", 0.01)
    pipeline = parse_pipeline(FILE, str(places.base / "p.toml"))
    options = module.RunOptions({"kafka.bootstrap.servers": "127.0.0.1:1"}, restart=True)

    def run(spark: Failing, say: Callable[[str], None]) -> Any:
        options.say = say
        return module.run_pipeline(pipeline, options, cast(Any, spark))

    return run


def seen(places: Places) -> Status:
    status = read_status(places)
    assert status is not None
    return status


def test_it_starts_again_until_a_failure_lasts(places: Places, run: Run) -> None:
    said: list[str] = []
    states: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        states.append(seen(places)["state"])

    spark = Failing(OSError("no disk"), SparkFailed("no Java"), OptionError("no such option"))
    with pytest.raises(OptionError, match="no such option"):
        run(spark, say)
    assert said == [
        "no disk; it starts again in 0.01 s.",
        "no Java; it starts again in 0.02 s.",
    ]
    assert states == ["restarting"] * 2
    assert (seen(places)["state"], seen(places)["error"]) == ("failed", "no such option")


def test_a_stop_ends_the_wait_for_a_restart(places: Places, run: Run) -> None:
    spark = Failing(OSError("no disk"), OSError("not tried again"))
    outcome = run(spark, lambda _: places.stop.touch())
    assert outcome.stopped and seen(places)["state"] == "stopped"
    assert len(spark.errors) == 1 and not places.stop.exists()
