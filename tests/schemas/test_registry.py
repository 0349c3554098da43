"""The registry as a whole: its log, several instances, TLS, users, and limits on what a peer can
send."""

from __future__ import annotations

import http.client
import json
import select
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from certificates import authority
from clients.topics import wait_until
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError
from schemas.running import Running, running_registry

from pk.core.schemas.registry import records
from pk.core.schemas.registry.state import State
from pk.net.http.messages import basic
from pk.net.http.server import HttpLimits
from pk.net.schemas.serve import Listening
from pk.net.schemas.users import authenticator
from pk.net.tls.contexts import client_context, server_context
from pk.net.tls.settings import TlsSettings

STRING, LONG = '"string"', '"long"'


def ask(
    running: Running, method: str, path: str, body: Any = None, *, index: int = 0
) -> tuple[int, Any]:
    """One request, and its answer."""
    at = urlsplit(running.urls[index])
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if data else None
    finally:
        connection.close()


def log_of(running: Running) -> list[tuple[str, str | None]]:
    """The records of `_schemas`, by another client."""
    consumer = Consumer(
        {"bootstrap.servers": running.bootstrap, "group.id": "x", "enable.partition.eof": True}
    )
    found: list[tuple[str, str | None]] = []
    try:
        consumer.assign([TopicPartition("_schemas", 0, 0)])
        while True:
            message = consumer.poll(60)
            assert message is not None
            if message.error():
                return found
            value = message.value()
            found.append(
                ((message.key() or b"").decode(), None if value is None else value.decode())
            )
    finally:
        consumer.close()


def test_the_log_is_in_confluents_format() -> None:
    with running_registry() as running:
        assert ask(running, "POST", "/subjects/s-value/versions", {"schema": STRING})[1]["id"] == 1
        other = {"schema": '{"type": "object"}', "schemaType": "JSON"}
        ask(running, "POST", "/subjects/j/versions", other)
        ask(running, "PUT", "/config/s-value", {"compatibility": "full"})
        ask(running, "PUT", "/mode/s-value", {"mode": "READWRITE"})
        ask(running, "DELETE", "/subjects/j/versions/1")
        ask(running, "DELETE", "/subjects/j/versions/1?permanent=true")
        ask(running, "DELETE", "/subjects/s-value")
        found = log_of(running)
    key = '{"keytype":"SCHEMA","subject":"j","version":1,"magic":1}'
    j = '"schemaType":"JSON","schema":"{\\"type\\":\\"object\\"}"'
    assert found == [
        ('{"keytype":"NOOP","magic":0}', None),
        (
            '{"keytype":"SCHEMA","subject":"s-value","version":1,"magic":1}',
            '{"subject":"s-value","version":1,"id":1,"schema":"\\"string\\"","deleted":false}',
        ),
        (key, f'{{"subject":"j","version":1,"id":2,{j},"deleted":false}}'),
        ('{"keytype":"CONFIG","subject":"s-value","magic":0}', '{"compatibilityLevel":"FULL"}'),
        ('{"keytype":"MODE","subject":"s-value","magic":0}', '{"mode":"READWRITE"}'),
        (key, f'{{"subject":"j","version":1,"id":2,{j},"deleted":true}}'),
        (key, None),
        (
            '{"keytype":"DELETE_SUBJECT","subject":"s-value","magic":0}',
            '{"subject":"s-value","version":1}',
        ),
        ('{"keytype":"MODE","subject":"s-value","magic":0}', None),
        ('{"keytype":"CONFIG","subject":"s-value","magic":0}', None),
    ]


