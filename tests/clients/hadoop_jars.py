"""Hadoop's file system for S3, which Spark needs for a checkpoint there: fetched once, with
Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from clients.apache_kafka import locked

HADOOP: Final = "3.5.0"
SDK: Final = "2.35.4"
_ACCELERATOR: Final = "1.3.1"
_OF_SPARK: Final = "io.netty,org.slf4j,org.apache.httpcomponents,commons-codec,commons-logging"
"""The groups of which Spark has the jars."""

_ALONE: Final = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_SDK: Final = "software.amazon.awssdk"
_NEEDED: Final = (
    ("org.apache.hadoop", "hadoop-aws", HADOOP, _ALONE),
    ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", _ACCELERATOR, _ALONE),
    # The modules that hadoop-aws uses of the SDK's bundle, which is forty times as large.
    *((_SDK, name, SDK, "") for name in ("s3", "s3-transfer-manager", "sts", "apache-client")),
)


def s3a_jars() -> list[Path]:
    """The jars; skips the test where Maven is missing."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pk-s3a"
    folder = cache / f"{HADOOP}-{SDK}"
    with locked(cache / "lock"):
        if not folder.exists():
            if shutil.which("mvn") is None:
                pytest.skip("mvn is not installed")
            _fetch(cache / "part")
            (cache / "part").rename(folder)
    return sorted(folder.glob("*.jar"))


def _fetch(folder: Path) -> None:
    listed = "".join(
        f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version>{but}</dependency>"
        for group, artifact, version, but in _NEEDED
    )
    folder.mkdir(exist_ok=True)
    pom = folder / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>pk</groupId><artifactId>s3a</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{listed}</dependencies></project>\n"
    )
    goal = ["dependency:copy-dependencies", f"-DoutputDirectory={folder}"]
    options = ["-DincludeScope=runtime", f"-DexcludeGroupIds={_OF_SPARK}"]
    words = ["mvn", "-q", "-B", "-f", str(pom), *goal, *options]
    subprocess.run(words, check=True, timeout=600)
