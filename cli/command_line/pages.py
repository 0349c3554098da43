"""The pages of help that belong to no command: `pk help positions` and its like. What is computed is imported when it is
asked for; the names are read by completion.
"""

from collections.abc import Sequence

PAGES = {
    "exit-codes": "what the process answers",
    "positions": "how a place in a topic is written",
    "formats": "how results look, and how to filter and sort them",
    "errors": "Kafka's errors: what each means and what to do",
    "configs": "config keys of topics, brokers, groups and clients, searchable",
    "profiles": "named clusters, their guards and secrets",
    "trace": "what a command asked the brokers, and how long they took",
    "fake": "templates of made-up records, for produce and perf",
}
"""Each page and what it is about."""

SEARCHABLE = ("errors", "configs")
"""Pages that take words to look for."""

POSITIONS = """\
A position says where in a partition: it is the value of -o/--offset, --to and their kin.

  start                the first record that is there
  end                  after the last record
  N                    offset N
  -N                   N before the end, in each partition
  +N                   N after the start, in each partition
  committed            what the group of -g has committed; committed+N, committed-N relative to it
  @TIME                the first record at or after TIME

  A..B                 from A up to, not including, B; then the command ends by itself:
                       start..end  -10..end  @-1h..end  @2026-01-01..@2026-01-02  ..100
  A..                  from A on, without end, as A alone
                       (A:B means the same where neither side holds a time)
  0=5,1=9              a position, or a range, for each partition named, and no other

TIME is
  1767225600           seconds since 1970, or milliseconds from 100000000000 on
  2026-01-31           a day; 2026-01-31T14:00, 2026-01-31T14:00:00.5+02:00 a moment
  -90m                 so long ago: ms, s, m, h, d, w, joined as in -1h30m
  now, today, yesterday, 'yesterday 14:00'
Without a zone it is local time.
"""

FORMATS = """\
-f/--format says how results look.

  table                columns for people: the default; plain, without colour or box, when piped; on a
                       terminal too narrow for its numbers a line for each column
  wide                 the same with every column
  json                 one array
  jsonl                one object a line
  yaml, csv, cbor      the same rows
  name                 the first column alone
  schema               what the JSON of this command looks like, as JSON Schema; nothing is asked or done
  '{topic} {end:>10}\\n'   a template: columns by their JSON name; \\n, \\t and \\xNN are escapes

Lists also take --columns a,b (or -c to leave c out), --sort a,-b, --limit N and
--where "lag > 100 and topic ~ '^orders'": FIELD OP VALUE with and, or, not and parentheses;
OP is = != < <= > >= ~ (regular expression) !~ contains in (a, b). Names are compared to the letter,
words of a fixed set in any case: `state = empty`.

Records (pk consume) take besides
  value                the value and a line's end: the default
  %-tokens, such as '%p %o %k\\t%v\\n':
    %t topic   %p partition   %o offset   %e leader epoch   %d time   %T time in ms   %i counter
    %x producer id   %y producer epoch   %a attributes of the batch
    %a{compression}   %a{timestamp-type}   %a{transactional-bit}   %a{control-bit}
    %[ log start   %| last stable offset   %] high watermark, as the fetch that brought it had them
    %k key   %v or %s value   %K %V %S their lengths (-1: null)   %R value length as 4 bytes
    %h headers as k=v,k=v   %h{%k=%v;} each header by its own tokens   %H how many   %% a percent
    %L permalink pk://[PROFILE/]TOPIC/PARTITION/OFFSET; `pk consume` and `pk cp` take it as a topic
    a text may be followed by {hex}, {base64} or {unpack[>Iqs]}, a number by {hex8} … {big32} {little64},
    %d by {strftime[%F %T]}; what is read (pk produce -f) by {hex}, {base64}, {json}, or {re[…]}
  templates, such as '{time} {key} {value.user.id}\\n': value.FIELD looks into JSON, headers.NAME
    is one header (in --where, too); besides the fields of jsonl there are time, link, leader_epoch
  jsonl holds all there is of a record, and `pk produce -f jsonl` writes it back bit for bit:
    topic, partition, offset, timestamp, timestamp_type, key or key_b64, value or value_b64,
    headers as [[name, value], …]; null is null; a header value that is not UTF-8 is {"b64": …}
  csv holds the same columns, named by its first line, and `pk produce -f csv` writes them back: an empty
    field is null, "" an empty text; columns may be left out
"""

