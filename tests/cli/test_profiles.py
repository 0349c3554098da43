"""Profiles: which cluster is used, which changes a guard allows, and the sources of secrets."""

import os
import stat
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clients.fixtures import Kafka
from clients.pk_broker import PkBroker
from terminal import Terminal, on_terminal

from pk.cli.main import main
from pk.cli.runtime import secrets
from pk.core.values import SASL_MECHANISMS

Run = Callable[..., Any]
Fresh = Callable[[str], str]
OurTerminal = Callable[..., Terminal]


def file_of() -> Path:
    return Path(os.environ["XDG_CONFIG_HOME"]) / "pk" / "profiles.toml"


SASL = ("security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=admin")
ADD = ("profile", "add", *(word for pair in SASL for word in ("-X", pair)))
PASSWORD = "sasl.password=command:echo hush"


@pytest.fixture(scope="module")
def secured() -> Iterator[PkBroker]:
    """A broker that accepts only admin, with a password."""
    jaas = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="admin" password="hush" user_admin="hush";'
    )
    config = {
        "listeners": "CLIENTS://127.0.0.1:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "inter.broker.listener.name": "CLIENTS",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.clients.plain.sasl.jaas.config": jaas,
    }
    with PkBroker(config=config) as broker:
        yield broker


def test_a_file_of_an_older_version_has_the_color_under_its_former_name(pk: Run) -> None:
    assert pk("profile", "add", "prod", "-b", "k1:9092").code == 0
    file_of().write_text(file_of().read_text() + 'colour = "red"\n')
    assert pk("profile", "show", "prod", "-f", "json").json[0]["color"] == "red"
    assert pk("profile", "add", "prod", "--color", "blue").code == 0
    assert pk("profile", "show", "prod", "-f", "json").json[0]["color"] == "blue"
    assert "colour" not in file_of().read_text()


def test_a_profile_s_life(pk: Run) -> None:
    assert pk("profile", "add", "prod", "-b", "k1:9092", "--guard", "type-name").code == 0
    assert pk("profile", "add", "prod", "--colour", "red", "-X", "client.id=ops").code == 0
    (row,) = pk("profile", "list", "-f", "json").json
    assert row == {
        "profile": "prod",
        "bootstrap": "k1:9092",
        "guard": "type-name",
        "color": "red",
        "chosen": False,
        "cluster_id": None,
        "properties": {"client.id": "ops"},
        "secrets": {},
        "schema_registry": None,
    }
    assert pk("profile", "use", "prod").code == 0
    assert pk("profile", "show", "-f", "json").json[0]["chosen"]
    assert stat.S_IMODE(file_of().stat().st_mode) == 0o600
    assert pk("profile", "use", "-").code == 0
    assert pk("profile", "show").code == 1
    assert pk("profile", "delete", "prod", "-d").code == 0
    assert pk("profile", "delete", "prod").code == 5
    pk("profile", "use", "prod")
    gone = pk("profile", "delete", "prod", "-y")
    assert (gone.code, "commands now use 127.0.0.1:9092" in gone.err) == (0, True)
    assert pk("profile", "list", "-f", "json").json == []


