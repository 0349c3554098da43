"""The equivalents in pk of the words of other tools: Apache's scripts, kcat's flags, the words of
rpk, kcl and kafkactl, and kubectl's order (`list topics`). The module is imported when a word or
option is unknown."""

from collections.abc import Mapping, Sequence

TOOLS = {
    "acls": "acls",
    "broker-api-versions": "api-versions",
    "cluster": "cluster",
    "configs": "configs",
    "console-consumer": "consume",
    "console-producer": "produce",
    "console-share-consumer": "consume --share",
    "consumer-groups": "groups",
    "consumer-perf-test": "perf consume",
    "delete-records": "topics trim",
    "delegation-tokens": "users tokens",
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
    "server-start": "node start",
    "server-stop": "node stop",
    "share-groups": "groups",
    "streams-groups": "groups",
    "topics": "topics",
    "transactions": "transactions",
}
"""A script's name without `kafka-` → the words after `pk`."""


WORDS = {
    "topic consume": "consume TOPIC",
    "topic produce": "produce TOPIC",
    "topic alter-config": "configs alter topic TOPIC -c KEY=VALUE",
    "topic set-config": "configs alter topic TOPIC -c KEY=VALUE",
    "topic describe-storage": "brokers logdirs",
    "topic lag": "groups lag -t TOPIC",
    "topic edit": "configs edit topic TOPIC",
    "topic config": "configs describe topic TOPIC",
    "topic configs": "configs describe topic TOPIC",
    "topic analyze": "topics describe TOPIC",
    "cluster info": "cluster describe",
    "cluster metadata": "cluster describe",
    "cluster status": "cluster health",
    "cluster logdirs": "brokers logdirs",
    "cluster storage": "brokers logdirs",
    "container start": "up",
    "container stop": "node stop",
    "container status": "node status",
    "container": "up",
    "redpanda start": "node start",
    "redpanda stop": "node stop",
    "registry schema": "schema",
    "registry subject": "schema list",
    "registry": "schema",
    "profile create": "profile add NAME",
    "profile print": "profile show",
    "debug info": "debug bundle",
    "metadata": "cluster describe",
    "txn": "transactions list",
    "ui": "top",
    "cluster config": "configs describe broker ID",
    "cluster partitions": "reassign",
    "cluster maintenance": "reassign plan --drain BROKER",
    "cluster txn": "transactions list",
    "cluster quotas": "quotas list",
    "cluster describe-cluster": "cluster describe",
    "cluster describe-quorum": "cluster quorum",
    "cluster describe-log-dirs": "brokers logdirs",
    "cluster api-versions": "api-versions",
    "cluster elect-leaders": "partitions elect-leaders",
    "group commit": "groups reset-offsets GROUP --to POSITION",
    "group offset-delete": "groups delete-offsets GROUP -t TOPIC",
    "group peek": "consume TOPIC -g GROUP -o committed",
    "reassign alter": "reassign apply --set TOPIC/PARTITION=BROKERS",
    "reassign verify": "reassign status",
    "user describe": "users list",
    "user create": "users add USER",
    "security acl": "acls",
    "security user": "users",
    "share-group": "groups list --type share",
    "logdirs": "brokers logdirs",
    "client-quotas": "quotas",
    "dtoken": "users tokens",
    "misc api-versions": "api-versions",
    "misc errcode": "help errors CODE",
    "misc errtext": "help errors NAME",
    "misc list-offsets": "topics offsets TOPIC",
    "misc": "help",
    "node list": "node status",
    "node describe": "brokers describe ID",
    "node logdirs": "brokers logdirs",
    "query": "consume TOPIC --where EXPRESSION",
    "tail": "consume TOPIC",
    "rebalance": "reassign plan --balance",
    "info": "cluster describe",
    "clone": "cp TOPIC COPY",
    "mirror": "cp TOPIC COPY",
    "mirror-maker": "cp TOPIC COPY",
    "reset offset": "groups reset-offsets GROUP --to POSITION",
    "reset offsets": "groups reset-offsets GROUP --to POSITION",
}
"""Words of rpk, kcl, kaf and kafkactl, nouns in the singular → the words after `pk`."""

