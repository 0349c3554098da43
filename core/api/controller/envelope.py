"""Envelope (58), version 0: a client's request, forwarded by the broker that received it (KIP-590).

The controller handles the request as if the client itself had sent it: with the client's principal,
address, and version of the API. Only controllers' listeners serve envelopes, and an envelope may
contain only APIs that brokers forward. The envelope's own error is NOT_CONTROLLER or
REQUEST_TIMED_OUT (outcome unknown), so that the broker repeats its request. All other errors are
for the client, in the inner response.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from pk.core.api.index import AT_CONTROLLER, answer
from pk.core.broker.controller.client_identity import host_of, principal_of
from pk.core.broker.loop_time import let_others_run
from pk.core.broker.requests.context import Context
from pk.core.errors import ErrorCode, KafkaError, ProtocolError
from pk.core.wire.codec import check_end, decode_in_steps, join
from pk.core.wire.header import RequestHead, frame_response_in_steps, parse_request_header
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse


async def handle(context: Context, request: EnvelopeRequest) -> EnvelopeResponse:
    """Handle the inner request. Raises KafkaError: INVALID_REQUEST, UNSUPPORTED_VERSION,
    PRINCIPAL_DESERIALIZATION_FAILURE, NOT_CONTROLLER, REQUEST_TIMED_OUT."""
    head = _head(request)
    api = AT_CONTROLLER.get(head.api_key)
    if api is None or not api.forwarded:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST, f"requests of api {head.api_key} are not forwarded"
        )
    if not api.versions[0] <= head.api_version <= api.versions[1]:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
    asker = replace(
        context,
        api_key=head.api_key,
        api_version=head.api_version,
        correlation_id=head.correlation_id,
        client_id=head.client_id,
        principal=principal_of(request.request_principal),
        client_host=host_of(request.client_host_address),
    )
    most = context.broker.config.pk_request_elements_max
    response = await answer(api, asker, await _body(request, head, most))
    frame = await frame_response_in_steps(
        response, head.api_key, head.api_version, head.correlation_id, let_others_run
    )
    return EnvelopeResponse(response_data=join(frame)[4:], image_offset=asker.image_offset)


def _head(request: EnvelopeRequest) -> RequestHead:
    try:
        return parse_request_header(request.request_data)
    except ProtocolError as e:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(e)) from e


async def _body(request: EnvelopeRequest, head: RequestHead, elements_max: int) -> Any:
    message, data, version = MESSAGES[head.api_key].request, request.request_data, head.api_version
    try:
        body, end = await decode_in_steps(
            message, data, version, head.body_position, let_others_run, elements_max
        )
        check_end(message, data, version, end)
    except ProtocolError as e:
        raise KafkaError(ErrorCode.INVALID_REQUEST, str(e)) from e
    return body
