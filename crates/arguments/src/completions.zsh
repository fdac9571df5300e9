_weigh_event_names() {
    local -a names
    names=(${(f)"$(_call_program events weigh trace list --names 2>/dev/null)"})
    compadd -a names
}
_weigh_metrics() {
    local -a names
    names=(@METRICS@)
    compadd -S = -a names
}
_weigh_parts() {
    _values -s , 'part of the kernel' all @PARTS@
}
_weigh_recordings() {
    local -a made
    made=(${XDG_STATE_HOME:-$HOME/.local/state}/weigh/*(N/om))
    compadd -a made
    _files
}
