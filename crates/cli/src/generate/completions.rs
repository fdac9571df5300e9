//! Completions for shells: what clap makes of the command line, and the names of events besides, which the
//! running kernel has: the shell asks `weigh trace list --names` for them.

use clap_complete::Shell;

/// Of bash a word ends at a colon, where a user's does not: the line is looked at.
const BASH: &str = r#"
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
_weigh_or_events() { _weigh_events "$@" || _weigh "$@"; }
complete -F _weigh_or_events -o bashdefault -o default weigh
"#;

const FISH: &str = r#"
complete -c weigh -n "__fish_seen_subcommand_from trace" -s e -l event -x -a "(weigh trace list --names 2>/dev/null)"
complete -c weigh -n "__fish_seen_subcommand_from trace" -l latency -l sequence -x -a "(weigh trace list --names 2>/dev/null)"
complete -c weigh -n "__fish_seen_subcommand_from ctl; and __fish_seen_subcommand_from add" -x -a "(weigh trace list --names 2>/dev/null)"
"#;

const ZSH: &str = r#"
_weigh_event_names() {
    local -a names
    names=(${(f)"$(_call_program events weigh trace list --names 2>/dev/null)"})
    compadd -a names
}

"#;
/// Where clap calls its functions, if zsh has loaded the file for a first completion.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_weigh\" ]";
/// Arguments that are events, as clap says them.
const ZSH_EVENTS: [&str; 3] =
    [":EVENT:_default'", ":PAIR:_default'", ":event -- As for -e:_default'"];

/// What clap has made, with the names of events.
pub fn with_events(shell: Shell, made: &str) -> String {
    match shell {
        Shell::Bash => format!("{made}{BASH}"),
        Shell::Fish => format!("{made}{FISH}"),
        Shell::Zsh => {
            let mut text = made.replacen(ZSH_END, &format!("{}{ZSH_END}", ZSH.trim_start()), 1);
            for event in ZSH_EVENTS {
                text = text.replace(event, &event.replace("_default", "_weigh_event_names"));
            }
            text
        }
        _ => made.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn what_clap_writes_has_the_places_that_are_looked_for() {
        let mut made = Vec::new();
        let mut command = crate::arguments::Arguments::command();
        clap_complete::generate(Shell::Zsh, &mut command, "weigh", &mut made);
        let made = String::from_utf8(made).expect("UTF-8");
        for place in ZSH_EVENTS.iter().chain([&ZSH_END]) {
            assert!(made.contains(place), "{place}");
        }
        let text = with_events(Shell::Zsh, &made);
        assert!(text.contains("]:EVENT:_weigh_event_names'") && text.contains("compadd -a names"));
    }
}
