"""Topics, configs, isr and the cluster, against a live broker: output, changes and errors."""

from collections.abc import Callable
from typing import Any

import pytest
from clients.fixtures import Kafka
from confluent_kafka import Consumer

Run = Callable[..., Any]
Fresh = Callable[[str], str]


def test_a_topic_s_life(at: Run, fresh: Fresh) -> None:
    topic = fresh("life")
    made = at("topics", "create", topic, "-p", "3", "-c", "retention.ms=1000000", "-f", "json")
    assert made.code == 0
    (row,) = made.json
    assert row.pop("topic_id")
    assert row == {
        "topic": topic,
        "partitions": 3,
        "replication_factor": 1,
        "result": "created",
        "error": None,
    }

    (listed,) = at("topics", "list", topic, "-f", "json").json
    assert set(listed) == {"topic", "partitions", "replication_factor", "internal", "topic_id"}
    assert at("topic", "ls", topic, "-f", "name").text == f"{topic}\n"

    (described,) = at("topics", "describe", topic, "-f", "json").json
    assert described["configs"] == [
        {"name": "retention.ms", "value": "1000000", "source": "topic"}
    ] or ({"name": "retention.ms", "value": "1000000", "source": "topic"} in described["configs"])
    assert [p["partition"] for p in described["partitions"]] == [0, 1, 2]
    assert all(p["isr"] == p["replicas"] == [p["leader"]] for p in described["partitions"])

    grown = at("topics", "add-partitions", topic, "-n", "2", "-y", "-f", "json")
    assert (grown.code, grown.json[0]["from"], grown.json[0]["to"]) == (0, 3, 5)
    altered = at(
        "topics",
        "alter",
        topic,
        "--delete-config",
        "retention.ms",
        "-c",
        "cleanup.policy=compact",
        "-y",
    )
    assert altered.code == 0
    configs = at("configs", "describe", "topic", topic, "-f", "json").json
    assert {(c["name"], c["value"]) for c in configs if c["source"] == "topic"} == {
        ("cleanup.policy", "compact")
    }

    gone = at("topics", "rm", topic, "-y", "-f", "jsonl")
    assert (gone.code, gone.json["result"]) == (0, "deleted")
    assert at("topics", "list", topic, "-f", "json").json == []


def test_every_row_is_done_and_one_failure_fails_the_command(at: Run, fresh: Fresh) -> None:
    old, new = fresh("old"), fresh("new")
    assert at("topics", "create", old).code == 0
    both = at("topics", "create", old, new, "-f", "json")
    assert both.code == 1
    assert [(r["topic"], r["error"]) for r in both.json] == [
        (old, "TOPIC_ALREADY_EXISTS"),
        (new, None),
    ]
    assert old in both.err and "--if-not-exists" in both.err
    assert at("topics", "create", old, "--if-not-exists").code == 0
    deleted = at("topics", "delete", old, new, f"{new}x", "-y", "-f", "json")
    assert deleted.code == 1
    assert [r["error"] for r in deleted.json] == [None, None, "UNKNOWN_TOPIC_OR_PARTITION"]


def test_a_dry_run_changes_nothing(at: Run, fresh: Fresh) -> None:
    topic = fresh("dry")
    assert at("topics", "create", topic, "--dry-run").code == 0
    assert at("topics", "list", topic, "-f", "name").text == ""
    at("topics", "create", topic)
    assert at("topics", "delete", topic, "-d").code == 0
    assert at("topics", "add-partitions", topic, "-n", "3", "-d").code == 0
    assert at("topics", "alter", topic, "-c", "retention.ms=1", "-d").code == 0
    (described,) = at("topics", "describe", topic, "-f", "json").json
    assert described["partition_count"] == 1
    assert not [c for c in described["configs"] if c["name"] == "retention.ms"]


def test_without_a_terminal_and_without_yes_a_change_is_refused(at: Run, fresh: Fresh) -> None:
    topic = fresh("guarded")
    at("topics", "create", topic)
    for words in (
        ("topics", "delete", topic),
        ("topics", "add-partitions", topic, "-n", "1"),
        ("topics", "alter", topic, "-c", "retention.ms=1"),
        ("configs", "alter", "topic", topic, "-c", "retention.ms=1"),
    ):
        refused = at(*words)
        assert (refused.code, "-y makes the change" in refused.err) == (5, True), words
    assert at("topics", "list", topic, "-f", "name").text == f"{topic}\n"


