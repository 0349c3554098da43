"""Completion: from the tree, and from names that earlier commands stored."""

import os
import runpy
from pathlib import Path

import pytest

from pk.cli.command_line.completion.outside_shell import answer
from pk.cli.command_line.schema import columns_of
from pk.cli.command_line.tree import Group, Option, commands, tree
from pk.cli.config_keys.words import about
from pk.cli.records.fake import NAMED
from pk.cli.runtime.cluster_files import PAUSED, ClusterState, NodeState, enlist, hold, write_state
from pk.cli.runtime.name_cache import (
    recall,
    recall_meanings,
    remember,
    remember_configs,
    remember_members,
)
from pk.net.client.results import MemberDescription

HERE = Path(__file__).resolve().parents[2]


def words(*typed: str) -> list[str]:
    return [line.partition("\t")[0] for line in answer(typed).splitlines()]


def meanings(*typed: str) -> dict[str, str]:
    return dict(line.split("\t", 1) for line in answer(typed).splitlines())


def test_commands_and_options() -> None:
    assert words("topi") == ["topics"]
    assert words("topic", "a") == ["alter", "add-partitions"]
    assert "--replication-factor" in words("topics", "create", "--r")
    assert words("topics", "create", "--if-not-exists", "--if") == []
    assert "--columns" in words("groups", "list", "--")
    assert words("completion", "") == ["bash", "zsh", "fish"]


def test_every_name_of_a_command_is_completed_where_it_is_typed() -> None:
    assert words("prod") == ["produce"]
    assert words("cons") == words("consu") == ["consume"]
    apache = ["console-producer", "console-consumer"]
    assert words("console-") == apache and words("console-c") == ["console-consumer"]
    assert words("help", "prod") == ["produce"]
    assert words("help", "console-c") == ["console-consumer"]
    assert words("topics", "r") == ["rm"]
    for noun in tree().children:
        for name in noun.names:
            assert name in words(name) or noun.name.startswith(name), name


def test_values_of_options() -> None:
    assert "jsonl" in words("topics", "list", "-f", "j")
    assert words("produce", "t", "--compression=z") == ["--compression=zstd"]
    assert words("produce", "t", "--fake", "") == list(NAMED)
    assert words("perf", "e2e", "--fake", "u") == ["users"]
    assert meanings("produce", "t", "--fake", "u") == {"users": "people with names and addresses"}
    assert "@-1h..end" in words("consume", "t", "-o", "@-")
    assert words("consume", "t", "--isolation-level", "read_c") == ["read_committed"]
    assert "print.key=" in words("consume", "--property", "print.k")


def test_what_may_follow_is_offered_only_where_it_may() -> None:
    node = tree().child("node")
    assert isinstance(node, Group)
    assert words("node", "") == [c.name for c in node.children]
    assert words("produce", "t", "-z", "zs") == ["zstd"]
    assert words("topics", "offsets", "t", "--time", "max") == ["max-timestamp"]
    assert "checkpoint" in words("log", "dump", "--show", "index,ch")[0]
    assert "committed" in words("consume", "t", "-o", "")
    assert "committed" not in words("log", "cat", "d", "-o", "")
    assert words("consume", "t", "-o", "0=5,1=st") == ["0=5,1=start", "0=5,1=start..end"]
    assert words("groups", "reset-offsets", "g", "--to", "0=5,1=st") == ["0=5,1=start"]
    assert words("topics", "trim", "t", "-o", "@-") == ["@-1h"]
    assert words("help", "errors", "NOT_ENOUGH_REPLICAS_") == ["NOT_ENOUGH_REPLICAS_AFTER_APPEND"]


def test_names_come_from_the_cluster_meant() -> None:
    remember("127.0.0.1:9092", "topic", ["orders", "users"])
    remember("k:1", "topic", ["elsewhere"])
    remember("k:1", "group", ["billing"])
    assert words("topics", "describe", "") == ["orders", "users"]
    assert words("topics", "describe", "-b", "k:1", "") == ["elsewhere"]
    assert words("consume", "-b", "k:1", "-g", "") == ["billing"]
    assert words("-b", "k:1", "configs", "describe", "group", "b") == ["billing"]
    assert recall("nowhere:1", "topic") == []


def test_brokers_partitions_and_one_more_entry_of_a_list() -> None:
    remember("127.0.0.1:9092", "broker", ["1", "2", "3"])
    remember("127.0.0.1:9092", "partition", ["orders/0", "orders/1"])
    assert words("reassign", "pl") == ["plan"]
    assert words("reassign", "plan", "--drain", "") == ["1", "2", "3"]
    assert words("reassign", "plan", "--to", "1,") == ["1,2", "1,3"]
    assert words("reassign", "plan", "--to", "3,1,") == ["3,1,2"]
    assert words("reassign", "cancel", "ord") == ["orders/"]
    assert words("reassign", "cancel", "orders/") == ["orders/0", "orders/1"]
    assert words("partitions", "elect-leaders", "orders/1") == ["orders/1"]
    assert words("brokers", "describe", "") == ["1", "2", "3"]
    assert words("reassign", "plan", "--balance-by=l") == ["--balance-by=leaders"]
    assert words("cluster", "features", "up") == ["upgrade"]


