"""Logins, rules and patterns as Apache Kafka and Java read them: both are asked the same."""

from __future__ import annotations

import json
import random
import time
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from auth.security_answers import SecurityAnswers

from pk.core.auth.jaas import JaasError, parse_jaas
from pk.core.auth.kerberos_names import check_short_name_rules, short_name
from pk.core.auth.oauthbearer import TokenRefused
from pk.core.auth.principal_mapping import RuleError, mapped_name
from pk.core.auth.unsecured_tokens import unsecured_token, validate_unsecured
from pk.core.java_regex import JavaRegex, JavaRegexError

pytestmark = pytest.mark.peer


@pytest.fixture(scope="module")
def java() -> Iterator[SecurityAnswers]:
    with SecurityAnswers() as answers:
        yield answers


JAAS_PIECES = (
    "a.B required ", "a.B", " optional", "user", "=", ";", " ", "\n", "\r", "\t", '"', "'", "\\",
    "\\101", "\\477", "\\8", "\\n", "/", "/*", "*/", "//", "#", "1.5", "-", "-2", ".", "_$", "ü",
    "\u20ac", "\x85", 'key="x" ', "k='y' ", "p=q ", "!", ",",
)  # fmt: skip


def login(text: str) -> dict[str, Any] | None:
    try:
        found = parse_jaas(text)
    except JaasError:
        return None
    return {"module": found.module, "options": found.options}


def test_a_login_says_what_kafka_reads(java: SecurityAnswers) -> None:
    chance, taken = random.Random(15), 0
    for _ in range(6000):
        text = "".join(chance.choices(JAAS_PIECES, k=chance.randint(1, 9)))
        if chance.random() < 0.8:
            text = f"a.B required {text};"
        answer = java.ask("jaas", text=text)
        expected = None if "refused" in answer else answer
        assert login(text) == expected, repr(text)
        taken += expected is not None
    assert taken > 100


TEXTS = (
    "", "a", "b", "ab", "aab", "abc", "A", "Ab", "aB1", "a_b", "m\u00fcller", "\u00dc", "1", "-",
    "a-b", "a&b", "^a", "a b", "a\n", "\n", "\r\n", "a\r\nb", "\u2028", "\u0661", "\x0b", "\xa0",
    "CN=a,O=b", "x{2}", "$1", "\\", "[a]", "ab]", "aa", "aaa", "abab", "k\u017f", "K", "\u212a",
)  # fmt: skip
REPLACEMENTS = (
    "x", "", "<$0>", "$1", "[$1]", "$2-$1", "$12", "${n}", "\\$1", "$", "\\", "${", "$a",
    "a\\\\b",
)  # fmt: skip


def ours(pattern: str, texts: tuple[str, ...], replacement: str) -> list[list[str | None]] | str:
    """pk's reading of a pattern, in the form of `SecurityAnswers.java`."""
    try:
        regex = JavaRegex(pattern)
    except JavaRegexError as e:
        return str(e)
    found: list[list[str | None]] = []
    for text in texts:
        groups = list(regex.match_groups(text) or ())
        try:
            groups.append(regex.replace(text, regex.replacement(replacement), every=True))
        except JavaRegexError:
            groups.append("!")
        found.append(groups)
    return found


def same(java: SecurityAnswers, pattern: str, replacement: str) -> bool:
    """Whether pk takes a pattern; then it does with every text what Java does."""
    # Before Java 19 the words of \\b are Unicode's.
    words = "\\b" in pattern.lower()
    texts = tuple(text for text in TEXTS if text.isascii()) if words else TEXTS
    mine = ours(pattern, texts, replacement)
    if isinstance(mine, str):
        return False
    answer = java.ask("pattern", pattern=pattern, texts=texts, replacement=replacement)
    assert "found" in answer, f"{pattern!r}: pk takes it, and Java says {answer}"
    for text, one, other in zip(texts, mine, answer["found"], strict=True):
        if one[-1] == "!":
            # Java looks into a replacement only where something is replaced.
            assert other[-1].startswith("!") or other[-1] == text, (pattern, replacement, text)
            one[-1] = other[-1]
        assert one == other, (pattern, replacement, text)
    return True


