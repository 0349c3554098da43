"""Every command of the tree, and the cases in which the matrix runs it.

A `Case` is a command line against a world: topics `{orders}` and `{payments}`, the group
`{billing}` that lags behind on `{orders}`, the group `{ready}` that does not, the broker `{broker}`
with its files in `{data}`, and a folder `{tmp}` for written files. `{new}` is a topic that exists
only for this run of the case. Each case runs into a pipe and on terminals of both sizes, and must
end by itself. `LIVE` has the commands that stay on the screen, with their tests.
"""

from __future__ import annotations

from typing import NamedTuple


class Case(NamedTuple):
    """A command line and its expected results."""

    words: str
    code: int = 0
    stdin: bytes = b""
    screen: str | None = None
    """The name of the stored screen to compare with, if the output is always the same."""

    only: str | None = None
    """`pk` or `apache`, if the case runs only against this broker."""

    typed: str = ""
    """Input for the terminal. A case with input does not run into a pipe."""

    raw: bool = False
    """Whether it writes data or a script, whose lines may have any width."""

    pipe_only: bool = False
    """Whether it is interactive on a terminal. Then a test of `LIVE` runs it there."""

    name: str = ""

    @property
    def label(self) -> str:
        return self.name or self.words


def _all(*cases: Case | str) -> list[Case]:
    return [case if isinstance(case, Case) else Case(case) for case in cases]