def test_a_log_that_confluents_registry_wrote_is_understood() -> None:
    """The log has the form in its documentation and its users' dumps, including records unknown to
    pk."""
    log: list[tuple[str, str | None]] = [
        ('{"keytype":"CONFIG","subject":null,"magic":0}', '{"compatibilityLevel":"FULL"}'),
        ('{"keytype":"NOOP","magic":0}', None),
        (
            '{"keytype":"SCHEMA","subject":"a","version":1,"magic":1}',
            '{"subject":"a","version":1,"id":5,"md5":"x==","schema":"\\"int\\"","deleted":false,"ts":1,"offset":9}',
        ),
        (
            '{"keytype":"SCHEMA","subject":"b","version":1,"magic":0}',
            '{"subject":"b","version":1,"id":6,"schema":"\\"long\\""}',
        ),
        (
            '{"keytype":"CONTEXT","tenant":"default","context":".x","magic":0}',
            '{"tenant":"default","context":".x"}',
        ),
        ('{"keytype":"DELETE_SUBJECT","subject":"b","magic":0}', '{"subject":"b","version":1}'),
        ("not json", "neither"),
    ]
    state = State()
    for key, value in log:
        record = records.read(key.encode(), None if value is None else value.encode())
        if record is not None:
            state.replay(record)
    assert [each.id for each in state.versions("a")] == [5]
    assert state.versions("b") == []
    assert [each.id for each in state.versions("b", deleted=True)] == [6]
    assert state.level("a") == "FULL"
    assert state.contexts["."].max_id == 6
    assert state.problems == []


def test_what_was_registered_is_there_after_a_restart() -> None:
    with running_registry() as first:
        ask(first, "POST", "/subjects/kept/versions", {"schema": STRING})
        first.stop(0)
        with running_registry(bootstrap=first.bootstrap) as second:
            assert ask(second, "GET", "/subjects/kept/versions/latest")[1]["schema"] == STRING
            assert ask(second, "POST", "/subjects/more/versions", {"schema": LONG})[1]["id"] == 2


def test_several_instances_have_one_leader_and_the_others_forward() -> None:
    with running_registry(count=3) as running:
        for index in range(3):
            body = {"schema": json.dumps({"type": "fixed", "name": "F", "size": index})}
            status, answer = ask(running, "POST", f"/subjects/s{index}/versions", body, index=index)
            assert (status, answer["id"]) == (200, index + 1)
            # An instance can read at once what it has just written.
            status, answer = ask(running, "GET", f"/subjects/s{index}/versions/1", index=index)
            assert (status, answer["id"]) == (200, index + 1)
        status, answer = ask(running, "POST", "/subjects/s0/versions", {"schema": "{"}, index=2)
        assert (status, answer["error_code"]) == (422, 42201)


def test_another_instance_leads_when_the_leader_ends() -> None:
    with running_registry(count=2) as running:
        assert ask(running, "POST", "/subjects/a/versions", {"schema": STRING})[0] == 200
        leader = min(range(2), key=lambda index: running.urls[index])
        running.stop(leader)

        def registered() -> Any:
            status, answer = ask(
                running, "POST", "/subjects/b/versions", {"schema": LONG}, index=1 - leader
            )
            if status == 200:
                return status, answer
            # Until the group has noticed that the leader left.
            assert answer["error_code"] in (50003, 50004), answer
            return None

        status, answer = wait_until("a leader", registered, timeout=120)
        assert (status, answer["id"]) == (200, 2)


def test_an_instance_that_may_not_lead_does_not() -> None:
    with (
        running_registry() as running,
        running_registry(bootstrap=running.bootstrap, eligible=False) as other,
    ):
        assert ask(other, "POST", "/subjects/a/versions", {"schema": STRING})[1]["id"] == 1
        assert ask(running, "GET", "/subjects")[1] == ["a"]


