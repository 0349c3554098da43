"""docs/operating.md on damaged logs: the table names existing checks and metrics, and the commands
print what the page shows."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from clients.pk_broker import PkBroker

from pk.cli.diagnosis.checks import CHECKS
from pk.core.broker import metric_samples

Run = Callable[..., Any]
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "operating.md").read_text(encoding="utf-8")
[SECTION] = re.findall(r"^## Damaged logs.*?(?=^## )", PAGE, re.MULTILINE | re.DOTALL)
WAIT_S = 60
DATA = "/var/lib/pk"


def shown(text: str) -> list[list[str]]:
    """The cells of each line, without addresses and CRCs, which differ from run to run."""
    text = re.sub(r" -b 127\.0\.0\.1:\d+", "", text)
    text = re.sub(r"\b[0-9a-f]{8}\b", "CRC", text)
    return [re.split(r" {2,}", line.strip()) for line in text.splitlines() if line.strip()]


def test_the_checks_and_metrics_are_there() -> None:
    named = set(re.findall(r"^\| `([a-z-]+)`", SECTION, re.MULTILINE))
    assert named == {"awaited-logs", "damaged-replicas", "stopped-replicas"}
    assert named <= {check.name for check in CHECKS}
    samples = Path(metric_samples.__file__).read_text(encoding="utf-8")
    metrics = re.findall(r"`(\w+Count)`", SECTION)
    assert len(metrics) == 3
    for metric in metrics:
        assert f'"{metric}"' in samples, metric


def test_a_damaged_segment_of_the_only_replica_looks_like_that(tmp_path: Path, pk: Run) -> None:
    [block] = re.findall(r"```console\n(.*?)```", SECTION, re.DOTALL)
    (doctor, found), (verify, findings) = [
        example.split("\n", 1) for example in block.removeprefix("$ ").split("\n$ ")
    ]
    scrubbing = {"pk.log.scrub.interval.ms": "500"}
    data = tmp_path / "data"
    with PkBroker(directory=data, config=scrubbing) as broker:
        at = ("-b", broker.bootstrap)
        assert pk("topics", "create", "orders", "-p", "1", "-c", "segment.ms=1", *at).code == 0
        for _ in range(2):
            assert pk("produce", "orders", "--fake", "orders", "-n", "5", *at).code == 0
        with (data / "orders-0" / f"{0:020}.log").open("r+b") as file:
            file.seek(100)
            byte = file.read(1)[0]
            file.seek(100)
            file.write(bytes([byte ^ 1]))
        until = time.monotonic() + WAIT_S
        while (ran := pk(*shlex.split(doctor)[1:], *at)).code == 0:
            assert time.monotonic() < until, "the broker does not find it"
        assert ran.code == 1, ran.err
        assert shown(ran.text) == shown(found)
        ran = pk(*shlex.split(verify.replace(DATA, str(data)))[1:])
        assert ran.code == 1, ran.err
        assert shown(ran.text.replace(str(data), DATA)) == shown(findings)
