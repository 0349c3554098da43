#compdef pk
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
