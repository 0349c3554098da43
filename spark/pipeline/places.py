"""The paths and URLs that a pipeline uses. Paths in its file are relative to the file's directory.

CHECKPOINT/sinks/NAME     Spark's checkpoint of the query that feeds a sink
CHECKPOINT/pk/            pk's own files: schemas, status, failed records, spools
"""

from pathlib import Path

from pk.spark.files.object_path import ObjectPath, Place
from pk.spark.files.store import LocalStore, ObjectStore, Store, store_at
from pk.spark.jdbc_url import with_path
from pk.spark.locations import is_remote, local_path
from pk.spark.pipeline.definition import Pipeline


class Places:
    """The paths and URLs of one pipeline."""

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
        """A local path. Raises OptionError for a URL that is not local."""
        return local_path(text, self.base)

    def store(self, text: str) -> Store:
        """The store at a path or URL. Raises OptionError, SparkMissing."""
        return store_at(text) if is_remote(text) else LocalStore(self.path(text))

    def url(self, text: str) -> str:
        """A path or URL as a URL for Spark and pyiceberg."""
        return text if is_remote(text) else f"file://{self.path(text)}"

    def jdbc(self, url: str) -> str:
        """A JDBC URL; a SQLite file is relative to the pipeline's file too."""
        return with_path(url, self.base)

    def query(self, sink: str) -> Place:
        """Spark's checkpoint of a sink's query."""
        return self.checkpoint / "sinks" / sink

    def compacted(self, sink: str) -> Place:
        """The file with the time of the last compaction of a sink's table."""
        return self.own / "compacted" / f"{sink}.json"

    def spool(self, source: str) -> Path:
        """The spool of a JDBC source. A pipeline with such a source needs a local checkpoint."""
        found = self.own / "changes" / source
        assert isinstance(found, Path)
        return found
