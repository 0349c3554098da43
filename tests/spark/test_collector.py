"""A Spark process keeps its first objects out of garbage collections, and no later ones."""

import subprocess
import sys

PROGRAM = """
import gc
from pk.spark.session.collector import freeze_modules

freeze_modules()
first = gc.get_freeze_count()
later = [[] for _ in range(10_000)]
freeze_modules()
assert first > 1_000, first
assert gc.get_freeze_count() <= first, "what came after the first call must be collected"
"""


def test_only_what_was_there_at_first_is_put_aside() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