ATOMS = (
    "a", "b", "A", "-", "&", "^", "$", ".", r"\d", r"\D", r"\w", r"\W", r"\s", r"\S", r"\h",
    r"\H", r"\v", r"\V", r"\R", r"\b", r"\B", r"\A", r"\z", r"\Z", r"\p{Alnum}", r"\p{Punct}",
    r"\P{Alpha}", r"\pL", r"\p{Lu}", r"\p{IsL}", r"\PN", r"\p{gc=Nd}", r"\p{IsLatin}",
    r"\p{javaLowerCase}", r"\p{Space}", r"\p{Lower}", r"\x41", r"\x{1F600}", r"\u00fc", r"\0101",
    r"\08", r"\cA", r"\t", r"\e", r"\_", r"\-", r"\y", r"\1", r"\2", r"\11", r"\k<n>", r"\Q.*\E",
    r"\Qa", r"\E", "(a)", "(b)?", "(?:a|b)", "(a|)", "(?<n>a)", "(?<n1>b+)", "(?P<n>a)", "(?=a)",
    "(?!b)", "(?<=a)", "(?<!a)", "(?>a+)", "(?<=a|bc)", "(?i)", "(?s)", "(?-i)", "(?i:a)",
    "(?s-i:.)", "(?m)", "(?u)", "(?x)", "(?d)", "()", "(", ")", "[", "]", "}", "{", "|", "*",
    "\u00fc", "\\", "\u2028", ",", " ", "#",
)  # fmt: skip
MEMBERS = (
    "a", "b", "c", "z", "A", "-", "a-z", "A-Z", "0-9", "^", "&", "&&", "[a-c]", "[^b]", "[x-z]",
    r"\w", r"\W", r"\d", r"\s", r"\-", r"\]", r"\^", r"\Qa-b\E", r"\p{Alpha}", r"\P{Lower}", "]",
    "[", " ", ".", "$", "\u00fc", "a-\u00ff", r"\b", r"\x41-\x5a", "b-a", r"a-\d", "!--", r"\\",
)  # fmt: skip
QUANTIFIERS = (
    "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{1,}", "{0,2}", "{1,2}?", "{2}+",
    "{,2}", "**",
)  # fmt: skip


def chance_pattern(chance: random.Random) -> str:
    pieces: list[str] = []
    for _ in range(chance.randint(1, 4)):
        if chance.random() < 0.3:
            members = "".join(chance.choices(MEMBERS, k=chance.randint(1, 4)))
            pieces.append(f"[{chance.choice(('', '', '^'))}{members}]")
        else:
            pieces.append(chance.choice(ATOMS))
        if chance.random() < 0.4:
            pieces.append(chance.choice(QUANTIFIERS))
        if chance.random() < 0.15:
            pieces = ["(", *pieces, ")"]
            if chance.random() < 0.4:
                pieces.append(chance.choice(QUANTIFIERS))
    return "".join(pieces)


def test_a_pattern_fits_what_java_s_fits(java: SecurityAnswers) -> None:
    chance, taken = random.Random(8), 0
    for _ in range(3000):
        taken += same(java, chance_pattern(chance), chance.choice(REPLACEMENTS))
    assert taken > 500


def test_each_piece_of_a_pattern_alone(java: SecurityAnswers) -> None:
    for pattern in (*ATOMS, *(f"[{member}]" for member in MEMBERS)):
        for replacement in REPLACEMENTS:
            same(java, pattern, replacement)
            same(java, f"(?i){pattern}", replacement)


SUBJECTS = (
    "CN=alice,OU=people,O=example", "CN=m\u00fcller,O=x", "CN=a b", "O=x", "",
    "CN=host1.example.com,OU=ops", "CN=x,OU=x",
)  # fmt: skip
RULE_PIECES = (
    "^CN=(.*?),.*$", "CN=(\\\\w+).*", "CN=([a-z&&[^x]]+).*", "CN=(?<n>[^,]*).*", ".*", "(.*)",
    "^.*$", r"CN=(\p{Alnum}+).*", "CN=([^,]*),OU=(.*)", "x*", "$1", "$2", "$1@$2", "$1@$3-$4",
    "$10", "$0", "${n}", "x", "a\\\\/b", "\\\\$1", "$", "", "(?i)cn=(.*)", "[", "a,b", r"\d+",
)  # fmt: skip
JOINTS = (",", " , ", ",,", "\n", ";", ", ")


