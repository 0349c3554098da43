"""`--where`: conditions, their errors, and that no code is ever evaluated."""

import pytest
from each import for_each
from hypothesis import given
from hypothesis import strategies as st

from pk.cli.output.where import WhereError, parse_where, why_no_match

ROW = {
    "topic": "orders",
    "partitions": 12,
    "lag": 150,
    "ratio": 0.5,
    "internal": False,
    "leader": None,
    "isr": [1, 2],
    "replicas": [1, 2, 3],
    "text": "it's",
    "number": "9",
    "digits": "7" * 5000,
    "value": '{"amount": 9.5, "user": {"id": 7}, "tags": ["a", "b"]}',
    "headers": [["region", "eu"], ["retry", "2"]],
}


@for_each(
    ("condition", "expected"),
    [
        ("topic = orders", True),
        ("topic == 'orders'", True),
        ("topic != orders", False),
        ("partitions > 9", True),
        ("partitions>9", True),
        ("partitions < 9", False),
        ("number > 10", False),
        ("number = 9.0", True),
        ("ratio >= .5", True),
        ("topic ~ '^ord'", True),
        ("topic !~ ^ord", False),
        ("topic > nothing", True),
        ("isr contains 2", True),
        ("isr contains 3", False),
        ("topic contains der", True),
        ("partitions in (1, 12)", True),
        ("topic in (a, b)", False),
        ("internal", False),
        ("not internal", True),
        ("internal = false", True),
        ("leader = null", True),
        ("leader != null", False),
        ("leader > 0", False),
        ("lag > 100 and topic ~ order", True),
        ("lag > 200 or topic = orders", True),
        ("lag > 200 or topic = x and internal", False),
        ("(lag > 200 or topic = orders) and not internal", True),
        ("not (lag > 100)", False),
        ('text = "it\'s"', True),
        ("value.amount > 9", True),
        ("value.user.id = 7", True),
        ("value.tags contains b", True),
        ("value.nothing = 1", False),
        ("headers.region = eu", True),
        ("headers.nothing = eu", False),
        ("headers.retry > 1", True),
        (f"text = {'7' * 5000}", False),
        (f"digits = {'7' * 5000}", True),
        ("digits > 9", False),
        ("topic = and", None),
    ],
)
def test_a_condition(condition: str, expected: bool | None) -> None:
    if expected is None:
        with pytest.raises(WhereError):
            parse_where(condition)
    else:
        assert parse_where(condition, ROW)(ROW) is expected


@for_each(
    ("condition", "said"),
    [
        ("", "a condition is missing"),
        ("lag >", "a value is missing"),
        ("lag > 1 topic", "unexpected 'topic'"),
        ("(lag > 1", "not closed"),
        ("lga > 1", "did you mean lag"),
        ("topic ~ '('", "not a regular expression"),
        ("topic in a", "needs a list"),
        ("topic in (a", "not closed"),
        ("= 5", "a field is expected"),
        ("topic = 'x", "cannot read"),
        ("__import__('os')", "unknown field"),
    ],
)
def test_what_is_no_condition(condition: str, said: str) -> None:
    with pytest.raises(WhereError, match=said):
        parse_where(condition, ROW)


STATES = (
    {"group": "billing", "state": "Empty", "type": "Classic"},
    {"group": "Audit", "state": "Stable", "type": None},
)

WORDS = ("state", "type")


@for_each(
    ("condition", "found"),
    [
        ("state = empty", ["billing"]),
        ("state == EMPTY", ["billing"]),
        ("state != empty", ["Audit"]),
        ("state in (empty, stable)", ["billing", "Audit"]),
        ("type = classic", ["billing"]),
        ("type != classic", ["Audit"]),
        ("group = audit", []),
        ("group in (Billing)", []),
        ("state ~ empty", []),
    ],
)
def test_words_of_a_fixed_set_are_known_in_any_case_and_names_are_not(
    condition: str, found: list[str]
) -> None:
    holds = parse_where(condition, STATES[0], WORDS)
    assert [row["group"] for row in STATES if holds(row)] == found


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ("state = emtpy", "no state is 'emtpy'; did you mean Empty?"),
        ("state = Dead", "no state is 'Dead'; there is Empty, Stable."),
        ("group = audit and state = Stable", "no group is 'audit'; did you mean Audit?"),
        ("group in (billling, x)", "no group is 'billling'; did you mean billing?"),
        ("state = empty and type = x", "no type is 'x'; there is Classic."),
        ("state ~ x", None),
        ("type = null and state = Empty", None),
    ],
)
def test_why_nothing_is_found(condition: str, said: str | None) -> None:
    assert why_no_match(condition, STATES, WORDS, all_values=True) == (said and f"--where: {said}")
    quiet = why_no_match(condition, STATES, WORDS, all_values=False)
    assert quiet == (f"--where: {said}" if said and "did you mean" in said else None)


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">="])
def test_a_number_is_not_compared_with_a_text(operator: str) -> None:
    """Compared as texts, a lag of 300000 would be below `5m`, and one of 9 above it."""
    rows = ({"lag": 300000, "group": "a"}, {"lag": 9, "group": "b"}, {"lag": None, "group": "c"})
    holds = parse_where(f"lag {operator} 5m", rows[0])
    assert not any(holds(row) for row in rows)
    said = why_no_match(f"lag {operator} 5m", rows, all_values=False)
    assert said == "--where: lag is a number, and '5m' is not."
    assert parse_where("lag > '10'", rows[0])(rows[0])
    assert why_no_match("group > z", rows, all_values=True) is None


@given(st.text(alphabet="ab1 .'\"()=<>!~,andornti", max_size=30))
def test_any_text_is_a_condition_or_a_sentence(text: str) -> None:
    try:
        holds = parse_where(text)
    except WhereError as e:
        assert str(e).startswith("--where")
    else:
        assert holds({"a": "1", "b": [1], "ab": None}) in (True, False)
