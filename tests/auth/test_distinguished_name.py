"""Names of certificates as Java writes them, and the rules that make principals of them."""

import datetime

import pytest
from certificates import authority
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from each import for_each

from pk.core.auth.distinguished_name import CertificateError, subject_of
from pk.core.auth.principal_mapping import RuleError, check_rules, mapped_name


def der(*attributes: tuple[x509.ObjectIdentifier, str]) -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(oid, value) for oid, value in attributes])
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now)
        .sign(key, hashes.SHA256())
        .public_bytes(Encoding.DER)
    )


def test_the_last_attribute_comes_first() -> None:
    certificate = authority().sign("CN=alice,OU=people,O=example,C=NL").certificate
    assert subject_of(certificate.public_bytes(Encoding.DER)) == "CN=alice,OU=people,O=example,C=NL"


@pytest.mark.parametrize(
    ("oid", "value", "shown"),
    [
        (NameOID.COMMON_NAME, "a,b", "CN=a\\,b"),
        (NameOID.COMMON_NAME, ' "x" ', 'CN=\\ \\"x\\"\\ '),
        (NameOID.COMMON_NAME, "#1=<2>", "CN=\\#1\\=\\<2\\>"),
        (NameOID.COMMON_NAME, "Zoë", "CN=Zoë"),
        (NameOID.DOMAIN_COMPONENT, "example", "DC=example"),
        (NameOID.USER_ID, "u", "UID=u"),
        (NameOID.EMAIL_ADDRESS, "a@b", "1.2.840.113549.1.9.1=#1603614062"),
    ],
)
def test_an_attribute(oid: x509.ObjectIdentifier, value: str, shown: str) -> None:
    assert subject_of(der((oid, value))) == shown


def test_no_subject_and_no_certificate() -> None:
    whole = der()
    assert subject_of(whole) == ""
    for cut in (0, 1, 5, 40, len(whole) // 2):
        with pytest.raises(CertificateError):
            subject_of(whole[:cut])


@for_each(
    ("rules", "name"),
    [
        ("DEFAULT", "CN=Alice,OU=people,O=example"),
        (",DEFAULT,,", "CN=Alice,OU=people,O=example"),
        ("RULE:^CN=(.*?),.*$/$1/", "Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U, DEFAULT", "ALICE@PEOPLE"),
        ("RULE:^OU=(.*)$/$1/,RULE:^CN=([^,]*),.*$/user-$1/,DEFAULT", "user-Alice"),
        ("RULE:^OU=(.*)$/$1/,DEFAULT", "CN=Alice,OU=people,O=example"),
        ("RULE:^CN=(.*?),.*$/a\\/$1/", "a/Alice"),
        ("RULE:.*/x/", "xx"),
        ("RULE:^CN=(?<name>[^,]*).*$/${name}/", "Alice"),
        ("RULE:^CN=(\\p{Alnum}+).*$/$1@$2/", "Alice@$2"),
        ("RULE:^CN=([A-Za-z&&[^x]]+),.*$/$1/L", "alice"),
        ("RULE:^CN=(\\w+),.*$/$1/", "Alice"),
    ],
)
def test_a_rule_names_the_principal(rules: str, name: str) -> None:
    check_rules(rules)
    assert mapped_name(rules, "CN=Alice,OU=people,O=example") == name


@pytest.mark.parametrize("rules", ["RULE:^OU=(.*)$/$1/", "RULE:(CN)=/$1/"])
def test_no_rule_fits(rules: str) -> None:
    with pytest.raises(RuleError, match="No rules apply"):
        mapped_name(rules, "CN=Alice")


@for_each(
    "rules",
    [
        "",
        ",",
        "RULE:CN=/$1/",
        "RULE:a",
        "default",
        "RULE:(/x/",
        "RULE:a/b/X",
        "DEFAULT;",
        "RULE:(a)/$2$3/",
    ],
)
def test_what_is_no_rule(rules: str) -> None:
    with pytest.raises(RuleError):
        check_rules(rules)


def test_a_letter_beyond_ascii_is_no_letter_of_java_s() -> None:
    rules = "RULE:^CN=(\\w+)$/$1/"
    assert mapped_name(rules, "CN=muller") == "muller"
    with pytest.raises(RuleError, match="No rules apply"):
        mapped_name(rules, "CN=müller")
