"""A cluster of machines that do not have pk, in network namespaces, and a broker that asks for a
password: an export, a job of a person's own and a pipeline; the password is in no file."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from clients.pk_broker import pk_command
from machines import Machines, why_not
from pyarrow import dataset
from spark_machines import BrokerThere, Driver, cluster

from pk.spark.export.manifest import MANIFEST, Manifest
from pk.spark.java import find_java, launcher_home, require_pyspark
from pk.spark.session.package import python_of_workers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.peer,
    pytest.mark.skipif(why_not() is not None, reason=f"no network namespaces: {why_not()}"),
]

PASSWORD = "s3cr3t-of-the-cluster"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required username"
RECORDS = 500

JOB = """
import json, os, sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
kafka = json.loads(open(os.environ["KAFKA"]).read())
earliest = {"subscribe": "orders", "startingOffsets": "earliest"}
table = spark.read.format("pk").options(**kafka, **earliest).load().select("key", "value")
table.explain(True)
table.write.format("pk").options(**kafka, topic="table").mode("append").save()
stream = spark.readStream.format("pk").options(**kafka, **earliest).load().select("key", "value")
query = (
    stream.writeStream.format("pk")
    .options(**kafka, topic="stream", checkpointLocation=sys.argv[1])
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
query.explain(True)
"""
PIPELINE = """
name = "copied"
checkpoint = "checkpoint"
[[source]]
name = "orders"
topic = "orders"
[[sink]]
from = "orders"
topic = "pipeline"
"""
PREPARE = """
from pipeline_examples import append
append("127.0.0.1:9092", "orders", [str(n) for n in range(%d)])
for topic in ("table", "stream", "pipeline"):
    append("127.0.0.1:9092", topic)
"""
LOOK = """
import json
from pipeline_examples import committed
found = {t: committed("127.0.0.1:9092", t) for t in ("table", "stream", "pipeline")}
print(json.dumps({t: sorted(int(value) for _, value, _ in rows) for t, rows in found.items()}))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[Driver]:
    (tmp_path / "events").mkdir()
    with Machines() as machines, cluster(machines, tmp_path) as master:
        yield Driver(machines.hub, tmp_path, master)


def test_machines_without_pk(world: Driver) -> None:
    folder = world.folder
    own = "listener.name.clients"
    config = {
        f"{own}.sasl.enabled.mechanisms": "PLAIN",
        f"{own}.plain.sasl.jaas.config": (f'{LOGIN}="broker" password="b" user_job="{PASSWORD}";'),
    }
    broker = BrokerThere(world.machine, "SASL_PLAINTEXT", config)
    address = broker.clients
    client = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{LOGIN}="job" password="{PASSWORD}";',
    }
    secrets = folder / "secrets"
    secrets.mkdir(mode=0o700)
    (secrets / "client.properties").write_text("".join(f"{k}={v}\n" for k, v in client.items()))
    given = {f"kafka.{key}": value for key, value in client.items()}
    (secrets / "kafka.json").write_text(json.dumps({"kafka.bootstrap.servers": address, **given}))
    login = ("-b", address, "--config-file", str(secrets / "client.properties"))
    with broker:
        world.python(PREPARE % RECORDS)
        world.run(*pk_command("spark", "package", "--to", "package"))
        archive = folder / "package" / "pk-deps.tar.gz"
        on_cluster = ("--master", world.master, "--archives", str(archive), *world.words_of_conf)
        export = pk_command("spark-export", "orders", "--to", "out", *on_cluster, *login)
        said = world.run(*export)
        said += job(world, archive)
        (folder / "copied.toml").write_text(PIPELINE)
        run = pk_command("spark", "pipeline", "run", "copied.toml", "--once", *on_cluster, *login)
        said += world.run(*run)
        found = json.loads(world.python(LOOK))
    assert found == {name: list(range(RECORDS)) for name in ("table", "stream", "pipeline")}
    manifest = Manifest.load((folder / "out" / MANIFEST).read_text())
    files = [str(folder / "out" / name) for name in manifest.files]
    assert dataset.dataset(files).count_rows() == manifest.records == RECORDS
    events = b"".join(p.read_bytes() for p in (folder / "events").rglob("*") if p.is_file())
    assert b"SparkListenerSQLExecutionStart" in events and b"spark.master" in events
    assert "== Physical Plan ==" in said
    assert PASSWORD not in said
    # The files that the workers and the drivers left: logs, files of tasks, checkpoints, the
    # package.
    looked = [path for path in folder.rglob("*") if path.is_file() and secrets not in path.parents]
    shared = {folder / "spark", folder / "java"}
    looked = [path for path in looked if not shared & set(path.parents)]
    assert len([path for path in looked if path.name == "stderr"]) >= 6, "two executors for each"
    holding = [path for path in looked if PASSWORD.encode() in path.read_bytes()]
    assert holding == []


def job(world: Driver, archive: Path) -> str:
    """The output of a user's own job, started as docs/spark/cluster.md says."""
    (world.folder / "job.py").write_text(JOB)
    java = find_java()
    home = launcher_home(java, world.folder) if java.bundled else java.home
    environ = {
        "JAVA_HOME": str(home),
        "KAFKA": str(world.folder / "secrets" / "kafka.json"),
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYSPARK_PYTHON": python_of_workers(),
        "SPARK_HOME": str(require_pyspark()),
        "SPARK_SCALA_VERSION": "2.13",
    }
    words = [str(require_pyspark() / "bin" / "spark-submit"), "--master", world.master]
    words += ["--py-files", str(archive.with_name("pk.zip")), "--archives", f"{archive}#pk-deps"]
    words += ["--conf", "spark.executorEnv.PYTHONPATH=pk-deps:pk.zip", *world.words_of_conf]
    return world.run(*words, "job.py", str(world.folder / "checkpoint-of-job"), environ=environ)
