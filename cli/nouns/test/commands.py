"""The command `pk test run`, with its options."""

from pk.cli.command_line.declare import Noun
from pk.cli.nouns.test.options import Test
from pk.cli.options.option_sets import Debug

TEST = Noun("test")


TEST.command(
    "run",
    help="Run a command, such as a test suite, with its own Kafka.",
    worker="run_command:run_with_kafka",
    options=Test,
    takes=(Debug,),
    examples=("pk test -- pytest -q", "pk test --brokers 3 -- go test ./..."),
    notes=(
        "The command finds the brokers in KAFKA_BOOTSTRAP_SERVERS (and pk in "
        "PK_BOOTSTRAP_SERVER). Everything is in memory and ends with the command, whose exit code "
        "is that of `pk test`; signals are passed on to it. `pk test faults add` works within the "
        "command. `pk test -- …` is short for `pk test run -- …`."
    ),
    screen="streams",
)
