"""What a session of Spark Connect registers: a class that Python processes without pk can load."""

from __future__ import annotations

import shutil
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
before = set(sys.modules)
kind = pickle.load(open("class", "rb"))
assert kind.name() == "pk" and "pk" not in sys.modules
sys.path.insert(0, sys.argv[1])
source = kind({"kafka.bootstrap.servers": "localhost:1", "subscribe": "t"})
print(source.schema())
cloudpickle.dump(source, open("instance", "wb"))
"""
STREAM = """
import pickle, sys
source = pickle.load(open("instance", "rb"))
for use in (source.streamReader, lambda schema: source.streamWriter(schema, False)):
    try:
        use(None)
    except ValueError as e:
        print(e)
assert "pk" not in sys.modules
"""


class Session:
    """What `register` needs of a session: it keeps what is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.dataSource = self

    def addArtifacts(self, path: str, *, pyfile: bool) -> None:
        assert pyfile
        shutil.copy(path, self.folder)

    def register(self, kind: type) -> None:
        (self.folder / "class").write_bytes(cloudpickle.dumps(kind))


def python(code: str, folder: Path, libraries: Path, *words: str) -> list[str]:
    """What a Python that has the libraries and not pk prints."""
    environ = {"PYTHONPATH": str(libraries), "PATH": "/usr/bin:/bin"}
    # Without its own site-packages, which have pk.
    program = [getattr(sys, "_base_executable", ""), "-c", code, *words]
    done = subprocess.run(
        program, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_stream_is_refused_where_pk_cannot_be_imported(tmp_path: Path) -> None:
    libraries = without_pk(tmp_path / "libraries")
    register(cast(Any, Session(tmp_path)))
    [columns] = python(MAKE, tmp_path, libraries, str(tmp_path / "pk.zip"))
    assert columns.startswith("key binary, value binary, topic string")
    said = python(STREAM, tmp_path, libraries)
    assert len(said) == 2 and all("install pk-broker in the server's Python" in s for s in said)
