"""Nothing comes: because nothing is written, or because no broker answers? A reader that waits says which."""

import trio

from pk.cli.context import Context
from pk.core.errors import KafkaError, ProtocolError
from pk.net.client.consumer import Consumer
from pk.net.client.errors import ClientError

_LOOK_EVERY_S = 3.0


class Silence:
    """Says once, on standard error, that no broker answers, and once that they do again."""

    def __init__(self, context: Context, consumer: Consumer) -> None:
        self._context = context
        self._consumer = consumer
        self._looked = trio.current_time()
        self._alone = False

    async def look(self, came: bool) -> None:
        """To be called after each wait for records; `came` says whether there were some."""
        now = trio.current_time()
        if not came and now - self._looked < _LOOK_EVERY_S:
            return
        alone = not came and not await self._answers()
        self._looked = trio.current_time()
        if alone and not self._alone:
            where = self._context.settings.cluster_name
            self._context.say(
                f"No broker of {where} answers; reading goes on when one does, Ctrl-C stops."
            )
        elif self._alone and not alone:
            self._context.say("The brokers answer again.")
        self._alone = alone

    async def _answers(self) -> bool:
        with trio.move_on_after(_LOOK_EVERY_S):
            try:
                await self._consumer.cluster.refresh(())
            except (ClientError, KafkaError, ProtocolError):
                return False
            return True
        return False
