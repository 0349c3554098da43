"""`pk topics list`."""

from pk.cli.cluster.topics import id_text, say_no_match, whole
from pk.cli.exits import Unusable
from pk.cli.nouns.topics.rows import TopicRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.name_cache import remember


async def list_topics(
    context: Context, *, pattern: str | None, internal: bool, exclude_internal: bool
) -> None:
    """Run `pk topics list`. `pattern` is a regular expression over whole names; None for all
    topics."""
    if internal and exclude_internal:
        raise Unusable("-i and --exclude-internal cannot be combined.")
    matches = whole(pattern, "PATTERN") if pattern is not None else None
    # A pattern may name internal topics, so they are found without -i.
    with_internal = internal or (matches is not None and not exclude_internal)
    admin = await context.admin()
    listed = await admin.list_topics()
    remember(context.settings.bootstrap, "topic", (t.name for t in listed))
    rows: list[TopicRow] = [
        {
            "topic": t.name,
            "partitions": t.partition_count,
            "replication_factor": t.replication_factor,
            "internal": t.internal,
            "topic_id": id_text(t.topic_id),
        }
        for t in sorted(listed, key=lambda t: t.name)
        if (matches is None or matches.fullmatch(t.name)) and (with_internal or not t.internal)
    ]
    context.show(listing(TopicRow, rows))
    if not rows and matches is None:
        context.say_empty("No topics; `pk topics create NAME` creates one.")
    say_no_match(context, "topic", matches, (t.name for t in listed))
