"""The same requests to Apache Kafka with its StandardAuthorizer, whose answers are kept in
tests/golden/authorization.json."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from typing import Any, Self

import pytest
from api import authorization_scenario
from api.authorization_cases import CASES, DESCRIBER, NOBODY
from api.test_authorization import GOLDEN
from clients import apache_kafka

from pk.core.config.views import STANDARD_AUTHORIZER
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(apache_kafka.available() is not None, reason="needs java and mvn"),
]

PASSWORD = "secret"


class Connection:
    """One principal's connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self._socket.close()

    def log_in(self, user: str) -> None:
        """Authenticate by SASL/PLAIN."""
        said = self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert not said.error_code, said
        token = f"\0{user}\0{PASSWORD}".encode()
        said = self.ask(SaslAuthenticateRequest(auth_bytes=token), 2)
        assert not said.error_code, said

    def ask(self, request: Any, version: int) -> Any:
        """The answer to a request."""
        key = request.API_KEY
        self._socket.sendall(frame_request(request, version, 1, "test"))
        frame = self._read(int.from_bytes(self._read(4), "big"))
        _, position = parse_response_header(frame, key, version)
        return decode_whole(MESSAGES[key].response, frame, version, position)

    def _read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            assert more, "the broker closed the connection"
            data += more
        return data


@pytest.fixture(scope="module")
def apache() -> Iterator[tuple[int, int]]:
    """The ports for a super user, and for users by SASL/PLAIN."""
    users = [NOBODY, DESCRIBER, *(case.principal for case in CASES)]
    passwords = " ".join(f'user_{name.removeprefix("User:")}="{PASSWORD}"' for name in users)
    (users_port,) = apache_kafka.free_ports(1)
    cluster = apache_kafka.ApacheKafka(1, heap="256m")
    own = cluster.server_properties(1)
    cluster.properties |= {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
        "listeners": f"{own['listeners']},USERS://127.0.0.1:{users_port}",
        "advertised.listeners": f"{own['advertised.listeners']},USERS://127.0.0.1:{users_port}",
        "listener.security.protocol.map": (
            f"{own['listener.security.protocol.map']},USERS:SASL_PLAINTEXT"
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "offsets.topic.num.partitions": "4",
        "transaction.state.log.num.partitions": "4",
        "share.coordinator.state.topic.num.partitions": "4",
        "listener.name.users.plain.sasl.jaas.config": (
            f"org.apache.kafka.common.security.plain.PlainLoginModule required {passwords};"
        ),
    }
    with cluster:
        yield cluster.port(1), users_port


def test_answers_are_those_that_are_kept(apache: tuple[int, int]) -> None:
    own_port, users_port = apache
    connections: dict[str | None, Connection] = {}

    def ask(principal: str | None, request: Any, version: int) -> Any:
        connection = connections.get(principal)
        if connection is None:
            connection = Connection(own_port if principal is None else users_port)
            connections[principal] = connection
            if principal is not None:
                connection.log_in(principal.removeprefix("User:"))
        return connection.ask(request, version)

    try:
        found = authorization_scenario.run(ask)
    finally:
        for connection in connections.values():
            connection.__exit__()
    if os.environ.get("PK_WRITE_GOLDEN"):
        lines = ",\n".join(f"{json.dumps(name)}:{json.dumps(found[name])}" for name in found)
        GOLDEN.write_text(f"{{\n{lines}\n}}\n")
    assert found == json.loads(GOLDEN.read_text(encoding="utf-8"))
