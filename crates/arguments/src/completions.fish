complete -c weigh -n "__fish_seen_subcommand_from trace" -s e -l event -x -a "(weigh trace list --names 2>/dev/null)"
complete -c weigh -n "__fish_seen_subcommand_from trace" -l latency -l sequence -x -a "(weigh trace list --names 2>/dev/null)"
complete -c weigh -n "__fish_seen_subcommand_from ctl; and __fish_seen_subcommand_from add" -x -a "(weigh trace list --names 2>/dev/null)"
function __weigh_recordings
    set -l state $XDG_STATE_HOME
    test -n "$state"; or set state ~/.local/state
    for made in $state/weigh/*/
        string trim -r -c / -- $made
    end
end
# The command behind `--`, as if weigh were not there.
function __weigh_command
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..-1]) (commandline -ct))
end
complete -c weigh -n "__fish_seen_subcommand_from run" -l limit -x -a "(printf '%s=\n' @METRICS@)"
complete -c weigh -n "__fish_seen_subcommand_from calls agent" -l subsystems -x -a "(__fish_append , all @PARTS@)"
complete -c weigh -n "__fish_seen_subcommand_from calls" -s s -x -a "(__fish_append , all @PARTS@)"
complete -c weigh -n "__fish_seen_subcommand_from show report export" -a "(__weigh_recordings)"
complete -c weigh -n "contains -- -- (commandline -opc)" -x -a "(__weigh_command)"
