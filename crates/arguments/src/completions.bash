_weigh_metrics="@METRICS@"
_weigh_parts="@PARTS@"
_weigh_events() {
    local line=${COMP_LINE:0:COMP_POINT} word
    word=${line##*[[:space:]\'\"]}
    line=${line:0:${#line}-${#word}}
    case ${line%[\'\"]} in
    *" trace "*"-e " | *" trace "*"--event " | *" trace "*"ctl "*"add ") ;;
    *" trace "*"--latency " | *" trace "*"--sequence " | *" trace "*"-> " | *" trace "*"followed by ") ;;
    *" trace "*"--rate "*"of " | *" trace "*"--top "*"of " | *" trace "*"--histogram "*"of ") ;;
    *) return 1 ;;
    esac
    mapfile -t COMPREPLY < <(compgen -W "$("$1" trace list --names 2>/dev/null)" -- "$word")
    [[ $COMP_WORDBREAKS != *:* ]] || COMPREPLY=("${COMPREPLY[@]#"${word%"${word##*:}"}"}")
}
# The command behind `--`, as if weigh were not there.
_weigh_command() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        mapfile -t COMPREPLY < <(compgen -c -- "${COMP_WORDS[COMP_CWORD]}")
    else
        COMPREPLY=()
    fi
}
_weigh_recordings() {
    local state=${XDG_STATE_HOME:-$HOME/.local/state}/weigh made
    for made in "$state/$1"*/; do [[ ! -d $made ]] || echo "${made%/}"; done
    compgen -f -- "$1"
}
_weigh_names() {
    local line=${COMP_LINE:0:COMP_POINT} word i
    for ((i = 2; i < COMP_CWORD; i++)); do
        [[ ${COMP_WORDS[i]} != -- ]] || { _weigh_command $((i + 1)); return 0; }
    done
    word=${line##*[[:space:]=,]}
    line=${line:0:${#line}-${#word}}
    if [[ $line =~ \ --limit[=\ ]$ ]]; then
        mapfile -t COMPREPLY < <(compgen -S = -W "$_weigh_metrics" -- "$word")
        compopt -o nospace 2>/dev/null
    elif [[ $line =~ \ (-s|--subsystems)[=\ ]([^\ ]*,)?$ ]]; then
        mapfile -t COMPREPLY < <(compgen -P "${BASH_REMATCH[2]}" -W "all $_weigh_parts" -- "$word")
    elif [[ ${COMP_WORDS[1]} == @(show|report|export) && $2 != -* && $3 != -* ]]; then
        mapfile -t COMPREPLY < <(_weigh_recordings "$2")
        compopt -o filenames 2>/dev/null
    else
        return 1
    fi
    return 0
}
_weigh_or_names() { _weigh_events "$@" || _weigh_names "$@" || _weigh "$@"; }
complete -F _weigh_or_names -o bashdefault -o default weigh
