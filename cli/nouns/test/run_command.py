"""`pk test run`: starts brokers, runs the command, forwards signals to it, and ends with its exit
code.

One broker runs in a thread of this process; several run in processes of their own, as in
`pk.testing`.
"""

import os
import signal
from typing import Final

import trio

from pk.cli.exits import CommandError, Unusable
from pk.cli.nouns.test.options import Test
from pk.cli.runtime.context import Context
from pk.core.config import ConfigError
from pk.core.log.failures import LogDirError
from pk.net.endpoints import StartError
from pk.testing.broker_thread import Broker
from pk.testing.cluster_processes import Cluster, ClusterError

PASSED_ON: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
NOT_FOUND: Final = 127
NOT_EXECUTABLE: Final = 126
"""Exit codes of a shell for a command that it cannot run."""


async def run_with_kafka(context: Context, options: Test) -> int:
    """Run `pk test run`. Returns the command's exit code, or 128 plus the number of the signal that
    ended it."""
    config = dict(options.properties)
    try:
        if options.brokers == 1:
            kafka = Broker(config)
        else:
            kafka = Cluster(options.brokers, config)
        await trio.to_thread.run_sync(kafka.start)
    except ConfigError as e:
        raise Unusable(f"{e}.") from None
    except (StartError, LogDirError, ClusterError) as e:
        raise CommandError(f"{e}".strip().rstrip(".") + ".") from e
    try:
        return await _run(context, options.command, kafka.url)
    finally:
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(kafka.stop)


async def _run(context: Context, command: tuple[str, ...], url: str) -> int:
    where = {"KAFKA_BOOTSTRAP_SERVERS": url, "PK_BOOTSTRAP_SERVER": url}
    with trio.open_signal_receiver(*PASSED_ON) as signals:
        try:
            process = await trio.lowlevel.open_process(list(command), env=os.environ | where)
        except FileNotFoundError:
            context.say(f"{command[0]}: command not found.")
            return NOT_FOUND
        except OSError as e:
            context.say(f"{command[0]}: {e.strerror}.")
            return NOT_EXECUTABLE
        async with trio.open_nursery() as nursery:

            async def pass_on() -> None:
                async for number in signals:
                    if not (number == signal.SIGINT and _terminal_signals_both()):
                        process.send_signal(number)

            nursery.start_soon(pass_on)
            try:
                code = await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
            nursery.cancel_scope.cancel()
    return code if code >= 0 else 128 - code


def _terminal_signals_both() -> bool:
    """Whether Ctrl-C at the terminal reaches both the command and this process."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False