def test_a_certificate_gets_the_name_that_kafka_gives_it(java: SecurityAnswers) -> None:
    chance, named = random.Random(7), 0
    for _ in range(3000):
        rules = ""
        for _ in range(chance.randint(1, 3)):
            one = f"RULE:{chance.choice(RULE_PIECES)}/{chance.choice(RULE_PIECES)}/"
            one += chance.choice(("", "", "L", "U", "X"))
            rules += chance.choice((one, one, one, "DEFAULT", "", "default"))
            rules += chance.choice(JOINTS)
        for subject in SUBJECTS:
            answer = java.ask("certificate", rules=rules, subject=subject)
            try:
                name = mapped_name(rules, subject)
            except RuleError as e:
                # A rule that would fail each login it applies to is refused at startup.
                lacking = "Invalid rule" in str(e) or "there is no rule" in str(e)
                assert "name" not in answer or lacking, (rules, subject, answer, str(e))
            else:
                assert answer == {"name": name}, (rules, subject)
                named += 1
    assert named > 1000


PRINCIPALS = (
    "alice@EXAMPLE.COM", "kafka/broker1@EXAMPLE.COM", "Alice@OTHER", "m\u00fcller@EXAMPLE.COM",
    "x/y@OTHER", "plain",
)  # fmt: skip
FORMS = ("[1:$1]", "[2:$1]", "[1:$1@$0]", "[2:$1-$2@$0]", "[1:$2]", "[:$0]", "[1:x]", "[2:$1$]")
FITS = ("", "", "(.*)", "(.*@EXAMPLE.COM)", r"(\w+)", "([a-z&&[^k]]+.*)", "(a.*)", "(*)")
SUBSTITUTES = (
    "", "s/@.*//", "s/.*/x/", "s/.*/x/g", "s/([a-z])/<$1>/g", "s/(a)|b/$1$2/", r"s/\W//g",
    "s/x*/-/g", "s/a/$1/",
)  # fmt: skip


def test_a_principal_gets_the_short_name_that_kafka_gives_it(java: SecurityAnswers) -> None:
    chance, named = random.Random(9), 0
    for _ in range(3000):
        rules = [
            chance.choice(("DEFAULT", rule, rule, rule))
            for rule in (
                f"RULE:{chance.choice(FORMS)}{chance.choice(FITS)}{chance.choice(SUBSTITUTES)}"
                f"{chance.choice(('', '', '/L', '/U', 'L'))}"
                for _ in range(chance.randint(1, 3))
            )
        ]
        principal = chance.choice(PRINCIPALS)
        answer = java.ask("kerberos", rules=rules, realm="EXAMPLE.COM", principal=principal)
        try:
            check_short_name_rules(rules)
            name = short_name(rules, principal, "EXAMPLE.COM")
        except RuleError as e:
            # pk gives no empty name.
            known = answer.get("name", "") == "" or "Invalid rule" in str(e)
            assert known, (rules, principal, answer, str(e))
        else:
            assert answer == {"name": name}, (rules, principal)
            named += 1
    assert named > 300


def test_a_token_that_nobody_has_signed_counts_where_kafka_takes_it(java: SecurityAnswers) -> None:
    now_s = time.time()
    taken = 0
    for header, tail, options, claims in product(
        ({"alg": "none"}, {"alg": "RS256"}, {}),
        (".", "", ".AAAA"),
        (
            {},
            {"unsecuredValidatorPrincipalClaimName": "user"},
            {"unsecuredValidatorRequiredScope": "a b"},
            {"unsecuredValidatorAllowableClockSkewMs": "100000"},
        ),
        (
            {"sub": "alice", "exp": now_s + 600},
            {"sub": "alice", "exp": now_s + 600, "iat": now_s - 5, "user": "bob"},
            {"sub": "alice", "exp": now_s + 600, "iat": now_s + 50},
            {"sub": "alice", "exp": now_s - 50},
            {"sub": "alice", "exp": now_s + 600, "iat": now_s + 700},
            {"sub": "alice", "exp": now_s + 600, "scope": ["a", "b", "c"]},
            {"sub": "alice", "exp": now_s + 600, "scope": "b a"},
            {"sub": "alice", "exp": "soon"},
            {"sub": "alice"},
            {"sub": 5, "exp": now_s + 600},
            {"exp": now_s + 600},
        ),
    ):
        parts = (
            urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode()
            for one in (header, claims)
        )
        token = ".".join(parts) + tail
        answer = java.ask("unsecured", token=token, options=options)
        try:
            name = validate_unsecured(token, options, int(time.time() * 1000)).name
        except TokenRefused as e:
            assert "name" not in answer, (header, tail, options, claims, str(e))
        else:
            assert answer == {"name": name}, (header, tail, options, claims)
            taken += 1
    assert taken > 10
    own = unsecured_token({"unsecuredLoginStringClaim_sub": "carol"}, time.time())
    assert java.ask("unsecured", token=own, options={}) == {"name": "carol"}
