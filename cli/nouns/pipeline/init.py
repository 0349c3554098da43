"""`pk spark pipeline init`: writes a commented file for a topic."""

from pathlib import Path
from typing import TYPE_CHECKING

from pk.cli.exits import CommandError, Refused, Unusable
from pk.cli.nouns.pipeline.pipeline_file import explained
from pk.cli.runtime.client_config import client_config
from pk.cli.runtime.context import Context
from pk.cli.runtime.spark_errors import spark_is_missing
from pk.net.client.config import ConsumerConfig

if TYPE_CHECKING:
    from pk.cli.nouns.pipeline.options import InitPipeline

_SAMPLE = 1_000


def init(context: Context, options: "InitPipeline") -> None:
    """Run `pk spark pipeline init`."""
    if options.topic is None:
        raise Unusable("Give the topic that the pipeline reads: --topic TOPIC.")
    place = Path(options.file)
    if place.exists() and not options.overwrite:
        raise Refused(f"{options.file} exists; --overwrite replaces it.")
    topic = options.topic
    client = client_config(ConsumerConfig, context.settings, {})
    kafka = {f"kafka.{name}": str(value) for name, value in client.items()}
    kafka["kafka.bootstrap.servers"] = context.settings.bootstrap

    def work() -> list[bytes]:
        try:
            from pk.spark.pipeline.topic_sample import topic_sample
        except ModuleNotFoundError as e:
            raise spark_is_missing(e) from None
        return topic_sample(kafka, topic, _SAMPLE)

    values = explained(context, work)
    from pk.spark.pipeline.first_file import first_file, mixed_fields

    text = first_file(place.stem, topic, context.settings.bootstrap, values)
    try:
        place.write_text(text, encoding="utf-8")
    except OSError as e:
        raise CommandError(f"{options.file} cannot be written: {e.strerror}.") from e
    for each in mixed_fields(values):
        context.say(
            f"{each}; if `fields` gives another type, a value that does not fit it is a "
            "dead letter."
        )
    context.say(f"Wrote {options.file}; `pk spark pipeline check {options.file}` checks it.")
