"""Fetch (1), versions 0–18: reads whole batches from each requested partition.

KIP-73 (throttled replicas), KIP-74 (limits; the first batch is always complete), KIP-98
(read_committed), KIP-227 (sessions: core/broker/replication/fetch_sessions.py), KIP-320 (epochs),
KIP-392 (racks), KIP-516 (v13: topics by id), KIP-595 (diverging epochs), KIP-903 (v15: the
follower's broker epoch), KIP-951 (the new leader in the response).

A fetch that finds less than `min_bytes` waits up to `max_wait_ms`, and reads again whenever one of
its partitions changes: for a consumer the high watermark, for a follower the log end.
core/broker/reader.py reads a partition. Records do not pass through this code: a response has
slices of files, which the connection sends with the kernel's help. Records are converted only for
versions 0–3, which read messages (fetch_messages.py).
"""

from pk.core.api.records.delayed_fetch import DelayedFetch, wait
from pk.core.api.records.fetch_messages import answer_messages
from pk.core.api.records.fetch_request import INLINE_PARTITIONS, VERSION_BATCH, Fetch
from pk.core.api.registry import Answer
from pk.core.broker.requests.context import Context
from pk.core.wire.messages.fetch import FetchRequest, FetchResponse


def handle(context: Context, request: FetchRequest) -> Answer[FetchResponse]:
    """Respond immediately if there is enough, or if the request must not wait. Otherwise wait."""
    fetch = Fetch(context, request)
    fetch.begin()
    if context.api_version < VERSION_BATCH:
        return answer_messages(fetch)
    if len(fetch.wanted) > INLINE_PARTITIONS:
        return wait(fetch, fetch.deadline)
    enough = fetch.read() or request.max_wait_ms <= 0 or not fetch.wanted
    if fetch.reader.is_cold:
        return wait(fetch, fetch.deadline)
    if not enough:
        return DelayedFetch(fetch)
    return fetch.answer()
