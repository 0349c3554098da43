"""The paths and URLs that a pipeline uses. Those in its file are relative to the file's directory.

CHECKPOINT/sinks/NAME     Spark's checkpoint of the query that feeds a sink
CHECKPOINT/pk/            what pk itself remembers: schemas, status, failed records, spools
"""

from pathlib import Path

from pk.spark.files.object_path import ObjectPath, Place
from pk.spark.files.store import LocalStore, ObjectStore, Store, store_at
from pk.spark.jdbc_url import with_path
from pk.spark.locations import is_remote, local_path
from pk.spark.pipeline.definition import Pipeline


class Places:
    """The paths of one pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.base = Path(pipeline.file).absolute().parent
        self.checkpoint = self._place(pipeline.checkpoint)
        self.own = self.checkpoint / "pk"
        self.schemas = self.own / "schemas.json"
        self.versions = self.own / "versions.json"
        self.failed_records = self.own / "failed-records.json"
        self.identity = self.own / "pipeline.json"
        self.shape = self.own / "shape.json"
        self.status = self.own / "status.json"
        self.lock = self.own / "lock"
        self.stop = self.own / "stop"

    def _place(self, text: str) -> Place:
        found = self.store(text)
        return ObjectPath(found) if isinstance(found, ObjectStore) else self.path(text)

    def path(self, text: str) -> Path:
        """A path of this machine. Raises OptionError for a URL that is not of this machine."""
        return local_path(text, self.base)

    def store(self, text: str) -> Store:
        """The store of a path or URL. Raises OptionError, SparkMissing."""
        return store_at(text) if is_remote(text) else LocalStore(self.path(text))

    def url(self, text: str) -> str:
        """A path or URL, for Spark and for pyiceberg."""
        return text if is_remote(text) else f"file://{self.path(text)}"

    def jdbc(self, url: str) -> str:
        """A JDBC URL; the file of SQLite is relative to the pipeline's file too."""
        return with_path(url, self.base)

    def query(self, sink: str) -> Place:
        """Spark's checkpoint of a sink's query."""
        return self.checkpoint / "sinks" / sink

    def compacted(self, sink: str) -> Place:
        """When a sink's table was compacted last."""
        return self.own / "compacted" / f"{sink}.json"

    def spool(self, source: str) -> Path:
        """The changes of a JDBC source that the run has read: a directory, which such a pipeline
        needs for its checkpoint."""
        found = self.own / "changes" / source
        assert isinstance(found, Path)
        return found
