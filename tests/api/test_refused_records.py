"""Why a batch is refused, and which of its records are to blame (KIP-467), on each way that a batch
takes: what Apache Kafka says.

The golden lines are what Apache Kafka said; to write them again: PK_WRITE_GOLDEN=1 pytest -m peer
tests/api/test_refused_records.py
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import trio
from api.refused_records import CASES, CODECS, POLICIES, VERSIONS, Case, answered, request
from clients.fixtures import Kafka, fresh_name
from nodes import Caller, caller_of, make_topics, running_node, trio_test

from pk.core.api.records.produce_fast_path.fast_path import ProduceFastPath
from pk.core.errors import ErrorCode
from pk.core.record.compress import Codec

GOLDEN = Path(__file__).parents[1] / "golden" / "refused_records.jsonl"
TRIED_AGAIN = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.UNKNOWN_TOPIC_ID,
}
"""A topic that was just made may not be everywhere yet."""

STRICTER = {
    "offset delta": "Apache appends it, or fails with UNKNOWN_SERVER_ERROR where it is compressed",
    "key length -2": "Apache takes it for null",
    "value length -2": "Apache takes it for null",
    "log append time": "Apache ignores the claim",
}
COMPRESSED_STRICTER = {
    name: "Apache does not compare the length with the fields of a record that is compressed"
    for name in ("too long", "too short", "a negative length", "no key, and one is too long")
}
"""pk refuses these batches as malformed or with an error of its own, and Apache Kafka does not."""


async def topics_of(
    caller: Caller, case: Case, codecs: Iterable[Codec]
) -> dict[tuple[str, Codec], tuple[str, bytes]]:
    """Create a topic of the case for each policy and codec. Returns their names and ids."""
    configs = {key.replace(".", "__"): value for key, value in case.configs.items()}
    names = {pair: fresh_name("refused") for pair in product(POLICIES, codecs)}
    new = {names[pair]: (1, configs | {"cleanup__policy": pair[0]}) for pair in names}
    ids = await make_topics(caller, new)
    return {pair: (name, ids[name]) for pair, name in names.items()}


async def answers(
    caller: Caller,
    topic: str,
    topic_id: bytes,
    batch: bytearray,
    versions: Iterable[int] = VERSIONS,
) -> dict[str, Any]:
    """The answer of each version to a batch; of successive versions with the same answer, only the
    first."""
    found: dict[str, Any] = {}
    last: dict[str, Any] | None = None
    for version in versions:
        while True:
            response = await caller.call(request(topic, topic_id, batch, version), version)
            answer = response.responses[0].partition_responses[0]
            if answer.error_code not in TRIED_AGAIN:
                break
        if (said := answered(answer, topic)) != last:
            found[str(version)] = last = said
    return found


def golden() -> dict[tuple[str, str, str], dict[str, Any]]:
    """Apache Kafka's answers, by case, policy and codec."""
    lines = map(json.loads, GOLDEN.read_text().splitlines())
    return {(line["case"], line["policy"], line["codec"]): line["answers"] for line in lines}


@pytest.mark.peer
@trio_test
async def test_their_answers(apache: Kafka) -> None:
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    async with await trio.open_tcp_stream(apache.host, apache.port) as stream:
        caller = Caller(stream)
        for case in CASES:
            topics = await topics_of(caller, case, CODECS)
            for (policy, codec), topic in topics.items():
                said = await answers(caller, *topic, case.batch(codec))
                found[case.name, policy, codec.name] = said
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = [
            json.dumps({"case": case, "policy": policy, "codec": codec, "answers": said})
            for (case, policy, codec), said in found.items()
        ]
        GOLDEN.write_text("\n".join(lines) + "\n")
    assert found == golden()


def stricter(case: Case, codec: Codec) -> bool:
    """Whether pk refuses what Apache Kafka takes, or refuses in another way."""
    return case.name in STRICTER or (codec != Codec.NONE and case.name in COMPRESSED_STRICTER)


OTHER_CODE = {"unknown codec": ErrorCode.UNSUPPORTED_COMPRESSION_TYPE}
"""Cases for which Apache Kafka answers UNKNOWN_SERVER_ERROR."""


def check(case: Case, codec: Codec, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
    """Compare our answer with Apache's. A message of Apache's that concerns no record is meant for
    its own logs, if there is one at all; ours explains the error."""
    if theirs["error"] == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        assert ours["error"]  # pk may have found something else before the codec
        return
    if stricter(case, codec):
        assert ours["error"] in (ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP)
        assert not ours["records"]
        return
    assert ours["error"] == OTHER_CODE.get(case.name, theirs["error"])
    assert ours["records"] == theirs["records"]
    if theirs["records"]:
        assert ours["message"] == theirs["message"]


@asynccontextmanager
async def caller_on(way: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Caller]:
    """A connection whose Produce requests go this way."""
    accepted = 0
    accept = ProduceFastPath.accept

    def counted(self: ProduceFastPath, data: bytearray, start: int, end: int) -> bool:
        nonlocal accepted
        found = accept(self, data, start, end)
        accepted += found
        return found

    monkeypatch.setattr(ProduceFastPath, "accept", counted)
    switch = str(way == "fast").lower()
    async with (
        running_node(pk__produce__fast__path__enable=switch) as node,
        caller_of(node) as caller,
    ):
        yield caller
    assert (accepted > 0) == (way == "fast")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("way", "codecs", "versions", "count"),
    [
        ("fast", CODECS, (3, 7, 8, 13), 100),
        ("general", CODECS, (3, 7, 8, 13), 100),
        ("thread", (Codec.NONE, Codec.ZSTD), (13,), 5_000),
    ],
    ids=["fast", "general", "thread"],
)
def test_our_answers_on_each_way(
    way: str,
    codecs: Iterable[Codec],
    versions: Iterable[int],
    count: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Batches of five thousand records are validated in a thread: they have ten bad ones too, fifty
    times as far in."""

    @trio_test
    async def run() -> None:
        expected = golden()
        async with caller_on(way, monkeypatch) as caller:
            for case in CASES:
                topics = await topics_of(caller, case, codecs)
                batches = {codec: case.batch(codec, count) for codec in codecs}
                for (policy, codec), topic in topics.items():
                    ours = await answers(caller, *topic, batches[codec], versions)
                    theirs = expected[case.name, policy, codec.name]
                    for version in versions:
                        said = _moved(_at(version, theirs), count)
                        check(case, codec, _at(version, ours), said)

    run()


def _moved(said: dict[str, Any], count: int) -> dict[str, Any]:
    """The answer if the batch had `count` records, not a hundred."""
    if not said["records"]:
        return said

    def move(index: int) -> int:
        return 4 + (index - 4) * count // 100

    def moved(found: re.Match[str]) -> str:
        return f"batchIndex={move(int(found[1]))},"

    return {
        "error": said["error"],
        "message": re.sub(r"batchIndex=(\d+),", moved, said["message"]),
        "records": {what: [move(n) for n in numbers] for what, numbers in said["records"].items()},
    }


def _at(version: int, said: dict[str, Any]) -> dict[str, Any]:
    """The answer in a version, which is that of the last version in which the answer changed."""
    return said[str(max(int(first) for first in said if int(first) <= version))]
