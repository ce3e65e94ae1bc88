"""The scripts that shells complete with: each asks kvzip itself what may come next.

What is asked is in the script, what is answered in ``kvzip.cli.completion``; the program asked is the one that stands
on the line. Nothing is ever said on a terminal: where there is no answer, nothing is completed.
"""

from __future__ import annotations

BASH = r"""# Completion for bash 4 or newer: source it, or keep it as
# ~/.local/share/bash-completion/completions/kvzip
_kvzip() {
    local kind= reply
    COMPREPLY=()
    {
        IFS= read -r kind
        while IFS= read -r reply; do
            COMPREPLY+=("$reply")
        done
    } < <("${1/#\~\//$HOME/}" completion bash -- "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    case $kind in
        nospace | filenames) compopt -o "$kind" 2>/dev/null ;;
    esac
}
complete -F _kvzip kvzip
"""

ZSH = r"""#compdef kvzip
# Completion for zsh: keep it as _kvzip in a folder of $fpath, or source it after compinit.
_kvzip() {
    local line kind globs
    local -a lines whole begun
    local program=${words[1]/#\~\//$HOME/}
    lines=("${(@f)$("$program" completion zsh -- "${(@Q)words[1,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
    (( $#lines )) || return 1
    [[ $lines[1] == prefixed ]] && compset -P 1 '*='
    for line in "${(@)lines[2,-1]}"; do
        kind=${line%%$'\t'*}
        line=${line#*$'\t'}
        case $kind in
            whole) whole+=("$line") ;;
            begun) begun+=("$line") ;;
            files) globs=${line:-*} ;;
            folders) _files -/ && return 0 ;;
        esac
    done
    (( $#whole )) && _describe -V kvzip whole
    (( $#begun )) && _describe -V kvzip begun -S ''
    [[ -n $globs ]] && _files -g "$globs"
    (( compstate[nmatches] ))
}
if [[ $funcstack[1] == _kvzip ]]; then
    _kvzip "$@"
else
    compdef _kvzip kvzip
fi
"""

FISH = r"""# Completion for fish: keep it as ~/.config/fish/completions/kvzip.fish
function __kvzip_complete
    set -l words (commandline -opc)
    set -l last (commandline -ct)
    set -l plain (string unescape -- "$last" 2>/dev/null)
    or set plain (string trim --left --chars="\"'" -- "$last")
    $words[1] completion fish -- $words "$plain" 2>/dev/null
end
complete -c kvzip -f -k -a '(__kvzip_complete)'
"""

SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}
