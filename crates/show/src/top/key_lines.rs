//! What the keys do.

use super::view::TopList;

/// The last line of the screen.
pub(super) fn short(list: TopList) -> &'static str {
    match list {
        TopList::Processes => {
            "q quit  ? keys  Enter open  c m t p sort  / filter  a everybody  b busiest"
        }
        TopList::Job(_) => {
            "Esc back  ? keys  Enter open  c m t p sort  / filter  b busiest  q quit"
        }
        TopList::Busiest(_) => "Esc back  ? keys  arrows scroll  / filter  q quit",
        _ => "Esc back  ? keys  arrows scroll  q quit",
    }
}

/// All keys.
pub(super) fn all() -> Vec<String> {
    const KEYS: [(&str, &str); 15] = [
        ("arrows, j k, pages", "choose a row, or scroll"),
        ("Enter", "open the job or the process of the row"),
        ("Esc", "empty the filter; then back"),
        ("c  m  t  p", "sort by CPU, memory, threads, PID"),
        ("/", "filter by a text in command, name or user, or by a PID"),
        ("a", "everybody's processes and jobs, or yours"),
        ("b", "files, connections, phases, syscalls that jobs are busy with;"),
        ("", "in a job: of this one alone"),
        ("s", "how the collectors fare"),
        ("r", "all rules: what holds, is pending, or cannot be judged"),
        ("v", "values that clients of an agent publish"),
        ("?", "these words"),
        ("q, Ctrl-C", "quit"),
        ("Ctrl-Z", "give the terminal back to the shell, until `fg`"),
        ("", "\u{2013} means: not known. It never means 0."),
    ];
    KEYS.iter().map(|(key, words)| format!("{key:<19} {words}").trim_end().to_string()).collect()
}
