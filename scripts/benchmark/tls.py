"""Compares producing and consuming over TLS with Apache Kafka, and measures the cost of an
authorizer with 10,000 ACLs in pk.

Both brokers have a listener with TLS 1.3 and a certificate of the same kind (EC, P-256); librdkafka
is the client of both. The topics are created on a plaintext listener. The row of the authorizer is
the ratio of two brokers of pk, one with ACLs and one without, measured in turn on a plaintext
listener.

    scripts/bench --tls --quick
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import trio
from certificates import authority
from clients import apache_kafka
from clients.apache_kafka import ApacheKafka, free_ports
from clients.configured_broker import configured_broker
from rich.console import Console

from benchmark import report
from benchmark.systems import SERVER_HEAP, cpu_seconds
from benchmark.work import FULL, LIBRDKAFKA, QUICK, Size, drive
from pk.core.auth.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from pk.core.config.views import STANDARD_AUTHORIZER
from pk.net.client.admin import open_admin
from pk.net.client.results import NewTopic

ACLS = 10_000
ACLS_AT_ONCE = 1_000
TOPIC = "bench"
GOAL_RATE, GOAL_CPU, GOAL_ACLS = 1.2, 0.8, 0.95


@dataclass
class Served:
    """A running broker: its plaintext address, and its TLS address."""

    name: str
    plain: str
    secure: str
    pid: int


def _pem(folder: Path) -> tuple[Path, Path]:
    """Return a broker's key store, and the certificate to trust."""
    root = authority()
    store = root.sign("CN=127.0.0.1", "127.0.0.1").write(folder / "broker.pem")
    return store, root.write_trust(folder / "ca.pem")


def _listeners(plain: int, secure: int, store: Path, *more: str) -> dict[str, str]:
    ours = [f"PLAINTEXT://127.0.0.1:{plain}", f"TLS://127.0.0.1:{secure}"]
    return {
        "listeners": ",".join([*ours, *more]),
        "advertised.listeners": ",".join(ours),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
    }


@contextlib.contextmanager
def pk(folder: Path, store: Path, properties: Mapping[str, str]) -> Iterator[Served]:
    """Start pk with `pk node start`."""
    keys = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(store)}
    with configured_broker(folder, "SSL", {**keys, **properties}) as broker:
        yield Served("pk", broker.bootstrap, broker.other, broker.process.pid)


@contextlib.contextmanager
def apache(folder: Path, store: Path) -> Iterator[Served]:
    """Start Apache Kafka."""
    folder.mkdir()
    kafka = ApacheKafka(directory=folder, heap=SERVER_HEAP)
    (secure,) = free_ports(1)
    controller = next(
        one
        for one in kafka.server_properties(1)["listeners"].split(",")
        if one.startswith("CONTROLLER")
    )
    kafka.properties |= _listeners(kafka.port(1), secure, store, controller)
    with kafka:
        yield Served("apache", kafka.bootstrap, f"127.0.0.1:{secure}", kafka.pids[0])


async def _make_topic(bootstrap: str, name: str) -> None:
    async with open_admin(bootstrap) as admin:
        (await admin.create_topics([NewTopic(name, 1, 1)])).value(name)


async def _add_acls(bootstrap: str) -> None:
    """Add ten thousand ACLs for other topics, and those that allow the client to use its own."""
    kind, literal, allow = ResourceType.TOPIC, PatternType.LITERAL, Permission.ALLOW
    rules = [
        AclBinding(kind, f"other-{n}", literal, f"User:u{n % 100}", "*", Operation.READ, allow)
        for n in range(ACLS)
    ]
    mine = (kind, TOPIC, PatternType.PREFIXED, "User:ANONYMOUS", "*")
    rules += [AclBinding(*mine, what, allow) for what in (Operation.WRITE, Operation.READ)]
    async with open_admin(bootstrap) as admin:
        for start in range(0, len(rules), ACLS_AT_ONCE):
            refused = await admin.create_acls(rules[start : start + ACLS_AT_ONCE])
            assert not refused.errors, refused


