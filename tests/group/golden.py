"""Both sides of the conversations about groups: our broker's answers, and Apache Kafka's.

The golden text of a conversation has the answers that both give. With PK_WRITE_GOLDEN=1, the run
against Apache Kafka writes it again.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from pathlib import Path

import trio
from clients.fixtures import SETTINGS, WORKER, Kafka
from group.brokers import running
from group.conversation import Script, hold
from group.peers import Ours, Theirs

from pk.core.wire.messages.find_coordinator import FindCoordinatorRequest

GOLDEN = Path(__file__).parents[1] / "golden"


class GoldenConversations:
    """The conversations about one kind of group: their golden texts are in the folder `name`, and
    our broker has the settings of the shared Apache Kafka whose keys begin with `keys`."""

    def __init__(self, name: str, keys: str) -> None:
        self._name = name
        self._keys = keys

    async def compare_ours(self, script: Script) -> None:
        """Hold it with our broker."""
        same = {k.replace(".", "_"): v for k, v in SETTINGS.items() if k.startswith(self._keys)}
        async with running(auto_create_topics_enable="false", **same) as test:
            await test.ask(FindCoordinatorRequest(coordinator_keys=["g"]))
            await test.loaded()
            lines = await hold(script, Ours(test), "")
        _compare(lines, self._golden(script))

    def compare_theirs(self, script: Script, apache: Kafka) -> None:
        """Hold it with Apache Kafka."""

        async def main() -> list[str]:
            mark = f"-{self._name}-{WORKER}"
            peer = Theirs(apache.host, apache.port)
            try:
                with trio.fail_after(180):
                    await peer.until_it_coordinates(f"g{mark}-{script.__name__}")
                    return await hold(script, peer, mark)
            finally:
                await peer.close()

        lines = trio.run(main)
        golden = self._golden(script)
        if os.environ.get("PK_WRITE_GOLDEN"):
            golden.parent.mkdir(exist_ok=True, parents=True)
            golden.write_text("\n".join(lines) + "\n")
        _compare(lines, golden)

    def _golden(self, script: Script) -> Path:
        return GOLDEN / self._name / f"{script.__name__}.txt"


def _compare(lines: list[str], golden: Path) -> None:
    expected = golden.read_text().splitlines()
    assert lines == expected, "\n".join(unified_diff(expected, lines, golden.name, "this run"))
