"""Fetch, versions 0–3, for consumers of 0.10 and before.

They read messages of the formats v0 (versions 0, 1) and v1 (2, 3), so the record batches of the log
are converted for the response (core/broker/requests/down_conversion.py).
"""

from pk.core.api.records.fetch_request import CONSUMER, Fetch
from pk.core.api.registry import Outcome
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.down_conversion import lower_slice
from pk.core.errors import KafkaError
from pk.core.log.file_slices import EMPTY, BytesSlice
from pk.core.wire.messages.fetch import FetchResponse

VERSION_MESSAGE_V1 = 2


async def answer_messages(fetch: Fetch) -> Outcome[FetchResponse]:
    """Read, convert, and respond. If only control batches were found, no messages remain after the
    conversion. Then wait for more: the client would repeat its request immediately after an empty
    response."""
    purgatory, deadline = fetch.context.broker.purgatory, fetch.deadline
    partitions = fetch.partitions()
    while True:
        await fetch.read_until(fetch.keys(), deadline)
        seen = [partition.high_watermark for partition in partitions]
        if await _lower(fetch) or fetch.min_bytes <= 0:
            break
        if not await purgatory.until(
            lambda seen=seen: seen != [partition.high_watermark for partition in partitions],
            partitions,
            deadline,
        ):
            break
    return fetch.answer()


async def _lower(fetch: Fetch) -> bool:
    """Convert the batches found to messages of the version's format. Returns whether the response
    has messages, or an error to report."""
    magic = 1 if fetch.context.api_version >= VERSION_MESSAGE_V1 else 0
    left, any_found = fetch.max_bytes, fetch.urgent
    for fetched, data in fetch.found:
        await let_others_run()
        partition = fetch.context.broker.data.replicas.find(fetched.topic, fetched.partition)
        if partition is None or data.records is None or not data.records.length:
            continue
        if left <= 0 and any_found:
            data.records = EMPTY
            continue
        log, limit = partition.log, min(left, fetched.partition_max_bytes)
        end = data.high_watermark if fetch.replica_id == CONSUMER else log.state.log_end_offset
        try:
            messages = await lower_slice(log, data.records, magic, fetched.fetch_offset, limit, end)
            data.records = BytesSlice(messages)
        except KafkaError as e:
            data.error_code, data.records = fetch.code_of(e), EMPTY
        left -= data.records.length
        any_found |= bool(data.error_code or data.records.length)
    return any_found