VERBS = {
    "get": "list",
    "list": "list",
    "ls": "list",
    "describe": "describe",
    "create": "create",
    "delete": "delete",
    "remove": "delete",
    "rm": "delete",
    "alter": "alter",
    "edit": "edit",
}
"""The verbs that other tools put first → pk's verbs, which follow the noun."""

_NOUNS = {"consumer-group": "groups", "cg": "groups", "acl": "acls"}

MORE = {
    "pk configs list": "configs describe topic NAME",
    "pk why config": "why config --type topic NAME KEY",
}
"""Commands that are given more arguments than they take → the words after `pk` that take as
many."""

OPTIONS = {
    ("pk", "-C"): "consume TOPIC",
    ("pk", "-P"): "produce TOPIC",
    ("pk", "-K"): "consume TOPIC -f '%k:%v\\n'",
    ("pk", "-L"): "cluster describe` and `pk topics describe",
    ("pk", "-G"): "consume TOPIC -g GROUP",
    ("pk", "-Q"): "topics offsets TOPIC -o @TIME",
    ("pk", "-t"): "consume TOPIC",
    ("pk consume", "-C"): "consume TOPIC",
    ("pk consume", "-G"): "consume TOPIC -g GROUP",
    ("pk consume", "-J"): "consume TOPIC -f jsonl",
    ("pk consume", "-K"): "consume TOPIC -f '%k:%v\\n'",
    ("pk consume", "-s"): "consume TOPIC --decode auto",
    ("pk consume", "--filter"): "consume TOPIC --where EXPRESSION",
    ("pk up", "--detach"): "node start --data DIR --detach",
    ("pk up", "-d"): "node start --data DIR --detach",
    ("pk produce", "-P"): "produce TOPIC",
    ("pk produce", "-K"): "produce TOPIC -f '%k:%v\\n'",
    ("pk produce", "-l"): "produce TOPIC -F FILE",
    ("pk produce", "-T"): "produce TOPIC --print-offsets",
    ("pk debug bundle", "-o"): "debug bundle --to FILE",
    ("pk debug bundle", "--output"): "debug bundle --to FILE",
    ("pk topics trim", "--to"): "topics trim TOPIC -o POSITION",
    ("pk quotas set", "--producer-byte-rate"): "quotas set … producer_byte_rate=10MB",
    ("pk quotas set", "--consumer-byte-rate"): "quotas set … consumer_byte_rate=10MB",
    ("pk reassign plan", "--brokers"): "reassign plan --to 4,5",
    ("pk reassign apply", "--brokers"): "reassign apply --to 4,5",
}
"""A command and an option of kcat, or a likely word → the words after `pk`."""


def here(words: Sequence[str], nouns: Mapping[str, str]) -> str | None:
    """The pk command for the first one or two of `words`, which is not a noun of pk:
    `kafka-topics.sh`, `nodes`, `list topics`. None if no other tool has them, or pk has no
    equivalent. `nouns`: each name of pk's nouns → its main name."""
    first = words[0]
    second = words[1] if len(words) > 1 else ""
    script = first.removesuffix(".sh").removesuffix(".bat").removeprefix("kafka-")
    if first == "admin" and second:  # kcl's options
        return " ".join(words[1:3]) if second in nouns else here(words[1:], nouns)
    known = TOOLS.get(script) or WORDS.get(f"{first} {second}") or WORDS.get(first)
    if known is not None:
        return known
    verb = VERBS.get(first)
    noun = nouns.get(second) or _NOUNS.get(second.removesuffix("s"))
    if verb is None or noun is None:
        return None
    rest = [word for word in words[2:3] if not word.startswith("-")]
    return below(noun, verb) or " ".join((noun, verb, *rest))


def below(noun: str, word: str) -> str | None:
    """The pk command for a word that follows a noun but is not one of its commands, as in `topic
    consume`."""
    return WORDS.get(f"{noun.removesuffix('s')} {word}")


def option_here(command: str, option: str) -> str | None:
    """The pk command for an option that `command` does not have; None if no other tool has the
    option."""
    return OPTIONS.get((_PLAIN.get(command, command), option))


_PLAIN = {"pk console-consumer": "pk consume", "pk console-producer": "pk produce"}
