"""The Spark cluster of a command, from its options."""

from typing import TYPE_CHECKING

from pk.cli.exits import Unusable
from pk.cli.options.on_spark import OnCluster, OnSpark

if TYPE_CHECKING:
    from pk.spark.session.local import Where


def spark_place(options: OnCluster) -> "Where":
    """The Spark cluster that `--master`, `--remote`, `--conf` and `--archives` select; Spark itself
    refuses unknown values. Raises Unusable."""
    from pk.spark.session.local import Where

    remote = options.remote if isinstance(options, OnSpark) else None
    if remote is not None and options.master is not None:
        raise Unusable("--master and --remote each name a Spark to run on; give only one.")
    if remote is not None and not remote.startswith("sc://"):
        raise Unusable(f"--remote must be sc://HOST:PORT, not {remote!r}.")
    return Where(options.master, dict(options.conf), options.archives, remote)
