"""`pk up`, `pk broker`, `pk shell`, `pk help`, `pk completion`, `pk profile`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.common import CONNECTION, DEBUG, FORMAT, LISTING, YES

_BROKER_PROPERTY = Option(
    "-X",
    value="KEY=VALUE",
    kind="pair",
    repeat=True,
    dest="properties",
    help="A config key of the broker, by Kafka's name; may be given again.",
    complete="broker-config",
)
_DATA = Option("--data", value="DIR", help="Where the data lies.", complete="directory")
_PROPERTIES_FILE = Option(
    "--config-file", value="FILE", help="Kafka's server.properties.", complete="file"
)

UP = Command(
    "up",
    help="Start a broker on this machine, in the foreground; Ctrl-C drains it.",
    handler="pk.cli.commands.up:up",
    options=(
        Option(
            "--data",
            value="DIR",
            help="Where the data lies (default: a temporary directory, removed at the end).",
            complete="directory",
        ),
        Option(
            "--port",
            value="PORT",
            kind="int",
            default=9092,
            help="The port to listen on; 0 is any free one (default: 9092).",
        ),
        Option("--memory", help="Keep everything in memory, nothing on disk."),
        _PROPERTIES_FILE,
        _BROKER_PROPERTY,
        DEBUG,
    ),
    examples=("pk up", "pk up --port 0 --memory", "pk up --data ./data -X num.partitions=3"),
    notes="When the broker is ready it prints one line, whose last word is its host:port.",
)

BROKER = Group(
    "broker",
    help="One broker by its own config: start, stop, status.",
    children=(
        Command(
            "start",
            help="Start a broker; in the foreground unless --detach is given.",
            handler="pk.cli.commands.broker:start",
            options=(
                _PROPERTIES_FILE,
                _BROKER_PROPERTY,
                _DATA,
                Option(
                    "--port",
                    value="PORT",
                    kind="int",
                    help="The port to listen on; 0 is any free one.",
                ),
                Option(
                    "--detach", help="Go on in the background; writes DIR/pk.pid and DIR/pk.log."
                ),
                DEBUG,
            ),
            examples=(
                "pk broker start --config-file server.properties",
                "pk broker start --data /var/lib/pk -X node.id=1 --detach",
            ),
            blocking=True,
        ),
        Command(
            "stop",
            help="Drain and stop a detached broker.",
            handler="pk.cli.commands.broker:stop",
            options=(
                _PROPERTIES_FILE,
                _BROKER_PROPERTY,
                _DATA,
                Option(
                    "--timeout-s",
                    value="S",
                    kind="number",
                    default=30.0,
                    help="How long to wait for its end (default: 30).",
                ),
                DEBUG,
            ),
            examples=("pk broker stop --data /var/lib/pk",),
            blocking=True,
        ),
        Command(
            "status",
            help="Whether a detached broker runs.",
            handler="pk.cli.commands.broker:status",
            options=(_PROPERTIES_FILE, _BROKER_PROPERTY, _DATA, FORMAT, DEBUG),
            examples=("pk broker status --data /var/lib/pk",),
            blocking=True,
        ),
    ),
)

SHELL = Command(
    "shell",
    help="The same commands in an interactive shell, with completion.",
    handler="pk.cli.shell.app:shell",
    options=(*CONNECTION,),
    blocking=True,
)

HELP = Command(
    "help",
    help="Help on a command, or on exit-codes, positions, formats.",
    handler="pk.cli.commands.help:show_help",
    arguments=(
        Argument(
            "WORD",
            many=True,
            optional=True,
            help="A command's words, or a page.",
            complete="help-page",
        ),
    ),
    blocking=True,
)

COMPLETION = Command(
    "completion",
    help="Print the completion script for a shell.",
    handler="pk.cli.commands.completion:completion",
    arguments=(Argument("SHELL", help="bash, zsh or fish.", complete="shell"),),
    blocking=True,
    examples=("source <(pk completion bash)",),
)

PROFILE = Group(
    "profile",
    "profiles",
    "context",
    help="Named clusters: add, use, list, edit.",
    children=(
        Command(
            "list",
            "ls",
            help="The profiles there are.",
            handler="pk.cli.commands.profile:list_profiles",
            options=(*LISTING, DEBUG),
            blocking=True,
        ),
        Command(
            "add",
            help="Add a profile, or change one.",
            handler="pk.cli.commands.profile:add",
            arguments=(Argument("NAME", help="Its name."),),
            options=(
                Option(
                    "-b",
                    "--bootstrap-server",
                    value="HOST:PORT[,…]",
                    help="The brokers to ask first.",
                ),
                Option(
                    "-X",
                    value="KEY=VALUE",
                    kind="pair",
                    repeat=True,
                    dest="client_properties",
                    help="A config key of the client.",
                    complete="client-key",
                ),
                Option(
                    "--guard",
                    value="GUARD",
                    choices=("none", "confirm", "type-name", "readonly"),
                    help="How changes are guarded: none, confirm, type-name or readonly.",
                ),
                Option(
                    "--colour",
                    "--color",
                    value="COLOUR",
                    choices=("red", "yellow", "green", "blue", "magenta", "cyan"),
                    help="Its colour in the shell's prompt.",
                ),
                DEBUG,
            ),
            examples=("pk profile add prod -b k1:9092,k2:9092 --guard type-name --colour red",),
            blocking=True,
        ),
        Command(
            "use",
            help="Choose the profile that commands use.",
            handler="pk.cli.commands.profile:use",
            arguments=(Argument("NAME", help="Its name; - for none.", complete="profile"),),
            options=(DEBUG,),
            blocking=True,
        ),
        Command(
            "edit",
            help="Open the profiles' file in $EDITOR.",
            handler="pk.cli.commands.profile:edit",
            options=(DEBUG,),
            blocking=True,
        ),
        Command(
            "delete",
            "rm",
            help="Remove a profile.",
            handler="pk.cli.commands.profile:delete",
            arguments=(Argument("NAME", help="Its name.", complete="profile"),),
            options=(YES, DEBUG),
            blocking=True,
        ),
    ),
)
