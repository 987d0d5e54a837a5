# Completion of penstock for bash.
_penstock() {
    local program=${1/#\~/$HOME} word=$2 line
    [[ $program == */* ]] || program=penstock
    [[ $word == [=:] ]] && word=
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == :files ]]; then
            compopt -o filenames 2>/dev/null || :
            while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$word")
        else
            COMPREPLY+=("$line")
        fi
    done < <("$program" complete bash -- "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
}
complete -F _penstock penstock
