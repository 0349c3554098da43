#compdef pk
# Completion of pk for zsh. Put it on $fpath as _pk, or: source <(pk completion zsh)
_pk() {
    local -a found open
    local word meaning
    while IFS=$'\t' read -r word meaning; do
        if [[ "$word" == *[=/] ]]; then
            open+=("$word")
        else
            found+=("${word//:/\\:}:${meaning}")
        fi
    done < <(pk __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#found} )) && _describe -V 'pk' found
    (( ${#open} )) && compadd -S '' -a open
}
if [[ "${funcstack[1]}" == _pk ]]; then _pk "$@"; else compdef _pk pk; fi
