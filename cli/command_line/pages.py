"""Help pages that belong to no command, such as `pk help positions`. Completion reads their names,
so a computed page does its imports when it is shown.
"""

from collections.abc import Sequence

PAGES = {
    "exit-codes": "the exit codes of pk",
    "positions": "how to write a position in a topic",
    "durations": "how to write a duration",
    "formats": "output formats, and how to filter and sort results",
    "errors": "Kafka's errors: what each means, and what to do",
    "configs": "config keys of topics, brokers, groups and clients, searchable",
    "profiles": "named clusters, their guards and secrets",
    "trace": "the requests of a command, and how long each took",
    "fake": "templates for generated records, for produce and perf",
}
"""Each page and its subject."""

SEARCHABLE = ("errors", "configs")
"""The pages that accept search words."""

POSITIONS = """\
A position in a partition is the value of -o/--offset, --to and similar options.

  start                the first record
  end                  after the last record
  N                    offset N
  -N                   N before the end, in each partition
  +N                   N after the start, in each partition
  committed            the committed offset of the group of -g; also committed+N, committed-N
  @TIME                the first record at or after TIME

  A..B                 from A up to, not including, B; then the command ends:
                       start..end  -10..end  @-1h..end  @2026-01-01..@2026-01-02  ..100
  A..                  from A on, without end; same as A
                       (A:B means the same if neither side is a time)
  0=5,1=9              a position, or a range, for these partitions only

TIME is
  1767225600           seconds since 1970, or milliseconds from 100000000000 on
  2026-01-31           a day; 2026-01-31T14:00, 2026-01-31T14:00:00.5+02:00 a moment
  -90m                 this long ago (`pk help durations`)
  now, today, yesterday, 'yesterday 14:00'
Times without a zone are local.
"""

DURATIONS = """\
A duration is a number with a unit, or several of them. A number alone is seconds.

  500ms                milliseconds
  30, 30s              seconds
  1.5m, 1m30s          minutes; min is the same
  2h  1d  1w           hours, days, weeks
  '7 days'             a unit may be written out

The options of Apache's tools keep Apache's unit for a number alone, and their help says so:
--timeout-ms 5000, --timeout-ms 5s. Configs keep the unit of their key: retention.ms=86400000 is
retention.ms=1d.
"""

FORMATS = """\
-f/--format sets the output format.

  table                columns for people (the default); no color or box in a pipe; if the terminal is
                       too narrow for the numbers, a line for each column
  wide                 a table with every column
  json                 one array
  jsonl                one object a line
  yaml, csv, cbor      the rows in that format
  name                 only the first column
  schema               the JSON Schema of this command's JSON; sends no request
  '{topic} {end:>10}\\n'   a template: columns by their JSON name; \\n, \\t and \\xNN are escapes

Lists also take --columns a,b (or -c to hide c), --sort a,-b, --limit N and
--where "lag > 100 and topic ~ '^orders'": FIELD OP VALUE with and, or, not and parentheses;
OP is = != < <= > >= ~ (regular expression) !~ contains in (a, b). Names are case-sensitive; words
of a fixed set are not: `state = empty`.

Records (pk consume) also take
  value                the value and a newline (the default)
  %-tokens, such as '%p %o %k\\t%v\\n':
    %t topic   %p partition   %o offset   %e leader epoch   %d time   %T time in ms   %i counter
    %x producer id   %y producer epoch   %a the batch's attributes
    %a{compression}   %a{timestamp-type}   %a{transactional-bit}   %a{control-bit}
    %[ log start   %| last stable offset   %] high watermark, as of the fetch that returned the record
    %k key   %v or %s value   %K %V %S their lengths (-1: null)   %R value length as 4 bytes
    %h headers as k=v,k=v   %h{%k=%v;} each header in this format   %H their number   %% a percent sign
    %L permalink pk://[PROFILE/]TOPIC/PARTITION/OFFSET; `pk consume` and `pk cp` take it as a topic
    a text token may be followed by {hex}, {base64} or {unpack[>Iqs]}, a number by {hex8} … {big32}
    {little64}, %d by {strftime[%F %T]}
    input (pk produce -f) takes %t %p %T %d %k %v %s %h, and all of them take effect; each may be
    followed by {re[…]}, %k and %v also by {hex}, {base64} or {json}
  templates, such as '{time} {key} {value.user.id}\\n': value.FIELD is a field of JSON, headers.NAME
    one header (in --where, too); fields are those of jsonl, and time, link, leader_epoch
  jsonl has everything of a record, and `pk produce -f jsonl` writes it back bit for bit:
    topic, partition, offset, timestamp, timestamp_type, key or key_b64, value or value_b64,
    headers as [[name, value], …]; null is null; a header value that is not UTF-8 is {"b64": …}
    with --parse-json a key or value that is a JSON object or array is shown as such, not as text (for jq)
  csv has the same columns, named by its first line, and `pk produce -f csv` writes them back: an empty
    field is null, "" an empty text; columns may be omitted
"""

