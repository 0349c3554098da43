"""`pk configs alter`."""

from dataclasses import replace

from pk.cli.cluster.altered_config import AlteredConfig
from pk.cli.cluster.config_changes import apply_changes
from pk.cli.config_keys.units import config_value
from pk.cli.exits import Unusable
from pk.cli.nouns.configs.options import AlterConfigs
from pk.cli.nouns.configs.resources import resources_of
from pk.cli.options.values import pair
from pk.cli.output.rows import columns, listing
from pk.cli.runtime.context import Context
from pk.cli.runtime.settings import read_properties
from pk.net.client.results import (
    ConfigChange,
    ConfigOperation,
)


def apache_configs(text: str) -> list[tuple[str, str]]:
    """Parse the pairs of Apache's `k=v,k2=[a,b]`. Raises Unusable."""
    pairs: list[tuple[str, str]] = []
    rest = text
    while rest:
        key, equals, rest = rest.partition("=")
        if not equals or not key.strip():
            raise Unusable(f"--add-config must be KEY=VALUE,KEY=[A,B], not {text!r}.")
        if rest.startswith("["):
            value, closed, rest = rest[1:].partition("]")
            if not closed:
                raise Unusable(f"--add-config: a bracket is not closed in {text!r}.")
            rest = rest.removeprefix(",")
        else:
            value, _, rest = rest.partition(",")
        pairs.append((key.strip(), value))
    return pairs


def _changes(options: AlterConfigs) -> list[ConfigChange]:
    """The changes that the command line requests. Raises Unusable."""
    pairs: list[tuple[str, str]] = list(options.config)
    for text in options.add_config:
        pairs += apache_configs(text)
    if options.add_config_file:
        pairs += read_properties(options.add_config_file).items()
    changes = [ConfigChange(k, config_value(k, v)) for k, v in pairs]
    changes += [ConfigChange(k, None, ConfigOperation.DELETE) for k in options.delete]
    changes += [ConfigChange(k, v, ConfigOperation.APPEND) for k, v in options.append]
    changes += [ConfigChange(k, v, ConfigOperation.SUBTRACT) for k, v in options.subtract]
    if not changes:
        raise Unusable(
            "There is nothing to change; give -c KEY=VALUE, --delete, --append or --subtract."
        )
    names = [change.name for change in changes]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Unusable(f"Config {twice} is changed twice on one command line.")
    return changes


def _with_arguments(options: AlterConfigs) -> AlterConfigs:
    """The options, with each KEY=VALUE among the arguments moved to `config`. TYPE and the first
    NAME stay, since a group's name may contain an equals sign."""
    named = options.topic or options.broker or options.group or options.entity_type
    words = [] if options.type is None else [options.type, *options.name]
    kept = 0 if named else 2
    pairs = [word for word in words[kept:] if "=" in word]
    words = words[:kept] + [word for word in words[kept:] if "=" not in word]
    return replace(
        options,
        type=words[0] if words else None,
        name=tuple(words[1:]),
        config=(*options.config, *map(pair, pairs)),
    )


async def alter(context: Context, options: AlterConfigs) -> None:
    """Run `pk configs alter`."""
    options = _with_arguments(options)
    resources = resources_of(options)
    if not resources:
        raise Unusable("Name what to change: `topic NAME`, `broker ID` or `broker default`.")
    changes = _changes(options)
    changed = await apply_changes(context, dict.fromkeys(resources, changes))
    if changed.rows:
        context.show(listing(AlteredConfig, changed.rows))
        changed.say_how_to_undo(context)
    else:
        context.show_nothing(columns(AlteredConfig))
