"""Runs every example of every command against a cluster of three brokers with the resources that
the examples name.

An example that changes something gets `-y`, as if the user had read and accepted the question. The
output of an example with `-f json` must match the schema that `-f schema` prints. An example that
does not end by itself runs as a separate process, which is interrupted once it has shown something.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from clients.pk_broker import pk_command, pk_environment
from clients.pk_cluster import PkCluster
from commands import run_command, wait_for_slow_brokers
from shapes import check_json

from pk.cli.command_line.parse import parse
from pk.cli.command_line.tree import Command, commands, tree
from pk.cli.shell.words import split_line

NOT_RUN = {
    "up": "starts brokers: test_up.py",
    "test run": "starts brokers: test_pk_test.py",
    "node start": "starts brokers: test_process.py, test_up.py",
    "node stop": "test_process.py, test_up.py",
    "node status": "test_process.py, test_up.py",
    "node kill": "test_up.py",
    "node restart": "test_up.py",
    "node pause": "test_up.py",
    "node resume": "test_up.py",
    "shell": "test_shell.py",
    "schema-registry start": "starts a registry: test_schema.py",
    "log remote": "wants a store with segments: tests/clients/test_tiered.py",
    "cluster restore": "wants what a lost cluster left: tests/clients/test_cluster_restore.py",
    "log adopt": "wants a directory of Apache Kafka's: tests/clients/test_adopt.py",
    "spark export": "wants Spark: test_spark_export.py",
    "spark import": "wants Spark: test_spark_import.py",
    "spark-export": "wants Spark: test_spark_export.py",
    **{
        f"pipeline {verb}": "test_pipeline.py, and with Spark tests/spark/test_pipelines.py"
        for verb in ("init", "check", "run", "status", "stop", "export")
    },
    "spark-import": "wants Spark: test_spark_import.py",
    "spark warm-up": "takes a minute: tests/spark/test_warm_up.py",
    "spark package": "packs hundreds of megabytes: tests/spark/test_package.py",
}
"""Commands whose examples run elsewhere."""

ENDLESS = (
    r"^pk consume orders$",
    r"^pk console-consumer --topic orders --from-beginning",
    r"(?<!status) (-w|--watch)\b",
    r"^pk groups watch ",
    r"^pk top\b",
)
"""Examples that end when they are interrupted."""

NOTHING_TO_DO = {
    "pk reassign apply --resume": "No unfinished reassignment was started from this machine",
    "pk reassign throttle 80MB/s": "Nothing is moving or throttled",
    "pk reassign cancel orders/3": "is not being reassigned",
    "pk transactions describe payments-1": "Transactional id 'payments-1' does not exist",
    "pk transactions abort payments-1": "Transactional id 'payments-1' does not exist",
    "pk transactions abort -t orders:0": "none is open",
    "pk groups remove-members billing --instance billing-7": "no static member",
    "pk acls": "SECURITY_DISABLED",
    "pk test faults": "pk.faults.enable=true",
    "pk metrics": "No broker serves metrics",
    "pk why denied": "SECURITY_DISABLED",
    "pk users tokens": "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
}
"""The beginnings of examples for things that an idle cluster does not have, and their output."""

SLOW = r"^pk (perf|reassign (apply|rollback)|spark|top|groups watch)\b| --rate "
"""Examples that are slow by nature."""

SAYS_SO = ("cluster health", "doctor", "why partition", "why lag", "why config", "groups lag")
"""Commands that may exit with 1, because they find problems: the three brokers of a test have
many."""

STANDS_FOR = {
    "4,5,6": "1,2",
    "k1:9092,k2:9092": "127.0.0.1:1",
    "pass show kafka/alice | ": "",
    "/var/lib/pk/pk.log": "pk.log",
}
"""Maps text of examples to its replacement in this test."""

EARLIEST = "share.auto.offset.reset=earliest"

PASSWORD = b"secret\n"
"""The output of `pass show`, and the password that a user types."""


@dataclass(frozen=True)
class Example:
    """One example: the command it belongs to, and its line."""

    path: str
    line: str

    @property
    def nothing_to_do(self) -> str | None:
        return next(
            (said for line, said in NOTHING_TO_DO.items() if self.line.startswith(line)), None
        )

    @property
    def marks(self) -> list[pytest.MarkDecorator]:
        return [pytest.mark.slow] if re.search(SLOW, self.line) else []

    @property
    def endless(self) -> bool:
        return any(re.search(pattern, self.line) for pattern in ENDLESS)


EXAMPLES = [
    Example(" ".join(path), line)
    for path, command in commands(tree())
    for line in command.examples
    if " ".join(path) not in NOT_RUN
]


class World:
    """The cluster and the directory in which examples run."""

    def __init__(self, cluster: PkCluster, directory: Path) -> None:
        self.cluster = cluster
        self.directory = directory

    def run(self, *words: str, stdin: bytes = b"") -> tuple[int, bytes, str]:
        """Runs a command line in this process. Returns its exit code, output and errors."""
        ran = run_command(words, self.directory, stdin)
        return ran.code, ran.out, ran.err

    def must(self, *words: str, stdin: bytes = b"") -> None:
        code, out, err = self.run(*words, stdin=stdin)
        assert code == 0, (words, err, out)

    def make(self) -> None:
        """Creates the resources that the examples name."""
        self.topics()
        self.group()
        self.users()
        self.quotas()
        self.profiles()
        self.schemas()

    def topics(self) -> None:
        topics = ("orders", "payments", "copy", "orders-dlq", "orders-eu", "test-1", "a", "b")
        self.must("topics", "create", *topics, "-p", "4", "-r", "2", "--if-not-exists")
        records = "".join(f"user-{n}\t" + f'{{"amount": {n}}}\n' for n in range(40)).encode()
        self.must("produce", "orders", "-f", "%k\\t%v\\n", stdin=records)

    def group(self) -> None:
        self.must("groups", "reset-offsets", "billing", "-t", "orders", "--to", "start", "-y")

    def users(self) -> None:
        """Creates alice and bob if they are missing."""
        for name in ("alice", "bob"):
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                self.run("users", "add", name, "--mechanism", mechanism, "-y", stdin=PASSWORD)

    def quotas(self) -> None:
        self.must("quotas", "set", "--user", "alice", "producer_byte_rate=1GiB", "-y")
        self.must("quotas", "set", "--default-client-id", "consumer_byte_rate=1GiB", "-y")

    def schemas(self) -> None:
        """A directory of schemas, and files with further ones."""
        shutil.rmtree(self.directory / "schemas", ignore_errors=True)
        fields = [{"name": "id", "type": "long"}]
        subject = self.directory / "schemas" / "orders-value"
        subject.mkdir(parents=True)
        for number in range(1, 4):
            text = json.dumps({"type": "record", "name": "Order", "fields": fields})
            path = subject / f"v{number}-id{number}.avsc"
            (path if number < 3 else self.directory / "order.avsc").write_text(text)
            fields.append({"name": f"f{number}", "type": "int", "default": 0})  # pyright: ignore[reportArgumentType] - JSON
        (self.directory / "payment.proto").write_text('syntax = "proto3"; message Payment {}')

    def profiles(self) -> None:
        for name in ("prod", "old", "dr", "eu"):
            words = ("-b", self.cluster.bootstrap, "--guard", "confirm", "-y")
            self.must("profile", "add", name, *words)
        self.must("profile", "use", "-")

    def ready_for(self, line: str) -> None:
        """Makes room for what an example creates."""
        if line.startswith("pk log"):
            self.data()
        if line.startswith("pk topics create"):
            self.must("topics", "delete", "orders", "a", "b", "-y", "--if-exists")
        if "--share" in line:
            self.must("configs", "alter", "group", "workers", "-c", EARLIEST, "-y")
        if "pk users add" in line:
            self.must("users", "delete", "alice", "-y")

    def restore(self, path: str) -> None:
        """Puts back what an example of a command may have changed or deleted."""
        noun = path.partition(" ")[0]
        if noun == "topics":
            self.must("topics", "delete", "orders", "-y", "--if-exists")
            self.topics()
        if noun in ("topics", "groups", "undo"):
            self.group()
        if noun == "users":
            self.users()
        if noun == "quotas":
            self.quotas()
        if noun == "profile":
            self.profiles()
        if noun == "schema":
            self.schemas()

    def files(self) -> None:
        """The files that examples read."""
        (self.directory / "orders.tsv").write_text("k1\tv1\nk2\tv2\n")
        (self.directory / "pk.log").write_text("started\n")
        (self.directory / "client.properties").write_text("client.rack=eu-1\n")
        (self.directory / "plan.csv").write_text("orders,0,1\n")
        (self.directory / "plan.json").write_text(
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2]}]}'
        )
        (self.directory / "out").mkdir()
        (self.directory / "data").mkdir()

    def data(self) -> None:
        """A directory with every partition of all brokers, like that of a single broker."""
        data = self.directory / "data"
        for link in data.iterdir():
            link.unlink()
        for broker in self.cluster.brokers:
            for each in self.cluster.data(broker).iterdir():
                link = data / each.name
                if not link.exists():
                    link.symlink_to(each)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("examples")
    # Two replicas: `pk reassign plan --drain 3` must find a broker that takes what the third one
    # held.
    config = {
        "offsets.topic.replication.factor": "2",
        "transaction.state.log.replication.factor": "2",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": "2",
        "share.coordinator.state.topic.min.isr": "1",
    }
    with pytest.MonkeyPatch.context() as patch, PkCluster(3, config=config) as cluster:
        _environment(patch, cluster, directory)
        found = World(cluster, directory)
        found.make()
        found.files()
        yield found


def _environment(patch: pytest.MonkeyPatch, cluster: PkCluster, directory: Path) -> None:
    for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
        patch.setenv(variable, str(directory / variable.lower()))
    patch.setenv("PK_BOOTSTRAP_SERVER", cluster.bootstrap)
    patch.setenv("EDITOR", "true")
    patch.setenv("PK_SCHEMA_REGISTRY", "schemas")
    wait_for_slow_brokers(patch)  # also while the world is made
    patch.chdir(directory)


@pytest.fixture(autouse=True)
def _here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch, world.cluster, world.directory)


def _lines(example: Example) -> list[list[str]]:
    """The words of each command in the example's pipe, with `-y` added if the command would ask a
    question."""
    line = re.sub(r"^source <\((.*)\)$", r"\1", example.line)
    line = re.sub(r" (\|\| \w+|2?> [\w./-]+)$", "", line)
    for said, here in STANDS_FOR.items():
        line = line.replace(said, here)
    found = []
    for part in re.split(r" \| (?=pk )", line):
        words = split_line(part.replace("$(date +%F)", "2026-01-01")).words
        assert words[0] == "pk", example.line
        parsed = parse(words[1:])
        values = parsed.values
        lists = values.get("change_id", "") is None  # `pk undo`
        asks = "yes" in values and not values["yes"] and not values.get("dry_run") and not lists
        found.append([*words[1:], *(["-y"] if asks else [])])
    return found


@pytest.mark.parametrize(
    "example", [pytest.param(e, id=e.line, marks=e.marks) for e in EXAMPLES if not e.endless]
)
def test_an_example_runs(world: World, example: Example) -> None:
    lines = _lines(example)
    world.ready_for(example.line)
    out = PASSWORD if example.path.startswith("users ") else b""
    for words in lines:
        code, out, err = world.run(*words, stdin=out)
        allowed = (0, 1) if example.path in SAYS_SO else (0,)
        if example.nothing_to_do:
            assert example.nothing_to_do in err
            allowed = (1,)
        assert code in allowed, (example.line, code, err, out)
        assert "Traceback" not in err and "bug in pk" not in err
    last = parse(lines[-1])
    assert isinstance(last.node, Command)
    if last.node.shows and last.values.get("format") in ("json", "jsonl"):
        check_json(lines[-1], out)
    if example.path.startswith("profile ") or "dry_run" in {o.dest for o in last.node.options}:
        world.restore(example.path)


FIRST = {
    e.path: e for e in reversed(EXAMPLES) if not (e.endless or e.nothing_to_do or " | " in e.line)
}
"""The first example of each command that has something to do."""


@pytest.mark.parametrize(
    "example", [pytest.param(e, id=e.line, marks=e.marks) for e in EXAMPLES if e.endless]
)
def test_an_endless_example_shows_something_and_ends(world: World, example: Example) -> None:
    (words,) = _lines(example)
    process = subprocess.Popen(
        pk_command(*words),
        env=pk_environment(),
        cwd=world.directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )
    assert process.stdout is not None
    shown = os.read(process.stdout.fileno(), 65536)
    process.send_signal(signal.SIGINT)
    try:
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert shown, example.line
    assert b"Traceback" not in shown + rest, (shown + rest).decode(errors="replace")
    assert process.returncode in (0, -signal.SIGINT), (shown + rest).decode(errors="replace")


def changes() -> dict[str, Example]:
    """An example of each command that changes a cluster."""
    return {
        path: e
        for path, e in FIRST.items()
        if isinstance(node := parse(_lines(e)[0]).node, Command)
        and {"dry_run", "profile"} <= {option.dest for option in node.options}
    } | OWN_EXAMPLES


OWN_EXAMPLES = {
    "undo": Example("undo", "pk undo last"),
    "groups undo": Example("groups undo", "pk groups undo last"),
    "cluster features": Example(
        "cluster features", "pk cluster features disable eligible.leader.replicas.version"
    ),
    "configs edit": Example("configs edit", "pk configs edit topic orders --file orders.tsv"),
    "topics trim": Example("topics trim", "pk topics trim orders -o end"),
}
NOT_THAT_FAR = (
    "configs alter",
    "topics alter",
    "groups remove-members",
    "partitions elect-leaders",
    "reassign throttle",
    "reassign cancel",
    "reassign rollback",
    "users add",
    "users tokens renew",
    "users tokens expire",
)
"""Changes that have nothing to change here: they end before a guard could refuse them."""


def _picture(world: World) -> list[bytes]:
    """All state that a change could have changed."""
    looks = (
        ("topics", "describe", "-a"),
        ("topics", "offsets", "orders", "payments", "copy"),
        ("groups", "describe", "--all-groups", "--columns", "group,topic,partition,committed"),
        ("cluster", "features"),
        ("quotas", "list"),
        ("configs", "describe", "broker", "-a", "--columns", "resource,name,value"),
    )
    return [world.run(*words, "-f", "json")[1] for words in looks]


@pytest.mark.thorough
def test_nothing_is_changed_under_a_read_only_profile(world: World) -> None:
    world.make()
    world.must("profile", "add", "eu", "-b", world.cluster.bootstrap, "--guard", "readonly")
    before = _picture(world)
    through = []
    for path, example in changes().items():
        (words,) = _lines(example)
        words = [word for word in words if word not in ("--dry-run", "-d")]
        asks = any(option.dest == "yes" for option in parse(words).node.options)
        words += ["-y"] if asks and "-y" not in words else []
        code, out, err = world.run(*words, "--profile", "eu", stdin=b"x\n")
        if path not in NOT_THAT_FAR and (code != 5 or "read-only" not in err):
            through.append((path, code, err, out))
    assert not through
    assert len(changes()) > 15
    assert _picture(world) == before
