"""Data that no byte of passes the driver: it, two workers, and an S3 server with a broker are on
machines of their own, which share no directory. Readers that are not ours see each record once,
though drivers die."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import NamedTuple

import pytest
from clients.hadoop_jars import s3a_jars
from clients.pk_broker import pk_command
from machines import Machines, why_not
from s3_server import S3, s3_server
from spark_machines import TIMEOUT_S, BrokerThere, Driver, cluster

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(why_not() is not None, reason=f"no network namespaces: {why_not()}"),
]

RECORDS = 24_000
VALUE_BYTES = 1_000
PARTITIONS = 4
BATCHES = 6
MOST_RECEIVED = RECORDS * VALUE_BYTES // 10
"""The most data that a driver's machine may receive, in bytes: footers, the answers of Spark's
workers and of the S3 server, and TCP's acknowledgements of the libraries that it sends. The values
cannot be compressed, so a driver that read a batch would receive more."""

DRIVERS = ("exports", "first", "second", "third")
DIED = (r"/table/_delta_log/0+1\.json", r"/table/pk-\S+-0+3/\S+\.parquet")
"""The objects with which the drivers of the pipeline die: the table has the first batch, which
Spark does not know yet; a task has written its part of the fourth."""

VALUES = f"""
import base64, random
random.seed(38)

