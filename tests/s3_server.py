"""An S3 server of a test's own: moto, in a process of its own, since the libraries of tables hold
Python's lock while they wait for it. It counts what was read from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

_LINE = re.compile(r'"(GET|PUT|POST|DELETE|HEAD) (\S+) HTTP')
_RUNNING = re.compile(r"Running on (http://127\.0\.0\.1:\d+)")


class S3(NamedTuple):
    """A server."""

    endpoint: str
    requests: list[tuple[str, str]]
    """Method and path of each request so far."""

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs to reach it."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def bucket(self, name: str) -> str:
        """The URL of a new bucket."""
        made = urllib.request.Request(f"{self.endpoint}/{name}", method="PUT")
        with urllib.request.urlopen(made):
            return f"s3://{name}"

    def counts(self) -> Counter[str]:
        """How many requests there were, by method."""
        return Counter(method for method, _ in self.requests)


@contextmanager
def s3_server() -> Iterator[S3]:
    """A server without buckets."""
    process = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        lines: list[str] = []
        for line in process.stderr:
            lines.append(line)
            if match := _RUNNING.search(line):
                break
        else:
            raise AssertionError("".join(lines))
        found = S3(match[1], [])

        def watch(stream: Iterator[str]) -> None:
            for line in stream:
                if request := _LINE.search(line):
                    found.requests.append((request[1], request[2]))

        threading.Thread(target=watch, args=(process.stderr,), daemon=True).start()
        yield found
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    with s3_server() as server:
        print(json.dumps(server.environ), server.bucket("try-it"))
