"""The resources of a `pk configs` command: TYPE NAME…, or the options of Apache's tool."""

from pk.cli.cluster.configs import RESOURCE_TYPES, entity_name, resource_type
from pk.cli.exits import Unusable
from pk.cli.nouns.configs.options import AlterConfigs, DescribeConfigs, EditConfigs
from pk.net.client.results import ConfigResource

QUOTAS = ("users", "clients", "ips", "user", "client", "client-id", "ip")
"""Types that kafka-configs accepts too, but for which pk has other commands."""


def resources_of(options: DescribeConfigs | AlterConfigs | EditConfigs) -> list[ConfigResource]:
    """The resources that the command line names; empty if it names only a type. Raises Unusable."""
    named = (("topic", options.topic), ("broker", options.broker), ("group", options.group))
    for word, name in named:
        if name is not None:
            if options.type or options.entity_type:
                raise Unusable(f"Give the resource only once: as TYPE NAME or as --{word}.")
            return [ConfigResource(RESOURCE_TYPES[word], name)]
    word = options.type or options.entity_type
    if not word:
        raise Unusable(
            "Give a resource: `topic NAME`, `broker ID`, `broker default` or `group NAME`."
        )
    if word in QUOTAS:
        raise Unusable(
            "Users, client ids and addresses have quotas: `pk quotas list`, `set` and `delete` "
            "take the same --entity-type and --entity-name."
        )
    kind = resource_type(word)
    names = [*options.name, *options.entity_name]
    names += ["default"] if options.entity_default else []
    return [ConfigResource(kind, entity_name(kind, name)) for name in dict.fromkeys(names)]
