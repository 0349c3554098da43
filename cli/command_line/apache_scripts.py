"""pk's equivalents of Apache's scripts, for users who type one of them. Imported when a word is not
a command."""

TOOLS = {
    "acls": "acls",
    "broker-api-versions": "brokers list",
    "cluster": "cluster",
    "configs": "configs",
    "console-consumer": "console-consumer",
    "console-producer": "console-producer",
    "console-share-consumer": "share-consume",
    "consumer-groups": "groups",
    "consumer-perf-test": "perf consume",
    "delete-records": "topics trim",
    "delegation-tokens": "tokens",
    "dump-log": "log dump",
    "e2e-latency": "perf e2e",
    "features": "cluster features",
    "get-offsets": "topics offsets",
    "groups": "groups",
    "leader-election": "partitions elect-leaders",
    "log-dirs": "brokers logdirs",
    "metadata-quorum": "cluster quorum",
    "producer-perf-test": "perf produce",
    "reassign-partitions": "reassign",
    "server-start": "broker start",
    "server-stop": "broker stop",
    "share-groups": "groups",
    "streams-groups": "groups",
    "topics": "topics",
    "transactions": "transactions",
}
"""A script's name without `kafka-` → the words after `pk`."""


def here(word: str) -> str | None:
    """The pk command for `kafka-topics.sh`, `kafka-topics` or `get-offsets`; None if it is not an
    Apache script, or has no equivalent."""
    name = word.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return TOOLS.get(name)
