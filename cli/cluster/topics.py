"""Topics by name or pattern, with the nearest names if one does not exist."""

import re
from collections.abc import Iterable, Sequence

from pk.cli.exits import CommandError, Unusable
from pk.cli.output.formats import Row
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import remember
from pk.core.errors import ErrorCode, KafkaError
from pk.core.nearest import did_you_mean_one_of, nearest
from pk.core.values import ZERO_UUID, TopicPartition, uuid_text
from pk.net.client import results as r
from pk.net.client.admin import Admin
from pk.net.client.results import (
    TopicDescription,
)

Partitions = dict[TopicPartition, r.PartitionDescription]

_LEGAL = re.compile(r"[\w.-]+", re.ASCII)
_UNKNOWN = frozenset(
    (
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    )
)


def whole(pattern: str, option: str) -> re.Pattern[str]:
    """Compile a regular expression to match against whole names. Raises Unusable."""
    try:
        return re.compile(pattern)
    except re.error as e:
        raise Unusable(f"{option}: not a regular expression: {pattern!r} ({e}).") from None


def words_of(given: Iterable[str], known: Sequence[str], option: str) -> list[str]:
    """The words of `known` that match the given words in any case. Raises Unusable."""
    spelt = {word.lower(): word for word in known}
    for word in given:
        if word.lower() not in spelt:
            near = [spelt[n] for n in nearest(word.lower(), spelt)]
            hint = did_you_mean_one_of(near, f"; it must be {', '.join(known)}.")
            raise Unusable(f"{option}: unknown value {word!r}{hint}")
    return [spelt[word.lower()] for word in given]


async def topic_names(context: Context, admin: Admin, *, internal: bool = True) -> list[str]:
    """The names of all topics, in order; kept for completion."""
    listed = await admin.list_topics()
    remember(context.settings.bootstrap, "topic", (t.name for t in listed))
    return sorted(t.name for t in listed if internal or not t.internal)


class UnknownTopic(KafkaError):
    """A topic that does not exist, with similar names."""

    def __init__(self, name: str, near: Sequence[str]) -> None:
        super().__init__(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name!r} does not exist")
        self.topic = name
        hint = did_you_mean_one_of(near, "; `pk topics list` lists topics.")
        self.said = f"Topic {name!r} does not exist{hint}"


def say_no_match(
    context: Context, what: str, pattern: re.Pattern[str] | None, known: Iterable[str]
) -> None:
    """Say that no `what` (`topic`) matches a pattern. A program is told only if a similar name
    exists, since an empty result may be normal."""
    known = list(known)
    if pattern is None or any(map(pattern.fullmatch, known)):
        return
    near = nearest(pattern.pattern, known)
    if near or context.streams.err_terminal:
        hint = did_you_mean_one_of(near, f"; `pk {what}s list` lists them.")
        context.say(f"No {what}'s whole name matches {pattern.pattern!r}{hint}")


async def unknown_topic(context: Context, admin: Admin, name: str) -> UnknownTopic:
    """The error for a topic that a broker does not know."""
    return UnknownTopic(name, nearest(name, await topic_names(context, admin)))


def is_unknown(error: object) -> bool:
    return isinstance(error, KafkaError) and error.code in _UNKNOWN


async def describe_topics(
    context: Context, admin: Admin, names: Iterable[str] | None
) -> list[TopicDescription]:
    """The requested topics, in that order (None: all, by name). Reports those that fail."""
    wanted = None if names is None else list(dict.fromkeys(names))
    if wanted == []:
        return []
    answers = await admin.describe_topics(wanted)
    found: list[TopicDescription] = []
    for name in sorted(answers) if wanted is None else wanted:
        error = answers.errors.get(name)
        if error is None:
            found.append(answers.ok[name])
        elif is_unknown(error):
            unknown = await unknown_topic(context, admin, name)
            context.fail(unknown)
            context.say(unknown.said)
        else:
            context.failed(error, name)
    if wanted is None:
        remember(context.settings.bootstrap, "topic", list(answers))
    return found


