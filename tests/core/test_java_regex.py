"""Java's regular expressions. The answers are Java's; `test_security_peer.py` asks it about
thousands more."""

from __future__ import annotations

import pytest
from each import for_each

from pk.core.java_regex import JavaRegex, JavaRegexError


@for_each(
    ("pattern", "fits", "does_not"),
    [
        (r"\w+", "aB_1", "müller"),
        (r"\d", "7", "\u0661"),
        (r"\s", "\x0b", "\xa0"),
        (r"\h", "\xa0", "\n"),
        (r"\p{Alnum}+", "aZ9", "ü"),
        (r"\P{Alpha}", "ü", "u"),
        (r"\p{L}+", "müller", "m1"),
        (r"\pN", "\u0661", "a"),
        ("[a-z&&[^x]]+", "abc", "abx"),
        ("[a-c[x-z]]+", "axz", "d"),
        ("[^a-c[x-z]]", "d", "z"),
        (r"[\w&&\D]+", "a_", "a1"),
        ("(?i)straße", "STRAßE", "STRASSE"),
        ("(?i)k", "K", "\u212a"),
        ("(?i)ü", "ü", "Ü"),
        ("(?i:a)b", "Ab", "AB"),
        ("a(?i)b|c", "C", "AB"),
        ("a.c", "a\x0bc", "a\u2028c"),
        ("(?s)a.c", "a\nc", "ac"),
        ("(?<first>a|b)\\k<first>", "bb", "ab"),
        (r"(a)\11", "aa1", "aa"),
        (r"\Qa.b\E+", "a.bb", "axb"),
        (r"\x41\x{1F600}\u00fc\0101", "A\U0001f600üA", "A"),
        ("a++b", "aab", "aa"),
        ("(?>a*)b", "aab", "aa"),
        ("a{2}?", "aa", "a"),
        (r"a$\n?", "a\n", "a\n\n"),
        ("[a-]", "-", "b"),
        ("}", "}", "{"),
    ],
)
def test_a_pattern_fits_as_in_java(pattern: str, fits: str, does_not: str) -> None:
    regex = JavaRegex(pattern)
    assert regex.matches(fits) and not regex.matches(does_not)


@pytest.mark.parametrize(
    ("pattern", "replacement", "every", "first"),
    [
        (".*", "x", "xx", "x"),
        ("^.*$", "x", "x", "x"),
        ("b*", "-", "-a--c-", "-abc"),
        ("(b)(c)?", "<$1$2>", "a<bc>", "a<bc>"),
        ("(b)", "$12", "ab2c", "ab2c"),
        ("(?<n>b)", "${n}$0", "abbc", "abbc"),
        ("b", r"\$1\\", "a$1\\c", "a$1\\c"),
        ("c??", "-", "-a-b-c-", "-abc"),
    ],
)
def test_what_fits_is_replaced_as_in_java(
    pattern: str, replacement: str, every: str, first: str
) -> None:
    regex = JavaRegex(pattern)
    replaces = regex.replacement(replacement)
    assert regex.replace("abc", replaces, every=True) == every
    assert regex.replace("abc", replaces, every=False) == first


@for_each(
    "pattern",
    [
        "(", ")", "[", "[a", "a**", "*", "{", "a{,2}", "a{2,1}", "\\", r"\y", r"\1", r"(a\1)",
        "[b-a]", "[]", "[]a]", "[&&a]", r"\p{alpha}", r"\p{IsLatin}", r"\p{InGreek}",
        r"\p{javaLowerCase}", r"\N{DIGIT ONE}", r"\G", r"\X", r"\R", r"\b{g}", "(?m)^a", "(?u)a",
        "(?x)a", "(?d)a", "(?U)a", "(?P<n>a)", "(?<1>a)", "(?<n>a)(?<n>b)", "(?<=a+)b",
        r"(?i)(a)\1", r"(?i)\p{Lu}", "(a|)*", "((a)b)+", "(a)++", r"[\Qa\E]", "[a^b]", "(?=a)*",
        r"\ud800", "a{99999}",
        "(" * 99 + ")" * 99,
    ],
)  # fmt: skip
def test_what_java_refuses_or_pk_cannot_do_is_refused(pattern: str) -> None:
    with pytest.raises(JavaRegexError):
        JavaRegex(pattern)


@pytest.mark.parametrize("replacement", ["$", "$a", "$2", "${", "${n}", "${1}", "\\"])
def test_what_java_does_not_replace_with(replacement: str) -> None:
    with pytest.raises(JavaRegexError):
        JavaRegex("(a)").replacement(replacement)