def test_a_read_only_profile_refuses_even_with_yes(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("readonly")
    at("topics", "create", topic)
    assert at("profile", "add", "prod", "-b", kafka.bootstrap, "--guard", "readonly").code == 0
    refused = at("topics", "delete", topic, "-y", "--profile", "prod")
    assert (refused.code, "read-only" in refused.err) == (5, True)
    assert at("topics", "list", topic, "-f", "name", "--profile", "prod").text == f"{topic}\n"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "describe", "TOPICx"), "did you mean TOPIC"),
        (("topics", "offsets", "TOPICx"), "did you mean TOPIC"),
        (("consume", "TOPICx", "-e"), "did you mean TOPIC"),
        (("consume", "TOPIC", "-e", "-p", "7"), "has no partition 7"),
        (("topics", "create", "bad/name"), "bad/name"),
        (("topics", "create", "TOPIC-r", "-r", "99"), "brokers"),
        (("topics", "create", "TOPIC-c", "-c", "no.such=1"), "no.such"),
        (("topics", "alter", "TOPIC", "-c", "retention.ms=abc", "-y"), "retention.ms"),
        (("topics", "add-partitions", "TOPIC", "-p", "1", "-y"), "already has 1 partition"),
        (("topics", "delete", "--regex", "no-such-.*", "-y"), "No topic"),
        (("isr", "TOPICx"), "did you mean TOPIC"),
    ],
)
def test_a_failure_is_a_sentence(at: Run, fresh: Fresh, words: tuple[str, ...], said: str) -> None:
    topic = fresh("sentence")
    at("topics", "create", topic)
    failed = at(*(word.replace("TOPIC", topic) for word in words))
    assert failed.code == 1
    assert said.replace("TOPIC", topic) in failed.err
    assert "Traceback" not in failed.err
    more = at(*(w.replace("TOPIC", topic) for w in words), "--debug").err
    assert len(more) > len(failed.err)


def test_an_unknown_config_is_refused_with_the_nearest_name(at: Run, fresh: Fresh) -> None:
    topic = fresh("config")
    at("topics", "create", topic)
    refused = at("topics", "alter", topic, "-c", "retention.mss=1", "-y")
    assert (refused.code, "did you mean retention.ms" in refused.err) == (2, True)


def test_isr_knows_ends_and_watermarks(at: Run, fresh: Fresh) -> None:
    topic = fresh("isr")
    at("topics", "create", topic, "-p", "2")
    at("produce", topic, "-p", "1", stdin=b"a\nb\nc\n")
    # Apache Kafka confirms new topics before their leaders can answer requests for log ends.
    assert at("topics", "offsets", topic).code == 0
    rows = at("isr", topic, "-f", "json").json
    assert [(r["partition"], r["log_end_offset"], r["high_watermark"]) for r in rows] == [
        (0, 0, 0),
        (1, 3, 3),
    ]
    assert all(r["replicas"] == r["isr"] == [r["leader"]] and r["out_of_sync"] == [] for r in rows)
    assert at("isr", topic, "--under-replicated", "-f", "json").json == []


@pytest.mark.parametrize(
    "words",
    [
        ("partitions", "list", "--at-min-isr", "-f", "json"),
        ("isr", "--at-min-isr", "-f", "json"),
        ("topics", "--describe", "--at-min-isr-partitions", "-f", "json"),
    ],
)
def test_a_search_for_what_is_wrong_looks_at_internal_topics_too(
    at: Run, fresh: Fresh, words: tuple[str, ...]
) -> None:
    topic = fresh("plain")
    assert at("topics", "create", topic).code == 0
    made = at("groups", "reset-offsets", fresh("g"), "-t", topic, "--to", "start", "-y")
    assert made.code == 0, made.err
    found = {row["topic"] for row in at(*words).json}
    assert {topic, "__consumer_offsets"} <= found


def test_offsets_of_positions(at: Run, fresh: Fresh) -> None:
    topic = fresh("offsets")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"".join(b"%d\n" % i for i in range(20)))
    (row,) = at("topics", "offsets", topic, "-o", "-5..+18", "-f", "json").json
    del row["leader_epoch"]
    assert row == {
        "topic": topic,
        "partition": 0,
        "error": None,
        "start": 0,
        "end": 20,
        "offsets": 20,
        "begin": 15,
        "until": 18,
    }
    (row,) = at("topics", "offsets", topic, "-o", "@-1h..@tomorrow", "-f", "json").json
    assert (row["begin"], row["until"]) == (0, 20)
    (row,) = at("topics", "offsets", topic, "-o", "0=7", "-f", "json").json
    assert (row["begin"], row["until"]) == (7, None)


