"""An S3 server of a test's own: moto, in a process of its own, since the libraries of tables hold
Python's lock while they wait for it. It lists the requests that were made.

PK_S3_SERVER names the program `versitygw` (`go install github.com/versity/versitygw/cmd/versitygw`)
to run instead: a server for use, which checks signatures.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, NamedTuple

_SERVER = os.environ.get("PK_S3_SERVER")
_LINE = re.compile(r'(?:^|\| )([\d.]+) (?:- - .*"|\| )(GET|PUT|POST|DELETE|HEAD)(?: \|)? (\S+) ')
"""A request in the log of either server: client, method, path."""

_RUNNING = re.compile(r"(?:Running on|│) +(http://[\d.]+:\d+)")
_MAKE_BUCKET = "import boto3, sys; boto3.client('s3').create_bucket(Bucket=sys.argv[1])"


class Request(NamedTuple):
    """A request of a client that the server answered."""

    method: str
    path: str
    client: str
    """The client's address."""


@dataclass
class S3:
    """A server."""

    endpoint: str
    enter: Sequence[str] = ()
    """The first words of every command line that runs on the server's machine."""

    requests: list[Request] = field(default_factory=list[Request])
    """All requests so far."""

    _new: threading.Condition = field(default_factory=threading.Condition)

    @property
    def environ(self) -> dict[str, str]:
        """Environment variables with which a program connects to the server."""
        return {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }

    def bucket(self, name: str) -> str:
        """The URL of a new bucket."""
        make = [sys.executable, "-c", _MAKE_BUCKET, name]
        environ = os.environ | self.environ | {"AWS_DEFAULT_REGION": "us-east-1"}
        subprocess.run([*self.enter, *make], env=environ, check=True)
        return f"s3://{name}"

    def counts(self) -> Counter[str]:
        """The number of requests so far, by method."""
        return Counter(each.method for each in self.requests)

    def wait_for(self, method: str, pattern: str, timeout_s: float) -> None:
        """Waits for a request for an object whose path matches the pattern."""

        def is_there() -> bool:
            return any(
                each.method == method and re.search(pattern, each.path) for each in self.requests
            )

        with self._new:
            assert self._new.wait_for(is_there, timeout_s), (method, pattern, self.requests[-20:])

    def watch(self, lines: IO[str]) -> None:
        """Reads the server's output to its end."""
        for line in lines:
            if found := _LINE.search(line):
                with self._new:
                    self.requests.append(Request(found[2], found[3], found[1]))
                    self._new.notify_all()


@contextmanager
def s3_server(address: str = "127.0.0.1", enter: Sequence[str] = ()) -> Iterator[S3]:
    """A server without buckets, at an address. `enter` has the first words of every command line
    that runs on its machine."""
    with tempfile.TemporaryDirectory(prefix="pk-s3-") as folder:
        words = [sys.executable, "-m", "moto.server", "-H", address, "-p", "0"]
        if _SERVER is not None:
            words = [_SERVER, "--access", "key", "--secret", "secret"]
            words += ["--port", f"{address}:{_free_port()}", "posix", folder]
        with _running([*enter, *words], enter) as found:
            yield found


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


@contextmanager
def _running(words: Sequence[str], enter: Sequence[str]) -> Iterator[S3]:
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert process.stdout is not None
        lines: list[str] = []
        for line in process.stdout:
            lines.append(line)
            if match := _RUNNING.search(line):
                break
        else:
            raise AssertionError("".join(lines))
        found = S3(match[1], enter)
        threading.Thread(target=found.watch, args=(process.stdout,), daemon=True).start()
        yield found
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    with s3_server() as server:
        print(json.dumps(server.environ), server.bucket("try-it"))