class Bench:
    """Makes the measurements and collects their results."""

    def __init__(self, size: Size, trust: Path) -> None:
        self.size = size
        self.trust = trust
        self.results = report.Results()
        self._topics = 0

    def _config(self, address: str, *, tls: bool, **more: object) -> dict[str, object]:
        config: dict[str, object] = {"bootstrap.servers": address, "log_level": 0, **more}
        if tls:
            config |= {"security.protocol": "ssl", "ssl.ca.location": str(self.trust)}
        return config

    def _topic(self, served: Served) -> str:
        self._topics += 1
        name = f"{TOPIC}-{self._topics}"
        trio.run(_make_topic, served.plain, name)
        return name

    def _produce(self, served: Served, topic: str, megabytes: int, *, tls: bool) -> float:
        more = {
            "acks": "all",
            "linger.ms": 5,
            "queue.buffering.max.messages": 500_000,
            "queue.buffering.max.kbytes": 1_000_000,
        }
        address = served.secure if tls else served.plain
        options = {"topic": topic, "config": self._config(address, tls=tls, **more)}
        options |= {"size": 1000, "partitions": 1, "count": megabytes * 1000}
        return drive("produce", options)["seconds"]

    def _consume(self, served: Served, topic: str, megabytes: int) -> float:
        options = {"topic": topic, "config": self._config(served.secure, tls=True)}
        return drive("consume", options | {"partitions": 1, "count": megabytes * 1000})["seconds"]

    def warm(self, served: Served) -> None:
        topic = self._topic(served)
        self._produce(served, topic, self.size.warm_mb, tls=False)
        self._produce(served, topic, self.size.warm_mb, tls=True)
        self._consume(served, topic, self.size.warm_mb)

    def over_tls(self, served: Served) -> None:
        topic, megabytes = self._topic(served), self.size.produce_mb
        for name in ("produce", "consume"):
            before = cpu_seconds(served.pid)
            if name == "produce":
                seconds = self._produce(served, topic, megabytes, tls=True)
            else:
                seconds = self._consume(served, topic, megabytes)
            cpu = cpu_seconds(served.pid) - before
            row = f"{name} 1000 B over TLS"
            rate = self.results.row(row, "MB/s", LIBRDKAFKA, higher=True, goal=GOAL_RATE)
            rate.add(served.name, megabytes / seconds)
            spent = self.results.row(
                f"{row}: broker CPU", "s/GB", LIBRDKAFKA, higher=False, goal=GOAL_CPU
            )
            spent.add(served.name, cpu / megabytes * 1000)

    def authorizer(self, without: Served, authorized: Served, *, first: bool) -> None:
        taken: dict[int, tuple[float, float]] = {}
        pair = (without, authorized) if first else (authorized, without)
        for served in pair:
            topic = self._topic(served)
            before = cpu_seconds(served.pid)
            seconds = self._produce(served, topic, self.size.produce_mb, tls=False)
            taken[served.pid] = seconds, cpu_seconds(served.pid) - before
        (seconds, cpu), (with_seconds, with_cpu) = taken[without.pid], taken[authorized.pid]
        name = f"produce 1000 B with {ACLS:,} ACLs, to without"
        row = self.results.row(name, "ratio", LIBRDKAFKA, higher=True, limit=GOAL_ACLS)
        row.add("pk", seconds / with_seconds)
        row = self.results.row(f"{name}: broker CPU", "ratio", LIBRDKAFKA, higher=False)
        row.add("pk", with_cpu / cpu)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/bench --tls",
        description="Measures pk and Apache Kafka over TLS, and the cost of an authorizer.",
    )
    parser.add_argument("--quick", action="store_true", help="a fifth of the work, three rounds")
    parser.add_argument("--rounds", type=int, help="rounds a measurement (default 5; --quick 3)")
    parser.add_argument("--without-apache", action="store_true", help="leave Apache Kafka out")
    parser.add_argument("--json", type=Path, default=Path("bench-tls-results.json"), metavar="FILE")
    options = parser.parse_args()
    size = QUICK if options.quick else FULL
    rounds = options.rounds or size.rounds
    log = Console(stderr=True)
    with (
        tempfile.TemporaryDirectory(prefix="pk-bench-tls-") as text,
        contextlib.ExitStack() as stack,
    ):
        folder = Path(text)
        store, trust = _pem(folder)
        bench = Bench(size, trust)
        systems = [stack.enter_context(pk(folder / "pk", store, {}))]
        rules = {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "allow.everyone.if.no.acl.found": "true",
        }
        authorized = stack.enter_context(pk(folder / "authorized", store, rules))
        trio.run(_add_acls, authorized.plain)
        reason = "" if options.without_apache else apache_kafka.available()
        if reason is None:
            apache_kafka.jars()
            systems.append(stack.enter_context(apache(folder / "apache", store)))
        elif reason:
            log.print(f"Apache Kafka is skipped: {reason}.")
        for served in (*systems, authorized):
            log.print(f"warming {served.name}")
            bench.warm(served)
        for number in range(rounds):
            for served in systems if number % 2 == 0 else systems[::-1]:
                log.print(f"round {number + 1} of {rounds}: {served.name} over TLS")
                bench.over_tls(served)
            log.print(f"round {number + 1} of {rounds}: the authorizer")
            bench.authorizer(systems[0], authorized, first=number % 2 == 0)
    report.show(bench.results, Console(width=None if sys.stdout.isatty() else 200))
    settings = {"rounds": rounds, "produce_mb": size.produce_mb, "cores": os.cpu_count()}
    report.write(bench.results, settings, options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