def test_users_and_tls(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("# name: password\nanna: secret:1\nbert: x,admin\n")
    signer = authority()
    key = str(signer.sign("CN=localhost", "localhost").write(tmp_path / "key.pem"))
    trust = str(signer.write_trust(tmp_path / "trust.pem"))
    server = TlsSettings(keystore_type="PEM", keystore_location=key)
    checked = TlsSettings(truststore_type="PEM", truststore_location=trust)
    listening = Listening(
        host="localhost",
        tls=server_context(server),
        forward_tls=client_context(checked),
        authenticate=authenticator(str(users)),
    )
    with running_registry(listening, count=2) as running:
        for url in running.urls:
            assert url.startswith("https://localhost:")
            config = {"url": url, "ssl.ca.location": trust, "max.retries": 0}
            with SchemaRegistryClient(
                {**config, "basic.auth.user.info": "anna:secret:1"}
            ) as client:
                assert client.register_schema("s", Schema(STRING, "AVRO")) == 1
            with SchemaRegistryClient({**config, "basic.auth.user.info": "anna:other"}) as client:
                with pytest.raises(SchemaRegistryError) as caught:
                    client.get_subjects()
                assert caught.value.http_status_code == 401
            with SchemaRegistryClient(config) as client, pytest.raises(SchemaRegistryError):
                client.get_subjects()


@pytest.mark.parametrize("line", ["anna", ": x", "anna:", "anna: MD5:abc"])
def test_a_file_of_users_that_is_wrong_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "users").write_text(line)
    with pytest.raises(ValueError, match="line 1"):
        authenticator(str(tmp_path / "users"))


def raw(running: Running, data: bytes) -> bytes:
    """The server's answer to bytes, until it closes the connection."""
    at = urlsplit(running.url)
    with socket.create_connection((at.hostname or "", at.port or 0), 60) as connection:
        connection.sendall(data)
        found = b""
        while more := connection.recv(65_536):
            found += more
        return found


def test_what_a_peer_sends_is_limited() -> None:
    limits = HttpLimits(body_bytes=1000, head_bytes=2000, connections=3)
    with running_registry(Listening(limits=limits)) as running:
        head = b"POST /subjects/a/versions HTTP/1.1\r\nHost: x\r\n"
        assert raw(running, head + b"Content-Length: 2000\r\n\r\n" + b"x" * 2000).startswith(
            b"HTTP/1.1 413"
        )
        assert raw(running, head + b"A: " + b"x" * 70_000).startswith(b"HTTP/1.1 431")
        assert raw(running, b"hello\r\n\r\n").startswith(b"HTTP/1.1 400")
        chunked = b"Transfer-Encoding: chunked\r\n\r\n" + b"100\r\n" + b"x" * 256 + b"\r\n"
        assert raw(
            running, head + chunked * 1 + (b"100\r\n" + b"x" * 256 + b"\r\n") * 5
        ).startswith(b"HTTP/1.1 413")
        assert ask(running, "GET", "/subjects") == (200, [])
        at = urlsplit(running.url)
        held = [socket.create_connection((at.hostname or "", at.port or 0), 60) for _ in range(3)]
        try:
            for each in held:
                each.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
                assert each.recv(100).startswith(b"HTTP/1.1 200")
            with socket.create_connection((at.hostname or "", at.port or 0), 60) as refused:
                assert refused.recv(1) == b""
        finally:
            for each in held:
                each.close()


POST = b"POST /subjects/a/versions HTTP/1.1\r\nHost: x\r\n"


def test_bodies_of_all_clients_together_are_limited() -> None:
    with running_registry(Listening(limits=HttpLimits(bodies_bytes=100_000))) as running:
        at = urlsplit(running.url)
        both = [socket.create_connection((at.hostname or "", at.port or 0), 60) for _ in range(2)]
        for each in both:
            each.sendall(POST + b"Content-Length: 160000\r\n\r\n" + b" " * 150_000)
        (refused,), _, _ = select.select(both, [], [])
        (other,) = (each for each in both if each is not refused)
        assert refused.recv(100).startswith(b"HTTP/1.1 503")
        assert ask(running, "POST", "/subjects/a/versions", {"schema": STRING})[0] == 200
        other.sendall(b" " * 10_000)
        assert other.recv(100).startswith(b"HTTP/1.1 400"), "it was read whole"
        for each in both:
            each.close()
        many = POST + b"Content-Length: 160000\r\n\r\n" + b" " * 160_000
        with socket.create_connection((at.hostname or "", at.port or 0), 60) as after:
            for _ in range(3):
                after.sendall(many)
                assert after.recv(1000).startswith(b"HTTP/1.1 400"), "what was read is let go"


