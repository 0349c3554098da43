"""`pk up`, `pk broker`, `pk shell`, `pk help`, `pk completion`, `pk profile`."""

from pk.cli.grammar import Argument, Command, Group, Option
from pk.cli.specs.brokers import BROKERS
from pk.cli.specs.common import DEBUG, DRY_RUN, FORMAT, LISTING, UNTRACED, YES

_BROKER_PROPERTY = Option(
    "-X",
    value="KEY=VALUE",
    kind="config",
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
    help="Start one broker or several on this machine, in the foreground; Ctrl-C drains them.",
    handler="pk.cli.up.up:up",
    options=(
        Option(
            "--brokers",
            value="N",
            kind="int",
            help="How many brokers, a process and a directory each (default: 1, or as many as --data has).",
        ),
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
            help="The port to listen on, of several brokers the first one's; 0 is any free one (default: 9092).",
        ),
        Option("--memory", help="Keep everything in memory, nothing on disk."),
        Option(
            "--store",
            value="STORE",
            help="Where the metadata lies: embedded, or zookeeper://HOST:PORT,.../PATH (default: embedded).",
        ),
        _PROPERTIES_FILE,
        _BROKER_PROPERTY,
        DEBUG,
    ),
    examples=(
        "pk up",
        "pk up --port 0 --memory",
        "pk up --data ./data -X num.partitions=3",
        "pk up --brokers 3",
    ),
    notes="When the broker is ready it prints one line, whose last word is its host:port (of several brokers: all, with commas). "
    "With --brokers, `pk broker stop 2`, `kill 2`, `restart 2`, `pause 2` and `pk broker status` work on what runs.",
)

_NODE = Argument(
    "NODE",
    kind="int",
    complete="node",
    help="A node of a cluster of pk up; 0 is its controller.",
)
_NODE_OR_NONE = Argument(
    "NODE",
    kind="int",
    optional=True,
    complete="node",
    help="A node of a running cluster of `pk up --brokers N`; 0 is its controller.",
)
_CLUSTER = Option(
    "--data",
    value="DIR",
    help="The cluster's directory (default: the only cluster that runs here).",
    complete="directory",
)
_TIMEOUT = Option(
    "--timeout-s",
    value="S",
    kind="number",
    default=60.0,
    help="How long to wait until it is done (default: 60).",
)


def _of_cluster(verb: str, help: str) -> Command:
    return Command(
        verb,
        help=help,
        handler=f"pk.cli.nouns.broker.broker:{verb}",
        arguments=(_NODE,),
        options=(_CLUSTER, _TIMEOUT, YES, DEBUG),
        examples=(f"pk broker {verb} 2",),
        blocking=True,
    )


BROKER = Group(
    "broker",
    help="One broker: by its own config, or one of a cluster of pk up.",
    also=BROKERS,
    children=(
        Command(
            "start",
            help="Start a broker; in the foreground unless --detach is given.",
            handler="pk.cli.nouns.broker.broker:start",
            arguments=(_NODE_OR_NONE,),
            options=(
                _PROPERTIES_FILE,
                _BROKER_PROPERTY,
                _DATA,
                _TIMEOUT,
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
                "pk broker start 2",
            ),
            blocking=True,
        ),
        Command(
            "stop",
            help="Drain and stop a detached broker, or one of a cluster.",
            handler="pk.cli.nouns.broker.broker:stop",
            arguments=(_NODE_OR_NONE,),
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
                YES,
                DEBUG,
            ),
            examples=("pk broker stop --data /var/lib/pk", "pk broker stop 2"),
            blocking=True,
        ),
        Command(
            "status",
            help="Whether a detached broker runs; without options, how the nodes of the running cluster are.",
            handler="pk.cli.nouns.broker.broker:status",
            shows=(
                "directory running:bool~ pid:int? log:str?~ node:int~ role~ state~ address:str?~ "
                "starts:int~"
            ),
            options=(_PROPERTIES_FILE, _BROKER_PROPERTY, _DATA, FORMAT, DEBUG),
            examples=("pk broker status --data /var/lib/pk", "pk broker status"),
            blocking=True,
        ),
        _of_cluster("kill", "End a node of a cluster at once, as kill -9 does."),
        _of_cluster("restart", "Stop a node of a cluster if it runs, and start it."),
        _of_cluster(
            "pause", "Stop a node of a cluster from running on (SIGSTOP): alive, and silent."
        ),
        _of_cluster("resume", "Let a node that is paused go on."),
    ),
)

SHELL = Command(
    "shell",
    help="The same commands in an interactive shell, with completion.",
    handler="pk.cli.shell.app:shell",
    options=(
        Option(
            "-c",
            "--command",
            value="LINE",
            repeat=True,
            dest="commands",
            help="Run this line and end; may be given again.",
        ),
        Option(
            "--stop-on-error",
            help="End with the first line that fails; otherwise all are run, and the first failure is the exit code.",
        ),
        *UNTRACED,
    ),
    examples=(
        "pk shell",
        "pk shell -c 'use topic orders' -c 'topics offsets'",
        "pk shell --stop-on-error -c 'topics list' -c 'groups list'",
    ),
    notes="Not on a terminal it runs the lines of standard input (`pk shell < script`); commands find nothing to read there, and those that ask "
    "want -y. In the shell, \\? says what it can do beside the commands.",
    blocking=True,
)

