"""`pk undo`: the changes that it keeps, shows, refuses and puts back."""

import json
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from clients.fixtures import Kafka
from group_parts import Fresh, Reader, Run, committed
from shapes import check_json

from pk.cli.exits import CommandError
from pk.cli.runtime import undo_log as undo
from pk.core.values import TopicPartition
from pk.net.client.admin import open_admin


def _store(text: str, *, undoes: str | None = None) -> str:
    return undo.store("configs", "c", text, {"n": text}, cluster="here", now_ms=5, undoes=undoes)


def _id(said: str) -> str:
    found = re.search(r"To undo it: pk undo (\d+)", said)
    assert found is not None, said
    return found[1]


# The files.


def test_changes_are_numbered_and_kept_for_their_owner_alone(tmp_path: Path) -> None:
    assert [_store("a"), _store("b")] == ["1", "2"]
    undo.forget("1")
    assert _store("c") == "3"  # a number is not given away again while a later one is there
    assert [c.description for c in undo.history()] == ["c", "b"]
    (file,) = tmp_path.rglob("3.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_a_change_is_narrowed_and_marked(tmp_path: Path) -> None:
    number = _store("a")
    undo.narrow(number, {"less": 1})
    undo.mark_undone(number, 77)
    change = undo.find(number)
    assert (change.inverse, change.undone_ms, change.made_ms) == ({"less": 1}, 77, 5)
    (file,) = tmp_path.rglob("1.json")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_last_goes_back_step_by_step() -> None:
    first, second = _store("a"), _store("b")
    undo.store("configs", "other", "x", {}, cluster="elsewhere", now_ms=5)
    assert undo.last("c").id == second
    undo.mark_undone(second, 1)
    _store("undoes b", undoes=second)
    assert undo.last("c").id == first
    undo.mark_undone(first, 1)
    with pytest.raises(CommandError, match="Nothing to undo"):
        undo.last("c")


def test_groups_undo_is_about_groups() -> None:
    configs = _store("of configs")
    offsets = undo.store("group-offsets", "c", "of offsets", {}, cluster="here", now_ms=5)
    _store("of configs again")
    assert undo.last("c", "group-offsets").id == offsets
    with pytest.raises(CommandError, match=f"pk undo {configs}"):
        undo.find(configs, "group-offsets")


@pytest.mark.parametrize("name", ["9", "0x1", "../1", "", "١"])
def test_what_was_never_kept_is_not_found(name: str) -> None:
    _store("a")
    with pytest.raises(CommandError, match="pk undo --list"):
        undo.find(name)


def test_files_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    _store("a")
    _store("b")
    (broken,) = tmp_path.rglob("1.json")
    broken.write_text('{"kind": "configs"')
    assert [c.id for c in undo.history()] == ["2"]
    with pytest.raises(CommandError):
        undo.find("1")


def test_the_oldest_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "_KEEP", 3)
    for text in "abcde":
        _store(text)
    assert [c.description for c in undo.history()] == ["e", "d", "c"]


def test_without_a_change_there_is_nothing_to_list(pk: Run) -> None:
    listed = pk("undo", "--list", "-f", "json")
    assert (listed.code, listed.json) == (0, [])
    assert pk("undo", "4").code == 1
    empty = pk("undo")
    assert (empty.code, "Nothing to undo" in empty.err) == (0, True)


# Offsets.


@pytest.mark.parametrize("option", ["-y", "-d", "--anyway"])
@pytest.mark.parametrize("command", ["undo", "groups undo"])
def test_who_means_to_undo_says_which_change(pk: Run, command: str, option: str) -> None:
    ran = pk(*command.split(), option)
    assert (ran.code, "`pk undo last`" in ran.err, ran.out) == (2, True, b"")


