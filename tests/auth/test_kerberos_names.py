"""Short names of Kerberos principals, as Kafka's KerberosShortNamer makes them."""

from __future__ import annotations

import pytest
from each import for_each

from pk.core.auth.kerberos_names import check_short_name_rules, short_name
from pk.core.auth.principal_mapping import RuleError

RULES = (
    "RULE:[1:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1](App\\..*)s/App\\.(.*)/$1/g",
    "RULE:[2:$1-$2@$0](ops-.*@REALM)s/[-@].*//U",
    "DEFAULT",
)


@pytest.mark.parametrize(
    ("principal", "name"),
    [
        ("App.service-name@REALM", "service-name"),
        ("App.service-name/example.com@REALM", "service-name"),
        ("App.service-name@OTHER.REALM", "service-name"),
        ("Ops/x@REALM", "Ops"),
        ("ops/x@REALM", "OPS"),
        ("user/host@REALM", "user"),
        ("user@REALM", "user"),
        ("plain", "plain"),
    ],
)
def test_the_first_rule_that_fits_wins(principal: str, name: str) -> None:
    assert short_name(RULES, principal, "REALM") == name


@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("RULE:[1:$1]", "User"),
        ("RULE:[1:$1]/L", "user"),
        ("RULE:[1:$1]/U", "USER"),
        ("RULE:[1:$1](User)s/([A-Z])(.*)/$2$1/", "serU"),
        ("RULE:[1:$1-$0]s/[A-Z]//", "ser-REALM"),
        ("RULE:[1:$1-$0]s/[A-Z]/x/g", "xser-xxxxx"),
        ("RULE:[1:a$1b$1](.*)s/User/u/g/U", "AUBU"),
    ],
)
def test_what_a_rule_makes(rule: str, name: str) -> None:
    assert short_name([rule], "User@REALM", "OTHER") == name


@for_each(
    ("rules", "principal", "said"),
    [
        (["DEFAULT"], "user@OTHER", "No rules apply"),
        (["RULE:[2:$1]"], "user@REALM", "No rules apply"),
        (["RULE:[1:$1](admin)"], "administrator@REALM", "No rules apply"),
        (["RULE:[1:$1@$0]"], "user@REALM", "Non-simple name"),
        (["RULE:[1:$2]"], "user@REALM", "names a part that a name lacks"),
        (["RULE:[1:$1]s/x*/$3/"], "user@REALM", "No group 3"),
        (["RULE:[1:$1](.*)s/.*//"], "user@REALM", "No rules apply"),
        (["DEFAULT"], "a/b/c@REALM", "Malformed Kerberos name"),
        (["DEFAULT"], "a@b@REALM", "Malformed Kerberos name"),
    ],
)
def test_who_gets_no_name(rules: list[str], principal: str, said: str) -> None:
    with pytest.raises(RuleError, match=said):
        short_name(rules, principal, "REALM")


@pytest.mark.parametrize("rule", ["", "RULE:[1:$1", "rule:[1:$1]", "RULE:[1:$1](", "DEFAULT,"])
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(RuleError):
        check_short_name_rules([rule])
    with pytest.raises(RuleError):
        check_short_name_rules(["RULE:[1:$1](*)"])