def test_members_of_the_group_meant() -> None:
    def member(number: int, instance_id: str | None = None) -> MemberDescription:
        return MemberDescription(f"m-{number}", instance_id, "app", "/10.0.0.1", ())

    remember_members("127.0.0.1:9092", "billing", [member(1, "i-1")])
    remember_members("127.0.0.1:9092", "billing", [member(2, "i-2"), member(3)])
    remember_members("127.0.0.1:9092", "other", [member(9)])
    assert words("groups", "remove-members", "billing", "-m", "") == ["m-2", "m-3"]
    assert words("groups", "remove-members", "-g", "billing", "--instance", "") == ["i-2"]
    assert words("groups", "remove-members", "other", "--member", "") == ["m-9"]
    assert words("groups", "remove-members", "-m", "") == []


def test_a_broken_cache_costs_only_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember("k:1", "topic", ["a"])
    (file,) = (tmp_path / "xdg_cache_home" / "pk").glob("*-topic.json")
    file.write_bytes(b"\xff{")
    assert recall("k:1", "topic") == []
    remember("k:1", "topic", ["b"])
    assert recall("k:1", "topic") == ["b"]
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    remember("k:1", "topic", ["c"])
    assert recall("k:1", "topic") == []


def test_files_and_directories(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "dump.txt").touch()
    typed = str(tmp_path / "d")
    assert words("up", "--data", typed) == [f"{tmp_path}/data/"]
    assert words("up", "--config-file", typed) == [f"{tmp_path}/data/", f"{tmp_path}/dump.txt"]


def test_words_that_make_no_sense_are_passed_over() -> None:
    assert words("nonsense", "--what", "topics", "li") == ["list"]
    assert words("topics", "list", "-dn") == []


def test_what_is_generated_is_fresh() -> None:
    files = runpy.run_path(str(HERE / "scripts" / "generate_completions.py"))["files"]()
    names = {"pk.bash", "pk.zsh", "pk.fish", "words.tsv", "tree.json"}
    assert {path.name for path in files} == names
    for path, text in files.items():
        assert path.read_text(encoding="utf-8") == text, "run scripts/generate_completions.py"


def test_config_keys_with_what_they_are_and_what_is_set() -> None:
    remember("127.0.0.1:9092", "topic", {"orders": "3 partitions"})
    remember_configs(
        "127.0.0.1:9092", {"orders": {"cleanup.policy": "compact", "retention.ms": "1000"}}
    )
    found = meanings("configs", "alter", "topic", "orders", "-c", "retention.ms")
    assert found == {"retention.ms=": found["retention.ms="]}
    assert found["retention.ms="].startswith(
        "now 1000 · default 604800000 (7 days) · How long records"
    )
    assert meanings("topics", "alter", "orders", "-c", "cleanup.p")["cleanup.policy="].startswith(
        "now compact"
    )
    assert [
        about("unknown", ("-", "", ""), "v" * long).partition(" ")[2] for long in (20, 40, 41)
    ] == ["v" * 20, "v" * 40, "v" * 40 + "…"]
    assert "now" not in meanings("topics", "create", "orders", "-c", "cleanup.p")["cleanup.policy="]
    assert words("configs", "describe", "-t", "orders", "-c", "cleanup") == ["cleanup.policy"]
    assert words("configs", "alter", "topic", "orders", "--delete", "") == [
        "cleanup.policy",
        "retention.ms",
    ]
    assert "num.network.threads=" in words("up", "-X", "num.")
    assert "fetch.min.bytes=" in words("consume", "x", "-X", "fetch.")
    assert words("configs", "alter", "group", "g", "-c", "share.iso") == ["share.isolation.level="]


def test_config_values() -> None:
    remember_configs("127.0.0.1:9092", {"orders": {"retention.ms": "1000"}})
    key = "cleanup.policy="
    assert words("topics", "create", "x", "-c", key) == [f"{key}delete", f"{key}compact"]
    assert words("topics", "create", "x", "-c", f"{key}compact,") == [f"{key}compact,delete"]
    found = meanings("configs", "alter", "topic", "orders", "-c", "retention.ms=")
    assert found["retention.ms=1000"] == "now"
    assert found["retention.ms=604800000"] == "default · 7 days"
    assert found["retention.ms=-1"] == "no limit"
    assert words("up", "-X", "auto.create.topics.enable=f") == ["auto.create.topics.enable=false"]


