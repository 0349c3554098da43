"""`docs/switching.md`: runs each command on the page, pk's and the one it replaces."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from _pytest.mark.structures import ParameterSet
from commands import run_command, wait_for_slow_brokers

from clients import apache_kafka
from clients.fixtures import Kafka, fresh_name
from clients.pk_broker import PkBroker
from clients.streams.thread import Thread
from clients.topics import wait_until
from pk.cli.command_line.parse import parse
from pk.core.config.views import STANDARD_AUTHORIZER

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "switching.md").read_text()

TOOLS = {
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
    "kafka-get-offsets.sh": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-delete-records.sh": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-console-producer.sh": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-console-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-console-share-consumer.sh": "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
    "kafka-share-groups.sh": "org.apache.kafka.tools.consumer.group.ShareGroupCommand",
    "kafka-streams-groups.sh": "org.apache.kafka.tools.streams.StreamsGroupCommand",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-cluster.sh": "org.apache.kafka.tools.ClusterTool",
    "kafka-broker-api-versions.sh": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-metadata-quorum.sh": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-features.sh": "org.apache.kafka.tools.FeatureCommand",
    "kafka-log-dirs.sh": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-transactions.sh": "org.apache.kafka.tools.TransactionsCommand",
    "kafka-acls.sh": "org.apache.kafka.tools.AclCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-consumer-perf-test.sh": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-e2e-latency.sh": "org.apache.kafka.tools.EndToEndLatency",
}
"""Apache's scripts and what they start."""

GLOBAL_FIRST = ("kafka-metadata-quorum.sh", "kafka-features.sh", "kafka-transactions.sh")
"""Tools that take the address before their command."""

NEEDS_AUTHORIZER = ("kafka-acls.sh", "pk acls", "pk why denied")
"""Commands that run against our broker, which has an authorizer; the Apache Kafka of these tests
has none."""

ENDS_WITH = {"pk groups undo last": (0, 1), "pk transactions abort": (0, 1)}
"""These may exit with 1 too: there is nothing to undo or abort unless another line ran first."""


class Line(NamedTuple):
    """A command of the page."""

    job: str
    command: str

    @property
    def label(self) -> str:
        return f"{self.job}: {self.command.split()[0]} {' '.join(self.command.split()[1:3])}"


def lines(prefix: str) -> list[Line]:
    found = []
    for row in PAGE.splitlines():
        if not row.startswith("| ") or row.startswith("| Job"):
            continue
        job, *cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]]
        for cell in cells:
            for command in re.findall(r"`([^`]+)`", cell):
                if command.startswith(prefix):
                    found.append(Line(job, command))
    return found


OURS = lines("pk ")
THEIRS = lines("kafka-")
KCAT = lines("kcat ")


