"""Faults over the wire: only where `pk.faults.enable` is true; every request can fail in its own
shape."""

import pytest
from each import for_each
from nodes import Caller, caller_of, make_topic, running_node, trio_test
from wire.values import Maker

from pk.core.api.index import APIS
from pk.core.broker.faults.faults import FAULTS_MAX
from pk.core.errors import ErrorCode, KafkaError
from pk.core.wire.index import MESSAGES
from pk.core.wire.messages.api_versions import ApiVersionsRequest
from pk.core.wire.messages.pk_faults import PkFaultsRequest, PkFaultsResponse
from pk.net.client.admin import open_admin

PK_FAULTS = 10_000


async def ask(caller: Caller, **fields: object) -> PkFaultsResponse:
    return await caller.call(PkFaultsRequest(**fields), 0)  # type: ignore[arg-type]


@trio_test
async def test_a_broker_makes_no_faults_unless_it_is_told_to() -> None:
    async with running_node() as node:
        assert node.broker.faults is None
        async with caller_of(node) as caller:
            told = await caller.call(
                ApiVersionsRequest(client_software_name="t", client_software_version="1"), 4
            )
            assert PK_FAULTS not in {k.api_key for k in told.api_keys}
            await caller.send(PkFaultsRequest(action="list"), 0)
            assert await caller.at_end()
        async with open_admin(node.address) as admin:
            with pytest.raises(KafkaError, match=r"pk\.faults\.enable=true") as caught:
                await admin.ask_faults(PkFaultsRequest(action="list"))
            assert caught.value.code == ErrorCode.SECURITY_DISABLED


@trio_test
async def test_faults_are_added_listed_and_cleared() -> None:
    async with running_node(pk__faults__enable="true") as node, caller_of(node) as caller:
        first = await ask(caller, action="add", kind="delay", request_key=3, delay_ms=1, times=2)
        second = await ask(
            caller, action="add", kind="fail", request_key=60, fault_code=41, client_id="me"
        )
        listed = (await ask(caller, action="list")).faults
        assert [(f.fault_id, f.kind, f.request_key, f.times, f.client_id) for f in listed] == [
            (first.count, "delay", 3, 2, None),
            (second.count, "fail", 60, -1, "me"),
        ]
        assert (await ask(caller, action="clear", fault_id=first.count)).count == 1
        again = await ask(caller, action="clear", fault_id=first.count)
        assert again.error_code == ErrorCode.RESOURCE_NOT_FOUND
        assert (await ask(caller, action="clear")).count == 1
        assert (await ask(caller, action="list")).faults == []


@for_each(
    ("fields", "says"),
    [
        ({"action": "explode"}, "no action 'explode'"),
        (
            {"action": "add", "kind": "explode", "request_key": 0},
            "a fault must be one of fail, delay",
        ),
        ({"action": "add", "kind": "fail", "request_key": 5}, "no request has api key 5"),
        ({"action": "add", "kind": "fail", "request_key": PK_FAULTS}, "no request has api key"),
        ({"action": "add", "kind": "fail", "request_key": 0}, "other than NONE"),
        ({"action": "add", "kind": "drop", "request_key": 0, "times": 0}, "at least 1 request"),
        (
            {"action": "add", "kind": "delay", "request_key": 0, "delay_ms": -1},
            "a delay must be from 0",
        ),
        ({"action": "set-clock", "shift_ms": 1 << 60}, "the clock cannot be"),
        ({"action": "move-leader", "topic": "none", "partition": 0, "delay_ms": 0}, None),
        (
            {"action": "move-leader", "topic": "none", "delay_ms": -1},
            "the time without leadership must be",
        ),
        ({"action": "rebalance", "group": "none"}, None),
    ],
)
def test_what_is_refused(fields: dict[str, object], says: str | None) -> None:
    @trio_test
    async def run() -> None:
        async with running_node(pk__faults__enable="true") as node, caller_of(node) as caller:
            answer = await ask(caller, **fields)
            assert answer.error_code
            assert says is None or says in (answer.error_message or "")

    run()


@trio_test
async def test_faults_are_bounded() -> None:
    async with running_node(pk__faults__enable="true") as node, caller_of(node) as caller:
        add = {"action": "add", "kind": "drop", "request_key": 60}
        for _ in range(FAULTS_MAX):
            assert not (await ask(caller, **add)).error_code
        assert (await ask(caller, **add)).error_code == ErrorCode.POLICY_VIOLATION


@trio_test
async def test_every_request_fails_in_its_own_shape() -> None:
    """Clients can read the answer of an API that failed as a whole or in each item."""
    async with running_node(pk__faults__enable="true") as node, caller_of(node) as admin:
        await make_topic(admin, "known")
        for api in APIS:
            code = ErrorCode.UNKNOWN_SERVER_ERROR
            added = await ask(
                admin, action="add", kind="fail", request_key=api.key, fault_code=code, times=1,
                client_id="test",
            )  # fmt: skip
            assert not added.error_code
            version = api.versions[1]
            async with caller_of(node) as caller:
                request = Maker(1, small=True).message(MESSAGES[api.key].request, version)
                if api.key == 0:
                    request.acks = 1
                answer = await caller.call(request, version)
                assert type(answer) is MESSAGES[api.key].response, MESSAGES[api.key].name
            await ask(admin, action="clear")


@trio_test
async def test_faults_need_the_right_to_alter_the_cluster() -> None:
    async with (
        running_node(
            pk__faults__enable="true",
            authorizer__class__name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super__users="User:admin",
        ) as node,
        caller_of(node) as caller,
    ):
        answer = await ask(caller, action="list")
        assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
