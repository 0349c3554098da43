"""The APIs of a broker with `pk.faults.enable`: each request is recorded, and is subject to the
active faults, which a test adds with PkFaults (pk_faults.py).

A failed request gets its API's error response for a whole request. APIs without such a response,
because each of their items has an error code, handle the request and then set the error in every
item. Therefore such an API must not change anything (none does). A dropped request is not handled,
and its connection closes.
"""

from __future__ import annotations

from collections.abc import Iterable
from inspect import isawaitable
from typing import Any, Final, cast

import trio
from msgspec.structs import replace

from pk.core.api.records.delayed_fetch import DelayedFetch
from pk.core.api.registry import Answer, Api, parked
from pk.core.api_keys import API_KEYS
from pk.core.broker.faults.faults import Fault, Faults, SeenRequest, is_exempt
from pk.core.broker.requests.context import Context
from pk.core.errors import KafkaError, ProtocolError
from pk.core.values import ZERO_UUID
from pk.core.wire.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from pk.core.wire.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from pk.core.wire.schema import Struct

FETCH: Final = 1
PK_FAULTS: Final = 10_000
VERSION_TOPIC_ID: Final = 13


def with_faults(apis: Iterable[Api], faults: Faults) -> tuple[Api, ...]:
    """Return `apis` with faults injected into their requests, except for the API that adds
    faults."""
    return tuple(api if api.key == PK_FAULTS else _with_faults(api, faults) for api in apis)


def _with_faults(api: Api, faults: Faults) -> Api:
    handle = api.handle

    def handle_with_faults(context: Context, request: Any) -> Answer[Any]:
        """Handle a request, unless a fault applies to it."""
        if is_exempt(context.client_id) or request is None:
            return _parked_if_waiting(api, handle(context, request))
        faults.record_request(_copy_of(context, request))
        met = faults.faults_for(api.key, context.client_id)
        if met:
            return _apply(met, api, context, request)
        return _parked_if_waiting(api, handle(context, request))

    # After a delay, the request may still need the connection's buffer, so it must not be parked.
    return replace(api, handle=handle_with_faults, waits=False)


def _parked_if_waiting(api: Api, answer: Any) -> Any:
    """Return the handler's result. If the original API parks its awaitables, park this one, because
    the API with faults does not."""
    if api.waits and isawaitable(answer) and not isinstance(answer, DelayedFetch):
        return parked(answer)
    return answer


async def _apply(met: list[Fault], api: Api, context: Context, request: Any) -> Any:
    """Answer a request that meets faults: apply the delays first, then the fault that ends the
    request."""
    for fault in met:
        await trio.sleep(fault.delay_ms / 1000)
    final = next((fault for fault in met if fault.kind != "delay"), None)
    if final is None:
        answer = api.handle(context, request)
        return await answer if isawaitable(answer) and not api.waits else answer
    name = API_KEYS[api.key].name
    if final.kind == "drop-answer":
        await _answer(api, context, request)
    if final.kind != "fail":
        raise ProtocolError(f"an injected fault drops its {name} request")
    error = KafkaError(final.error_code, "This error was injected by a test.")
    if api.key == FETCH:
        return _failed_fetch(context, request, error)
    try:
        return api.error_response(request, error, context.api_version)
    except TypeError:
        answer = await _answer(api, context, request)
        _set_errors(answer, final.error_code)
        return answer


async def _answer(api: Api, context: Context, request: Any) -> Any:
    """Return the handler's final result, after awaiting every awaitable."""
    result: Any = api.handle(context, request)
    while isawaitable(result):
        result = await result
    return result


def _failed_fetch(context: Context, request: FetchRequest, error: KafkaError) -> FetchResponse:
    """Return the error for each fetched partition, and close the session, so that the client lists
    all its partitions next time."""
    wanted = {
        (topic.topic, topic.topic_id, partition.partition): None
        for topic in request.topics
        for partition in topic.partitions
    }
    session = context.broker.data.fetch_sessions.close(request.session_id)
    if session is not None:
        by_id = context.api_version >= VERSION_TOPIC_ID
        for fetched in session.partitions.values():
            name, topic_id = ("", fetched.topic_id) if by_id else (fetched.topic, ZERO_UUID)
            wanted.setdefault((name, topic_id, fetched.partition))
    return FetchResponse(
        responses=[
            FetchableTopicResponse(
                topic=topic,
                topic_id=topic_id,
                partitions=[
                    PartitionData(
                        partition_index=index, error_code=error.code, high_watermark=-1, records=b""
                    )
                ],
            )
            for topic, topic_id, index in wanted
        ]
    )


def _set_errors(value: Any, code: int) -> None:
    """Set every error code in a response."""
    if isinstance(value, list):
        for item in cast(list[Any], value):
            _set_errors(item, code)
    elif isinstance(value, Struct):
        for name in value.FIELDS:
            if name == "error_code":
                setattr(value, name, code)
            else:
                _set_errors(getattr(value, name), code)


def _copy_of(context: Context, request: Any) -> SeenRequest:
    """Return a copy of the request for the record, without views of the connection's buffer, which
    is reused for the next requests."""
    size = 0
    if isinstance(request, ProduceRequest):
        copied: list[TopicProduceData] = []
        for topic in request.topic_data:
            partitions: list[PartitionProduceData] = []
            for data in topic.partition_data:
                records = bytes(data.records or b"")
                size += len(records)
                partitions.append(PartitionProduceData(index=data.index, records=records))
            copied.append(
                TopicProduceData(
                    name=topic.name, topic_id=topic.topic_id, partition_data=partitions
                )
            )
        request = ProduceRequest(
            transactional_id=request.transactional_id,
            acks=request.acks,
            timeout_ms=request.timeout_ms,
            topic_data=copied,
        )
    return SeenRequest(
        context.api_key,
        context.api_version,
        context.client_id,
        context.connection_id,
        request,
        size,
    )