def test_brokers_and_cluster(at: Run, kafka: Kafka) -> None:
    (broker,) = at("brokers", "list", "-f", "json").json
    assert (broker["host"], broker["port"]) == (kafka.host, kafka.port)
    (cluster,) = at("cluster", "describe", "-f", "json").json
    (described,) = cluster["brokers"]
    of_partitions = {"leaders", "replicas"}  # a topic may have come or gone between the two answers
    assert {*described, *of_partitions} == {*described} <= {*broker}
    for key in {*described} - of_partitions:
        assert described[key] == broker[key], key
    assert [described[key] for key in of_partitions] == 2 * [cluster["partitions"]]
    assert len(cluster["cluster_id"]) == 22
    assert cluster["offline"] == cluster["under_replicated"] == 0


def test_configs_of_a_topic_and_of_brokers(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("configs")
    at("topics", "create", topic)
    assert (
        at(
            "configs",
            "alter",
            "--topic",
            topic,
            "--add-config",
            "retention.ms=5,cleanup.policy=[compact,delete]",
            "-y",
        ).code
        == 0
    )
    found = {
        c["name"]: c for c in at("configs", "describe", "--topic", topic, "-a", "-f", "json").json
    }
    assert found["retention.ms"]["value"] == "5"
    assert found["cleanup.policy"]["value"] == "compact,delete"
    assert found["segment.bytes"]["source"] == "default"
    at("configs", "alter", "topic", topic, "--subtract", "cleanup.policy=delete", "-y")
    (row,) = at("configs", "describe", "topic", topic, "-c", "cleanup.policy", "-f", "json").json
    assert row["value"] == "compact"
    (broker,) = at("brokers", "list", "-f", "json").json
    kept = at(
        "configs",
        "describe",
        "broker",
        str(broker["broker"]),
        "-a",
        "--where",
        "name = num.partitions",
        "-f",
        "json",
    ).json
    assert kept[0]["value"] == "1"


@pytest.mark.parametrize(
    "words",
    [("configs", "alter", "topic", "T", "--delete"), ("topics", "alter", "T", "--delete-config")],
)
def test_a_deleted_config_falls_back_to_the_default(
    at: Run, fresh: Fresh, words: tuple[str, ...]
) -> None:
    topic = fresh("fallback")
    at("topics", "create", topic, "-c", "retention.ms=1h")
    delete = (*(topic if word == "T" else word for word in words), "retention.ms")
    asked = at(*delete)  # not answered
    assert asked.code == 5
    said = f"{topic}: retention.ms 3600000 (1 hour) → 604800000 (7 days), the default\n"
    assert said in asked.err
    done = at(*delete, "-y", "-f", "json")
    assert done.code == 0, done.err
    assert [(r["from"], r["to"], r["to_source"], r["result"]) for r in done.json] == [
        ("3600000", "604800000", "default", "changed")
    ]


def test_a_config_that_has_its_value_already_is_left(at: Run, fresh: Fresh) -> None:
    topic = fresh("already")
    at("topics", "create", topic, "-c", "segment.ms=1h")
    before = at("undo", "--list", "-f", "json").json
    for words in (
        ("configs", "alter", "topic", topic, "-c", "segment.ms=60m"),
        ("topics", "alter", topic, "-c", "segment.ms=3600000"),
    ):
        ran = at(*words, "-f", "json")  # without -y: it must not ask
        assert (ran.code, ran.json) == (0, []), ran.err
        assert ran.err == (
            f"Nothing to change: segment.ms of {topic} is already 3600000 (1 hour).\n"
        )
    assert at("undo", "--list", "-f", "json").json == before
    both = ("-c", "segment.ms=1h", "-c", "retention.ms=604800000", "-y", "-f", "json")
    some = at("configs", "alter", "topic", topic, *both)
    assert f"{topic}: segment.ms is already 3600000 (1 hour)\n" in some.err
    assert [(row["name"], row["result"]) for row in some.json] == [
        ("segment.ms", "unchanged"),
        ("retention.ms", "changed"),  # the default, but now the topic's own
    ]


def test_a_config_that_is_not_set_is_not_deleted(at: Run, fresh: Fresh) -> None:
    topic = fresh("unset")
    at("topics", "create", topic, "-c", "segment.ms=1h")
    before = at("undo", "--list", "-f", "json").json
    for words in (
        ("configs", "alter", "topic", topic, "--delete", "retention.ms"),
        ("topics", "alter", topic, "--delete-config", "retention.ms"),
    ):
        ran = at(*words, "-f", "json")  # without -y: it must not ask
        assert (ran.code, ran.json) == (0, []), ran.err
        assert ran.err == f"Nothing to change: retention.ms is not set on {topic}.\n"
        assert at(*words, "-d").out == b""
    assert at("undo", "--list", "-f", "json").json == before
    both = ("--delete", "retention.ms", "--delete", "segment.ms", "-y", "-f", "json")
    some = at("configs", "alter", "topic", topic, *both)
    assert [(row["name"], row["result"]) for row in some.json] == [
        ("retention.ms", "unchanged"),
        ("segment.ms", "changed"),
    ]
    (kept, *_) = at("undo", "--list", "-f", "json").json
    assert "segment.ms" in kept["change"] and "retention.ms" not in kept["change"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "create", "bad name"), "The broker refused with INVALID_TOPIC_EXCEPTION"),
        (("topics", "delete", "missing-topic"), "Topic 'missing-topic' does not exist"),
        (("groups", "describe", "missing-group"), "Group 'missing-group' does not exist"),
    ],
)
def test_one_item_that_fails_is_said_once(at: Run, words: tuple[str, ...], said: str) -> None:
    ran = at(*words, "-f", "table")
    assert (ran.code, ran.out) == (1, b""), ran.err
    assert ran.err.startswith(said) and ran.err.count(words[-1]) == 1, ran.err


