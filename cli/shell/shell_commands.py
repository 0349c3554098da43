"""What the shell can do beside the commands, which `\\?` shows, and what it cannot."""

HELP = r"""The commands of pk, without the word pk: `help` lists them, `help topics create` explains one.

use topic NAME       commands that take a topic take this one where none is named
use group NAME       the same for a group;  use topic, use group, use: forget it
use profile NAME     turn to another cluster

COMMAND \w [N]       look again every N seconds (2), what has changed lit; Ctrl-C ends
COMMAND \G           a line for each value, every column
COMMAND > FILE       into a file; >> FILE adds to it
COMMAND | PROGRAM    into a program: topics list -f jsonl | jq .topic
A; B  A && B  A \    one after the other; B if A did not fail; A in two lines
\w, \G               the same for the last command

\timing [on|off]     say how long each command took
\pager [on|off]      show what is too tall for the screen with $PAGER, or less
clear                an empty screen; so does Ctrl-L
\refresh             fetch the names for completion now (else every 10 s)
\?                   this
exit, quit, \q       leave; so does Ctrl-D

Tab completes, letters in order are enough: `ordret` finds orders-retry. Up and
Ctrl-R find earlier lines, Right takes the grey suggestion, Ctrl-X Ctrl-E opens
$EDITOR. Ctrl-C ends what runs, never the shell. The history keeps no secrets.
"""

NOT_HERE = frozenset(("up", "shell", "completion"))
"""Commands that make no sense inside the shell."""
