"""`pk configs list`."""

from pk.cli.cluster.configs import entity_word, resource_type, shown_name
from pk.cli.nouns.configs.rows import ConfigResourceRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context


async def list_resources(context: Context, *, type: str | None) -> None:
    """Run `pk configs list`: show the resources with configs of their own, of one `type` or of
    all."""
    wanted = [resource_type(type)] if type else []
    admin = await context.admin()
    listed = await admin.list_config_resources(wanted)
    rows: list[ConfigResourceRow] = [
        {"name": shown_name(res), "type": entity_word(res.type)}
        for res in sorted(listed, key=lambda res: (res.type, res.name))
    ]
    context.show(listing(ConfigResourceRow, rows))