PROFILES = """\
A profile names a cluster and how to treat it. Profiles are in a TOML file (`pk profile edit` opens it).

  pk profile add prod -b k1:9092,k2:9092 --guard type-name --color red --pin
  pk profile use prod              use it from now on; PK_PROFILE or --profile NAME: only this time
  pk profile show                  what a command takes from it

The cluster is the first of these that is set: -b HOST:PORT · --profile · PK_PROFILE · PK_BOOTSTRAP_SERVER · the current
profile · 127.0.0.1:9092. A profile's guard applies even if its address is overridden.

Guards, from weak to strict:
  none                 changes are made without asking
  confirm              each change is shown and needs a yes: the default, also without a profile
  type-name            each change needs the name of the changed resource typed
  insist               the same, and -y does not answer: scripts change nothing
  readonly             no changes, no records produced, no groups joined: exit code 5
-y answers the questions of confirm and type-name. As with Apache's tools, creating topics and producing do not ask.

cluster_id (--pin sets it to the cluster that answers now): if another cluster answers, commands refuse with exit code 5.

security.protocol, ssl.* and sasl.* are those of Apache's clients: TLS with stores of type PEM, PKCS12 and JKS; SASL with
sasl.mechanism (MECHANISMS); PLAIN and SCRAM need
sasl.username and sasl.password, or sasl.jaas.config.

pk keeps no secret in a file and takes none on the command line. A profile names the source that pk reads when needed:
  --secret KEY=prompt              pk asks for it
  --secret KEY=keyring             the system's keyring (pip install 'pk-broker[keyring]')
  --secret KEY=command:WORDS       the output of a program, such as command:pass show kafka/id

  [profiles.prod]
  bootstrap = "k1:9092,k2:9092"
  guard = "type-name"
  color = "red"
  cluster_id = "4L6g3nShT-eMCtK--X86sw"
  [profiles.prod.properties]
  "client.rack" = "eu-1"
  [profiles.prod.secrets]
  "client.id" = "command:cat /etc/hostname"
"""

TRACE = """\
--trace, on every command that talks to a cluster, shows its requests on standard error when it ends:

  START    MS  BROKER  REQUEST            OUT      IN
    0.6   5.2       -  (connect)                       ██████
    7.0  20.6       -  ApiVersions v4    27 B   866 B         ██████████████████████
   29.4  12.9       1  Metadata v13      21 B    65 B                               ██████████████

START is milliseconds since the command started, MS the time until the response; BROKER is the broker's id, or - for an
address whose id is not known yet. The version is the newest that both sides support. Errors are shown below, also
those inside a response. Of more than 500 requests, the first 200 and the last 300 are shown; sums are over all.

--trace-json writes an object per line as each request ends, with api, api_key, version, broker, address,
correlation_id, start_ms, duration_ms, bytes_out, bytes_in, throttle_ms and error:

  pk consume orders --tail 5 --trace-json 2> requests.jsonl
"""