PROFILES = """\
A profile names a cluster and how to treat it. They lie in a TOML file (`pk profile edit` opens it).

  pk profile add prod -b k1:9092,k2:9092 --guard type-name --colour red --pin
  pk profile use prod              commands use it from now on; PK_PROFILE or --profile NAME: this time
  pk profile show                  what a command takes from it

What counts, the first that is given: -b HOST:PORT · --profile · PK_PROFILE · PK_BOOTSTRAP_SERVER · the profile that
was chosen · 127.0.0.1:9092. A profile's guard holds however its address is overridden.

Guards, in rising order:
  none                 changes are made without asking
  confirm              each change is shown and wants a yes: the default, also without a profile
  type-name            it wants the name of what is changed typed
  readonly             no change is made, no record produced, no group joined: exit code 5
-y answers the questions of confirm and type-name. Creating topics and producing ask nobody, as with Apache's tools.

cluster_id (--pin takes the one that answers now): where another cluster answers, commands refuse with exit code 5.

pk connects to PLAINTEXT listeners only: it has no TLS or SASL yet, and refuses security.protocol=SSL, ssl.* and sasl.*.

A secret is kept in no file of pk's and given on no command line. Each names where it comes from when it is needed:
  --secret KEY=prompt              it is asked for
  --secret KEY=keyring             it lies in the system's keyring (pip install 'pk-broker[keyring]')
  --secret KEY=command:WORDS       what a program prints, such as command:pass show kafka/id

  [profiles.prod]
  bootstrap = "k1:9092,k2:9092"
  guard = "type-name"
  colour = "red"
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

START and MS are milliseconds since the command began and until the answer; BROKER is its id, - for an address that had
not told its id yet; the API's version is the newest that both sides know; errors stand below, also those inside an
answer. Of more than 500 requests the first 200 and the last 300 are shown; the sums are of all.

--trace=json writes an object a line as each request ends, with api, api_key, version, broker, address, correlation_id,
start_ms, duration_ms, bytes_out, bytes_in, throttle_ms and error:

  pk consume orders --tail 5 --trace=json 2> requests.jsonl
"""


def page(name: str, words: Sequence[str] = (), width: int = 100) -> str:
    """The text of a page; of a searchable one, what `words` find. Raises Unusable where they find nothing."""
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
    texts = {"positions": POSITIONS, "formats": FORMATS, "profiles": PROFILES, "trace": TRACE}
    return folded(texts[name], width)


def folded(text: str, width: int) -> str:
    """A page for a narrower terminal: prose is filled anew, an entry goes on under its second column, a picture is cut."""
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
            while entry and left and _goes_on(left[0], entry.end()):
                line += f" {left.pop(0).strip()}"
            lines += textwrap.wrap(
                line, width, subsequent_indent=" " * column, break_on_hyphens=False
            )
    return "\n".join(lines) + "\n"


def _goes_on(line: str, column: int) -> bool:
    """Whether a line goes on with the sentence before it, which stands at that column; a row of examples does not."""
    text = line.strip()
    return line.find(text) == column and "  " not in text and not text.startswith("(")


def _exit_codes() -> str:
    from pk.cli.runtime.exits import MEANING

    lines = ["What the process answers.", ""]
    lines += [f"  {int(code):<5}{meaning}" for code, meaning in MEANING.items()]
    lines += [
        "",
        "Where all items that failed did so alike, the code says how; else it is 1.",
        "",
        "A broker that hangs: what only it knows is missing, or open in its row, and the code is 124.",
        "Where brokers are what was asked about (brokers list, cluster describe, top), that it is",
        "silent is the answer.",
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
    lines = [] if words else ["Kafka's errors. `pk help errors WORD` shows those it finds.", ""]
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
    from pk.cli.command_line.nearest import did_you_mean
    from pk.cli.runtime.exits import Unusable

    hint = did_you_mean(words[-1].upper(), known)
    raise Unusable(f"There is no error for {' '.join(words)!r}{hint}")
