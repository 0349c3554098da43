"""Fetch, versions 0–3: for consumers of 0.10 and before, which read messages of the formats v0 (0,
1) and v1 (2, 3).

The log holds record batches; they are converted for the answer
(core/broker/requests/down_conversion.py).
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
    """Look, convert, and answer. Where all that was found are control batches, of which nothing is
    left, wait for more: an empty answer would be asked for again at once."""
    purgatory, deadline = fetch.context.broker.purgatory, fetch.deadline
    partitions = fetch.partitions()
    while True:
        await fetch.look_until(fetch.keys(), deadline)
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
    """Make messages of the batches that were found, in the format that the version reads; whether
    there are any, or an error to tell."""
    magic = 1 if fetch.context.api_version >= VERSION_MESSAGE_V1 else 0
    left, any_found = fetch.max_bytes, fetch.urgent
    for fetched, data in fetch.found:
        await let_others_run()
        partition = fetch.context.broker.replicas.find(fetched.topic, fetched.partition)
        if partition is None or data.records is None or not data.records.length:
            continue
        if left <= 0 and any_found:
            data.records = EMPTY
            continue
        log, limit = partition.log, min(left, fetched.partition_max_bytes)
        end = data.high_watermark if fetch.replica_id == CONSUMER else log.log_end_offset
        try:
            messages = await lower_slice(log, data.records, magic, fetched.fetch_offset, limit, end)
            data.records = BytesSlice(messages)
        except KafkaError as e:
            data.error_code, data.records = fetch.code_of(e), EMPTY
        left -= data.records.length
        any_found |= bool(data.error_code or data.records.length)
    return any_found
