"""The distinction between local paths and URLs."""

from __future__ import annotations

from pathlib import Path

import pytest

from pk.spark.errors import OptionError
from pk.spark.locations import is_remote, local_path

REMOTE = ("s3://b/out", "s3:/b/out", "S3A://b", "hdfs://h:1/x", "memory://b", "https://h/x")
HERE = Path("/base")


@pytest.mark.parametrize("place", REMOTE)
def test_a_url_is_no_path_of_this_machine(place: str) -> None:
    assert is_remote(place)
    with pytest.raises(OptionError, match="is not on this machine"):
        local_path(place, HERE)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("out", "/base/out"),
        ("../out", "/base/../out"),
        ("/data/out", "/data/out"),
        ("file:///data/out", "/data/out"),
        ("file:/data/out", "/data/out"),
        ("FILE://localhost/data/a:/b", "/data/a:/b"),
        ("odd:name", "/base/odd:name"),
        ("~/out", f"{Path.home()}/out"),
    ],
)
def test_a_path_or_a_file_url_is_on_this_machine(place: str, path: str) -> None:
    assert not is_remote(place)
    assert local_path(place, HERE) == Path(path)


@pytest.mark.parametrize("place", ["file://host/data", "file://data"])
def test_a_file_url_of_another_host_is_refused(place: str) -> None:
    with pytest.raises(OptionError, match="is not on this machine"):
        local_path(place, HERE)
