"""`pk api-versions`: the APIs that a broker serves, with their versions."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Connection, Listing
from pk.cli.options.parameters import Argument
from pk.cli.output.rows import Shown

if TYPE_CHECKING:
    from pk.cli.runtime.context import Context

API_VERSIONS = Noun("api-versions")


class ApiRow(TypedDict):
    """An API that a broker serves."""

    key: int
    api: str
    min: int
    max: int
    used: Annotated[int | None, Shown(null="-")]
    """The version that pk uses; null if pk does not support any."""


@dataclass(frozen=True, kw_only=True)
class ShowApis:
    """Arguments of `pk api-versions`."""

    broker: Annotated[
        int | None,
        Argument("BROKER", help="The broker (default: any).", complete="broker"),
    ] = None


API_VERSIONS.command(
    help="Show the APIs that a broker serves: key, name, versions, and the version that pk uses.",
    worker=":show_apis",
    arguments=ShowApis,
    takes=(Listing, Connection),
    examples=("pk api-versions", "pk api-versions 1 --where 'api ~ ^Share'"),
    shows=ApiRow,
)


async def show_apis(context: "Context", broker: int | None) -> None:
    """Run `pk api-versions`."""
    from pk.cli.exits import CommandError
    from pk.cli.output.rows import listing
    from pk.cli.phrases import join

    admin = await context.admin()
    if broker is not None:
        there = [node.node_id for node in (await admin.describe_cluster()).brokers]
        if broker not in there:
            known = join([str(node) for node in there])
            raise CommandError(f"Broker {broker} does not exist; the brokers are {known}.")
    rows: list[ApiRow] = [
        {
            "key": each.api_key,
            "api": each.name,
            "min": each.min_version,
            "max": each.max_version,
            "used": each.used_version,
        }
        for each in await admin.api_versions(broker)
    ]
    context.show(listing(ApiRow, rows))
