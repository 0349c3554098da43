"""The scenarios through kcat's command line: `client_kcat.py SCENARIO BOOTSTRAP NAME [WORD]`.

kcat gives the same headers to all records of a run and takes no timestamps, and tells keys and
values of no bytes from none only by -Z; so each record is written by a run of its own, and times
are not compared.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable

import expected

Text = str | None


def kcat(bootstrap: str, *words: str, given: str = "") -> str:
    ran = subprocess.run(
        ["kcat", "-b", bootstrap, *words],
        input=given,
        capture_output=True,
        text=True,
        timeout=expected.WAIT_S,
        check=False,
    )
    expected.check(f"kcat's exit code ({ran.stderr.strip()})", ran.returncode, 0)
    return ran.stdout


def text(value: bytes | None) -> Text:
    return None if value is None else value.decode()


def records(bootstrap: str, topic: str, codec: str) -> None:
    wanted = [(text(row.key), text(row.value), row.header.decode()) for row in expected.ROWS]
    for key, value, header in wanted:
        words = ["-P", "-t", topic, "-p", "0", "-z", codec, "-Z", "-H", f"n={header}", "-K", "|"]
        kcat(bootstrap, *words, given=f"{key or ''}|{value or ''}\n")
    said = kcat(bootstrap, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-J", "-q")
    found = [json.loads(line) for line in said.splitlines()]
    shown = [(each["key"], each["payload"], dict([each["headers"]])["n"]) for each in found]
    expected.check("records", shown, wanted)


class Member:
    """`kcat -G`, which reads all the time, and commits by itself when it ends."""

    def __init__(self, bootstrap: str, topic: str, values: set[str]) -> None:
        self.held = 0
        self._process = subprocess.Popen(
            ["kcat", "-b", bootstrap, "-X", "auto.offset.reset=earliest", "-u", "-G", topic, topic],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

        def read() -> None:
            assert self._process.stdout is not None
            for line in self._process.stdout:
                values.add(line.strip())

        def rebalances() -> None:
            assert self._process.stderr is not None
            for line in self._process.stderr:
                if "assigned:" in line:
                    self.held = line.count("[")
                elif "revoked:" in line:
                    self.held = 0

        self._threads = [threading.Thread(target=each) for each in (read, rebalances)]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        for thread in self._threads:
            thread.join()
        self._process.wait(expected.WAIT_S)


def group(bootstrap: str, topic: str, protocol: str) -> None:
    assert protocol == "classic"
    values = set[str]()

    def until(what: str, done: Callable[[], bool]) -> None:
        limit = time.monotonic() + expected.WAIT_S
        while not done():
            assert time.monotonic() < limit, f"{what}: not within {expected.WAIT_S:.0f} s"
            time.sleep(0.02)

    def produce(partition: int, value: str) -> None:
        kcat(bootstrap, "-P", "-t", topic, "-p", str(partition), given=value)

    first = Member(bootstrap, topic, values)
    until("all partitions", lambda: first.held == expected.PARTITIONS)
    until("all records", lambda: len(values) == expected.IN_GROUP)
    second = Member(bootstrap, topic, values)
    until("two partitions each", lambda: first.held == second.held == 2)
    values.clear()
    more = [value.decode() for value in expected.MORE]
    for partition, value in enumerate(more):
        produce(partition, value)
    until("more records", lambda: values >= set(more))
    second.close()
    until("all partitions again", lambda: first.held == expected.PARTITIONS)
    first.close()
    produce(0, "last")
    values.clear()
    third = Member(bootstrap, topic, values)
    until("the last record", lambda: "last" in values)
    expected.check("after the commit", values, {"last"})
    third.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
