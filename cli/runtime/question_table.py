"""Tables on standard error, shown with a question."""

from pk.cli.output.formats import Listing, render
from pk.cli.runtime.context import Context


def say_table_preview(
    context: Context, listing: Listing, limit: int | None = None, whole: str = ""
) -> None:
    """Show a listing with a question, after a blank line; `whole` is the command that shows rows
    beyond `limit`."""
    rows = list(listing.rows)
    say_table(context, listing._replace(rows=rows[:limit]))
    if limit is not None and len(rows) > limit:
        context.say(f"… and {len(rows) - limit} more ({whole} shows all).")
    context.say()


def say_table(context: Context, listing: Listing) -> None:
    """Show a listing on standard error as a complete table, in every output format."""
    look = context.output._replace(
        format="table",
        columns=(),
        sort=(),
        where=None,
        limit=None,
        terminal=context.streams.err_terminal,
        color=context.streams.err_color,
        width=context.streams.err_width,
    )
    context.say(render(listing, look).decode(errors="replace").rstrip("\n"))