HELP = Command(
    "help",
    help="Help on a command, or a page: positions, formats, exit-codes, errors, configs, profiles, trace, fake.",
    handler="pk.cli.nouns.help.help:show_help",
    arguments=(
        Argument(
            "WORD",
            many=True,
            optional=True,
            help="A command's words, or a page; after errors and configs, what to look for.",
            complete="help-page",
        ),
    ),
    options=(
        Option(
            "--man",
            value="DIR",
            help="Write the manual's pages into this directory instead.",
            complete="directory",
        ),
    ),
    examples=(
        "pk help positions",
        "pk help errors NOT_ENOUGH_REPLICAS",
        "pk help configs retention",
        "pk help topics create",
        "pk help --man man",
    ),
    blocking=True,
)

COMPLETION = Command(
    "completion",
    help="Print the completion script for a shell.",
    handler="pk.cli.nouns.completion.completion:completion",
    arguments=(Argument("SHELL", help="bash, zsh or fish.", complete="shell"),),
    blocking=True,
    examples=("source <(pk completion bash)",),
    notes="A Tab never asks a cluster: names of topics, groups, brokers and configs come from files in the cache "
    "directory, which a process in the background refreshes after a command at a terminal and when a Tab finds them "
    "older than half a minute. PK_COMPLETION_REFRESH=never starts none; then they are as the last listings left them.",
)

_PROFILE_SHAPE = (
    "profile bootstrap? guard colour? cluster_id? chosen:bool properties:<str> secrets:<str>"
)

PROFILE = Group(
    "profile",
    "profiles",
    "context",
    help="Named clusters, each with its guard: list, show, add, use, edit, delete.",
    children=(
        Command(
            "list",
            "ls",
            help="The profiles there are.",
            handler="pk.cli.nouns.profile.profile:list_profiles",
            shows=_PROFILE_SHAPE,
            examples=("pk profile list",),
            options=(*LISTING, DEBUG),
            blocking=True,
        ),
        Command(
            "show",
            "describe",
            help="One profile, and what a command would take from it.",
            handler="pk.cli.nouns.profile.profile:show",
            arguments=(
                Argument(
                    "NAME",
                    optional=True,
                    help="Its name (default: the one that commands use).",
                    complete="profile",
                ),
            ),
            options=(*LISTING, DEBUG),
            shows=_PROFILE_SHAPE,
            examples=("pk profile show prod",),
            blocking=True,
        ),
        Command(
            "add",
            "set",
            help="Add a profile, or change one.",
            handler="pk.cli.nouns.profile.profile:add",
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
                    kind="config",
                    repeat=True,
                    dest="client_properties",
                    help="A config key of the client.",
                    complete="client-key",
                ),
                Option(
                    "--guard",
                    value="GUARD",
                    choices=("none", "confirm", "type-name", "readonly"),
                    help="What a change wants: nothing, a yes (the default), the thing's name typed; or none may be made.",
                ),
                Option(
                    "--colour",
                    "--color",
                    value="COLOUR",
                    choices=("red", "yellow", "green", "blue", "magenta", "cyan"),
                    help="Its colour in questions and in the shell's prompt.",
                ),
                Option(
                    "--cluster-id",
                    value="ID",
                    help="The cluster it is meant for: commands refuse where another answers.",
                ),
                Option("--pin", help="The same, with the id of the cluster that answers now."),
                Option(
                    "--secret",
                    value="KEY=SOURCE",
                    kind="pair",
                    repeat=True,
                    dest="secrets",
                    help="A client key whose value comes from prompt, keyring or command:WORDS when it is needed.",
                ),
                YES,
                DEBUG,
            ),
            examples=(
                "pk profile add prod -b k1:9092,k2:9092 --guard type-name --colour red",
                "pk profile add dev -b 127.0.0.1:9092 --guard none",
                "pk profile add prod -X client.rack=eu-1 -X request.timeout.ms=10000",
            ),
            notes="Guards hold for every command: `readonly` also lets no record be produced and no group be joined. "
            "pk connects to PLAINTEXT listeners only: keys of TLS and SASL are refused.",
        ),
        Command(
            "use",
            help="Choose the profile that commands use.",
            handler="pk.cli.nouns.profile.profile:use",
            arguments=(Argument("NAME", help="Its name; - for none.", complete="profile"),),
            options=(YES, DEBUG),
            examples=("pk profile use prod", "pk profile use -"),
            blocking=True,
        ),
        Command(
            "edit",
            help="Open the profiles' file in $EDITOR.",
            handler="pk.cli.nouns.profile.profile:edit",
            options=(DEBUG,),
            examples=("pk profile edit",),
            blocking=True,
        ),
        Command(
            "delete",
            "rm",
            help="Remove a profile.",
            handler="pk.cli.nouns.profile.profile:delete",
            arguments=(Argument("NAME", help="Its name.", complete="profile"),),
            options=(DRY_RUN, YES, DEBUG),
            examples=("pk profile delete old -y",),
            blocking=True,
        ),
    ),
)
