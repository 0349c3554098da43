"""`pk help`: help on a command, and the pages that belong to none."""

from pk.cli.context import Context
from pk.cli.exits import MEANING, Unusable
from pk.cli.grammar import Command, Group, nearest
from pk.cli.help import help_text

_POSITIONS = """\
A position says where in a partition: it is the value of -o/--offset, --to and their kin.

  start                the first record that is there
  end                  after the last record
  N                    offset N
  -N                   N before the end, in each partition
  +N                   N after the start, in each partition
  committed            what the group has committed; committed+N, committed-N relative to it
  @TIME                the first record at or after TIME

  A..B                 from A up to, not including, B; then the command ends by itself:
                       start..end  -10..end  @-1h..end  @2026-01-01..@2026-01-02  ..100  100..
                       (A:B means the same where neither side holds a time)
  0=5,1=9              a position, or a range, for each partition named, and no other

TIME is
  1767225600           seconds since 1970, or milliseconds from 100000000000 on
  2026-01-31           a day; 2026-01-31T14:00, 2026-01-31T14:00:00.5+02:00 a moment
  -90m                 so long ago: ms, s, m, h, d, w, joined as in -1h30m
  now, today, yesterday, 'yesterday 14:00'
Without a zone it is local time.
"""

_FORMATS = """\
-f/--format says how results look.

  table                columns for people: the default; plain, without colour or box, when piped
  wide                 the same with every column
  json                 one array
  jsonl                one object a line
  yaml, csv, cbor      the same rows
  name                 the first column alone
  '{topic} {end:>10}\\n'   a template: columns by their JSON name; \\n, \\t and \\xNN are escapes

Lists also take --columns a,b (or -c to leave c out), --sort a,-b, --limit N and
--where "lag > 100 and topic ~ '^orders'": FIELD OP VALUE with and, or, not and parentheses;
OP is = != < <= > >= ~ (regular expression) !~ contains in (a, b).

Records (pk consume) take besides
  value                the value and a line's end: the default
  %-tokens, such as '%p %o %k\\t%v\\n':
    %t topic   %p partition   %o offset   %e leader epoch   %d time   %T time in ms   %i counter
    %k key   %v or %s value   %K %V %S their lengths (-1: null)   %R value length as 4 bytes
    %h headers as k=v,k=v   %h{%k=%v;} each header by its own tokens   %H how many   %% a percent
    a token may be followed by {hex} or {base64}, numbers by {hex8} … {big32} {little64},
    %d by {strftime[%F %T]}
  jsonl holds all there is of a record, and `pk produce -f jsonl` writes it back bit for bit:
    topic, partition, offset, timestamp, timestamp_type, key or key_b64, value or value_b64,
    headers as [[name, value], …]; null is null; a header value that is not UTF-8 is {"b64": …}
"""


def _exit_codes() -> str:
    lines = ["What the process answers.", ""]
    lines += [f"  {int(code):<5}{meaning}" for code, meaning in MEANING.items()]
    return "\n".join(lines) + "\n"


def show_help(context: Context) -> None:
    """`pk help`."""
    from pk.cli.tree import ROOT

    words = context.args.word
    pages = {"exit-codes": _exit_codes(), "positions": _POSITIONS, "formats": _FORMATS}
    if len(words) == 1 and words[0] in pages:
        context.write(pages[words[0]].encode())
        return
    node: Command | Group = ROOT
    path: list[str] = []
    for word in words:
        child = node.child(word) if isinstance(node, Group) else None
        if child is None:
            known = [*(c.name for c in node.children), *pages] if isinstance(node, Group) else []
            near = nearest(word, known)
            hint = (
                f"did you mean {' or '.join(near)}?" if near else "`pk --help` shows what there is."
            )
            raise Unusable(f"There is no help on {' '.join(words)!r}; {hint}")
        node = child
        path.append(child.name)
    context.write(help_text(node, tuple(path)).encode())
