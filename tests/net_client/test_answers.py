"""The answers of an operation on many items."""

import pytest

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.answers import Answers

MISSING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")


def test_values_and_errors_are_apart_and_keep_their_order() -> None:
    answers: Answers[str, int | None] = Answers({"b": 2, "x": MISSING, "a": None})
    assert list(answers.ok.items()) == [("b", 2), ("a", None)]
    assert answers.errors == {"x": MISSING}


def test_the_value_of_an_item_that_failed_raises_its_error() -> None:
    answers: Answers[str, int | None] = Answers({"a": None, "x": MISSING})
    assert answers.value("a") is None
    with pytest.raises(KafkaError, match="no such topic"):
        answers.value("x")
    with pytest.raises(KeyError):
        answers.value("y")
