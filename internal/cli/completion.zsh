#compdef penstock
# Completion of penstock for zsh.
_penstock() {
    local line word
    local -a found
    for line in "${(@f)$(penstock complete zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -z $line ]] && continue
        if [[ $line == :files ]]; then
            compset -P '--*='
            _files
            return
        fi
        word=${line%%$'\t'*}
        if [[ $line == *$'\t'* ]]; then
            found+=("${word//:/\\:}:${line#*$'\t'}")
        else
            found+=("${word//:/\\:}")
        fi
    done
    (( $#found )) && _describe penstock found
}
if [[ $funcstack[1] == _penstock ]]; then
    _penstock "$@"
else
    compdef _penstock penstock
fi
