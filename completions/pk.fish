# Completion of pk for fish. Put it in ~/.config/fish/completions, or: pk completion fish | source
function __pk_complete
    set -l words (commandline -opc) (commandline -ct)
    pk __complete $words[2..-1] 2>/dev/null
end
complete -c pk -f -a '(__pk_complete)'
