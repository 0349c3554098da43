"""The Python that starts at once, for Spark's workers under faults (spark_faults.quick_python)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from spark_faults.quick_python import quick_python

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="only runs of scripts/spark-faults use it"),
    pytest.mark.slow,
]


@pytest.fixture(scope="module")
def python() -> Iterator[str]:
    with quick_python() as program:
        yield program


def test_it_runs_modules_and_texts_with_input_and_output(python: str) -> None:
    words = [python, "-m", "json.tool", "--compact"]
    done = subprocess.run(words, input=b'{"a": [1]}', capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b'{"a":[1]}\n'), done.stderr
    text = "import os, sys; print(sys.argv[1:], os.environ['HERE']); sys.exit(3)"
    environ = os.environ | {"HERE": "yes"}
    done = subprocess.run([python, "-c", text, "b"], env=environ, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (3, b"['b'] yes\n"), done.stderr
    words = [python, "-I", "-c", "import sys; print(sys.flags.isolated)"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"1\n"), done.stderr


def test_whichever_is_killed_the_other_ends(python: str) -> None:
    text = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert subprocess.run([python, "-c", text], check=False).returncode == 137
    text = "import time; print(flush=True); time.sleep(3600)"
    caller = subprocess.Popen([python, "-c", text], stdout=subprocess.PIPE)
    assert caller.stdout is not None
    caller.stdout.readline()
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    assert caller.stdout.read() == b"", "its end is the end of the other, which holds the pipe too"
    caller.stdout.close()