def page(name: str, words: Sequence[str] = (), width: int = 100) -> str:
    """The text of a page; for a searchable one, what matches `words`. Raises Unusable if nothing
    does."""
    if name == "exit-codes":
        return folded(_exit_codes(), width)
    if name == "errors":
        return _errors(words, width)
    if name == "configs":
        from pk.cli.config_keys.search import configs_page

        return folded(configs_page(words, width), width)
    if name == "fake":
        from pk.cli.records.fake import page as fake_page

        return folded(fake_page(), width)
    if name == "profiles":
        return folded(_profiles(), width)
    texts = {
        "positions": POSITIONS,
        "durations": DURATIONS,
        "formats": FORMATS,
        "trace": TRACE,
    }
    return folded(texts[name], width)


def folded(text: str, width: int) -> str:
    """Fold a page for a narrow terminal: rewrap prose, continue entries below their second column,
    truncate charts."""
    import re
    import textwrap

    lines: list[str] = []
    for block in re.split(r"((?:^\S.*\n)+)", text, flags=re.MULTILINE):
        long = any(len(line) > width for line in block.splitlines())
        if block[:1].strip() and long:
            lines += textwrap.wrap(block.replace("\n", " "), width, break_on_hyphens=False)
            continue
        left = block.splitlines()
        while left:
            line = left.pop(0)
            if len(line) <= width or "█" in line:
                lines.append(line[:width])
                continue
            indent = len(line) - len(line.lstrip())
            entry = re.match(r"\s*\S+(?: \S+)*\s{2,}", line)
            column = entry.end() if entry and indent < 8 and entry.end() <= width // 2 else indent
            while entry and left and _continues(left[0], entry.end()):
                line += f" {left.pop(0).strip()}"
            lines += textwrap.wrap(
                line, width, subsequent_indent=" " * column, break_on_hyphens=False
            )
    return "\n".join(lines) + "\n"


def _continues(line: str, column: int) -> bool:
    """Whether a line continues the entry above, whose text starts in that column. A row of examples
    does not."""
    text = line.strip()
    return line.find(text) == column and "  " not in text and not text.startswith("(")


def _profiles() -> str:
    from pk.core.values import SASL_MECHANISMS

    return PROFILES.replace("MECHANISMS", ", ".join(SASL_MECHANISMS))


def _exit_codes() -> str:
    from pk.cli.exits import MEANING

    lines = ["The exit codes of pk.", ""]
    lines += [f"  {int(code):<5}{meaning}" for code, meaning in MEANING.items()]
    lines += [
        "",
        (
            "If all failed items failed for the same reason, the code is that of the reason; else "
            "it is 1."
        ),
        "",
        (
            "If a broker hangs, what only it knows is missing or blank in its row, and the code is "
            "124."
        ),
        "Commands that show brokers (brokers list, cluster describe, top) show it as silent and",
        "succeed.",
    ]
    return "\n".join(lines) + "\n"


def _errors(words: Sequence[str], width: int) -> str:
    import textwrap

    from pk.cli.command_line.error_help import error_help

    found = error_help()
    for word in words:
        low = word.lower()
        exact = [e for e in found if low in (str(e.code), e.name.lower())]
        found = exact or [e for e in found if low in f"{e.name} {e.meaning} {e.step}".lower()]
    if not found:
        _nothing(words, [e.name for e in error_help()])
    lines = [] if words else ["Kafka's errors. `pk help errors WORD` searches them.", ""]
    for e in found:
        retried = " (clients try again)" if e.retriable else ""
        lines.append(f"{e.code:>4}  {e.name}{retried}")
        for text in (e.meaning, f"→ {e.step}"):
            lines += textwrap.wrap(
                text,
                width,
                initial_indent=" " * 6,
                subsequent_indent=" " * 6,
                break_on_hyphens=False,
            )
    return "\n".join(lines) + "\n"


def _nothing(words: Sequence[str], known: Sequence[str]) -> None:
    from pk.cli.exits import Unusable
    from pk.core.nearest import did_you_mean

    hint = did_you_mean(words[-1].upper(), known)
    raise Unusable(f"No error matches {' '.join(words)!r}{hint}")
