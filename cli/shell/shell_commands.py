r"""The shell's own commands, as `\?` shows them."""

HELP = r"""pk's commands, without the word pk: `help` lists them, and `help topics create`
explains one.

use topic NAME       the topic for later commands without one; a command that
                     alters or deletes something needs its target typed
use group NAME       the same for a group;  use topic, use group, use: clear it
use profile NAME     switch to another cluster

COMMAND \w [TIME]    repeat every TIME (2s), highlight changes; Ctrl-C stops
COMMAND \G           a line for each value, every column
COMMAND > FILE       write to a file; >> FILE appends
COMMAND | PROGRAM    pipe to a program: topics list -f jsonl | jq .topic
A; B  A && B  A \    run both; B only if A succeeds; continue on the next line
\w, \G               the same for the last command

\timing [on|off]     show how long each command takes
\pager [on|off]      show output taller than the screen with $PAGER, or less
clear                clear the screen; so does Ctrl-L
\refresh             fetch the names for completion now (else every 10 s)
\?                   this help
exit, quit, \q       end the shell; so does Ctrl-D

Tab completes; letters in order are enough: `ordret` finds orders-retry. Up and
Ctrl-R find earlier lines, Right takes the grey suggestion, Ctrl-X Ctrl-E opens
$EDITOR. Ctrl-C stops the command, never the shell. Lines with a secret are not
kept in the history.
"""
