"""The commands of `pk up`, with their options."""

from pk.cli.command_line.declare import Noun
from pk.cli.options.option_sets import Debug
from pk.cli.up.options import Up

UP = Noun("up")


UP.command(
    help="Start one or several brokers on this machine, in the foreground; Ctrl-C drains them.",
    worker="pk.cli.up.up:up",
    options=Up,
    takes=(Debug,),
    examples=(
        "pk up",
        "pk up --port 0 --memory",
        "pk up --data ./data -X num.partitions=3",
        "pk up --brokers 3",
        "pk up --schema-registry",
        "pk up --data ./data --secure",
    ),
    notes=(
        "When the brokers are ready, it prints one line whose last word is the bootstrap address "
        "(several brokers: all addresses, with commas). With --brokers, `pk node stop 2`, `kill "
        "2`, `restart 2`, `pause 2` and `pk node status` act on the running cluster. With "
        "--secure it also prints what clients need: `pk --profile secure`, and files for Apache's "
        "tools and for kcat, in the directory `secure` of the data."
    ),
    in_shell=False,
)
