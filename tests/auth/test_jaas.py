"""Logins in Java's notation."""

import pytest
from each import for_each

from pk.core.auth.jaas import PLAIN_LOGIN, JaasError, parse_jaas


@for_each(
    ("text", "options"),
    [
        (f'{PLAIN_LOGIN} required username="a" password="b";', {"username": "a", "password": "b"}),
        (
            f"{PLAIN_LOGIN} Required\n  username='a'\n  password=b ;\n",
            {"username": "a", "password": "b"},
        ),
        (f'{PLAIN_LOGIN} required user_a="x;y=z \\"q\\"";', {"user_a": 'x;y=z "q"'}),
        (f"{PLAIN_LOGIN} required;", {}),
        (f'{PLAIN_LOGIN} required password="p\\101ss";', {"password": "pAss"}),
        (
            f'{PLAIN_LOGIN} required a="\\7\\0x\\477" b="\\a\\v\\q\\\\";',
            {"a": "\7\0x'7", "b": "\a\vq\\"},
        ),
        (
            f"/* all */ {PLAIN_LOGIN} // what\n required a='/*' /**/ b=c; // end",
            {"a": "/*", "b": "c"},
        ),
        (f"{PLAIN_LOGIN} required a=b-1.2$_ü/ a slash too\n;", {"a": "b-1.2$_ü"}),
        (f'{PLAIN_LOGIN} required a="ends with its line\n;', {"a": "ends with its line"}),
    ],
)
def test_a_login(text: str, options: dict[str, str]) -> None:
    login = parse_jaas(text)
    assert (login.module, login.options) == (PLAIN_LOGIN, options)
    assert all(value not in repr(login) for value in options.values() if len(value) > 1)


def test_the_users_of_plain() -> None:
    login = parse_jaas(f'{PLAIN_LOGIN} required username="a" password="b" user_a="c" user_d="e";')
    assert (login.username, login.password) == ("a", "b")
    assert login.plain_users == {"a": "c", "d": "e"}


@for_each(
    "text",
    [
        "",
        "hush",
        f"{PLAIN_LOGIN} maybe;",
        f'{PLAIN_LOGIN} required username="hush"',
        f'{PLAIN_LOGIN} required username="hush;',
        f"{PLAIN_LOGIN} required username hush;",
        f"{PLAIN_LOGIN} required username=;",
        f"{PLAIN_LOGIN} required password=12345;",
        f"{PLAIN_LOGIN} required password=hush!;",
        f"# no comment\n{PLAIN_LOGIN} required;",
        f"{PLAIN_LOGIN} required /* username=hush;",
        f'{PLAIN_LOGIN} required username="hush"; {PLAIN_LOGIN} required;',
    ],
)
def test_what_is_no_login_is_refused_without_a_word_of_it(text: str) -> None:
    with pytest.raises(JaasError) as refused:
        parse_jaas(text)
    assert "hush" not in str(refused.value)
