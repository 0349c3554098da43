"""The cluster and the topics that `pk cp` writes to."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from pk.cli.cluster.propagation import until_topics
from pk.cli.cluster.topics import is_unknown, unknown_topic
from pk.cli.exits import CommandError, Unusable
from pk.cli.phrases import join
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import (
    check_address,
    check_security,
    choose_profile,
    settings_from,
)
from pk.net.client.admin import Admin
from pk.net.client.config import ProducerConfig, keys
from pk.net.client.results import (
    ConfigResource,
    ConfigSource,
    NewTopic,
    ResourceType,
    TopicDescription,
)

if TYPE_CHECKING:
    from pk.cli.nouns.cp.options import Copy


def target_context(context: Context, options: "Copy") -> Context:
    """The context of the target cluster: `context` itself unless another cluster is named. Raises
    Unusable."""
    check_address(options.to_bootstrap_server, "--to-bootstrap-server")
    if options.to_profile is not None and not options.to_profile.strip():
        raise Unusable("--to-profile is empty; it must be the name of a profile.")
    check_security(dict(options.to_property), "--to-property")
    if options.to_profile is None and options.to_bootstrap_server is None:
        if options.to_config_file is not None:
            raise Unusable("--to-config-file needs --to-bootstrap-server or --to-profile.")
        if not options.to_property:
            return context
        own = keys(ProducerConfig)
        shared = {k: v for k, v in context.settings.given.items() if k in own}
        given = shared | dict(options.to_property)
        target = context.for_cluster(context.settings._replace(given=given))
    else:
        # The chosen profile and that of the environment are not used, since their secrets are for
        # the source.
        profile = choose_profile(options.to_profile) if options.to_profile else None
        given = dict(options.to_property)
        address = options.to_bootstrap_server
        settings = settings_from(profile, options.to_config_file, given, address)
        if not settings.bootstrap:
            raise Unusable(
                f"Profile {options.to_profile} has no brokers; give --to-bootstrap-server."
            )
        target = context.for_cluster(settings)
    target.about = ProducerConfig
    return target


async def target_description(
    target: Context,
    targets: Mapping[str, str],
    sources: Sequence[TopicDescription],
    options: "Copy",
) -> list[TopicDescription]:
    """The sources whose target must be created.

    Raises CommandError if a target does not exist and --create is missing, or has too few
    partitions for --keep-partition.
    """
    admin = await target.admin()
    names = list(dict.fromkeys(targets.values()))
    answers = await admin.describe_topics(names)
    missing: list[TopicDescription] = []
    for name in names:
        answer = answers.ok.get(name)
        ours = [s for s in sources if targets[s.name] == name]
        if answer is not None:
            most = max(len(s.partitions) for s in ours)
            if options.keep_partition and len(answer.partitions) < most:
                raise CommandError(
                    f"{name} has {len(answer.partitions)} partitions, too few for "
                    f"--keep-partition; `pk topics add-partitions {name} -p {most}` gives it as "
                    "many as the source has."
                )
        elif not is_unknown(error := answers.errors[name]):
            raise error
        elif options.create:
            missing.append(max(ours, key=lambda s: len(s.partitions)))
        else:
            unknown = await unknown_topic(target, admin, name)
            raise CommandError(f"{unknown.said} --create creates it like the source.")
    return missing


async def say_stamped(context: Context, target: Context, names: Iterable[str]) -> None:
    """Name the targets that replace timestamps by the time of the append, in spite of
    --keep-timestamp."""
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    key = "message.timestamp.type"
    answers = await (await target.admin()).describe_configs(resources, keys=[key])
    # A copy does not require the right to read configs.
    for resource, entries in answers.ok.items():
        if any(e.name == key and e.value == "LogAppendTime" for e in entries):
            context.say(f"{resource.name} has {key}=LogAppendTime: --keep-timestamp has no effect.")


async def create_targets(
    context: Context,
    target: Context,
    targets: Mapping[str, str],
    admin: Admin,
    missing: Iterable[TopicDescription],
    options: "Copy",
) -> None:
    """Create targets like their sources: partitions, replicas, and the topic's own configs. Raises
    the first error."""
    sources = list(missing)
    if not sources:
        return
    resources = {s.name: ConfigResource(ResourceType.TOPIC, s.name) for s in sources}
    described = await admin.describe_configs(resources.values())
    there = await target.admin()
    brokers = len((await there.describe_cluster()).brokers)
    new: list[NewTopic] = []
    for source in sources:
        entries = described.value(resources[source.name])
        configs: dict[str, str | None] = {
            e.name: e.value for e in entries if e.source == ConfigSource.TOPIC
        }
        # Throttles name replicas of the source's cluster.
        configs = {k: v for k, v in configs.items() if not k.endswith(".throttled.replicas")}
        replicas = max(len(p.replicas) for p in source.partitions)
        new.append(
            NewTopic(
                targets[source.name],
                len(source.partitions),
                options.replication_factor or min(replicas, brokers),
                configs=configs | dict(options.configs),
            )
        )
    answers = await there.create_topics(new)
    for topic in new:
        answers.value(topic.name)
    await until_topics(there, [t.name for t in new], lambda known, name: name in known.ok)
    context.say(f"Created {join([t.name for t in new])}.")
