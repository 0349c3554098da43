# Completion of pk for bash. Put it where bash finds it, or: source <(pk completion bash)
_pk() {
    local IFS=$'\n' line word cur words=()
    cur="${COMP_LINE:0:COMP_POINT}"
    # bash parts words at : and =, which belong to ours; part at blanks instead.
    IFS=$' \t\n' read -r -a words <<< "$cur"
    [[ "$cur" == *[[:space:]] ]] && words+=("")
    COMPREPLY=()
    local typed="${words[${#words[@]}-1]}"
    local before="${typed%"${typed##*[:=]}"}"
    while IFS=$'\t' read -r word line; do
        [[ "$typed" == *[:=]* ]] && word="${word#"$before"}"
        [[ "$word" == *[=/] ]] && compopt -o nospace
        COMPREPLY+=("$word")
    done < <(pk __complete "${words[@]:1}" 2>/dev/null)
}
complete -F _pk pk