def test_a_reset_is_listed_shown_and_undone(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("back")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "end", "-y").err)
    words = ("groups", "undo", "-f", "json")
    listed = check_json(words, at(*words).out)
    assert str(listed[0]["id"]) == number
    assert f"reset 2 offsets of {group} in {timed_topic}" in listed[0]["change"]
    words = ("undo", number, "-d", "-f", "json")
    plan = check_json(words, at(*words).out)
    assert [(r["committed"], r["target"], r["effect"]) for r in plan] == [
        (10, 5, "re-read"),
        (4, 2, "re-read"),
    ]
    assert committed(at, group) == {(timed_topic, 0): 10, (timed_topic, 1): 4}
    wrong = at("undo", number, "-y", "--columns", "no_such")
    assert (wrong.code, "unknown column 'no_such'" in wrong.err) == (2, True), wrong.err
    assert committed(at, group) == {(timed_topic, 0): 10, (timed_topic, 1): 4}
    refused = at("groups", "undo", number)
    assert (refused.code, "re-reads 7 records" in refused.err) == (5, True), refused.err
    again = _id(at("undo", number, "-y").err)
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}
    twice = at("undo", number, "-y")
    assert (twice.code, "was undone" in twice.err) == (5, True)
    assert at("undo", again, "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 10, (timed_topic, 1): 4}
    words = ("undo", "--list", "-f", "json")
    assert [bool(c["undone"]) for c in check_json(words, at(*words).out)][:3] == [False, True, True]


def test_commits_that_were_missing_are_deleted_again(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("first")
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:0", "--to", "5", "-y")
    number = _id(at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "1", "-y").err)
    words = ("groups", "undo", number, "-d", "-f", "json")
    plan = check_json(words, at(*words).out)
    assert [(r["effect"], r["target"]) for r in plan] == [("skip", 5), ("delete", None)]
    assert at("undo", number, "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 5}


def test_deleted_offsets_and_groups_come_back(at: Run, fresh: Fresh, timed_topic: str) -> None:
    group = fresh("deleted")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    offsets = at("groups", "delete-offsets", group, "-t", timed_topic, "-y")
    assert at("undo", _id(offsets.err), "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}
    whole = at("groups", "delete", group, "-y")
    assert group not in at("groups", "list", "-f", "name").lines
    assert at("undo", _id(whole.err), "-y").code == 0
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}


def test_offsets_that_come_back_are_listed_by_partition(at: Run, fresh: Fresh) -> None:
    topic, group = fresh("many"), fresh("ordered")
    at("topics", "create", topic, "-p", "6")
    for partition in (4, 0, 5, 2, 1, 3):
        at("groups", "reset-offsets", group, "-t", topic, "--to", f"{partition}=0", "-y")
    deleted = at("groups", "delete", group, "-y")
    plan = at("undo", _id(deleted.err), "-d", "-f", "json").json
    assert [row["partition"] for row in plan] == list(range(6))


def test_a_group_that_has_moved_on_is_left_alone_without_anyway(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("moved")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "0=5,1=2", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "start", "-y").err)
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:0", "--to", "3", "-y")
    refused = at("undo", number, "-y")
    assert (refused.code, "moved on since" in refused.err) == (5, True), refused.err
    plan = at("undo", number, "-d", "-f", "json").json
    assert [r["note"] for r in plan] == ["moved since, from 0", None]
    assert committed(at, group) == {(timed_topic, 0): 3, (timed_topic, 1): 0}
    assert at("undo", number, "-y", "--anyway").code == 0
    assert committed(at, group) == {(timed_topic, 0): 5, (timed_topic, 1): 2}


def test_an_active_group_is_not_undone(
    at: Run, fresh: Fresh, timed_topic: str, readers: Callable[..., Reader]
) -> None:
    group = fresh("busy")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "start", "-y").err)
    readers(group)
    refused = at("undo", number, "-y", "--anyway")
    assert (refused.code, "only while it is empty. Stop " in refused.err) == (5, True), refused.err
    assert at("undo", number, "-d").code == 0


def _trim(kafka: Kafka, partition: TopicPartition, offset: int) -> None:
    async def trim() -> None:
        async with open_admin(kafka.bootstrap) as admin:
            answers = await admin.delete_records({partition: offset})
            assert answers.value(partition) == offset

    trio.run(trim)


def test_offsets_that_are_gone_meanwhile_are_clamped(
    kafka: Kafka, at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("gone")
    at("groups", "reset-offsets", group, "-t", f"{timed_topic}:0", "--to", "2", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "end", "-y").err)
    _trim(kafka, TopicPartition(timed_topic, 0), 6)
    done = at("undo", number, "-y", "-f", "json")
    assert done.json[0]["note"] == "2 is gone: clamped"
    assert committed(at, group) == {(timed_topic, 0): 6}


def test_a_change_of_another_cluster_is_not_undone_here(
    at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    group = fresh("elsewhere")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "start", "-y").err)
    (file,) = tmp_path.rglob(f"{number}.json")
    kept = json.loads(file.read_text())
    file.write_text(json.dumps(kept | {"kind": "tiers"}))
    unknown = at("undo", number, "-y")
    assert (unknown.code, "another version of pk" in unknown.err) == (1, True), unknown.err
    file.write_text(json.dumps(kept | {"cluster_id": "other"}))
    refused = at("undo", number, "-y")
    assert (refused.code, "was made on" in refused.err) == (5, True)
    assert committed(at, group) == {(timed_topic, 0): 0, (timed_topic, 1): 0}


