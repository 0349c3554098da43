"""A controller's decisions about ACLs."""

from __future__ import annotations

import pytest
from each import for_each

from pk.core.auth.acls import AclBinding, AclFilter
from pk.core.errors import ErrorCode, KafkaError
from pk.core.meta.acls import CHANGES_MAX, create_acls, delete_acls
from pk.core.meta.events import AclCreated, AclDeleted
from pk.core.meta.image import MetadataImage

GOOD = AclBinding(2, "t", 3, "User:a", "*", 3, 3)


def test_a_rule_that_exists_is_created_without_an_event() -> None:
    first = create_acls(MetadataImage(), [GOOD, GOOD])
    assert first.records == [AclCreated(*GOOD)] and first.reply == [None, None]
    image = MetadataImage().apply(first.records)
    again = create_acls(image, [GOOD])
    assert again.records == [] and again.reply == [None]


@for_each(
    ("change", "said"),
    [
        ({"resource_type": 0}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 99}, "Invalid resourceType UNKNOWN"),
        ({"resource_type": 1}, "Invalid resourceType ANY"),
        ({"pattern_type": 2}, "Invalid patternType MATCH"),
        ({"operation": 1}, "Invalid operation ANY"),
        ({"operation": -1}, "Invalid operation UNKNOWN"),
        ({"permission": 1}, "Invalid permissionType ANY"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"resource_type": 4}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"principal": "a"}, "Could not parse principal from `a`"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_and_the_others_are_created(
    change: dict[str, object], said: str
) -> None:
    decision = create_acls(MetadataImage(), [GOOD._replace(**change), GOOD])  # type: ignore[arg-type]
    error, fine = decision.reply
    assert fine is None and decision.records == [AclCreated(*GOOD)]
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST and (error.message or "").startswith(said)


def test_filters_delete_what_they_select_once() -> None:
    other = GOOD._replace(principal="User:b")
    image = MetadataImage().apply([AclCreated(*GOOD), AclCreated(*other)])
    decision = delete_acls(
        image, [AclFilter(), AclFilter(*GOOD), AclFilter(resource_type=0), AclFilter(operation=77)]
    )
    every, one, *refused = decision.reply
    assert every == [GOOD, other] and one == [GOOD]
    assert [isinstance(error, KafkaError) and error.message for error in refused] == [
        "Unknown patternFilter.",
        "Unknown entryFilter.",
    ]
    assert decision.records == [AclDeleted(*GOOD), AclDeleted(*other)]
    assert len(image.apply(decision.records).acls) == 0


def test_a_request_changes_no_more_than_apaches_limit() -> None:
    rules = [GOOD._replace(resource_name=str(i)) for i in range(CHANGES_MAX + 1)]
    with pytest.raises(KafkaError) as refused:
        create_acls(MetadataImage(), rules)
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
    image = MetadataImage().apply(AclCreated(*rule) for rule in rules)
    with pytest.raises(KafkaError) as refused:
        delete_acls(image, [AclFilter()])
    assert refused.value.code == ErrorCode.POLICY_VIOLATION
