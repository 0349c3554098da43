"""The answers of an operation on many items."""

import pytest

from pk.core.errors import ErrorCode, KafkaError
from pk.net.client.answers import Answers

MISSING = KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no such topic")


def test_values_and_errors_are_apart_and_keep_their_order() -> None:
    answers: Answers[str, int | None] = Answers([("b", 2), ("x", MISSING), ("a", None)])
    assert list(answers) == ["b", "x", "a"] and len(answers) == 3 and "x" in answers
    assert list(answers.ok.items()) == [("b", 2), ("a", None)]
    assert answers.errors == {"x": MISSING}


def test_the_value_of_an_item_that_failed_raises_its_error() -> None:
    answers: Answers[str, int | None] = Answers([("a", None), ("x", MISSING)])
    assert answers.value("a") is None
    with pytest.raises(KafkaError, match="no such topic"):
        answers.value("x")
    with pytest.raises(KeyError):
        answers.value("y")


def test_a_later_answer_replaces_an_earlier_one() -> None:
    answers: Answers[str, int] = Answers([("a", MISSING), ("b", 1)])
    answers.update(Answers([("a", 2), ("b", MISSING)]))
    assert (answers.ok, answers.errors) == ({"a": 2}, {"b": MISSING})
    assert list(answers) == ["a", "b"]


def test_the_answers_of_given_items_are_in_their_order() -> None:
    answers: Answers[str, int] = Answers([("a", 1), ("b", MISSING), ("c", 3)])
    found = answers.of(["d", "b", "a"], lambda _: 0)
    assert list(found) == ["d", "b", "a"]
    assert (found.ok, found.errors) == ({"d": 0, "a": 1}, {"b": MISSING})