async def existing_topics(
    context: Context, admin: Admin, names: Iterable[str]
) -> list[TopicDescription]:
    """The requested topics. Raises the first failure, for commands that act on all topics or
    none."""
    wanted = list(dict.fromkeys(names))
    answers = await admin.describe_topics(wanted)
    found: list[TopicDescription] = []
    for name in wanted:
        if is_unknown(answers.errors.get(name)):
            raise CommandError((await unknown_topic(context, admin, name)).said)
        found.append(answers.value(name))
    return found


async def names_or_included(
    context: Context, admin: Admin, names: Iterable[str], include: str | None
) -> list[str]:
    """`names` or, with --include, the topics that match it, except internal ones. Raises Unusable,
    and CommandError if no topic matches."""
    if include is None:
        found = list(names)
        odd = next((name for name in found if not _LEGAL.fullmatch(name)), None)
        if odd is not None:
            raise Unusable(
                f"{odd!r} is not a valid topic name; use --include for a regular expression."
            )
        return found
    pattern = whole(include, "--include")
    known = await topic_names(context, admin, internal=False)
    included = [name for name in known if pattern.fullmatch(name)]
    if not included:
        raise CommandError(
            f"No topic's whole name matches {include!r}; `pk topics list` lists topics."
        )
    return included


def partition_numbers(words: Iterable[str], option: str) -> list[int]:
    """Parse the numbers in `0,3-5`. Raises Unusable."""
    numbers: list[int] = []
    for word in words:
        first, dash, last = word.partition("-")
        try:
            low = int(first)
            high = int(last) if dash else low
        except ValueError:
            raise Unusable(
                f"{option} needs partition numbers such as 0,3-5, not {word!r}."
            ) from None
        if not 0 <= low <= high or high - low > 1_000_000:
            raise Unusable(f"{option} needs partition numbers such as 0,3-5, not {word!r}.")
        numbers.extend(range(low, high + 1))
    return list(dict.fromkeys(numbers))


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """Parse a topic and its partitions in `topic:0,1`; None means all partitions. Raises
    Unusable."""
    name, colon, numbers = text.partition(":")
    if not colon:
        return name, None
    return name, partition_numbers(numbers.split(","), "-t")


def check_partitions(topic: TopicDescription, wanted: Iterable[int]) -> list[TopicPartition]:
    """Check that partitions of `topic` exist. Raises CommandError for a number that does not."""
    known = {p.partition for p in topic.partitions}
    found: list[TopicPartition] = []
    for number in wanted:
        if number not in known:
            raise CommandError(
                f"Topic {topic.name} has no partition {number}; it has {len(known)}, from 0 to "
                f"{len(known) - 1}."
            )
        found.append(TopicPartition(topic.name, number))
    return found


def partition_style(row: Row) -> str | None:
    """Red for a partition without a leader, yellow for one with replicas out of sync."""
    if row.get("leader") is None:
        return "red"
    replicas: list[int] | None = row.get("replicas")
    isr: list[int] | None = row.get("isr")
    lacking = isinstance(replicas, list) and isinstance(isr, list) and len(isr) < len(replicas)
    return "yellow" if lacking else None


_PATTERN = frozenset("*+?[]()|^$\\{}")


def is_pattern(word: str) -> bool:
    """Whether a word can only be a regular expression, since it has a character that topic names
    cannot have."""
    return any(c in _PATTERN for c in word)


async def named_topics(context: Context, admin: Admin, words: Iterable[str]) -> list[str]:
    """The topics that names and regular expressions (over whole names) match. Raises CommandError
    if one matches no topic."""
    words = list(words)
    known: list[str] = []
    found: list[str] = []
    for word in words:
        if not is_pattern(word):
            found.append(word)
            continue
        known = known or await topic_names(context, admin)
        pattern = whole(word, "TOPIC")
        matched = [name for name in known if pattern.fullmatch(name)]
        if not matched:
            raise CommandError(
                f"No topic's whole name matches {word}; `pk topics list` lists topics."
            )
        found += matched
    return list(dict.fromkeys(found))


def id_text(topic_id: bytes) -> str | None:
    return None if topic_id == ZERO_UUID else uuid_text(topic_id)