def test_offsets_of_a_topic_that_was_recreated_are_refused(at: Run, fresh: Fresh) -> None:
    topic, group = fresh("anew"), fresh("of-another")
    at("topics", "create", topic)
    at("produce", topic, stdin=b"a\nb\nc\n")
    at("groups", "reset-offsets", group, "-t", topic, "--to", "2", "-y")
    number = _id(at("groups", "reset-offsets", group, "--to", "end", "-y").err)
    at("topics", "delete", topic, "-y")
    gone = at("undo", number, "-y")
    assert (gone.code, "UNKNOWN_TOPIC_OR_PARTITION" in gone.err + gone.text) == (1, True), gone.err
    at("topics", "create", topic)
    at("produce", topic, stdin=b"other\nrecords\nthan\nthose\n")
    at("groups", "reset-offsets", group, "-t", topic, "--to", "3", "-y")  # as it was left
    refused = at("undo", number, "-y")
    said = f"{topic} was deleted and created again since"
    assert (refused.code, said in refused.err, "--anyway" in refused.err) == (5, True, True)
    assert committed(at, group) == {(topic, 0): 3}
    assert said in at("undo", number, "-d").err
    assert at("undo", number, "-y", "--anyway").code == 0
    assert committed(at, group) == {(topic, 0): 2}


def test_what_cannot_be_noted_as_undone_is_said(
    at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    group = fresh("unnoted")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    (kept,) = (tmp_path / "xdg_state_home").rglob("*.json")
    Path(f"{kept}.{os.getpid()}").mkdir()  # the path of its temporary file
    ran = at("undo", kept.stem, "-y")
    assert ran.code == 0 and "do not undo it again" in ran.err


def test_a_change_is_made_although_it_cannot_be_kept(
    at: Run, fresh: Fresh, timed_topic: str, tmp_path: Path
) -> None:
    group = fresh("nowhere")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    state = tmp_path / "xdg_state_home"
    for file in state.rglob("*.json"):
        file.unlink()
    (state / "pk" / "undo").rmdir()
    (state / "pk" / "undo").write_text("in the way")
    done = at("groups", "reset-offsets", group, "--to", "start", "-y")
    assert (done.code, "cannot be undone" in done.err, "To undo" in done.err) == (0, True, False)
    assert committed(at, group) == {(timed_topic, 0): 0, (timed_topic, 1): 0}


def test_a_reset_that_changes_nothing_keeps_nothing(
    at: Run, fresh: Fresh, timed_topic: str
) -> None:
    group = fresh("same")
    at("groups", "reset-offsets", group, "-t", timed_topic, "--to", "end", "-y")
    before = at("undo", "--list", "-f", "json").json
    assert "changes nothing" in at("groups", "reset-offsets", group, "--to", "end", "-y").err
    assert [c["id"] for c in at("undo", "--list", "-f", "json").json] == [c["id"] for c in before]


# Configs.


def _configs(at: Run, topic: str) -> dict[str, str]:
    rows = at("configs", "describe", "topic", topic, "-f", "json").json
    return {row["name"]: row["value"] for row in rows if row["source"] == "topic"}


def test_configs_go_back_to_what_they_were(at: Run, timed_topic: str) -> None:
    before = _configs(at, timed_topic)
    assert before == {"retention.ms": "-1"}
    changed = at(
        "configs",
        "alter",
        "topic",
        timed_topic,
        "-c",
        "retention.ms=5000",
        "-c",
        "cleanup.policy=compact",
        "-y",
    )
    number = _id(changed.err)
    (listed, *_) = at("undo", "--list", "-f", "json").json
    assert listed["change"] == (
        f"topic {timed_topic}: retention.ms = 5000 and cleanup.policy = compact"
    )
    words = ("undo", number, "-d", "-f", "json")
    plan = check_json(words, at(*words).out)
    assert [(r["key"], r["now"], r["then"]) for r in plan] == [
        ("retention.ms", "5000", "-1"),
        ("cleanup.policy", "compact", None),
    ]
    assert at("undo", number, "-y").code == 0
    assert _configs(at, timed_topic) == before


def test_a_config_that_was_changed_since_is_left_alone_without_anyway(
    at: Run, timed_topic: str
) -> None:
    number = _id(at("topics", "alter", timed_topic, "-c", "retention.ms=5000", "-y").err)
    at("topics", "alter", timed_topic, "-c", "retention.ms=6000", "-y")
    refused = at("undo", number, "-y")
    assert (refused.code, "changed since" in refused.err) == (5, True)
    assert _configs(at, timed_topic) == {"retention.ms": "6000"}
    assert at("undo", number, "-y", "--anyway").code == 0
    assert _configs(at, timed_topic) == {"retention.ms": "-1"}


def test_a_change_that_was_refused_is_not_kept(at: Run, timed_topic: str) -> None:
    before = len(at("undo", "--list", "-f", "json").json)
    refused = at("configs", "alter", "topic", timed_topic, "-c", "retention.ms=-7", "-y")
    assert refused.code == 1
    assert len(at("undo", "--list", "-f", "json").json) == before
