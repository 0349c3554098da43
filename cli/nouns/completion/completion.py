"""`pk completion`: the scripts that add completion to a shell. They call `pk __complete` and
contain no words of their own.

Each shell splits a line into words in its own way, and replaces only its own idea of the word under
the cursor:

- bash also breaks words at the characters of COMP_WORDBREAKS (`=`, `:`, `@`, … occur in the
  values of pk), so the script splits the line again, at spaces outside quotes, and removes from the
  candidates everything up to the last such character;
- zsh and fish pass words with their quotes; the scripts remove them, and the shells add them again.

Words that end in `=` or `/` continue, so no space follows them.
"""

from pk.cli.exits import Unusable
from pk.cli.runtime.context import Context

_BASH = r"""# Completion of pk for bash. Put it where bash finds it, or: source <(pk completion bash)
_pk() {
    local line="${COMP_LINE:0:COMP_POINT}" words=() word='' quote='' inside='' char before candidate open=1
    local -i i
    for ((i = 0; i < ${#line}; i++)); do
        char="${line:i:1}"
        if [[ -n $quote ]]; then
            if [[ $char == "$quote" ]]; then quote=''; else word+="$char"; fi
        elif [[ $char == [\'\"] ]]; then
            quote="$char" inside=1
        elif [[ $char == '\' ]]; then
            i+=1 inside=1
            word+="${line:i:1}"
        elif [[ $char == [[:space:]] ]]; then
            [[ -n $inside ]] && words+=("$word")
            word='' inside=''
        else
            word+="$char" inside=1
        fi
    done
    # What bash takes for done already: all up to the last character that breaks words, a quote undoing that.
    before=''
    if [[ -z $quote ]]; then
        before="${word%"${word##*[$COMP_WORDBREAKS]}"}"
        before="${before%@}"
    fi
    COMPREPLY=()
    while IFS=$'\t' read -r candidate _; do
        [[ $candidate == *[=/] ]] || open=''
        candidate="${candidate#"$before"}"
        [[ -z $quote && $candidate == *[^[:alnum:]_.,:@%+=/-]* ]] && printf -v candidate '%q' "$candidate"
        COMPREPLY+=("$candidate")
    done < <(command "${COMP_WORDS[0]/#\~/$HOME}" __complete "${words[@]:1}" "$word" 2>/dev/null)
    [[ -n $open ]] && type compopt &>/dev/null && compopt -o nospace
    return 0
}
complete -o nosort -F _pk pk 2>/dev/null || complete -F _pk pk
"""

_ZSH = r"""#compdef pk
# Completion of pk for zsh. Put it on $fpath as _pk, or: source <(pk completion zsh)
_pk() {
    local -a whole open
    local word meaning entry
    while IFS=$'\t' read -r word meaning; do
        # _describe removes a backslash before any character, and shows a lone -- for an empty meaning.
        entry="${${word//\\/\\\\}//:/\\:}${meaning:+:${meaning//\\/\\\\}}"
        if [[ $word == *[=/] ]]; then
            open+=("$entry")
        else
            whole+=("$entry")
        fi
    done < <(command "${(Q)words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( ${#whole} )) && _describe -V 'pk' whole
    (( ${#open} )) && _describe -V 'pk' open -S ''
    return 0
}
if [[ "${funcstack[1]}" == _pk ]]; then _pk "$@"; else compdef _pk pk; fi
"""

_FISH = r"""# Completion of pk for fish. Put it in ~/.config/fish/completions, or: pk completion fish | source
function __pk_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct | string unescape)
    test (count $typed) -gt 0; or set typed (commandline -ct | string trim -l -c "'\"")
    # A long meaning would make fish cut the words.
    set -l room (math "max(20, $COLUMNS - 40)")
    command $words[1] __complete $words[2..-1] "$typed" 2>/dev/null | string replace -r "(\t.{$room}).+" '$1…'
end
complete -c pk -f -k -a '(__pk_complete)'
"""

SCRIPTS = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def completion(context: Context, shell: str) -> None:
    """Run `pk completion`."""
    if shell not in SCRIPTS:
        raise Unusable(f"SHELL must be one of {', '.join(SCRIPTS)}, not {shell!r}.")
    context.write(SCRIPTS[shell].encode())