def test_the_body_of_who_is_no_user_is_not_kept(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("anna: secret")
    listening = Listening(
        authenticate=authenticator(str(tmp_path / "users")), limits=HttpLimits(bodies_bytes=0)
    )
    body = b"Content-Length: 160000\r\n\r\n" + b" " * 160_000
    user = f"Authorization: {basic('anna', 'secret')}\r\n".encode()
    with running_registry(listening) as running:
        at = urlsplit(running.url)
        with socket.create_connection((at.hostname or "", at.port or 0), 60) as connection:
            for _ in range(2):
                connection.sendall(POST + body)
                assert connection.recv(1000).startswith(b"HTTP/1.1 401")
            connection.sendall(POST + user + body)
            assert connection.recv(1000).startswith(b"HTTP/1.1 503")
        large = b"Content-Length: 5000000\r\n\r\n" + b" " * 4_500_000
        assert raw(running, POST + large).startswith(b"HTTP/1.1 413")


def test_answers_that_no_client_asks_for_every_day() -> None:
    with running_registry() as running:
        assert ask(running, "GET", "/") == (200, {})
        assert ask(running, "GET", "/nothing") == (
            404,
            {"error_code": 404, "message": "HTTP 404 Not Found"},
        )
        assert ask(running, "PATCH", "/subjects")[0] == 405
        assert ask(running, "POST", "/subjects/a/versions")[0] == 400
        ask(running, "POST", "/subjects/a%2Fb/versions", {"schema": STRING})
        ask(running, "POST", "/subjects/:.c:x/versions", {"schema": LONG})
        assert ask(running, "GET", "/subjects") == (200, [":.c:x", "a/b"])
        assert ask(running, "GET", "/contexts/.c/subjects") == (200, [":.c:x"])
        assert ask(running, "GET", "/contexts/.c/subjects/x/versions/latest")[1]["id"] == 1
        assert ask(running, "GET", "/subjects?subjectPrefix=a") == (200, ["a/b"])
        assert ask(running, "GET", "/subjects?limit=1&offset=1") == (200, ["a/b"])
        assert ask(running, "GET", "/schemas/ids/1/schema") == (200, "string")
        assert ask(running, "GET", "/subjects/a%2Fb/versions/1/schema") == (200, "string")
        assert len(ask(running, "GET", "/schemas?latestOnly=true")[1]) == 2
        guid = ask(running, "GET", "/schemas/ids/1")[1]["guid"]
        assert ask(running, "GET", f"/schemas/guids/{guid}/ids") == (
            200,
            [{"context": ".", "id": 1}],
        )
        assert ask(running, "GET", "/schemas/ids/1?fetchMaxId=true")[1]["maxId"] == 1
        assert ask(running, "GET", "/schemas/ids/1?format=strange")[0] == 422
        assert ask(running, "PUT", "/config", {"compatibility": "NONE"}) == (
            200,
            {"compatibility": "NONE"},
        )
        assert ask(running, "PUT", "/config", {"alias": "x"})[1]["error_code"] == 42205
        assert ask(running, "GET", "/config/a%2Fb?defaultToGlobal=true") == (
            200,
            {"compatibilityLevel": "NONE"},
        )
        assert ask(running, "PUT", "/mode", {"mode": "IMPORT"})[1]["error_code"] == 42205
        assert ask(running, "PUT", "/mode?force=true", {"mode": "IMPORT"})[0] == 200
        imported = {"schema": LONG, "id": 77, "version": 5}
        assert ask(running, "POST", "/subjects/i/versions", imported)[1]["id"] == 77
        assert ask(running, "GET", "/subjects/i/versions") == (200, [5])
        assert ask(running, "DELETE", "/contexts/.c")[1]["error_code"] == 42211
        assert ask(running, "GET", "/v1/metadata/id")[1]["id"] == "_schemas"


V1, PLAIN = "application/vnd.schemaregistry.v1+json", "application/json"
UNVERSIONED = "application/vnd.schemaregistry+json"


def typed(
    running: Running, method: str, path: str, headers: dict[str, str], body: bytes | None = None
) -> tuple[int, str | None, Any]:
    """The status, content type and body of an answer."""
    at = urlsplit(running.url)
    connection = http.client.HTTPConnection(at.hostname or "", at.port, timeout=60)
    try:
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        return answer.status, answer.getheader("Content-Type"), json.loads(answer.read())
    finally:
        connection.close()


ACCEPT: list[tuple[str | None, str | None]] = [
    (None, V1),
    ("*/*", V1),
    ("application/*", V1),
    (PLAIN, PLAIN),
    (UNVERSIONED, UNVERSIONED),
    ("Application/JSON; charset=utf-8", PLAIN),
    (f"{PLAIN}, {V1}", V1),  # equally wanted: the registry's own
    (f"{PLAIN}, {V1};q=0.5", PLAIN),
    (f"{V1};q=0.2, {UNVERSIONED};q=0.4, text/html", UNVERSIONED),
    (f"text/html, {PLAIN};q=0.9, */*;q=0.8", PLAIN),
    (f"{V1};q=0, */*", UNVERSIONED),
    ("text/html, */*;q=0.1", V1),
    ("text/html", None),
    ("text/*", None),
    ("application/xml, text/plain;q=0.3", None),
    (f"{PLAIN};q=0", None),
    (f"{PLAIN};q=nonsense", None),
]
SENT: list[tuple[str | None, bool]] = [
    (None, True),
    (V1, True),
    (UNVERSIONED, True),
    (PLAIN, True),
    (f"{PLAIN}; charset=utf-8", True),
    ("application/octet-stream", True),
    ("application/x-www-form-urlencoded", False),  # as `curl -d` sends it
    ("text/plain", False),
    ("application/xml", False),
    ("json", False),
]


def test_answers_and_bodies_have_the_types_of_confluents_registry() -> None:
    with running_registry() as running:
        for accept, kind in ACCEPT:
            headers = {} if accept is None else {"Accept": accept}
            status, found, said = typed(running, "GET", "/subjects", headers)
            assert (status, found) == ((200, kind) if kind else (406, V1)), accept
            if kind is None:
                assert said == {"error_code": 406, "message": "HTTP 406 Not Acceptable"}
        for sent, taken in SENT:
            headers = {"Accept": PLAIN} | ({} if sent is None else {"Content-Type": sent})
            body = b'{"compatibility": "NONE"}'
            status, found, said = typed(running, "PUT", "/config", headers, body)
            assert (status, found) == (200 if taken else 415, PLAIN), sent
            if not taken:
                message = "HTTP 415 Unsupported Media Type"
                assert said == {"error_code": 415, "message": message}
        # A request without a body has no content type.
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert typed(running, "GET", "/subjects", form)[:2] == (200, V1)
        missing = ("GET", "/subjects/b/versions")
        assert typed(running, *missing, {"Accept": PLAIN})[:2] == (404, PLAIN)
        assert typed(running, "GET", "/nothing", {"Accept": "text/html"})[:2] == (404, V1)
        twice = f"Accept: text/html\r\nAccept: {PLAIN}\r\nConnection: close\r\n\r\n"
        answer = raw(running, b"GET /subjects HTTP/1.1\r\nHost: x\r\n" + twice.encode())
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"content-type: application/json\r\n" in answer.lower()


def test_verbose_checks_say_what_is_wrong() -> None:
    with running_registry() as running:
        record = {"type": "record", "name": "R", "fields": []}
        ask(running, "POST", "/subjects/a/versions", {"schema": json.dumps(record)})
        wider = {**record, "fields": [{"name": "x", "type": "int"}]}
        path = "/compatibility/subjects/a/versions/latest?verbose=true"
        status, answer = ask(running, "POST", path, {"schema": json.dumps(wider)})
        assert status == 200 and not answer["is_compatible"]
        assert "READER_FIELD_MISSING_DEFAULT_VALUE" in answer["messages"][0]
        assert answer["messages"][1:] == [
            "{oldSchemaVersion: 1}",
            '{oldSchema: \'{"type":"record","name":"R","fields":[]}\'}',
            "{compatibility: 'BACKWARD'}",
        ]
