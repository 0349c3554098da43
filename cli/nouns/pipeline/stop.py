"""`pk spark pipeline stop`: asks a pipeline to end, by a file beside its checkpoint, and waits for
its end."""

from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Exit
from pk.cli.nouns.pipeline.pipeline_file import read_pipeline
from pk.cli.positions.times import show_span
from pk.cli.runtime.context import Context
from pk.cli.runtime.poll import poll_until
from pk.spark.pipeline.places import Places
from pk.spark.pipeline.status import is_running

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import StopPipeline

_POLL_S = 0.1


async def stop(context: Context, options: "StopPipeline") -> None:
    """Run `pk spark pipeline stop`."""
    pipeline = read_pipeline(context, options.file)
    places = Places(pipeline)
    if not is_running(places):
        context.say(f"{pipeline.name} is not running.")
        return
    places.stop.touch()

    async def stopped() -> bool:
        return not is_running(places)

    if await poll_until(stopped, every_s=_POLL_S, within_s=options.timeout.s):
        context.say(f"{pipeline.name} has stopped.")
        return
    raise CommandError(
        f"{pipeline.name} has not stopped within {show_span(options.timeout.ms)}; it ends after "
        "its batch.",
        Exit.TIMED_OUT,
    )
