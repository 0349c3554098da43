#compdef pk
# Completion of pk for zsh. Put it on $fpath as _pk, or: source <(pk completion zsh)
_pk() {
    local -a whole open
    local word meaning
    while IFS=$'\t' read -r word meaning; do
        if [[ $word == *[=/] ]]; then
            open+=("${word//:/\\:}:${meaning}")
        else
            whole+=("${word//:/\\:}:${meaning}")
        fi
    done < <(command "${(Q)words[1]/#\~/$HOME}" __complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
    (( ${#whole} )) && _describe -V 'pk' whole
    (( ${#open} )) && _describe -V 'pk' open -S ''
    return 0
}
if [[ "${funcstack[1]}" == _pk ]]; then _pk "$@"; else compdef _pk pk; fi
