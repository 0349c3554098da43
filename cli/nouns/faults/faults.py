"""`pk test faults`: faults that brokers of pk make for a test."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pk.cli.cluster.partition_selection import parse_partition
from pk.cli.exits import Unusable
from pk.cli.nouns.faults.options import AddFault
from pk.cli.nouns.faults.rows import ChangedFaultRow, FaultRow
from pk.cli.output.rows import listing
from pk.cli.runtime.context import Context
from pk.core.api_keys import BY_NAME
from pk.core.errors import ErrorCode, error_name
from pk.core.nearest import did_you_mean
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.pk_faults import (
    FAULTS_CLIENT_ID,
    PkFaultsRequest,
    PkFaultsResponse,
)

if TYPE_CHECKING:
    from pk.net.client.admin import Admin

REQUEST_KINDS = ("fail", "delay", "drop", "drop-answer")


async def _admin(context: Context) -> "Admin":
    """An admin client that no fault affects: otherwise a fault for Metadata could not be removed.
    Raises ConfigError."""
    settings = context.settings
    properties = {**settings.properties, "client.id": FAULTS_CLIENT_ID}
    context.use(settings._replace(properties=properties))
    return await context.admin()


async def list_faults(context: Context) -> None:
    """Run `pk test faults list`."""
    admin = await _admin(context)
    rows: list[FaultRow] = [
        {
            "broker": broker,
            "fault": fault.fault_id,
            "kind": fault.kind,
            "api": MESSAGES[fault.request_key].name,
            "error": error_name(fault.fault_code) if fault.fault_code else None,
            "delay_ms": fault.delay_ms,
            "times": None if fault.times < 0 else fault.times,
            "met": fault.met,
            "client_id": fault.client_id,
        }
        for broker, answer in (await admin.ask_faults(PkFaultsRequest(action="list"))).items()
        for fault in answer.faults
    ]
    context.show(listing(FaultRow, rows))
    if not rows:
        context.say_empty("No faults are active.")


async def add(context: Context, options: AddFault) -> None:
    """Run `pk test faults add`."""
    request = _request(options)
    admin = await _admin(context)
    # A dry run, too, says that these brokers make no faults.
    brokers = await admin.ask_faults(PkFaultsRequest(action="list"))
    if context.change.dry_run:
        _show(context, options.kind, options.target, dict.fromkeys(brokers, "would be done"))
        return
    context.allow()
    if request.action == "move-leader":
        tp = parse_partition(str(options.target), "TARGET")
        leader = await admin.move_leader(tp)
        away = f"broker {leader} leads" if leader >= 0 else "resigned for a moment"
        _show(context, options.kind, options.target, {max(leader, min(brokers)): away})
        return
    if request.action == "rebalance":
        coordinator = await admin.cluster.coordinator(request.group)
        answers = await admin.ask_faults(request, [coordinator])
    else:
        answers = await admin.ask_faults(request)
    _show(context, options.kind, options.target, {b: _done(request, a) for b, a in answers.items()})


async def clear(context: Context, fault: int | None) -> None:
    """Run `pk test faults clear`."""
    admin = await _admin(context)
    brokers = await admin.ask_faults(PkFaultsRequest(action="list"))
    having = [
        broker
        for broker, answer in brokers.items()
        if fault is None or fault in [one.fault_id for one in answer.faults]
    ]
    if not having:
        raise Unusable(f"No broker has fault {fault}; `pk test faults list` shows them all.")
    target = None if fault is None else str(fault)
    if context.change.dry_run:
        _show(context, "clear", target, dict.fromkeys(having, "would be done"))
        return
    context.allow()
    request = PkFaultsRequest(action="clear", fault_id=-1 if fault is None else fault)
    answers = await admin.ask_faults(request, having)
    _show(context, "clear", target, {b: f"{a.count} cleared" for b, a in answers.items()})


def _request(options: AddFault) -> PkFaultsRequest:
    """The request to the brokers. Raises Unusable if options are missing or contradict each
    other."""
    kind, target = options.kind, options.target
    if (kind == "fail") != (options.error is not None):
        raise Unusable("--error is required for `fail`, and allowed only there.")
    if (kind in ("delay", "set-clock")) != (options.duration is not None):
        raise Unusable(
            "--duration is required for `delay` and `set-clock`, and allowed only there."
        )
    if options.times is not None and kind not in REQUEST_KINDS:
        raise Unusable(f"--times cannot be combined with {kind}, which happens once.")
    if options.client_id is not None and kind not in (*REQUEST_KINDS, "disconnect"):
        raise Unusable(f"--client-id cannot be combined with {kind}.")
    if (target is None) != (kind in ("disconnect", "set-clock")):
        wants = "takes no TARGET" if target is not None else "needs a TARGET"
        raise Unusable(f"{kind} {wants}.")
    shift_ms = options.duration.ms if options.duration else 0
    match kind:
        case "fail" | "delay" | "drop" | "drop-answer":
            return PkFaultsRequest(
                action="add",
                kind=kind,
                request_key=_api_key(str(target)),
                fault_code=0 if options.error is None else _error(options.error),
                delay_ms=shift_ms,
                times=-1 if options.times is None else options.times,
                client_id=options.client_id,
            )
        case "disconnect":
            return PkFaultsRequest(action=kind, client_id=options.client_id)
        case "move-leader":
            parse_partition(str(target), "TARGET")
            return PkFaultsRequest(action=kind)
        case "rebalance":
            return PkFaultsRequest(action=kind, group=str(target))
        case "set-clock":
            return PkFaultsRequest(action=kind, shift_ms=shift_ms)


def _api_key(name: str) -> int:
    known = {one.lower(): api.key for one, api in BY_NAME.items()}
    if name.lower() not in known:
        raise Unusable(f"pk has no API {name!r}{did_you_mean(name, BY_NAME, otherwise='.')}")
    return known[name.lower()]


def _error(name: str) -> int:
    if name.upper() not in ErrorCode.__members__:
        near = did_you_mean(name.upper(), ErrorCode.__members__, otherwise=".")
        raise Unusable(f"--error: Kafka has no error {name!r}{near}")
    return ErrorCode[name.upper()]


def _done(request: PkFaultsRequest, answer: PkFaultsResponse) -> str:
    match request.action:
        case "add":
            return f"fault {answer.count}"
        case "disconnect":
            return f"{answer.count} closed"
        case "set-clock":
            return f"{answer.shift_ms / 1000:g} s ahead"
        case _:
            return "done"


def _show(context: Context, kind: str, target: str | None, results: Mapping[int, str]) -> None:
    rows: list[ChangedFaultRow] = [
        {"broker": broker, "kind": kind, "target": target, "result": result}
        for broker, result in results.items()
    ]
    context.show(listing(ChangedFaultRow, rows))
