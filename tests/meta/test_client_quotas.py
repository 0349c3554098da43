"""Client quotas in the metadata: the answers of pk, and of Apache Kafka if it is installed, and the
stored quotas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from clients.fixtures import Kafka, fresh_name
from clients.topics import wait_until
from meta.test_against_kafka import Asking

from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta import client_quotas, snapshot
from pk.core.meta.events import ClientQuotaChanged
from pk.core.meta.image import MetadataImage
from pk.core.quota.entity import CLIENT_ID, IP, USER, entity_of
from pk.core.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from pk.core.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Names = Mapping[str, str | None]
Ops = dict[str, float | None]

INVALID, NONE = ErrorCode.INVALID_REQUEST, (ErrorCode.NONE, None)
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


def entry(names: Names, *ops: tuple[str, float | None]) -> EntryData:
    return EntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


def altering(*entries: EntryData, validate_only: bool = False) -> AlterClientQuotasRequest:
    return AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)


def describing(
    *components: tuple[str, int, str | None], strict: bool = False
) -> DescribeClientQuotasRequest:
    return DescribeClientQuotasRequest(
        components=[
            ComponentData(entity_type=kind, match_type=how, match=name)
            for kind, how, name in components
        ],
        strict=strict,
    )


def answered(answer: Any) -> list[tuple[dict[str, str | None], int, str | None]]:
    return sorted(
        (
            (
                {part.entity_type: part.entity_name for part in one.entity},
                one.error_code,
                one.error_message,
            )
            for one in answer.entries
        ),
        key=lambda one: sorted(str(one[0])),
    )


def described(answer: DescribeClientQuotasResponse) -> dict[frozenset[Any], dict[str, float]]:
    assert answer.error_code == 0, answer.error_message
    return {
        frozenset((part.entity_type, part.entity_name) for part in one.entity): {
            value.key: value.value for value in one.values
        }
        for one in answer.entries or ()
    }


def refused(why: str) -> tuple[int, str]:
    return INVALID, why


EMPTY = refused("Invalid empty client quota entity")
RATE = ("producer_byte_rate", 1000.0)

ALTERED: dict[str, tuple[Names, list[tuple[str, float | None]], tuple[int, str | None]]] = {
    "a user": ({USER: "x"}, [RATE, ("consumer_byte_rate", 5.0)], NONE),
    "every key": (
        {USER: "x", CLIENT_ID: None},
        [RATE, ("request_percentage", 0.5), ("controller_mutation_rate", 0.5)],
        NONE,
    ),
    "an address": ({IP: "10.1.2.3"}, [("connection_creation_rate", 7.0)], NONE),
    "all addresses": ({IP: None}, [("connection_creation_rate", 7.0)], NONE),
    "a host": ({IP: "localhost"}, [("connection_creation_rate", 7.0)], NONE),
    "no host": (
        {IP: "no.such.host.invalid"},
        [("connection_creation_rate", 7.0)],
        refused("no.such.host.invalid is not a valid IP or resolvable host."),
    ),
    "nothing": ({}, [RATE], EMPTY),
    "an address of a user": (
        {USER: "x", IP: "1.2.3.4"},
        [RATE],
        refused(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId"
        ),
    ),
    "an unknown type": (
        {"group": "x"},
        [RATE],
        refused("Unhandled client quota entity type: group"),
    ),
    "an empty name": ({USER: ""}, [RATE], refused("Empty user not supported")),
    "an empty client id": (
        {USER: "x", CLIENT_ID: ""},
        [RATE],
        refused("Empty client-id not supported"),
    ),
    "an unknown key": (
        {USER: "x"},
        [("made_up", 1.0)],
        refused("Invalid configuration key made_up"),
    ),
    "a user's connections": (
        {USER: "x"},
        [("connection_creation_rate", 1.0)],
        refused("Invalid configuration key connection_creation_rate"),
    ),
    "an address's bytes": (
        {IP: "1.2.3.4"},
        [RATE],
        refused("Invalid configuration key producer_byte_rate"),
    ),
    "a part of a byte": (
        {USER: "x"},
        [("producer_byte_rate", 1.5)],
        refused("producer_byte_rate cannot be a fractional value."),
    ),
    "nearly a whole byte": ({USER: "x"}, [("producer_byte_rate", 2.0000001)], NONE),
    "more than a long": (
        {USER: "x"},
        [("producer_byte_rate", 1e300)],
        refused("Proposed value for producer_byte_rate is too large for a LONG."),
    ),
    "nothing at all": (
        {USER: "x"},
        [("producer_byte_rate", 0.0)],
        refused("Quota producer_byte_rate must be greater than 0"),
    ),
    "less than nothing": (
        {USER: "x"},
        [("request_percentage", -1.0)],
        refused("Quota request_percentage must be greater than 0"),
    ),
    "no number": ({USER: "x"}, [("request_percentage", float("nan"))], NONE),
    "no whole number": ({USER: "x"}, [("producer_byte_rate", float("nan"))], NONE),
    "without end": ({USER: "x"}, [("request_percentage", float("inf"))], NONE),
    "all the longs": ({USER: "x"}, [("producer_byte_rate", float(2**63))], NONE),
    "an int and more": (
        {IP: None},
        [("connection_creation_rate", float(2**31))],
        refused("Proposed value for connection_creation_rate is too large for an INT."),
    ),
    "what is missing": ({USER: "nobody"}, [("producer_byte_rate", None)], NONE),
    "an unknown key away": ({USER: "x"}, [("made_up", None)], NONE),
    "one of two": (
        {USER: "x"},
        [("made_up", 1.0), RATE],
        refused("Invalid configuration key made_up"),
    ),
    "a key twice": (
        {USER: "x"},
        [RATE, RATE],
        refused("Ignoring duplicate entity ClientQuotaEntity(entries={user=x})"),
    ),
    "no keys": ({USER: "x"}, [], NONE),
}


@pytest.fixture(scope="module")
def asking(kafka: Kafka) -> Iterator[Asking]:
    with Asking(kafka) as asking:
        yield asking


@pytest.mark.parametrize("case", ALTERED)
def test_a_change_is_answered_in_apaches_words(asking: Asking, case: str) -> None:
    names, ops, expected = ALTERED[case]
    answer = asking.ask(altering(entry(names, *ops), validate_only=True))
    assert [(names, *one[1:]) for one in answered(answer)] == [(dict(names), *expected)]


def test_an_entity_changes_once_in_a_request(asking: Asking) -> None:
    one, other = entry({USER: "x"}, RATE), entry({USER: "y"}, ("producer_byte_rate", 2.0))
    said = "Ignoring duplicate entity ClientQuotaEntity(entries={user=x})"
    answer = asking.ask(altering(one, other, one, validate_only=True))
    assert answered(answer) == [({USER: "x"}, INVALID, said), ({USER: "y"}, *NONE)]


FILTERS: dict[str, tuple[DescribeClientQuotasRequest, tuple[int, str]]] = {
    "a nameless type": (
        describing(("", EXACT, "a")),
        refused("Invalid empty entity type."),
    ),
    "a type twice": (
        describing((USER, EXACT, "a"), (USER, SPECIFIED, None)),
        refused("Entity type user cannot appear more than once in the filter."),
    ),
    "an unknown type": (
        describing(("group", EXACT, "a")),
        (ErrorCode.UNSUPPORTED_VERSION, "Unsupported entity type group"),
    ),
    "exactly null": (
        describing((USER, EXACT, None)),
        refused("Request specified MATCH_TYPE_EXACT, but set match string to null."),
    ),
    "a named default": (
        describing((USER, DEFAULT, "a")),
        refused("Request specified MATCH_TYPE_DEFAULT, but also specified a match string."),
    ),
    "any of a name": (
        describing((USER, SPECIFIED, "a")),
        refused("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string."),
    ),
    "an unknown match": (describing((USER, 3, "a")), refused("Unknown match type 3")),
    "an address of a user": (
        describing((USER, EXACT, "a"), (IP, SPECIFIED, None)),
        refused(
            "Invalid entity filter component combination. IP filter component should not be used "
            "with user or clientId filter component."
        ),
    ),
}


@pytest.mark.parametrize("case", FILTERS)
def test_a_filter_is_refused_in_apaches_words(asking: Asking, case: str) -> None:
    request, expected = FILTERS[case]
    answer = asking.ask(request)
    assert (answer.error_code, answer.error_message, answer.entries) == (*expected, None)


def test_filters_select_as_kip_546_says(asking: Asking) -> None:
    user, client = fresh_name("user"), fresh_name("client")
    entities: list[Names] = [
        {USER: user},
        {USER: user, CLIENT_ID: client},
        {USER: user, CLIENT_ID: None},
        {USER: None, CLIENT_ID: client},
        {CLIENT_ID: client},
        {IP: "10.9.8.7"},
    ]
    rates: list[Ops] = [
        {"connection_creation_rate": 3.0}
        if IP in names
        else {"consumer_byte_rate": float(1000 + number), "request_percentage": 12.5}
        for number, names in enumerate(entities)
    ]
    every = [entry(n, *r.items()) for n, r in zip(entities, rates, strict=True)]
    answer = asking.ask(altering(*every))
    assert [code for _, code, _ in answered(answer)] == [0] * len(entities)
    ours = {frozenset(n.items()): r for n, r in zip(entities, rates, strict=True)}

    def selected(*components: tuple[str, int, str | None], strict: bool = False) -> list[int]:
        found = described(asking.ask(describing(*components, strict=strict)))
        for names in found.keys() & ours.keys():
            assert found[names] == ours[names]
        return [n for n, names in enumerate(ours) if names in found]

    wait_until("the broker knows the quotas", lambda: selected() == [0, 1, 2, 3, 4, 5])
    assert selected(strict=True) == []
    assert selected((USER, EXACT, user)) == [0, 1, 2]
    assert selected((USER, EXACT, user), strict=True) == [0]
    assert selected((USER, DEFAULT, None)) == [3]
    assert selected((USER, DEFAULT, None), strict=True) == []
    assert selected((USER, SPECIFIED, None)) == [0, 1, 2, 3]
    assert selected((USER, SPECIFIED, None), strict=True) == [0]
    assert selected((CLIENT_ID, EXACT, client)) == [1, 3, 4]
    assert selected((CLIENT_ID, SPECIFIED, None), strict=True) == [4]
    assert selected((USER, EXACT, user), (CLIENT_ID, SPECIFIED, None)) == [1, 2]
    assert selected((USER, EXACT, user), (CLIENT_ID, DEFAULT, None), strict=True) == [2]
    assert selected((USER, SPECIFIED, None), (CLIENT_ID, SPECIFIED, None)) == [1, 2, 3]
    assert selected((IP, SPECIFIED, None)) == [5]
    assert selected((IP, EXACT, "10.9.8.7"), strict=True) == [5]
    assert selected((IP, DEFAULT, None)) == []

    changed = entry({USER: user}, ("consumer_byte_rate", None), ("request_percentage", 99.0))
    asking.ask(altering(changed))
    ours[frozenset({(USER, user)})] = {"request_percentage": 99.0}
    wait_until(
        "the broker knows the change",
        lambda: (
            described(asking.ask(describing((USER, EXACT, user), strict=True)))[
                frozenset({(USER, user)})
            ]
            == {"request_percentage": 99.0}
        ),
    )
    gone = [entry(n, *((key, None) for key in r)) for n, r in zip(entities, rates, strict=True)]
    asking.ask(altering(*gone))
    wait_until("the quotas are gone", lambda: selected() == [])


def test_quotas_are_in_the_snapshot_and_a_quota_without_keys_is_none() -> None:
    image = MetadataImage()
    one, two = entry({USER: "a", CLIENT_ID: None}, RATE), entry({IP: "1.2.3.4"})
    image = image.apply(client_quotas.alter(image, altering(one, two)).records)
    entity = entity_of({CLIENT_ID: None, USER: "a"})
    assert image.quotas == {entity: {"producer_byte_rate": 1000.0}}
    assert snapshot.load(snapshot.dump(image)) == image
    assert client_quotas.alter(image, altering(one)).records == [], "it is so already"
    gone = client_quotas.alter(
        image, altering(entry({USER: "a", CLIENT_ID: None}, (RATE[0], None)))
    )
    assert gone.records == [ClientQuotaChanged(entity, RATE[0], None)]
    assert image.apply(gone.records).quotas == {}


def test_a_request_that_would_only_be_checked_changes_nothing() -> None:
    decision = client_quotas.alter(
        MetadataImage(), altering(entry({USER: "a"}, RATE), validate_only=True)
    )
    assert decision.records == []


def test_too_many_changes_are_refused() -> None:
    entries = [entry({USER: f"u{n}"}, RATE) for n in range(client_quotas.CHANGES_MAX + 1)]
    with pytest.raises(KafkaError) as refusal:
        client_quotas.alter(MetadataImage(), altering(*entries))
    assert refusal.value.code == ErrorCode.POLICY_VIOLATION