def test_of_several_items_the_table_says_which_failed(at: Run, fresh: Fresh) -> None:
    topic = fresh("some")
    ran = at("topics", "create", topic, "bad name", "-f", "table")
    assert (ran.code, ran.err) == (1, "1 of 2 topics failed.\n")
    assert "INVALID_TOPIC_EXCEPTION" in ran.text and "created" in ran.text
    deleted = at("topics", "delete", topic, "missing-topic", "-y", "-f", "table")
    assert (deleted.code, deleted.err.splitlines()[-1]) == (1, "1 of 2 topics failed.")
    programs = at("topics", "create", "bad name", "-f", "json")  # the rows, and what to match
    assert programs.json[0]["error"] == "INVALID_TOPIC_EXCEPTION"
    assert "INVALID_TOPIC_EXCEPTION" in programs.err


def test_an_election_that_is_not_needed_is_said_plainly(at: Run, fresh: Fresh) -> None:
    at("topics", "create", fresh("led"))
    for words, said in (
        ((), "Every partition is led by its preferred replica.\n"),
        (("--unclean", "--all"), "Every partition has a leader.\n"),
    ):
        ran = at("partitions", "elect-leaders", *words, "-d")
        assert (ran.code, ran.out, ran.err) == (0, b"", said)


def test_piped_tables_are_plain(at: Run, fresh: Fresh) -> None:
    topic = fresh("plain-" + "x" * 100)
    at("topics", "create", topic)
    shown = at("topics", "list", topic)
    assert topic in shown.text
    assert "\x1b" not in shown.text and "│" not in shown.text and "…" not in shown.text


def test_a_pattern_that_matches_nothing_names_what_is_near(at: Run, fresh: Fresh) -> None:
    topic = fresh("a-long-name")
    at("topics", "create", topic)
    missed = at("topics", "list", topic.replace("long", "lnog"))
    assert (missed.code, len(missed.lines)) == (0, 1)
    assert f"; did you mean {topic}" in missed.err
    for words in ((topic,), ("[QXZ]{9}",), ("__consumer_offsets", "--exclude-internal")):
        assert at("topics", "list", *words).err == ""


def test_a_pattern_of_groups_that_matches_nothing_names_what_is_near(
    kafka: Kafka, at: Run, fresh: Fresh
) -> None:
    topic, group = fresh("read"), fresh("a-long-name")
    at("topics", "create", topic)
    at("groups", "reset-offsets", group, "-t", topic, "--to", "end", "-y")
    missed = at("groups", "list", group.replace("long", "lnog"))
    assert (missed.code, f"; did you mean {group}" in missed.err) == (0, True), missed.err
    similar = group.replace("long", "lang")
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": similar})
    try:
        consumer.subscribe([topic])
        while not consumer.assignment():
            consumer.poll(0.1)
        assert (
            at("groups", "list", similar, "--state", "Stable", "-f", "name").text == similar + "\n"
        )
        assert at("groups", "list", group, "--state", "Stable").err == "", "it is of another state"
    finally:
        consumer.close()
