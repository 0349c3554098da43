"""`pk cluster restore`: a new cluster takes over the topics of a lost one from remote storage."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pk.cli.cluster.remote_store import opened_store
from pk.cli.cluster.topics import id_text
from pk.cli.exits import CommandError
from pk.cli.nouns.cluster.rows import RestoredRow
from pk.cli.output.rows import columns, listing
from pk.cli.phrases import count, join
from pk.cli.runtime.context import Context
from pk.cli.runtime.failures import error_name, phrase
from pk.cli.runtime.question_table import say_table_preview
from pk.cli.runtime.results import show_results
from pk.core.broker.offload import offload
from pk.core.log.remote.checking import checked_objects
from pk.core.log.remote.restoring import (
    PartitionFound,
    TopicFound,
    found_topics,
    producer_id_after,
)
from pk.core.log.remote.storage import RemoteStorage, RemoteStorageError
from pk.core.values import TopicPartition
from pk.core.wire.messages.pk_restore_topics import (
    RestoredConfig,
    RestoredPartition,
    RestoredTopic,
)
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.answers import Answers

if TYPE_CHECKING:
    from pk.cli.nouns.cluster.commands import Restore

OBJECTS_AT_ONCE: Final = 16
ASKED_ROWS: Final = 40
"""The most partitions to show with the question; the others are counted."""
SYSTEM: Final = "remote.log.storage.system.enable"
URL: Final = "pk.remote.url"
TIERED: Final = "remote.storage.enable"
KEEP_ALL: Final = {"retention.ms": "-1", "retention.bytes": "-1"}
"""The configs of a topic whose configs the store does not have: none of its records expire."""
OF_OLD_BROKERS: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)
"""Configs that name brokers of the lost cluster."""


async def restore(context: Context, options: "Restore") -> None:
    """Run `pk cluster restore`."""
    admin = await context.admin()
    if not context.change.dry_run:
        context.allow()
    url = await _url_of(admin, options.source)
    cluster_id = (await admin.describe_cluster()).cluster_id or ""
    storage = opened_store(url, options.remote_configs, "--remote-config")
    context.show_status(f"reading {url}")
    try:
        found = await offload(_found, storage, options.topics, cluster_id, options.verify)
    except RemoteStorageError as e:
        raise CommandError(f"{e}.") from e
    finally:
        context.clear_status()
    topics = _chosen(found, options.topics, options.cluster_ids)
    if not topics:
        context.say(f"{url} has nothing to restore.")
        context.show_nothing(columns(RestoredRow))
        return
    known = await admin.describe_topics([topic.name for topic in topics])
    here = {
        topic.name
        for topic in topics
        if (found_here := known.ok.get(topic.name)) is not None
        and found_here.topic_id == topic.topic_id
    }
    if context.change.dry_run:
        context.show(listing(RestoredRow, _rows(topics, here, "would be restored")))
        return
    new = [topic for topic in topics if topic.name not in here]
    answers: Answers[str, None] = Answers()
    if new:
        await _agree(context, new, url)
        try:
            next_id = await offload(_producer_id_next, storage, cluster_id, new)
        except RemoteStorageError as e:
            raise CommandError(f"{e}.") from e
        wanted = [_wanted(topic, options) for topic in new]
        answers = await admin.restore_topics(wanted, producer_id_next=next_id)
    for error in answers.errors.values():
        context.fail(error)
    led = await _until_led(context, admin, topics, answers.errors)
    rows = _rows(topics, here, "restored", answers.errors, led)
    failed = list(answers.errors.items())
    show_results(context, listing(RestoredRow, rows), failed, "partition")
    waiting = sum(row["result"] == "in progress" for row in rows)
    if waiting:
        context.say(
            f"{count(waiting, 'partition')} not restored yet. The leaders continue; their logs "
            "show what delays them. Run this command again to see the progress."
        )


async def _url_of(admin: Admin, given: str | None) -> str:
    """The URL of the store that all brokers use. Raises CommandError if they use different stores,
    or another one than `given`."""
    brokers = (await admin.describe_cluster()).brokers
    resources = {r.ConfigResource(r.ResourceType.BROKER, str(b.node_id)): b for b in brokers}
    urls: dict[str, list[int]] = {}
    answers = await admin.describe_configs(list(resources))
    for resource, broker in resources.items():
        values = {entry.name: entry.value for entry in answers.value(resource)}
        url = values.get(URL) if values.get(SYSTEM) == "true" else None
        if not url:
            raise CommandError(
                f"Broker {broker.node_id} has no remote storage; start it with {SYSTEM}=true and "
                f"{URL}."
            )
        urls.setdefault(url.rstrip("/"), []).append(broker.node_id)
    if len(urls) > 1:
        raise CommandError(f"The brokers use different stores: {join(sorted(urls))}.")
    (url,) = urls
    if given is not None and given.rstrip("/") != url:
        raise CommandError(f"The brokers use {url}, not {given}; they must use the store to read.")
    return url


def _found(
    storage: RemoteStorage, topics: Sequence[str], cluster_id: str, verify: bool
) -> list[TopicFound]:
    checked = checked_objects(storage, topics, records=verify, at_once=OBJECTS_AT_ONCE)
    return found_topics(checked, cluster_id)


def _chosen(
    found: Sequence[TopicFound], names: Sequence[str], cluster_ids: Sequence[str]
) -> list[TopicFound]:
    """The topics to restore. Raises CommandError if the store does not have the requested ones, or
    has topics of several clusters and none was chosen."""
    if missing := sorted(set(names) - {topic.name for topic in found}):
        raise CommandError(f"The store has no topic {join(missing)}.")
    everyone = sorted({one for topic in found for one in topic.cluster_ids})
    if unknown := sorted(set(cluster_ids) - set(everyone)):
        raise CommandError(
            f"The store has no cluster {join(unknown)}; it has {join(everyone) or 'none'}."
        )
    wanted = frozenset(cluster_ids)
    topics = [topic for topic in found if not wanted or wanted.intersection(topic.cluster_ids)]
    in_all = set(everyone).intersection(*(topic.cluster_ids for topic in topics))
    if not wanted and topics and not in_all:
        raise CommandError(
            f"The store has topics of several clusters: {join(everyone)}; choose with --cluster-id."
        )
    latest: dict[str, TopicFound] = {}
    for topic in topics:
        before = latest.get(topic.name)
        if before is None or _copied_ms(topic) > _copied_ms(before):
            latest[topic.name] = topic
    return list(latest.values())


def _copied_ms(topic: TopicFound) -> int:
    return topic.state.copied_ms if topic.state is not None else 0


async def _agree(context: Context, new: Sequence[TopicFound], url: str) -> None:
    rows = _rows(new, frozenset(), "would be restored")
    say_table_preview(context, listing(RestoredRow, rows), ASKED_ROWS, "--dry-run")
    context.say(
        "The lost cluster must never run again: this one deletes segments in the store when they "
        "expire."
    )
    await context.agree(
        f"Restore {count(len(new), 'topic')} from {url} on {context.settings.cluster_name}?",
        name=context.settings.bootstrap,
    )


def _producer_id_next(storage: RemoteStorage, cluster_id: str, topics: Iterable[TopicFound]) -> int:
    plans = [one.plan for topic in topics for one in topic.partitions]
    return max((producer_id_after(storage, cluster_id, plan) for plan in plans), default=0)


def _wanted(topic: TopicFound, options: "Restore") -> RestoredTopic:
    configs = dict(topic.state.configs) if topic.state is not None else dict(KEEP_ALL)
    configs = {key: value for key, value in configs.items() if key not in OF_OLD_BROKERS}
    configs |= {pair.key: pair.value for pair in options.config} | {TIERED: "true"}
    factor = topic.state.replication_factor if topic.state is not None else -1
    return RestoredTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        replication_factor=options.replication_factor or factor,
        configs=[RestoredConfig(name=key, value=value) for key, value in configs.items()],
        partitions=[
            RestoredPartition(
                end_offset=one.plan.end_offset,
                last_epoch=one.plan.last_epoch,
                cluster_ids=list(one.cluster_ids),
                left_out=[bad.segment.id for bad in one.damaged if bad.segment is not None],
                start_offset=one.plan.start_offset,
            )
            for one in topic.partitions
        ],
    )


async def _until_led(
    context: Context,
    admin: Admin,
    topics: Sequence[TopicFound],
    failed: Mapping[str, Exception],
) -> set[TopicPartition]:
    """Wait until the leaders have restored their partitions, as long as for any answer. Returns the
    restored partitions."""
    partitions = [
        one.partition.tp for topic in topics if topic.name not in failed for one in topic.partitions
    ]
    if not partitions:
        return set()
    context.show_status("waiting for the leaders")
    try:
        ends = await admin.list_offsets(dict.fromkeys(partitions, r.LATEST))
    finally:
        context.clear_status()
    return set(ends.ok)


def _rows(
    topics: Sequence[TopicFound],
    here: Iterable[str],
    done: str,
    failed: Mapping[str, Exception] | None = None,
    led: Iterable[TopicPartition] | None = None,
) -> list[RestoredRow]:
    there, leading = frozenset(here), None if led is None else frozenset(led)
    rows: list[RestoredRow] = []
    for topic in topics:
        error = (failed or {}).get(topic.name)
        for one in topic.partitions:
            plan = one.plan
            result = "exists already" if topic.name in there else done
            if error is not None:
                result = phrase(error)
            elif leading is not None and one.partition.tp not in leading:
                result = "in progress"
            rows.append(
                {
                    "topic": topic.name,
                    "partition": one.partition.partition,
                    "start_offset": plan.start_offset if plan.last is not None else None,
                    "end_offset": plan.end_offset if plan.last is not None else None,
                    "segments": len(plan.segments),
                    "size": sum(segment.size for segment in plan.segments),
                    "topic_id": id_text(topic.topic_id),
                    "cluster_ids": list(one.cluster_ids),
                    "damaged": [bad.stored.name for bad in one.damaged],
                    "note": "; ".join(_notes(topic, one)) or None,
                    "result": result,
                    "error": error_name(error) if error is not None else None,
                }
            )
    return rows


def _notes(topic: TopicFound, one: PartitionFound) -> Iterable[str]:
    plan = one.plan
    if plan.last is None:
        yield "nothing was copied" if not one.damaged else "no segment is complete"
    elif plan.start_offset > plan.log_start_offset:
        yield f"offsets {plan.log_start_offset} to {plan.start_offset - 1} are lost"
    if one.damaged:
        yield count(len(one.damaged), "damaged object")
    if one.ignored:
        yield f"{count(one.ignored, 'older segment')} not used"
    if topic.state is None and one.partition.partition == 0:
        yield "its configs are not in the store: it keeps everything (retention.ms=-1)"