def test_a_profile_takes_over_a_properties_file_but_no_secret_of_it(
    pk: Run, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=k1:9092\nclient.id=file\nsasl.password=hush\n")
    words = ("profile", "add", "prod", "--config-file", str(file), "-X", "client.id=typed")
    refused = pk(*words)
    assert refused.code == 2 and "--secret sasl.password=prompt" in refused.err
    assert pk("profile", "list", "-f", "json").json == []
    assert pk(*words, "--secret", "sasl.password=prompt").code == 0
    (row,) = pk("profile", "list", "-f", "json").json
    assert row["bootstrap"] == "k1:9092"
    assert row["properties"] == {"client.id": "typed"}
    assert row["secrets"] == {"sasl.password": "prompt"}
    assert "hush" not in file_of().read_text()


def test_a_guard_is_not_lowered_without_an_answer(pk: Run) -> None:
    def guard() -> str:
        return pk("profile", "show", "prod", "-f", "json").json[0]["guard"]

    def lower(*words: str, typed: str) -> Any:
        return on_terminal(main, ("profile", "add", "prod", *words), typed=typed)

    pk("profile", "add", "prod", "-b", "k1:9092", "--guard", "readonly")
    for words in (("--guard", "none"), ("--guard", "insist", "--color", "red")):
        refused = pk("profile", "add", "prod", *words)
        assert refused.code == 5 and "-y makes the change without asking" in refused.err
        assert guard() == "readonly"
    said_no = lower("--guard", "none", typed="n\n")
    assert said_no.code == 5
    assert "Lower the guard of profile prod from readonly to none? [y/N]" in said_no.screen
    assert guard() == "readonly"
    assert lower("--guard", "type-name", typed="y\n").code == 0 and guard() == "type-name"
    assert pk("profile", "add", "prod", "--guard", "none", "-y").code == 0 and guard() == "none"
    assert pk("profile", "add", "prod", "--guard", "confirm").code == 0, "raising it asks nothing"
    assert pk("profile", "add", "prod", "-b", "k2:9092").code == 0 and guard() == "confirm"
    pk("profile", "add", "plain", "-b", "k1:9092")
    assert pk("profile", "add", "plain", "--guard", "none").code == 5, "confirm is the default"


@pytest.mark.parametrize("words", [("profile", "edit"), ("configs", "edit", "topic", "t")])
def test_no_editor_is_opened_where_there_is_no_terminal(
    pk: Run, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", "/usr/bin/vim -n")
    ran = pk(*words)
    assert ran.code == 5 and "Nothing was changed: vim needs a terminal; " in ran.err
    monkeypatch.setenv("EDITOR", "true")
    assert pk("profile", "edit").code == 0
    monkeypatch.setenv("VISUAL", " ")
    assert pk("profile", "edit").code == 0


def test_comments_in_the_file_survive(pk: Run) -> None:
    pk("profile", "add", "one", "-b", "h:1")
    file_of().write_text(f"# mine\n{file_of().read_text()}")
    pk("profile", "add", "two", "-b", "h:2")
    assert file_of().read_text().startswith("# mine\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[profiles.p]\nguard = 'sure'",
            "must be one of none, confirm, type-name, insist, readonly",
        ),
        ("[profiles.p]\ngaurd = 'none'", "has no key 'gaurd'; did you mean guard?"),
        ("[profiles.p]\ncolor = 'mauve'", "must be one of red"),
        (
            "[profiles.p.secrets]\n'a' = 'hunter2'",
            "must come from prompt, keyring or command:WORDS",
        ),
        ("[profiles", "cannot be read"),
        ("use = '\xff'", "cannot be read"),
        ("profiles = 3", "profiles of the file must be a table, not 3."),
        ("profiles.p = 3", "p of profiles must be a table, not 3."),
        ("use = ['p']\n[profiles.p]", "use of the file must be a string in quotes"),
        ("[profiles.p]\nbootstrap = 9092", "bootstrap of profile 'p' must be a string in quotes"),
        ("[profiles.p]\nproperties = 'a=b'", "properties of profile 'p' must be a table"),
        ("[profiles.p]\nsecrets = ['a']", "secrets of profile 'p' must be a table"),
    ],
)
def test_a_file_that_is_wrong_is_refused(pk: Run, text: str, said: str) -> None:
    file_of().parent.mkdir(parents=True, exist_ok=True)
    file_of().write_text(text, encoding="latin-1")
    ran = pk("topics", "list", "--profile", "p")
    assert ran.code in (1, 2)
    assert said in ran.err and "bug in pk" not in ran.err, ran.err
    assert file_of().read_text(encoding="latin-1") == text