class World:
    """A cluster with the topics and groups of the page, under names that no other test uses."""

    def __init__(self, kafka: Kafka, folder: Path) -> None:
        self.kafka = kafka
        self.folder = folder
        shared = kafka.kind == "apache"
        self.names = {
            name: fresh_name(name) if shared else name
            for name in (
                "orders",
                "billing",
                "ready",
                "reports",
                "new",
                "copy",
                "scratch",
                "workers",
                "counts",
            )
        }
        self.has_share_group = False
        self.changed = True
        """Whether the cluster's state may differ from what the page assumes."""

    def prepare(self) -> None:
        """Puts back what the last command may have taken away or made."""
        if not self.changed:
            return
        self.changed = False
        orders, billing, ready = (self.names[n] for n in ("orders", "billing", "ready"))
        made = [self.names[name] for name in ("new", "copy", "scratch")]
        self.must("topics", "delete", *made, "--if-exists", "-y")
        self.must("topics", "create", orders, self.names["scratch"], "-p", "3", "--if-not-exists")
        records = [
            f'{{"key": "k{i}", "value": "{{\\"n\\": {i}}}", "partition": {i % 3}}}\n'
            for i in range(12)
        ]
        stdin = "".join(records).encode()
        self.must("produce", orders, "-f", "jsonl", "--keep-partition", stdin=stdin)
        self.must("groups", "reset-offsets", billing, "-t", orders, "--to", "start", "-y")
        self.must("groups", "reset-offsets", ready, "-t", orders, "--to", "end", "-y")
        if not self.has_share_group:
            wait_until("a share group", self._share_group)
            self.has_share_group = True
        self.must("quotas", "set", "--user", "alice", "producer_byte_rate=1GiB", "-y")
        code, groups = self.run("groups", "list", "--type", "streams")
        if code or self.names["counts"] not in groups:
            thread = Thread(self.kafka, self.names["counts"], orders, "thread-1")
            thread.until_it_has_tasks()
            thread.leave()
        if self.kafka.kind == "pk":
            rule = ("--allow", "alice", "--operation", "read", "--topic", orders)
            self.must("acls", "add", *rule, "-y")
        plan = [f'{{"topic":"{orders}","partition":{i},"replicas":[1]}}' for i in range(3)]
        files = {
            "lines.txt": "one\ntwo\n",
            "keyed.txt": "a:1\nb:2\n",
            "delete.json": f'{{"partitions":[{{"topic":"{orders}","partition":0,"offset":1}}],'
            '"version":1}',
            "plan.json": f'{{"version":1,"partitions":[{",".join(plan)}]}}',
            "offsets.csv": f"{orders},0,1\n{orders},1,2\n",
            "topics.json": f'{{"topics":[{{"topic":"{orders}"}}],"version":1}}',
        }
        for name, text in files.items():
            (self.folder / name).write_text(text)

    def _share_group(self) -> bool:
        """Whether there is a share group, after a consumer was in it, or on its way there."""
        workers = self.names["workers"]
        self.must("consume", "--share", self.names["orders"], "-g", workers, "--timeout-ms", "2000")
        code, groups = self.run("groups", "list", "--type", "share")
        assert code == 0, groups
        return workers in groups

    def words(self, command: str) -> tuple[list[str], bytes]:
        """The words of a command with this world's names, and its standard input."""
        line, _, source = command.partition(" < ")
        for name, here in self.names.items():
            line = re.sub(rf"(?<!--fake )(?<![\w.'-]){name}(?![\w.'])", here, line)
        line = line.replace("DATA/", f"{self.kafka.log_dir}/")
        files = sorted(path.name for path in self.folder.iterdir())
        words = [str(self.folder / word) if word in files else word for word in shlex.split(line)]
        return words, (self.folder / source).read_bytes() if source else b""

    def run(self, *words: str, stdin: bytes = b"") -> tuple[int, str]:
        """A command of ours, in this process: its exit code, and all it wrote."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PK_BOOTSTRAP_SERVER", self.kafka.bootstrap)
            for variable in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
                patch.setenv(variable, str(self.folder / variable.lower()))
            wait_for_slow_brokers(patch)
            ran = run_command(words, self.folder, stdin)
        return ran.code, ran.out.decode(errors="replace") + ran.err

    def must(self, *words: str, stdin: bytes = b"") -> None:
        code, text = self.run(*words, stdin=stdin)
        assert code == 0, (words, text)


@pytest.fixture(scope="module")
def our_broker() -> Iterator[Kafka]:
    config = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    with PkBroker(config=config) as broker:
        assert broker.directory is not None
        yield Kafka("pk", broker.bootstrap, broker.directory)


@pytest.fixture(scope="module")
def our_world(our_broker: Kafka, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(our_broker, tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def apache_world(apache: Kafka, tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(apache, tmp_path_factory.mktemp("world"))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    found = request.getfixturevalue("our_world" if request.param == "pk" else "apache_world")
    found.prepare()
    return found


def runs_here(line: Line) -> bool:
    """Excludes lines that open an editor or need a schema registry; tests/cli/test_schema.py runs
    those."""
    elsewhere = ("pk configs edit", "pk schema", "pk up")
    return not line.command.startswith(elsewhere) and line.command != "pk produce orders"


def with_share(lines: Sequence[Line], words: int) -> Iterator[tuple[Line, bool]]:
    """Each line, and whether it is the first of its tool, which its first words name: the share of
    every run."""
    seen = set()
    for line in lines:
        tool = tuple(line.command.split()[:words])
        yield line, tool not in seen
        seen.add(tool)


def ours_on_both() -> Iterator[ParameterSet]:
    """Ours on our broker in every run; on Apache Kafka a share of it."""
    for line, first in with_share([x for x in OURS if runs_here(x)], 2):
        yield pytest.param(line, "pk", id=f"pk-{line.label}")
        if line.command.startswith(NEEDS_AUTHORIZER):
            continue
        marks = [pytest.mark.peer] if first else [pytest.mark.peer, pytest.mark.slow]
        yield pytest.param(line, "apache", id=f"apache-{line.label}", marks=marks)


@pytest.mark.parametrize(("line", "world"), list(ours_on_both()), indirect=["world"])
def test_ours(line: Line, world: World) -> None:
    words, stdin = world.words(line.command)
    assert words[0] == "pk"
    values = parse(words[1:]).values
    world.changed = not values.get("dry_run", True)
    lists = values.get("id", "") is None  # `pk groups undo`
    asks = "yes" in values and not values["yes"] and not values.get("dry_run") and not lists
    code, text = world.run(*words[1:], *(["-y"] if asks else []), stdin=stdin)
    assert code in ENDS_WITH.get(" ".join(words[:3]), (0,)), text
    assert "Traceback" not in text and "bug in pk" not in text


@pytest.mark.parametrize("line", [x for x in OURS if not runs_here(x)], ids=lambda x: x.label)
def test_ours_elsewhere(line: Line) -> None:
    parse(shlex.split(line.command)[1:])


@pytest.mark.parametrize("line", KCAT, ids=lambda x: x.label)
def test_kcat(line: Line, our_world: World) -> None:
    if shutil.which("kcat") is None:
        pytest.skip("kcat is not installed")
    our_world.prepare()
    words, stdin = our_world.words(line.command)
    ran = subprocess.run(
        [*words, "-m", "60", "-b", our_world.kafka.bootstrap],
        input=stdin,
        capture_output=True,
        timeout=90,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()


def theirs() -> Iterator[ParameterSet]:
    """Apache's tools start slowly: each once, and all lines in the long run."""
    lines = [
        x
        for x in THEIRS
        if not x.command.endswith("producer.sh --topic orders")
        and not x.command.startswith(NEEDS_AUTHORIZER)
    ]
    for line, first in with_share(lines, 1):
        yield pytest.param(line, id=line.label, marks=() if first else pytest.mark.slow)