def test_columns_partitions_conditions_and_ends_of_ranges() -> None:
    remember("127.0.0.1:9092", "topic", {"orders": "3 partitions"})
    assert "partitions" in words("topics", "list", "--columns", "part")
    assert words("topics", "list", "--sort", "topic,-part") == ["topic,-partitions"]
    assert words("topics", "list", "--where", "part") == ["partitions"]
    assert words("topics", "list", "--where", "partitions > 3 and top") == [
        "partitions > 3 and topic",
        "partitions > 3 and topic_id",
    ]
    assert words("topics", "list", "--where", "partitions > ") == []
    assert words("consume", "orders", "-p", "0,") == ["0,1", "0,2"]
    assert words("produce", "orders", "-p", "") == ["0", "1", "2"]
    assert words("topics", "create", "orders", "-p", "") == []
    assert words("consume", "orders", "-o", "start..@t") == ["start..@today"]
    assert words("help", "topics", "desc") == ["describe"]
    assert "positions" in words("help", "pos")
    assert words("top", "gr") == ["groups"]
    assert words("produce", "x", "--fake", "o") == ["orders"]
    assert words("groups", "list", "--state", "Stable,Em") == ["Stable,Empty"]
    assert words("transactions", "list", "--state", "Ongoing,P")[0] == "Ongoing,PrepareCommit"
    assert words("groups", "lag", "--fail-if", "lag > 3 or topi") == ["lag > 3 or topics"]


def test_names_keep_their_meaning_and_partitions_count() -> None:
    remember("k:1", "topic", {"a": "2 partitions", "b": "1 partition"})
    remember("k:1", "topic", ["a", "c"])
    assert recall_meanings("k:1", "topic") == {"a": "2 partitions", "c": ""}
    remember("k:1", "partition", ["c/4", "a/0"])
    assert recall_meanings("k:1", "topic") == {"a": "2 partitions", "c": "5 partitions"}


def test_client_keys_as_words_of_their_own() -> None:
    for before in (["--producer-props"], ["--producer-props", "linger.ms=5"], []):
        assert "acks=all" in words("perf", "produce", *before, "acks="), before
    assert "linger.ms=" in words("perf", "consume", "acks=1", "lin")
    assert words("cp", "a", "b", "--to-property", "compression.type=z") == ["compression.type=zstd"]


def test_nodes_of_what_runs_here(tmp_path: Path) -> None:
    node = NodeState(2, "broker", str(tmp_path / "broker-2"), state=PAUSED)
    write_state(ClusterState(1, str(tmp_path), 1, "embedded", "h:1", [node]))
    entry, lock = enlist(str(tmp_path)), hold(str(tmp_path))
    assert entry is not None
    assert answer(["node", "kill", ""]) == "2\tbroker, paused\n"
    os.close(lock)
    assert words("node", "kill", "") == []


def test_names_of_another_cluster_are_not_taken_for_its(tmp_path: Path) -> None:
    """A short hash names each file: two addresses may have the same one."""
    remember("k:1", "topic", ["a"])
    (file,) = (tmp_path / "xdg_cache_home" / "pk").glob("*-topic.json")
    file.write_text(file.read_text().replace("k:1", "other:1"))
    assert recall("k:1", "topic") == []


def test_meanings_stay_on_their_line() -> None:
    remember("127.0.0.1:9092", "group", {"odd\nname\there": "Sta\nble"})
    assert answer(("groups", "describe", "")) == "odd name here\tSta ble\n"


def test_every_word_that_names_a_completion_is_known() -> None:
    """An option or argument without a function for its `complete` completes nothing, and says
    nothing."""
    remember("127.0.0.1:9092", "topic", {"orders": "3 partitions"})
    for kind in ("group", "broker", "feature", "topic-config", "broker-config"):
        remember("127.0.0.1:9092", kind, {"1": "one"})
    # test_members_of_the_group_meant tests members of the group that the command names.
    files = {"member", "instance", "file", "directory", "profile", "change", "entity-name", "node"}
    for path, command in commands(tree()):
        for what in (*command.options, *command.arguments):
            if what.complete is None or what.complete in files:
                continue
            if what.complete == "column" and not columns_of(command):
                continue  # its columns depend on the file
            before = [*path, what.long_name] if isinstance(what, Option) else [*path]
            skipped = (
                []
                if isinstance(what, Option)
                else command.arguments[: command.arguments.index(what)]
            )
            typed = [
                *before,
                *("1" if a.complete != "entity-type" else "topic" for a in skipped),
                "",
            ]
            assert words(*typed), (path, what.dest, what.complete)
