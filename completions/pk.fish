# Completion of pk for fish. Put it in ~/.config/fish/completions, or: pk completion fish | source
function __pk_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct | string unescape)
    test (count $typed) -gt 0; or set typed (commandline -ct | string trim -l -c "'\"")
    # A long meaning would make fish cut the words.
    set -l room (math "max(20, $COLUMNS - 40)")
    command $words[1] __complete $words[2..-1] "$typed" 2>/dev/null | string replace -r "(\t.{$room}).+" '$1…'
end
complete -c pk -f -k -a '(__pk_complete)'