@pytest.mark.peer
@pytest.mark.parametrize("line", list(theirs()))
def test_theirs(line: Line, apache: Kafka, apache_world: World) -> None:
    apache_world.prepare()
    apache_world.changed = True
    (tool, *rest), stdin = apache_world.words(line.command)
    address = ["--bootstrap-server", apache.bootstrap]
    if tool == "kafka-dump-log.sh":
        words = rest
    elif tool in GLOBAL_FIRST:
        words = [*address, *rest]
    else:
        words = [*rest, *address]
    # Its patience is what most of the time would go into.
    words = ["1500" if word == "5000" else word for word in words]
    ran = apache_kafka.run_tool(TOOLS[tool], *words, input=stdin.decode())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Exception" not in ran.stdout


@pytest.mark.peer
@pytest.mark.parametrize(
    "line", [x for x in THEIRS if x.command.startswith(NEEDS_AUTHORIZER)], ids=lambda x: x.label
)
def test_theirs_at_our_broker(line: Line, our_world: World) -> None:
    our_world.changed = True
    our_world.prepare()
    our_world.changed = True
    (tool, *rest), stdin = our_world.words(line.command)
    words = (*rest, "--bootstrap-server", our_world.kafka.bootstrap)
    ran = apache_kafka.run_tool(TOOLS[tool], *words, input=stdin.decode())
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "Exception" not in ran.stdout


def test_the_page_has_every_job() -> None:
    assert len(OURS) > 55 and len(THEIRS) > 40 and len(KCAT) > 8
    assert {line.command.split()[0] for line in THEIRS} == set(TOOLS)
