"""Principals as text, and when two of them are equal."""

import pytest

from pk.core.auth.principal import ANONYMOUS, KafkaPrincipal


@pytest.mark.parametrize("text", ["User:alice", "User:a:b", "Group:ü", "User:CN=a,O=b", "User:"])
def test_a_principal_comes_back_as_it_was_written(text: str) -> None:
    assert str(KafkaPrincipal.parse(text)) == text


@pytest.mark.parametrize("text", ["", "alice", ":alice"])
def test_what_has_no_type_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="principalType:principalName"):
        KafkaPrincipal.parse(text)


def test_a_token_makes_no_other_principal() -> None:
    assert KafkaPrincipal("User", "a", token_authenticated=True) == KafkaPrincipal("User", "a")
    assert KafkaPrincipal.parse("User:ANONYMOUS") == ANONYMOUS