def value(number):
    noise = base64.b85encode(random.randbytes({VALUE_BYTES} * 4 // 5 - 8)).decode()
    return f"{{number:08d}} {{noise}}"

VALUES = [value(number) for number in range({RECORDS})]
"""
PREPARE = f"""
from pipeline_examples import append
append("127.0.0.1:9092", "orders", VALUES, {PARTITIONS})
"""
LOOK = """
import json, sys, tempfile
import duckdb
from deltalake import DeltaTable
from pyarrow.fs import S3FileSystem
from pk.spark.files.store import store_at

kind, url, endpoint, key, secret = sys.argv[1:]
store = store_at(url)
if kind == "delta":
    table = DeltaTable(url, storage_options=store.storage_options)
    assert sorted(table.to_pyarrow_table().column("value").to_pylist()) == VALUES
    files = table.file_uris()
    there = {f"{url}/{name}" for name in store.names() if name.endswith(".parquet")}
    assert there == set(files), "files that are not in the table"
elif kind == "iceberg":
    from pyiceberg.catalog import load_catalog
    table = load_catalog("lake", **store.iceberg_properties).load_table("shop.orders")
    assert sorted(table.scan().to_arrow().column("value").to_pylist()) == VALUES
    files = [each.file.file_path for each in table.scan().plan_files()]
else:
    runs = json.loads(store.read("_pk_export.json"))["runs"]
    files = [f"{url}/{each['file']}" for run in runs for each in run["ranges"]]
arrow = S3FileSystem(access_key=key, secret_key=secret, endpoint_override=endpoint)
with tempfile.TemporaryDirectory() as folder:
    # DuckDB comes without its extension for S3.
    for number, file in enumerate(files):
        with open(f"{folder}/{number}.parquet", "wb") as copy:
            copy.write(arrow.open_input_file(file.removeprefix("s3://")).read())
    found = duckdb.execute("SELECT value FROM read_parquet(?)", [f"{folder}/*.parquet"]).fetchall()
assert sorted(value for value, in found) == VALUES
print(len(files))
"""
PIPELINE = """
name = "far"
checkpoint = "s3://lake/checkpoint"
[spark]
jars = {jars}
[[source]]
name = "orders"
topic = "orders"
value = "string"
options = {{ maxOffsetsPerTrigger = {most} }}
[[sink]]
from = "orders"
delta = "s3://lake/table"
"""


class World(NamedTuple):
    """The machines."""

    s3: S3
    broker: BrokerThere
    look: Driver
    """That of the server and the broker, which looks at what the others have made."""

    drivers: dict[str, Driver]
    """Each with a directory of its own, of which the others see nothing."""

    def environ(self, driver: Driver) -> dict[str, str]:
        """The environment of a driver's programs."""
        catalog = "PYICEBERG_CATALOG__LAKE__"
        own = {f"{catalog}TYPE": "sql", f"{catalog}URI": f"sqlite:///{driver.folder}/catalog.db"}
        return {**self.s3.environ, **own, "TMPDIR": str(driver.folder)}

    def on_cluster(self, driver: Driver) -> list[str]:
        """The options of a command that runs on the cluster."""
        if not (driver.folder / "package").exists():
            driver.run(*pk_command("spark", "package", "--to", "package"))
        words = ["--master", driver.master, "--archives", "package/pk-deps.tar.gz"]
        return [*words, *driver.words_of_conf, "-b", self.broker.clients]

    def check(self, kind: str, url: str, driver: Driver) -> int:
        """Checks the rows at a URL, and returns the number of their files."""
        environ = self.environ(driver)
        s3 = (self.s3.endpoint, environ["AWS_ACCESS_KEY_ID"], environ["AWS_SECRET_ACCESS_KEY"])
        return int(self.look.python(VALUES + LOOK, kind, url, *s3, environ=environ))

    def check_received(self, driver: Driver, before: int = 0) -> None:
        """Checks that a driver's machine has received no data, nor sent any."""
        received = driver.machine.received_bytes() - before
        assert 0 < received < MOST_RECEIVED
        own = {each.path for each in self.s3.requests if each.client == driver.machine.address}
        assert own, "the server tells the drivers' requests from others"
        assert [path for path in own if path.endswith(".parquet")] == []


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("far")
    own = {name: folder / name for name in DRIVERS}
    of_workers = [folder / "work", folder / "local"]
    for each in (*own.values(), *of_workers):
        each.mkdir()
    with Machines() as machines, ExitStack() as stack:
        hub = machines.hub
        master = stack.enter_context(cluster(machines, folder, hides=list(own.values())))
        broker = stack.enter_context(BrokerThere(hub, "PLAINTEXT", {}))
        s3 = stack.enter_context(s3_server(hub.address, hub.enter))
        s3.bucket("lake")
        look = Driver(hub, folder, master)
        look.python(VALUES + PREPARE)
        drivers: dict[str, Driver] = {}
        for name, directory in own.items():
            others = [each for each in own.values() if each != directory]
            (directory / "events").mkdir()
            drivers[name] = Driver(machines.add([*others, *of_workers]), directory, master)
        yield World(s3, broker, look, drivers)


@pytest.mark.parametrize(
    "kind",
    ["delta", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("parquet", "iceberg"))],
)
def test_an_export_passes_no_byte_through_the_driver(world: World, kind: str) -> None:
    driver, url = world.drivers["exports"], f"s3://lake/{kind}"
    words = ["spark-export", "orders", "--to", url, "--to-format", kind, "--value", "string"]
    words += ["--table", "lake.shop.orders"] if kind == "iceberg" else []
    words += world.on_cluster(driver)
    before = driver.machine.received_bytes()
    driver.run(*pk_command(*words), environ=world.environ(driver))
    world.check_received(driver, before)
    assert world.check(kind, url, driver) >= PARTITIONS


@pytest.mark.slow
def test_a_pipeline_goes_on_on_another_machine(world: World) -> None:
    jars = json.dumps([str(jar) for jar in s3a_jars()])
    most = RECORDS // BATCHES
    for name, died in zip(("first", "second", "third"), (*DIED, None), strict=True):
        driver = world.drivers[name]
        (driver.folder / "far.toml").write_text(PIPELINE.format(jars=jars, most=most))
        words = ["spark", "pipeline", "run", "far.toml", "--once", *world.on_cluster(driver)]
        with driver.start(*pk_command(*words), environ=world.environ(driver)) as run:
            if died is None:
                assert run.wait(TIMEOUT_S) == 0
            else:
                world.s3.wait_for("PUT", died, TIMEOUT_S)
            world.check_received(driver)
            driver.machine.close()
    assert world.check("delta", "s3://lake/table", world.drivers["third"]) >= BATCHES