@pytest.mark.parametrize(
    "setting",
    ["ssl.engine.factory.class=x.Y", "ssl.provider=x", "sasl.kerberos.kinit.cmd=x"],
)
def test_security_that_is_not_built_is_refused_wherever_it_is_asked_for(
    at: Run, kafka: Kafka, tmp_path: Path, setting: str
) -> None:
    config = tmp_path / "client.properties"
    config.write_text(setting)
    key, _, value = setting.partition("=")
    for words in (
        ("profile", "add", "p", "-b", kafka.bootstrap, "-X", setting),
        ("profile", "add", "p", "-b", kafka.bootstrap, "--secret", f"{key}=prompt"),
        ("topics", "list", "-X", setting),
        ("topics", "list", "--config-file", str(config)),
        ("consume", "orders", "-e", "-X", setting),
        ("cp", "orders", "copy", "--once", "--to-property", setting),
        ("cp", "o", "c", "--once", "--to-bootstrap-server", "h:1", "--to-config-file", str(config)),
    ):
        ran = at(*words)
        known = ", ".join(SASL_MECHANISMS)
        said = (
            f"{key} is not supported; pk cannot load Java classes, "
            f"and its SASL mechanisms are {known}"
        )
        assert (ran.code, said in ran.err) == (2, True), (words, ran.err)
    assert not file_of().exists()
    file_of().parent.mkdir(parents=True, exist_ok=True)
    file_of().write_text(f"[profiles.p.properties]\n'{key}' = '{value}'")
    ran = at("topics", "list", "--profile", "p")
    assert (ran.code, f"profile 'p': {key} is not supported" in ran.err) == (2, True), ran.err
    file_of().write_text(f"[profiles.p.secrets]\n'{key}' = 'prompt'")
    ran = at("topics", "list", "--profile", "p")
    assert (ran.code, f"profile 'p': {key} is not supported" in ran.err) == (2, True), ran.err


def test_the_page_on_profiles_names_the_sasl_mechanisms(pk: Run) -> None:
    said = " ".join(pk("help", "profiles").text.split())
    assert f"sasl.mechanism ({', '.join(SASL_MECHANISMS)})" in said


def test_plaintext_may_be_asked_for(at: Run) -> None:
    assert at("topics", "list", "-X", "security.protocol=PLAINTEXT").code == 0


@pytest.mark.parametrize("key", ["ssl.key.password", "ssl.keystore.key", "sasl.jaas.config"])
def test_what_is_private_is_not_shown(pk: Run, key: str) -> None:
    file_of().parent.mkdir(parents=True, exist_ok=True)
    file_of().write_text(f"[profiles.p.properties]\n'{key}' = 'hush'")
    for words in (("list", "-f", "json"), ("list", "-f", "wide"), ("show", "p")):
        shown = pk("profile", *words)
        assert (shown.code, "hush" in shown.text, "(hidden)" in shown.text) == (0, False, True)


def test_a_profile_has_a_name(pk: Run) -> None:
    assert (
        "`pk profile use 'my own'` makes it the current one" in pk("profile", "add", "my own").err
    )
    assert pk("profile", "add", "", "-b", "h:1").code == 2
    assert pk("profile", "add", "-", "-b", "h:1").code == 2
    for do in (("use", ""), ("delete", "", "-y")):
        ran = pk("profile", *do)
        assert (ran.code, "Profile '' does not exist" in ran.err) == (2, True), ran.err
    assert pk("profile", "list").code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-b", ""), "-b is empty"),
        (("-b", " , "), "-b is empty"),
        (("-X", "bootstrap.servers="), "-X bootstrap.servers is empty"),
        (("--profile", ""), "--profile is empty"),
    ],
)
def test_an_empty_address_never_means_another_cluster(
    pk: Run,
    kafka: Kafka,
    fresh: Fresh,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    said: str,
) -> None:
    topic = fresh("kept")
    assert pk("topics", "create", topic, "-b", kafka.bootstrap).code == 0
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", kafka.bootstrap)
    ran = pk("topics", "delete", topic, "-y", *words)
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert topic in pk("topics", "list", "-f", "name").lines


