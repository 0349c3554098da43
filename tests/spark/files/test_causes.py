"""One sentence for what the libraries of files and tables say of a place that they cannot use."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("obstore")

from pk.spark.files.causes import one_sentence, storage_cause
from pk.spark.files.store import LocalStore, Store, store_at
from pk.spark.tables.lake_commit import delta_table_of

# This runs in a separate process, because deltalake holds the GIL while it waits.
SERVER = """
import http.server, sys
status, code, said = int(sys.argv[1]), sys.argv[2], sys.argv[3]
body = f"<Error><Code>{code}</Code><Message>{said}</Message></Error>".encode() if code else b""
class Refusing(http.server.BaseHTTPRequestHandler):
    def refuse(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    do_GET = do_PUT = do_POST = refuse
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
print(server.server_port, flush=True)
server.serve_forever()
"""


@contextmanager
def refusing(status: int, code: str, said: str) -> Iterator[str]:
    """A server that gives every request this answer of S3's."""
    words = [sys.executable, "-c", SERVER, str(status), code, said]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def at(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    return store_at("s3://bucket/table")


def put(store: Store, name: str = "x") -> None:
    with store.create(name) as file:
        file.write(b"x")


KEYS = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment"


@pytest.mark.parametrize(
    ("status", "code", "said", "wanted"),
    [
        (
            403,
            "InvalidAccessKeyId",
            "No such key.",
            f"No such key (InvalidAccessKeyId); check {KEYS}",
        ),
        (
            403,
            "AccessDenied",
            "Access Denied",
            "Access Denied (AccessDenied); these credentials do not have the permission",
        ),
        (
            400,
            "ExpiredToken",
            "Expired.",
            "Expired (ExpiredToken); AWS_SESSION_TOKEN in the environment has expired",
        ),
        (
            404,
            "NoSuchBucket",
            "No bucket",
            "No bucket (NoSuchBucket); create the bucket, or check the URL and AWS_ENDPOINT_URL",
        ),
        (403, "", "", f"403 Forbidden; check {KEYS}"),
    ],
)
def test_what_s3_refuses_is_said_by_files_and_tables_alike(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, said: str, wanted: str
) -> None:
    pytest.importorskip("deltalake")
    with refusing(status, code, said) as endpoint:
        store = at(endpoint, monkeypatch)
        for work in (put, delta_table_of):
            with pytest.raises(OSError) as raised:
                work(store)
            assert one_sentence(raised.value) == f"the object storage refuses the request: {wanted}"


def test_a_full_disk(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("/dev/full")
    with pytest.raises(OSError) as raised:
        put(LocalStore(tmp_path))
    assert one_sentence(raised.value) == "the disk is full"


TEXTS = (
    (
        (
            "Generic S3 error: Error performing PUT http://127.0.0.1:1/bucket/table/x in 8.5s,"
            " after 10 retries, max_retries: 10  - HTTP error: error sending request"
        ),
        "http://127.0.0.1:1 cannot be reached",
    ),
    (
        (
            "OSError: When reading information for key 'x' in bucket 'b': AWS Error ACCESS_DENIED"
            " during HeadObject operation: No response body."
        ),
        "the object storage refuses the request: No response body (ACCESS_DENIED)",
    ),
    (
        (
            "requests.exceptions.ConnectionError: HTTPConnectionPool(host='catalog', port=8181):"
            " Max retries exceeded with url: /v1/config (Caused by NewConnectionError(...))"
        ),
        "catalog cannot be reached",
    ),
    (
        (
            "Traceback …\nOSError: [Errno 28] Error writing bytes to file. Detail: [errno 28] No"
            " space left on device\n\tat org.apache.spark…"
        ),
        "the disk is full",
    ),
    ("LocalFileSystem error: Permission denied (os error 13)", "permission denied"),
    ("ValueError: 13 is not a number", None),
)


@pytest.mark.parametrize(("text", "wanted"), TEXTS)
def test_texts_of_libraries(text: str, wanted: str | None) -> None:
    assert storage_cause(text) == wanted


def test_any_other_error_is_one_line() -> None:
    assert one_sentence(ValueError("two\n  lines")) == "two lines"
    assert one_sentence(KeyError()) == "KeyError"
