# Completion of pk for bash. Put it where bash finds it, or: source <(pk completion bash)
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
