"""Guess passwords over many connections at once, from a process of its own, until standard input
ends.

    python -m hostile.guessing HOST PORT CONNECTIONS

Each connection logs in by SCRAM or PLAIN with a wrong password, again and again. A JSON line at the
end says how many guesses were refused, and whether one was not.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from typing import Any

import trio

from pk.core.auth.plain import PlainClient
from pk.core.auth.sasl import SaslError
from pk.core.auth.scram import Mechanism, ScramClient
from pk.core.errors import ErrorCode
from pk.core.wire.codec import decode_whole
from pk.core.wire.header import frame_request, parse_response_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from pk.core.wire.messages.sasl_handshake import SaslHandshakeRequest

PAUSE_S = 0.01
"""After a guess: who guesses faster gets no further, because the answers come late."""


class _Guesser:
    def __init__(self, host: str, port: int, number: int, seen: Counter[str]) -> None:
        self._address = host, port
        self._number = number
        self._seen = seen

    async def run(self) -> None:
        """Guess until cancelled."""
        guess = 0
        while True:
            guess += 1
            try:
                async with await trio.open_tcp_stream(*self._address) as stream:
                    await self._log_in(stream, guess)
            except (OSError, EOFError, trio.BrokenResourceError, SaslError):
                self._seen["closed"] += 1
            await trio.sleep(PAUSE_S)

    async def _log_in(self, stream: trio.SocketStream, guess: int) -> None:
        mechanism = Mechanism.SCRAM_SHA_256
        by_scram = (self._number + guess) % 2 == 0
        name = mechanism.sasl_name if by_scram else "PLAIN"
        user = ("admin", "nobody")[guess % 2]
        client: ScramClient | PlainClient = PlainClient(user, f"guess-{guess}")
        if by_scram:
            client = ScramClient(mechanism, user, f"guess-{guess}", f"nonce{guess}x{self._number}")
        await _call(stream, SaslHandshakeRequest(mechanism=name), 1)
        token = client.step(b"")
        while True:
            answer = await _call(stream, SaslAuthenticateRequest(auth_bytes=token), 2)
            if answer.error_code:
                refused = answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
                self._seen["refused" if refused else "other error"] += 1
                return
            if not by_scram or client.complete:
                self._seen["let in"] += 1
                return
            token = client.step(bytes(answer.auth_bytes))


async def _call(stream: trio.SocketStream, request: Any, version: int) -> Any:
    key = request.API_KEY
    await stream.send_all(frame_request(request, version, 1, "guess"))
    frame = await _read(stream, int.from_bytes(await _read(stream, 4), "big"))
    _, position = parse_response_header(frame, key, version)
    return decode_whole(MESSAGES[key].response, frame, version, position)


async def _read(stream: trio.SocketStream, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = await stream.receive_some(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


async def _main(host: str, port: int, connections: int) -> None:
    seen: Counter[str] = Counter()
    async with trio.open_nursery() as nursery:
        for number in range(connections):
            nursery.start_soon(_Guesser(host, port, number, seen).run)
        print("guessing", flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    trio.run(_main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
