# Completion of penstock for fish.
function __penstock_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l found (penstock complete fish -- $words[2..-1] 2>/dev/null)
    if test "$found[1]" = :files
        set -l word (commandline -ct)
        set -l flag (string match -r -- '^--[^=]*=' $word)
        __fish_complete_path (string replace -r -- '^--[^=]*=' '' $word) | string replace -r -- '^' "$flag"
        return
    end
    set -q found[1]; and printf '%s\n' $found
end
complete -c penstock -f -a '(__penstock_complete)'