def test_an_empty_address_is_refused_wherever_it_stands(
    pk: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "client.properties"
    config.write_text("bootstrap.servers=\n")
    file_of().parent.mkdir(parents=True)
    file_of().write_text("[profiles.empty]\nbootstrap = ' '\n")
    for words in (
        ("topics", "list", "--config-file", str(config)),
        ("profile", "add", "p", "-b", ""),
        ("cp", "orders", "copy", "--once", "--to-bootstrap-server", ""),
        ("cp", "orders", "copy", "--once", "--to-profile", ""),
        ("cp", "orders", "copy", "--once", "--to-profile", "empty"),
    ):
        ran = pk(*words)
        assert (ran.code, "is empty; it must be" in ran.err) == (2, True), ran.err
    assert "profiles.p" not in file_of().read_text()
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "")
    ran = pk("topics", "list")
    assert (ran.code, "PK_BOOTSTRAP_SERVER is empty" in ran.err) == (2, True), ran.err
    assert pk("topics", "list", "-b", "127.0.0.1:1").code == 3


def test_what_names_the_cluster(pk: Run, kafka: Kafka, monkeypatch: pytest.MonkeyPatch) -> None:
    pk("profile", "add", "here", "-b", kafka.bootstrap)
    pk("profile", "add", "away", "-b", "127.0.0.1:1")
    assert pk("topics", "list", "--profile", "here").code == 0
    assert pk("topics", "list", "--profile", "away").code == 3
    assert pk("topics", "list", "--profile", "away", "-b", kafka.bootstrap).code == 0
    monkeypatch.setenv("PK_PROFILE", "here")
    assert pk("topics", "list").code == 0
    monkeypatch.setenv("PK_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert pk("topics", "list").code == 3
    assert pk("topics", "list", "--profile", "here").code == 0
    assert "did you mean here?" in pk("topics", "list", "--profile", "hree").err


@pytest.mark.parametrize(
    "words",
    [
        ("topics", "create", "{}"),
        ("produce", "{}", "value"),
        ("consume", "{}", "-g", "a-group"),
        ("configs", "edit", "topic", "{}"),
    ],
)
def test_read_only_holds_for_what_does_not_ask(
    at: Run, kafka: Kafka, fresh: Fresh, words: tuple[str, ...]
) -> None:
    topic = fresh("guard")
    if words[1] != "create":
        at("topics", "create", topic)
    at("profile", "add", "ro", "-b", kafka.bootstrap, "--guard", "readonly")
    ran = at(*(w.format(topic) for w in words), "--profile", "ro")
    assert ran.code == 5, (ran.err, ran.text)
    assert "ro (" in ran.err and "read-only by its profile; nothing was changed" in ran.err


def test_read_only_makes_no_topic_by_asking_for_it(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    """If auto-creation is on, brokers create a topic that a producer requests. Here the producer
    does not even send that request."""
    topic = fresh("guard")
    at("profile", "add", "ro", "-b", kafka.bootstrap, "--guard", "readonly")
    patience = ("-X", "max.block.ms=500")
    assert at("produce", topic, "value", "--profile", "ro", *patience).code != 0
    assert at("topics", "list", topic, "-f", "json").json == []


def test_a_dry_run_is_no_change(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    at("profile", "add", "ro", "-b", kafka.bootstrap, "--guard", "readonly")
    ran = at("topics", "create", fresh("guard"), "--dry-run", "--profile", "ro")
    assert ran.code == 0 and "would be created" in ran.text


def test_a_pinned_profile_talks_to_its_own_cluster_only(at: Run, kafka: Kafka) -> None:
    assert at("profile", "add", "pinned", "-b", kafka.bootstrap, "--pin").code == 0
    found = at("profile", "show", "pinned", "-f", "json").json[0]["cluster_id"]
    assert found == at("cluster", "describe", "-f", "json").json[0]["cluster_id"]
    assert at("topics", "list", "--profile", "pinned").code == 0
    at("profile", "add", "pinned", "--cluster-id", "another")
    ran = at("topics", "list", "--profile", "pinned")
    assert ran.code == 5 and not ran.out
    assert f"expects cluster another, but cluster {found} answers" in ran.err
    link = at("consume", "pk://pinned/t/0/0")
    assert (link.code, "expects cluster another" in link.err) == (5, True), link.err


def test_a_link_does_not_ask_the_cluster_of_the_current_profile(
    pk: Run, kafka: Kafka, fresh: Fresh
) -> None:
    topic = fresh("linked")
    pk("profile", "add", "there", "-b", kafka.bootstrap)
    assert pk("topics", "create", topic, "--profile", "there").code == 0
    pk("produce", topic, "v", "--profile", "there")
    pk("profile", "add", "down", "-b", "127.0.0.1:1", "--cluster-id", "x")
    pk("profile", "use", "down")
    for words in ((), ("--secret", "client.id=command:false")):
        pk("profile", "add", "down", *words)
        assert pk("consume", topic, "-e").code in (1, 3)
        ran = pk("consume", f"pk://there/{topic}/0/0")
        assert (ran.code, ran.lines) == (0, ["v"]), ran.err
    other = pk("consume", f"pk://there/{topic}/0/0", "--profile", "down")
    assert (other.code, "belongs to profile there, not to down" in other.err) == (2, True)


def test_a_cluster_that_wants_a_password_is_pinned(pk: Run, secured: PkBroker) -> None:
    added = pk(*ADD, "safe", "-b", secured.bootstrap, "--secret", PASSWORD, "--pin")
    assert added.code == 0, added.err
    found = pk("profile", "show", "safe", "-f", "json").json[0]["cluster_id"]
    described = pk("cluster", "describe", "--profile", "safe", "-f", "json").json[0]
    assert found == described["cluster_id"]
    pk("profile", "add", "safe", "--cluster-id", "another")
    again = pk("profile", "add", "safe", "--pin")  # with what the profile has already
    assert again.code == 0, again.err
    assert pk("profile", "show", "safe", "-f", "json").json[0]["cluster_id"] == found
    kept = file_of().read_text()
    wrong = pk("profile", "add", "safe", "--secret", f"{PASSWORD}, they say", "--pin")
    assert wrong.code == 4, wrong.err
    assert file_of().read_text() == kept


def test_a_password_for_the_keyring_pins_a_cluster_before_it_is_kept(
    pk: Run, secured: PkBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed = iter(("hash", "hush"))
    monkeypatch.setattr(secrets, "ask_secret", lambda _: next(typed))
    kept: dict[str, str] = {}
    library = types.ModuleType("keyring")
    library.__dict__["set_password"] = lambda _, name, password: kept.update({name: password})
    monkeypatch.setitem(sys.modules, "keyring", library)
    words = (*ADD, "safe", "-b", secured.bootstrap, "--secret", "sasl.password=keyring", "--pin")
    wrong = pk(*words)
    assert (wrong.code, kept, file_of().exists()) == (4, {}, False), wrong.err
    right = pk(*words)
    assert (right.code, kept) == (0, {"safe/sasl.password": "hush"}), right.err


def test_no_guard_asks_nothing(at: Run, kafka: Kafka, fresh: Fresh) -> None:
    topic = fresh("guard")
    at("topics", "create", topic)
    at("profile", "add", "free", "-b", kafka.bootstrap, "--guard", "none")
    assert at("topics", "delete", topic, "--profile", "free").code == 0


def test_a_type_name_guard_wants_the_name(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: OurTerminal
) -> None:
    topic = fresh("guard")
    at("topics", "create", topic)
    at("profile", "add", "typed", "-b", kafka.bootstrap, "--guard", "type-name", "--color", "red")
    first = terminal("topics", "delete", topic, "--profile", "typed")
    first.wait_for(f"Type {topic} to continue:")
    assert first.color_of("typed (").fg == "red"
    first.send("yes\r")
    assert first.end() == 5
    second = terminal("topics", "delete", topic, "--profile", "typed")
    second.wait_for(f"Type {topic} to continue:")
    second.send(f"{topic}\r")
    assert second.end() == 0
    assert at("topics", "describe", topic).code == 1


def test_an_insisting_guard_is_not_answered_by_y(
    at: Run, kafka: Kafka, fresh: Fresh, terminal: OurTerminal
) -> None:
    topic = fresh("guard")
    at("topics", "create", topic)
    at("profile", "add", "prod", "-b", kafka.bootstrap, "--guard", "insist")
    refused = at("topics", "delete", topic, "-y", "--profile", "prod")
    assert refused.code == 5
    assert f"the profile of prod ({kafka.bootstrap}) requires an answer" in refused.err
    assert "and -y is not enough" in refused.err
    reset = ("groups", "reset-offsets", f"{topic}-g", "-t", topic, "--to-earliest", "--execute")
    assert at(*reset, "--profile", "prod").code == 5
    assert at("topics", "delete", topic, "-y", "-d", "--profile", "prod").code == 0
    asked = terminal("topics", "delete", topic, "-y", "--profile", "prod")
    asked.wait_for(f"Type {topic} to continue:")
    asked.send(f"{topic}\r")
    assert asked.end() == 0


def test_secrets_come_from_elsewhere(at: Run, kafka: Kafka, tmp_path: Path) -> None:
    tell = tmp_path / "tell"
    tell.write_text("ops\n")
    at("profile", "add", "s", "-b", kafka.bootstrap, "--secret", f"client.id=command:cat {tell}")
    assert at("topics", "list", "--profile", "s").code == 0
    tell.unlink()
    ran = at("topics", "list", "--profile", "s")
    assert ran.code == 1 and "The command for client.id failed with exit code 1" in ran.err
    at("profile", "add", "s", "--secret", "client.id=prompt")
    ran = at("topics", "list", "--profile", "s")
    assert ran.code == 5 and "no terminal to ask for client.id of profile s" in ran.err


def test_a_copy_s_target_gets_the_secrets_of_its_profile(
    at: Run, kafka: Kafka, secured: PkBroker, fresh: Fresh
) -> None:
    topic = fresh("secret")
    assert at("topics", "create", topic).code == 0
    at("produce", topic, "v")
    assert at(*ADD, "to", "-b", secured.bootstrap, "--secret", PASSWORD).code == 0
    words = ("cp", topic, topic, "--once", "--create", "-y", "--to-profile", "to")
    ran = at(*words)
    assert (ran.code, "Copied 1 record" in ran.err) == (0, True), ran.err
    assert at("consume", topic, "-e", "--profile", "to").lines == ["v"]


def test_a_secret_is_asked_for_and_not_shown(at: Run, kafka: Kafka, terminal: OurTerminal) -> None:
    at("profile", "add", "s", "-b", kafka.bootstrap, "--secret", "client.id=prompt")
    one = terminal("topics", "list", "--profile", "s")
    one.wait_for("client.id of profile s:")
    one.send("hunter2\r")
    assert one.end() == 0
    assert "TOPIC" in one.scrollback() and b"hunter2" not in one.output
    assert one.traces() == []


def test_a_secret_is_refused_on_the_command_line(pk: Run) -> None:
    ran = pk("profile", "add", "p", "-X", "proxy.password=hunter2")
    assert ran.code == 2
    assert "--secret proxy.password=prompt" in ran.err
    assert not file_of().exists()
    assert pk("profile", "add", "p", "--secret", "proxy.password=hunter2").code == 2


def test_a_secret_in_the_keyring(
    at: Run, kafka: Kafka, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A module named `keyring` replaces the real one. The test checks that pk looks a secret up by
    service and name."""
    (tmp_path / "keyring.py").write_text(
        "def get_password(service, name):\n"
        "    return {('pk', 'k/client.id'): 'ops'}.get((service, name))\n"
    )
    file_of().parent.mkdir(parents=True, exist_ok=True)
    file_of().write_text(
        f"[profiles.k]\nbootstrap = '{kafka.bootstrap}'\n[profiles.k.secrets]\n'client.id' = "
        "'keyring'\n"
    )
    monkeypatch.setitem(sys.modules, "keyring", None)
    ran = at("topics", "list", "--profile", "k")
    assert ran.code == 1 and "pip install 'pk-broker[keyring]'" in ran.err
    monkeypatch.delitem(sys.modules, "keyring")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert at("topics", "list", "--profile", "k").code == 0
    file_of().write_text(file_of().read_text().replace("client.id", "client.rack"))
    monkeypatch.delitem(sys.modules, "keyring")
    ran = at("topics", "list", "--profile", "k")
    assert ran.code == 1 and "The keyring has no client.rack for profile k" in ran.err