CASES: list[Case] = _all(
    # topics
    Case("topics list '{orders}|{payments}'", screen="topics-list", only="pk"),
    Case("topics list"),
    Case("topics list --internal -f wide"),
    Case("topics describe {orders}", screen="topics-describe"),
    Case("topics describe {orders} {payments} -f wide"),
    Case("topics describe nowhere", code=1, screen="topics-describe-unknown", only="pk"),
    Case("topics create {new}-a {new}-b -p 2 -c retention.ms=60000"),
    Case("topics create {new}-c -d"),
    Case("topics create {orders}", code=1, screen="topics-create-exists"),
    Case("topics create {orders} --if-not-exists"),
    Case("topics create {new}-d -c retention.mss=1", code=1),
    Case("topics alter {new} -c retention.ms=70000 -y"),
    Case("topics alter {new} -c retention.ms=70000 -d"),
    Case("topics add-partitions {new} -n 1 -d"),
    Case("topics add-partitions {new} -n 1 -y"),
    Case("topics offsets {orders}", screen="topics-offsets"),
    Case("topics offsets {orders} -o -2"),
    Case("topics trim {new} -o end -d"),
    Case("topics trim {new} -o end -y"),
    Case("topics delete {new}", code=5, screen="topics-delete-asks"),
    Case("topics delete {new}", typed="n\n", code=5, name="topics delete, no"),
    Case("topics delete {new}", typed="y\n", name="topics delete, yes"),
    Case("topics delete {new} -y"),
    Case("topics delete nowhere -y", code=1),
    # users
    Case("users list nobody"),
    Case("users add {new} -d"),
    Case("users alter nobody -d", code=1),
    Case("users delete nobody -y", code=1),
    # tokens
    Case("users tokens list", code=1),
    Case("users tokens create -d", code=1),
    Case("users tokens renew nothing -y", code=1),
    Case("users tokens expire nothing -y", code=1),
    # test, faults
    Case("test -- true"),
    Case("test -- false", code=1),
    Case("metrics", code=1),
    Case("test faults list", code=1),
    Case("test faults add fail Produce --error NOT_LEADER_OR_FOLLOWER -d", code=1),
    Case("test faults clear", code=1),
    # schema
    Case("schema list --schema-registry {tmp}"),
    Case("schema list", code=2),
    Case("schema show nowhere --schema-registry {tmp}", code=1),
    Case("schema add {new} - -d --schema-registry {tmp}", stdin=b'"string"', pipe_only=True),
    Case("schema check {new} - --schema-registry {tmp}", stdin=b"{", code=1, pipe_only=True),
    Case("schema delete nowhere -y --schema-registry {tmp}", code=1),
    Case("schema diff nowhere --schema-registry {tmp}", code=1),
    # acls
    Case("acls list --topic {orders}", code=1),
    Case("acls add --allow alice --operation read --topic {orders} -d", code=1),
    Case("acls delete", code=2),
    Case("acls check alice read topic:{orders}", code=1),
    # quotas
    Case("quotas set --user alice producer_byte_rate=1MiB -d"),
    Case("quotas list --user nobody"),
    Case("quotas set --user alice made_up=1", code=2),
    Case("quotas delete --user nobody -y", code=1),
    # records
    Case("console-producer {new}", stdin=b"one\ntwo\n"),
    Case("produce {new} -k key one-record"),
    Case(
        "produce {new} -f jsonl", stdin=b'{"key": null, "value": "v", "headers": [["h", null]]}\n'
    ),
    Case("produce {new} -f jsonl", stdin=b"{broken\n", code=1, name="produce broken json"),
    Case("produce {new} --fake orders -n 5 --seed 1"),
    Case("produce {new} --transactional-id {new} --records-per-transaction 2 a b c"),
    Case("console-consumer {orders} -o start..end", screen="consume"),
    Case("consume {orders} -o start..end -f json -n 2", raw=True),
    Case("consume {orders} -o start..end -f table", screen="consume-table"),
    Case("consume {orders} --tail 2 -e"),
    Case("consume {orders} -o start..end --where 'value.n > 4' -f jsonl", raw=True),
    Case("consume nowhere -e", code=1, only="pk"),
    Case("consume {orders} -o nonsense", code=2, screen="consume-bad-position"),
    Case("consume --share {orders} -g {new} --timeout-ms 100"),
    Case("consume --share {orders} -g {new} --release --reject", code=2),
    Case("consume --share", code=2, name="consume --share without a topic"),
    Case("cp {orders} {new} --once -y"),
    Case("cp {orders} {new} --once -d"),
    Case("cp {orders} {new} --once --exactly-once -g {new} -y"),
    # groups
    Case("groups list '{billing}|{ready}'", screen="groups-list"),
    Case("groups list"),
    Case("groups describe {billing}", screen="groups-describe"),
    Case("groups describe {billing} -m"),
    Case("groups describe {billing} -s"),
    Case("groups describe nobody", code=1, only="pk", screen="groups-describe-unknown"),
    Case("groups lag {billing}"),
    Case("groups lag {billing} --by topic"),
    Case("groups lag {billing} --fail-if 'lag > 0'", code=1),
    Case("groups lag {ready} --fail-if 'lag > 0'"),
    Case("groups lag -t {orders}"),
    Case("groups members {billing}"),
    Case("groups reset-offsets {billing} -t {orders} --to end -d"),
    Case("groups reset-offsets {billing} -t {orders}:0 --to @-1h -d"),
    Case("groups reset-offsets {billing} -t {orders} --to start", typed="n\n", code=5),
    Case("groups reset-offsets {new} -t {orders} --to start -y"),
    Case("groups undo"),
    Case("groups remove-members {billing} --all -d"),
    Case("groups delete nobody -y", code=1),
    Case("groups delete {billing} -d"),
    Case("groups delete-offsets {billing} -t {orders} -d"),
    # partitions
    Case("partitions list {orders}", screen="partitions-list"),
    Case("partitions list --under-replicated"),
    Case("partitions elect-leaders {orders} -d"),
    Case("isr {orders}", screen="isr"),
    Case("isr --under-replicated"),
    Case("reassign plan -t {orders} --to {broker}"),
    Case("reassign plan -t {orders} --to 99", code=1),
    Case("reassign plan -t {orders} --rf 3", code=1),
    Case("reassign apply -t {orders} --to {broker} -y"),
    Case("reassign status"),
    Case("reassign throttle"),
    Case("reassign throttle --remove -y"),
    Case("reassign cancel --all -y"),
    Case("reassign rollback -d", code=1),
    # configs, brokers, cluster
    Case("configs list"),
    Case("configs describe topic {orders}", screen="configs-describe"),
    Case("configs describe topic {orders} -a"),
    Case("configs describe broker {broker}"),
    Case("configs describe broker 99", code=1, screen="configs-describe-no-broker"),
    Case("configs alter topic {new} -c retention.ms=80000 -d"),
    Case("configs alter topic {new} -c retention.ms=80000 -y"),
    Case("configs alter topic {new} -c retention.mss=80000 -y", code=2),
    Case("configs edit topic {new} --file {edited} -y", pipe_only=True),
    Case("brokers list --columns broker,host,port,rack,controller,state", screen="brokers-list"),
    Case("brokers list"),
    Case("brokers describe {broker}"),
    Case("brokers describe 99", code=1),
    Case("brokers logdirs"),
    Case("brokers logdirs --replicas -t {orders}"),
    Case("cluster describe"),
    Case("cluster health --where 'check = brokers-down'", screen="cluster-health"),
    Case("cluster health"),
    Case("cluster quorum"),
    Case("cluster features"),
    Case("cluster features upgrade eligible.leader.replicas.version -d"),
    Case("transactions producers {orders}"),
    Case("transactions producers nowhere", code=1),
    Case("transactions list --state Ongoing {new}"),
    Case("transactions describe nobody", code=1),
    Case("transactions abort nobody -y", code=1),
    Case("transactions find-hanging {orders}"),
    # the log's files
    Case("log dump {data}/{orders}-0"),
    Case("log dump {data}/{orders}-0 --records --limit 2"),
    Case("log verify {data}/{orders}-0"),
    Case("log cat {data}/{orders}-0 -o start..end"),
    Case("log dump {tmp}/nowhere", code=1),
    Case("log verify {tmp}/nowhere", code=1),
    Case("log cat {tmp}/nowhere", code=1),
    Case("log adopt {tmp}/nowhere -d", code=1),
    Case("log remote file://{tmp}/nowhere", code=1),
    # problems and their reasons
    Case("doctor --fail-on never"),
    Case("doctor --list", screen="doctor-list"),
    Case("doctor --check groups-without-members --fail-on warning", code=1),
    Case("why partition {orders}/0", screen="why-partition"),
    Case("why partition nowhere/0", code=1),
    Case("why lag {billing}"),
    Case("why lag nobody", code=1),
    Case("why config {orders} retention.ms", screen="why-config"),
    Case("why denied alice read topic:{orders}", code=1),
    # waiting
    Case("wait topic {orders} --timeout 60s"),
    Case("wait topic nowhere --timeout 0", code=124),
    Case("wait isr --timeout 60s"),
    Case("wait lag {ready} --timeout 60s"),
    Case("wait lag {billing} --timeout 0", code=124),
    Case("wait group-empty {billing} --timeout 60s"),
    Case("wait reassign --timeout 60s"),
    Case("wait broker --timeout 60s"),
    Case("wait broker 99 --timeout 0", code=124),
    # one look at what else stays
    Case("top -n 1 --interval 0.1"),
    Case("top groups -n 1 --interval 0.1"),
    Case("top topics -n 1 --interval 0.1 -f json"),
    Case("perf produce -n 200", name="perf produce"),
    Case("perf consume -t {orders} -n 5", name="perf consume"),
    Case("perf e2e -n 20", name="perf e2e"),
    # the user's own
    Case("version"),
    Case("api-versions"),
    Case("api-versions 99", code=1),
    Case("debug bundle --to {tmp}/none/bundle.zip", code=1),
    Case("undo"),
    Case("undo 999", code=1),
    Case("undo --list"),
    Case("profile list"),
    Case("profile add matrix -b 127.0.0.1:1"),
    Case("profile use nowhere", code=2),
    Case("profile show nowhere", code=2),
    Case("profile delete nowhere", code=2),
    Case("completion bash", raw=True),
    Case("completion zsh", raw=True),
    Case("completion fish", raw=True),
    Case("completion tcsh", code=2),
    Case("help", screen="help"),
    Case("help positions"),
    Case("help formats"),
    Case("help exit-codes", screen="help-exit-codes"),
    Case("help profiles"),
    Case("help trace"),
    Case("help fake"),
    Case("help errors"),
    Case("help errors NOT_ENOUGH_REPLICAS"),
    Case("help configs"),
    Case("help configs retention"),
    Case("help topics create", screen="help-topics-create"),
    Case("help nonsense", code=2),
    # processes: none is running
    Case("node status --data {tmp}/none", code=1),
    Case("node stop --data {tmp}/none", code=1),
    Case("node kill 1", code=1),
    Case("node restart 1", code=1),
    Case("node pause 1", code=1),
    Case("node resume 1", code=1),
    Case("node start -X log.dir={tmp}/x -X no.such.key=1", code=2),
    Case("up --brokers 0", code=2),
    Case("spark-export nowhere --to {tmp}/out -d", code=1),
    Case("spark export nowhere --to {tmp}/out -d", code=1),
    Case("spark pipeline init {tmp}/none/new.toml -t {orders}", code=1),
    Case("spark pipeline check {tmp}/none.toml", code=2),
    Case("spark pipeline run {tmp}/none.toml --once", code=2),
    Case("spark pipeline status {tmp}/none.toml", code=2),
    Case("spark pipeline stop {tmp}/none.toml", code=2),
    Case("spark-import nowhere --from {tmp}/rows.csv -d", code=1),
    Case("spark import nowhere --from {tmp}/rows.csv -d", code=1),
    Case("spark package --to /dev/null/package", code=1),
    Case("spark warm-up -f jsn", code=2),
    Case("spark pipeline export {tmp}/none.toml --declarative --to {tmp}/project", code=2),
    # words that are not a command
    Case("nonsense", code=2, screen="usage"),
    Case("topics lst", code=2),
    Case("topics list --wher x", code=2),
    Case("topics list -f jsn", code=2),
    Case("topics list -b 127.0.0.1:1", code=3, screen="no-broker"),
    Case("topics list --config-file {tmp}/nowhere.properties", code=2),
    Case("shell -c 'topics offsets {orders} -f name'"),
)

LIVE: dict[str, str] = {
    "cluster restore": "tests/cli/test_tiered_page.py::test_from_nothing_to_a_store_and_back",
    "up": "tests/cli/test_screens.py::test_up_in_the_foreground",
    "schema-registry start": "tests/cli/test_schema.py::test_a_registry_in_the_foreground",
    "node start": "tests/cli/test_process.py::test_a_detached_broker",
    "configs edit": "tests/cli/test_screens.py::test_configs_in_an_editor",
    "profile edit": "tests/cli/test_screens.py::test_a_profile_in_an_editor",
    "shell": "tests/cli/test_shell.py::test_the_same_commands_with_toolbar_prompt_and_use",
    "top": "tests/cli/test_top_screen.py::test_every_tab_at_every_size",
    "groups watch": "tests/cli/test_screens.py::test_watching_a_group",
    "consume": "tests/cli/test_screens.py::test_consuming_until_interrupted",
    "produce": "tests/cli/test_produce_editor.py::test_lines_and_documents_are_sent_and_acknowledged",
    "isr": "tests/cli/test_shell.py::test_isr_watches_until_interrupted",
}
"""Command that stays on the screen → the test that runs it."""
