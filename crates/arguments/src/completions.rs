//! Completions for shells: what clap makes of the command line, and names besides: of events, which the running kernel
//! has and `weigh trace list --names` tells; of metrics and of parts of the kernel, which are declared; of recordings,
//! which lie where weigh leaves them; of commands, which the shell knows.

use clap::CommandFactory as _;
use clap_complete::{Generator as _, Shell};
use weigh_schema::METRICS;
use weigh_schema::subsystem::SUBSYSTEMS;

use crate::verb::Arguments;

/// Of bash a word ends at a colon and at `=`, where a user's does not: the line is looked at.
const BASH: &str = include_str!("completions.bash");

const FISH: &str = include_str!("completions.fish");

const ZSH: &str = include_str!("completions.zsh");
/// Where clap calls its functions, if zsh has loaded the file for a first completion.
const ZSH_END: &str = "if [ \"$funcstack[1]\" = \"_weigh\" ]";

/// What has names in zsh: a word of the line, the argument as clap says it, and the function that completes it.
const ZSH_NAMES: [(&str, &str, &str, &str); 7] = [
    ("--event=[", ":EVENT:", "_default", "_weigh_event_names"),
    ("-e+[", ":EVENT:", "_default", "_weigh_event_names"),
    ("[", ":PAIR:", "_default", "_weigh_event_names"),
    ("event -- As for -e", "", "_default", "_weigh_event_names"),
    ("--limit=[", ":METRIC=VALUE:", "_default", "_weigh_metrics"),
    ("The parts of the kernel ", ":LIST:", "_default", "_weigh_parts"),
    (":recording -- ", "", "_files", "_weigh_recordings"),
];

/// The shells that completions are written for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Zsh, Shell::Fish];

/// For each shell the name of its file, and what stands in it.
pub fn files() -> impl Iterator<Item = (String, String)> {
    SHELLS.into_iter().map(|shell| (shell.file_name("weigh"), text(shell)))
}

fn text(shell: Shell) -> String {
    let mut made = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "weigh", &mut made);
    let made = String::from_utf8_lossy(&made);
    match shell {
        Shell::Bash => format!("{made}\n{}", named(BASH)),
        Shell::Fish => format!("{made}\n{}", named(FISH)),
        Shell::Zsh => {
            let functions = named(ZSH) + "\n";
            let text = made.replacen(ZSH_END, &format!("{functions}{ZSH_END}"), 1);
            text.lines().map(|line| zsh_line(line) + "\n").collect()
        }
        _ => made.to_string(),
    }
}

fn named(text: &str) -> String {
    let metrics: Vec<&str> =
        METRICS.iter().filter(|m| m.can_be_limited()).map(|m| m.name).collect();
    let parts: Vec<&str> = SUBSYSTEMS.iter().map(|part| part.name).collect();
    text.replace("@METRICS@", &metrics.join(" ")).replace("@PARTS@", &parts.join(" "))
}

fn zsh_line(line: &str) -> String {
    let names = ZSH_NAMES.iter().find(|(word, argument, action, _)| {
        line.contains(word)
            && line.contains(&format!("{argument}{action}"))
            && line.contains(argument)
    });
    match names {
        Some((_, argument, action, function)) => {
            line.replace(&format!("{argument}{action}"), &format!("{argument}{function}"))
        }
        None => line.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    #[test]
    fn every_name_of_zsh_has_its_place() {
        let text = text(Shell::Zsh);
        // The function itself, and where it is called.
        for (function, calls) in [
            ("_weigh_event_names", 4),
            ("_weigh_metrics", 1),
            ("_weigh_parts", 3),
            ("_weigh_recordings", 3),
        ] {
            assert!(text.matches(function).count() > calls, "{function}");
        }
        assert!(text.contains("]:EVENT:_weigh_event_names'") && text.contains("compadd -a names"));
        assert!(text.contains("memory_peak_bytes"), "metrics are named");
    }

    /// What bash offers for a line, whose last word is the one that is typed.
    fn bash(home: &Path, line: &str) -> Vec<String> {
        let script = format!(
            "{}\nshopt -s extglob\nCOMP_LINE=$1 COMP_POINT=${{#1}}\nIFS='= ' read -ra COMP_WORDS <<<\"$1\"
            [[ $1 != *' ' && $1 != *= ]] || COMP_WORDS+=('')\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
            _weigh_or_names weigh \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"
            printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            text(Shell::Bash)
        );
        let output = Command::new("bash")
            .args(["--norc", "-c", &script, "bash", line])
            .env("HOME", home)
            .env_remove("XDG_STATE_HOME")
            .current_dir(home)
            .output()
            .expect("bash runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
    }

    #[test]
    fn bash_completes_metrics_parts_recordings_and_commands() {
        let home = tempfile::tempdir().expect("a directory");
        let recording = home.path().join(".local/state/weigh/20260101T000000-1");
        std::fs::create_dir_all(&recording).expect("a recording's place");
        let offered = |line: &str| bash(home.path(), line);
        assert!(
            offered("weigh run --limit memory_peak_b").contains(&"memory_peak_bytes=".to_owned())
        );
        assert_eq!(offered("weigh run --limit=wall_s"), ["wall_seconds="]);
        assert_eq!(offered("weigh calls -s bl"), ["block"]);
        assert!(offered("weigh calls --subsystems fs,bl").contains(&"fs,block".to_owned()));
        let recording = recording.to_string_lossy().into_owned();
        assert_eq!(offered("weigh show 2026"), std::slice::from_ref(&recording));
        assert!(offered("weigh report ").contains(&recording));
        assert!(offered("weigh run -- tru").contains(&"true".to_owned()));
        assert_eq!(offered("weigh run --wait-for ma"), ["main"], "what clap knows");
        assert_eq!(offered("weigh rep"), ["report"]);
    }

    #[test]
    fn fish_and_bash_have_no_name_left_to_fill_in() {
        for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
            let text = text(shell);
            assert!(!text.contains("@METRICS@") && !text.contains("@PARTS@"), "{shell}");
        }
    }
}
