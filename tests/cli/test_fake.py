"""Templates of made-up records."""

import json
import re

import pytest
from each import for_each

from pk.cli.exits import Unusable
from pk.cli.records.fake import FUNCTIONS, NAMED, fake, page


def values(template: str, count: int = 50, **options: object) -> list[str]:
    made = fake(template, **options).take(count)  # pyright: ignore[reportArgumentType]
    return [value.decode() for _, value in made if value is not None]


@pytest.mark.parametrize(
    ("template", "pattern"),
    [
        ("{{seq}}", r"\d+"),
        ("{{faker pyint min_value=3 max_value=4}}", "[34]"),
        ("{{faker iban locale=de_DE}}", r"DE\d{20}"),
        ("{{faker address}}", r"[^\n\"\\]+"),
        ("{{int -3 3}}", r"-?[0-3]"),
        ("{{int 0 9000000000000000000}}", r"\d{1,19}"),
        ("{{float 1 2}}", r"(1\.\d\d|2\.00)"),
        ("{{float 0 1 0}}", "[01]"),
        ("{{bool}}", "true|false"),
        ("{{bool 1}}", "true"),
        ("{{choice a 'b c' d}}", "a|b c|d"),
        ("{{name}}", r"\w+ \w+"),
        ("{{first_name}}{{last_name}}", r"\w+"),
        ("{{email}}", r"[a-z.]+@example\.com"),
        ("{{city}} {{country}}", r"\w+ [A-Z]{2}"),
        ("{{words 3}}", r"[a-z]+ [a-z]+ [a-z]+"),
        ("{{uuid}}", r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"),
        ("{{hex 5}}", r"[0-9a-f]{5}"),
        ("{{ip}}", r"10(\.\d{1,3}){3}"),
        ("{{now}}", r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"),
        ("{{past 1d}}", r"\d{4}-\d\d-\d\dT.*Z"),
        ("{{now_ms -1h}}", r"\d{13}"),
        ("100 % {{{seq}}} %s", r"100 % \{\d+\} %s"),
    ],
)
def test_functions(template: str, pattern: str) -> None:
    for value in values(template):
        assert re.fullmatch(pattern, value), value


def test_seq_counts_and_may_begin_elsewhere() -> None:
    assert values("{{seq}}/{{seq 7}}", 3) == ["0/7", "1/8", "2/9"]


def test_a_named_value_is_the_same_in_key_and_value() -> None:
    made = fake('{"u": {{who}}, "v": {{who}}}', key="u-{{who: int 1 1000000}}", seed=3).take(20)
    for key, value in made:
        assert key is not None and value is not None
        found = json.loads(value)
        assert found["u"] == found["v"] == int(key.removeprefix(b"u-"))
    assert len({key for key, _ in made}) > 1


@pytest.mark.parametrize("name", NAMED)
def test_the_templates_with_a_name_are_json_with_a_key(name: str) -> None:
    for key, value in fake(name).take(50):
        assert key
        assert value is not None and isinstance(json.loads(value), dict)
    assert fake(name, key="mine").one()[0] == b"mine"  # and what its own key named is there


@pytest.mark.parametrize(
    "template", [*NAMED, "{{now}} {{uuid}} {{past 3d}} {{float 0 1}}", "{{faker city}}"]
)
def test_the_same_seed_makes_the_same_records(template: str) -> None:
    assert fake(template, seed=5).take(100) == fake(template, seed=5).take(100)
    assert fake(template, seed=5).take(100) != fake(template, seed=6).take(100)


def test_a_seed_stops_the_clock() -> None:
    assert values("{{now}}", 2, seed=1) == ["2026-01-01T00:00:00.000Z", "2026-01-01T00:00:01.000Z"]


def test_a_template_from_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/order.json"
    with open(path, "w") as file:
        file.write('{"n": {{seq}}}\n')
    assert values(f"@{path}", 2) == ['{"n": 0}', '{"n": 1}']
    with pytest.raises(Unusable, match="cannot be read"):
        fake(f"@{path}.not")


@for_each(
    ("template", "said"),
    [
        ("order", "did you mean orders"),
        ("zzz", "names are orders, users, clicks"),
        ("{{sequ}}", "did you mean seq"),
        ("{{}}", "is empty"),
        ("{{int 1}}", "int takes LOW HIGH"),
        ("{{int 5 1}}", "5 is above 1"),
        ("{{int a 5}}", "whole number, not 'a'"),
        ("{{float 1 x}}", "a number, not 'x'"),
        ("{{choice}}", "takes A B C"),
        ("{{name 3}}", "takes no arguments"),
        ("{{past soon}}", "not a duration"),
        ("{{faker}}", "takes PROVIDER"),
        ("{{faker citty}}", "did you mean city"),
        ("{{faker city locale=xx_YY}}", "no locale 'xx_YY'"),
        ("{{faker city a}}", "needs KEY=VALUE"),
        ("{{faker city a=1}}", "cannot make city a=1"),
        ("{{hex 0}}", "from 1"),
        ("{{choice 'a}}", "cannot be read"),
        ("{{seq: int 1 2}}", "is a function"),
        ("{{a: int 1 2}} {{a: int 1 2}}", "defined twice"),
        ("{{a: int 1 2}} {{b}}", "unknown function 'b'"),
    ],
)
def test_mistakes_are_reported(template: str, said: str) -> None:
    with pytest.raises(Unusable, match=re.escape(said)):
        fake(template)


def test_the_help_page_names_everything() -> None:
    text = page()
    for name in (*FUNCTIONS, *NAMED):
        assert re.search(rf"^  {name}\b", text, re.MULTILINE), name
    assert max(map(len, text.splitlines())) <= 100
