"""The source that a Spark Connect session registers: a class that Python processes without pk can
load, and whose readers and writers they can load too."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any, cast

from pyspark import cloudpickle
from spark_servers import without_pk

from pk.spark.connect import register

MAKE = """
import pickle, sys
from pyspark import cloudpickle
kind = pickle.load(open("class", "rb"))
assert kind.name() == "pk" and "pk" not in sys.modules
where = {"kafka.bootstrap.servers": "localhost:1"}
source, sink = kind({**where, "subscribe": "t"}), kind({**where, "topic": "t"})
print(source.schema())
cloudpickle.dump((source, sink), open("instances", "wb"))
"""
PLAN = """
import pickle, sys
from pyspark import cloudpickle
from pyspark.sql.types import BinaryType, StructType
source, sink = pickle.load(open("instances", "rb"))
assert "pk" not in sys.modules
schema = StructType().add("value", BinaryType())
made = source.reader(schema), source.streamReader(schema)
made += sink.writer(schema, False), sink.streamWriter(schema, False)
for each in made:
    # Within a function, as Spark sends them to tasks.
    cloudpickle.dump((lambda each=each: each), open(type(each).__mro__[1].__name__, "wb"))
"""
USE = """
import pickle, sys
for name in sys.argv[1:]:
    made = pickle.load(open(name, "rb"))()
    options = getattr(made.options, "read", made.options)
    print(type(made).__module__, type(made).__name__, options.bootstrap)
source = sys.modules["pk"].__spec__.loader
print(source.get_source("pk.spark.source").splitlines()[0])
"""


class Session:
    """The parts of a session that `register` needs; it keeps the data sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dataSource = self

    def register(self, kind: type) -> None:
        (self.folder / "class").write_bytes(cloudpickle.dumps(kind))


def python(code: str, folder: Path, libraries: Path, *words: str) -> list[str]:
    """The output of a Python that has the libraries but not pk."""
    environ = {"PYTHONPATH": str(libraries), "PATH": "/usr/bin:/bin"}
    # Without its own site-packages, which have pk.
    program = [getattr(sys, "_base_executable", ""), "-c", code, *words]
    done = subprocess.run(
        program, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_readers_and_writers_of_tables_and_streams_bring_pk_along(tmp_path: Path) -> None:
    libraries = without_pk(tmp_path / "libraries")
    register(cast(Any, Session(tmp_path)))
    [columns] = python(MAKE, tmp_path, libraries)
    assert columns.startswith("key binary, value binary, topic string")
    python(PLAN, tmp_path, libraries)
    names = ["KafkaReader", "KafkaStreamReader", "KafkaBatchWriter", "KafkaStreamWriter"]
    *made, text = python(USE, tmp_path, libraries, *names)
    assert [each.split()[1:] for each in made] == [[name, "localhost:1"] for name in names]
    assert text.startswith('"""`format("pk")`')
