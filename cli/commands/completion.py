"""`pk completion`: the scripts that teach a shell to complete. They ask `pk __complete` and hold no words themselves."""

from pk.cli.context import Context
from pk.cli.exits import Unusable

_BASH = """\
# Completion of pk for bash. Put it where bash finds it, or: source <(pk completion bash)
_pk() {
    local IFS=$'\\n' line word cur words=()
    cur="${COMP_LINE:0:COMP_POINT}"
    # bash parts words at : and =, which belong to ours; part at blanks instead.
    IFS=$' \\t\\n' read -r -a words <<< "$cur"
    [[ "$cur" == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    local typed="${words[${#words[@]}-1]}"
    local before="${typed%"${typed##*[:=]}"}"
    while IFS=$'\\t' read -r word line; do
        [[ "$typed" == *[:=]* ]] && word="${word#"$before"}"
        [[ "$word" == *[=/] ]] && compopt -o nospace
        COMPREPLY+=("$word")
    done < <(pk __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _pk pk
"""

_ZSH = """\
#compdef pk
# Completion of pk for zsh. Put it on $fpath as _pk, or: source <(pk completion zsh)
_pk() {
    local -a found open
    local word meaning
    while IFS=$'\\t' read -r word meaning; do
        if [[ "$word" == *[=/] ]]; then
            open+=("$word")
        else
            found+=("${word//:/\\\\:}:${meaning}")
        fi
    done < <(pk __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#found} )) && _describe -V 'pk' found
    (( ${#open} )) && compadd -S '' -a open
}
if [[ "${funcstack[1]}" == _pk ]]; then _pk "$@"; else compdef _pk pk; fi
"""

_FISH = """\
# Completion of pk for fish. Put it in ~/.config/fish/completions, or: pk completion fish | source
function __pk_complete
    set -l words (commandline -opc) (commandline -ct)
    pk __complete $words[2..-1] 2>/dev/null
end
complete -c pk -f -a '(__pk_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(context: Context) -> None:
    """`pk completion`."""
    shell = context.args.shell
    if shell not in SCRIPTS:
        raise Unusable(f"There is completion for {', '.join(SCRIPTS)}, not for {shell!r}.")
    context.write(SCRIPTS[shell].encode())
