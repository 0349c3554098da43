"""Finalized features: all updates of a request or none, and never what somebody lacks."""

from __future__ import annotations

from typing import Any

import pytest
from each import for_each
from meta.world import cluster, register, registration

from pk.core.errors import ErrorCode
from pk.core.meta import features
from pk.core.meta.events import FeatureChanged
from pk.core.meta.image import MetadataImage
from pk.core.wire.codec import decode_whole, encode
from pk.core.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

OURS = {"f": (0, 3), "g": (1, 1)}
Code = ErrorCode


def world() -> MetadataImage:
    """f is at level 1; broker 1 knows f up to 2 and g, broker 2 as much and more."""
    image, _ = register(cluster(), registration(1, 1, features={"f": (0, 2), "g": (0, 1)}))
    image, _ = register(image, registration(2, 2, features={"f": (0, 9), "g": (0, 9)}))
    return image.apply([FeatureChanged("f", 1)])


def update(image: MetadataImage, *asked: Any, **fields: Any) -> tuple[MetadataImage, Any]:
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=kind)
            for name, level, kind in asked
        ],
        **fields,
    )
    decision = features.update_features(image, request, OURS)
    return image.apply(decision.records), decision.reply


@for_each(
    "asked, code, level",
    [
        ([("f", 2, 1)], Code.NONE, 2),
        ([("f", 1, 1)], Code.NONE, 1),
        ([("f", 0, 2)], Code.NONE, 0),
        ([("f", 0, 3)], Code.NONE, 0),
        ([("f", 0, 1)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 2, 2)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 3, 1)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 4, 1)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", -1, 2)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 2, 0)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 2, 4)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 2, 1), ("f", 1, 1)], Code.NONE, 1),  # the last counts
        ([("f", 4, 1), ("f", 2, 1)], Code.NONE, 2),
        ([("f", 2, 1), ("unknown", 1, 1)], Code.INVALID_UPDATE_VERSION, 1),
        ([("metadata.version", 30, 1)], Code.INVALID_UPDATE_VERSION, 1),
        ([("f", 2, 1), ("g", 1, 1)], Code.NONE, 2),
        ([("g", 0, 2)], Code.INVALID_UPDATE_VERSION, 1),
    ],
)
def test_levels(asked: Any, code: ErrorCode, level: int) -> None:
    image = world()
    after, reply = update(image, *asked)
    assert (reply.error_code, after.features.get("f", 0)) == (code, level)
    assert [r.feature for r in reply.results] == ([] if code else [name for name, _, _ in asked])
    assert not any(r.error_code for r in reply.results)
    if code:
        assert after.offset == image.offset and asked[-1][0] in reply.error_message


def test_validating_changes_nothing() -> None:
    image = world()
    after, reply = update(image, ("f", 2, 1), validate_only=True)
    assert (reply.error_code, after.offset) == (0, image.offset)
    _, reply = update(image, ("f", 4, 1), validate_only=True)
    assert reply.error_code == Code.INVALID_UPDATE_VERSION


def test_the_first_version_says_downgrade_in_another_way() -> None:
    asked = FeatureUpdateKey(feature="f", max_version_level=0, allow_downgrade=True)
    request = UpdateFeaturesRequest(feature_updates=[asked])
    request = decode_whole(UpdateFeaturesRequest, encode(request, 0), 0)
    decision = features.update_features(world(), request, OURS)
    assert decision.records == [FeatureChanged("f", 0)]


def test_the_newest_answer_has_no_results() -> None:
    for level, code in ((2, Code.NONE), (4, Code.INVALID_UPDATE_VERSION)):
        _, reply = update(world(), ("f", level, 1))
        for version in (1, 2):
            answer = decode_whole(UpdateFeaturesResponse, encode(reply, version), version)
            count = int(version == 1 and not code)
            assert (answer.error_code, len(answer.results)) == (code, count)


def test_only_what_is_built_can_be_finalized() -> None:
    request = UpdateFeaturesRequest(
        feature_updates=[FeatureUpdateKey(feature="transaction.version", max_version_level=2)]
    )
    decision = features.update_features(world(), request)
    assert decision.reply.error_code == Code.INVALID_UPDATE_VERSION and decision.records == []


def test_what_protects_acknowledged_records_cannot_be_turned_off() -> None:
    image = cluster().apply([FeatureChanged(features.ELR_VERSION, 1)])
    supported = {features.ELR_VERSION: features.SUPPORTED[features.ELR_VERSION]}
    image, _ = register(image, registration(1, 1, features=supported))
    for level in (0, 2):
        update = FeatureUpdateKey(
            feature=features.ELR_VERSION, max_version_level=level, upgrade_type=3 - level
        )
        decision = features.update_features(image, UpdateFeaturesRequest(feature_updates=[update]))
        assert decision.reply.error_code == Code.INVALID_UPDATE_VERSION and decision.records == []


def test_a_new_cluster_is_at_the_level_of_apaches_release() -> None:
    image = cluster().apply(features.first_features())
    assert image.features == {
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "metadata.version": 30,
        "share.version": 1,
        "streams.version": 1,
        "transaction.version": 2,
    }
    supported = {
        f.name: (f.min_supported_version, f.max_supported_version)
        for f in features.supported_features()
    }
    assert supported["metadata.version"] == (30, 30)


@pytest.mark.parametrize("level", [29, 31])
def test_no_other_level_of_the_metadata_is_accepted(level: int) -> None:
    image = cluster().apply(features.first_features())
    update = FeatureUpdateKey(
        feature="metadata.version", max_version_level=level, upgrade_type=2 if level < 30 else 1
    )
    decision = features.update_features(image, UpdateFeaturesRequest(feature_updates=[update]))
    assert decision.reply.error_code == Code.INVALID_UPDATE_VERSION and decision.records == []


def test_a_broker_that_lacks_a_finalized_feature_is_refused() -> None:
    image = cluster().apply(features.first_features())
    _, reply = register(image, registration(1, 1, features={}))
    assert reply.error_code == Code.UNSUPPORTED_VERSION
