"""What Apache's scripts are called here: for who types one of them. Imported when a word is no command."""

TOOLS = {
    "broker-api-versions": "brokers list",
    "cluster": "cluster",
    "configs": "configs",
    "console-consumer": "console-consumer",
    "console-producer": "console-producer",
    "consumer-groups": "groups",
    "consumer-perf-test": "perf consume",
    "delete-records": "topics trim",
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
    "topics": "topics",
    "transactions": "transactions",
}
"""A script's name without `kafka-` → the words after `pk`."""


def here(word: str) -> str | None:
    """What `kafka-topics.sh`, `kafka-topics` or `get-offsets` is here; None for what is no script of Apache's, or none that
    has a like."""
    name = word.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    return TOOLS.get(name)
