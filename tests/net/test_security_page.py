"""The files that the pages about security show work, with ports and paths of the test's own."""

import re
from pathlib import Path
from typing import Any

import pytest
from certificates import authority
from nodes import running_node, trio_test

from pk.core.config import BrokerConfig, parse_properties
from pk.net.client.admin import open_admin
from pk.net.client.config import AdminConfig, parse

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGES = ("security.md", "authentication.md", "authorization.md")
FILES = [
    parse_properties(block)
    for page in PAGES
    for block in re.findall(r"```properties\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
]


def file_with(key: str) -> dict[str, str]:
    (found,) = (dict(file) for file in FILES if key in file)
    return found


def test_each_file_of_the_page_is_taken_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(FILES) >= 3
    # A correct file is accepted even if the library is missing.
    monkeypatch.setattr("pk.net.client.gssapi.library", lambda: None)
    for file in FILES:
        if "sasl.mechanism" in file or "security.protocol" in file:
            parse(AdminConfig, file)
        else:
            BrokerConfig.parse({"node.id": "1", **file})


def test_a_broker_whose_clients_log_in() -> None:
    broker, client = (
        file_with("listener.name.clients.plain.sasl.jaas.config"),
        file_with("sasl.username"),
    )
    broker["listeners"] = "CLIENTS://127.0.0.1:0"
    alice = {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "alice-secret"}

    @trio_test
    async def run() -> None:
        given: dict[str, Any] = {k: v for k, v in broker.items() if k != "node.id"}
        async with running_node(**given) as node:
            for keys in (client, client | alice):
                async with open_admin(node.address, keys) as admin:
                    assert await admin.list_topics() == ()

    run()


@pytest.mark.parametrize("host", ["127.0.0.1"])
def test_a_broker_with_tls(tmp_path: Path, host: str) -> None:
    broker = file_with("ssl.client.auth")
    made = authority()
    broker["ssl.truststore.location"] = str(made.write_trust(tmp_path / "ca.pem"))
    broker["ssl.keystore.location"] = str(made.sign("CN=b", host).write(tmp_path / "broker.pem"))
    broker["listeners"] = f"CLIENTS://{host}:0"
    keys = {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": broker["ssl.truststore.location"],
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(made.sign("CN=Alice,O=x").write(tmp_path / "alice.pem")),
    }

    @trio_test
    async def run() -> None:
        given: dict[str, Any] = {k: v for k, v in broker.items() if k != "node.id"}
        async with running_node(**given) as node, open_admin(node.address, keys) as admin:
            assert await admin.list_topics() == ()

    run()
