//! Man pages: what clap declares of a verb, and the sections that it has no word for.
//!
//! Reads the declaration of a verb, whose text behind the options has paragraphs (`Exit status:`, `Examples:`,
//! `See also:`, others), and the tables of variables and files below; emits roff. Examples stay as they are: what a
//! formatter fills cannot be copied.

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;

use crate::verb::Arguments;

/// A variable of the environment or a file, what it is, and the verbs that it is of: none for all.
type Entry = (&'static str, &'static str, &'static [&'static str]);

const STARTERS: &[&str] = &["run", "io", "calls", "trace"];

const ENVIRONMENT: &[Entry] = &[
    (
        "WEIGH_SOCKET",
        "Where the agent answers, instead of /run/weigh/agent.sock. Where weigh itself serves programs with libweigh, it is \
         set for the command.",
        &["run", "io", "calls", "trace", "agent", "push", "doctor"],
    ),
    (
        "XDG_STATE_HOME",
        "Recordings without --output are below $XDG_STATE_HOME/weigh; if it is not set, below ~/.local/state/weigh.",
        &["run"],
    ),
    (
        "XDG_RUNTIME_DIR",
        "The control sockets of an ordinary user's streams are below it. Files that are shared with the library in a job's \
         programs are, where /dev/shm has no room.",
        STARTERS,
    ),
    (
        "TMPDIR",
        "Files that are shared with the library in a job's programs, if no other place has room.",
        STARTERS,
    ),
    (
        "XDG_CACHE_HOME",
        "An ordinary user's analyses of kernels are below $XDG_CACHE_HOME/weigh.",
        &["calls", "doctor"],
    ),
    (
        "WEIGH_EVENT, WEIGH_NAME, WEIGH_RECORDING, WEIGH_JOB",
        "Set for the command of --on-event: what has happened, to what, the recording, the job.",
        &["run"],
    ),
    ("NO_COLOR", "If it is set and not empty, nothing is coloured.", &[]),
];

const FILES: &[Entry] = &[
    (
        "~/.local/state/weigh/ID/",
        "A recording: summary.json, series.parquet, processes.parquet, files.parquet, report.html. While the job runs, a \
         journal.",
        &["run", "show", "report", "export", "serve"],
    ),
    (
        "/run/weigh/agent.sock",
        "The socket of the agent.",
        &["run", "io", "calls", "trace", "agent", "push", "doctor"],
    ),
    ("/run/weigh/trace-PID.sock", "The control socket of a stream of root's.", &["trace"]),
    (
        "/etc/default/weigh-agent",
        "Options of the agent as a service: WEIGH_AGENT_OPTIONS=…",
        &["agent"],
    ),
    ("/var/cache/weigh/", "Analyses of kernels, by their build ids.", &["calls", "doctor"]),
    (
        "/usr/share/doc/weigh/",
        "weigh's documentation: the pages that help names, a tutorial, and how-to pages.",
        &[],
    ),
];

const EXIT_STATUS: &str = "  0  all is done\n  125  weigh failed, and says why on standard error";

/// Tools of others that do something of the kind.
const OTHERS: &[(&str, &str)] = &[
    ("run", "time(1), timeout(1), perf-stat(1)"),
    ("io", "strace(1), iotop(8)"),
    ("calls", "strace(1), perf-trace(1)"),
    ("trace", "perf-record(1), bpftrace(8)"),
    ("top", "top(1), vmstat(8), iostat(1)"),
    ("agent", "systemd(1), capabilities(7)"),
];

/// One page for weigh, one for each verb that is not hidden, and one for each of a verb's own: names and texts.
pub fn pages() -> anyhow::Result<Vec<(String, String)>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let verbs: Vec<&Command> = visible(&command).collect();
    let names: Vec<String> = verbs.iter().map(|verb| name_of(verb)).collect();
    let below = verbs.iter().flat_map(|verb| visible(verb));
    std::iter::once(&command)
        .chain(verbs.iter().copied())
        .chain(below)
        .map(|page| Ok((name_of(page), text(page, &names)?)))
        .collect()
}

fn visible(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set())
}

fn name_of(command: &Command) -> String {
    command.get_display_name().unwrap_or(command.get_name()).to_string()
}

fn text(command: &Command, verbs: &[String]) -> anyhow::Result<String> {
    // A verb has no version of its own.
    let source = concat!("weigh ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).manual("weigh manual").source(source);
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if visible(command).next().is_some() {
        man.render_subcommands_section(&mut page)?;
    }
    let behind = command.get_after_help().map(|help| help.to_string()).unwrap_or_default();
    Ok(String::from_utf8(page)? + &sections(&name_of(command), &behind, verbs))
}

/// What stands behind the options, each under its heading, in the order of man-pages(7).
fn sections(page: &str, behind: &str, verbs: &[String]) -> String {
    let paragraphs: Vec<Paragraph> = behind.split("\n\n").filter_map(Paragraph::parse).collect();
    let of = |title: &str| paragraphs.iter().find(|p| p.title == title).map(|p| p.body.as_str());
    let notes: String =
        paragraphs.iter().filter(|p| !p.has_section()).map(Paragraph::note).collect();
    let verb =
        page.strip_prefix("weigh-").unwrap_or_default().split('-').next().unwrap_or_default();
    let mut text = section("EXIT STATUS", &statuses(of("Exit status").unwrap_or(EXIT_STATUS)));
    text += &section("ENVIRONMENT", &entries(ENVIRONMENT, verb));
    text += &section("FILES", &entries(FILES, verb));
    text += &section("NOTES", &notes);
    text += &section("EXAMPLES", &of("Examples").map(verbatim).unwrap_or_default());
    text + &section("SEE ALSO", &see_also(page, verb, of("See also"), verbs))
}

fn section(title: &str, body: &str) -> String {
    if body.is_empty() { String::new() } else { format!(".SH {}\n{body}", quoted(title)) }
}

fn quoted(title: &str) -> String {
    if title.contains(' ') { format!("\"{title}\"") } else { title.to_string() }
}

/// Some lines of the text behind the options: indented ones below a title, or plain ones.
struct Paragraph {
    title: String,
    body: String,
}

impl Paragraph {
    fn parse(text: &str) -> Option<Paragraph> {
        let text = text.trim_matches('\n');
        let (first, rest) = text.split_once('\n').unwrap_or((text, ""));
        if let Some(pages) = text.strip_prefix("See also: ") {
            return Some(Paragraph {
                title: "See also".to_string(),
                body: pages.replace('\n', " "),
            });
        }
        let (title, body) = match first.strip_suffix(':') {
            Some(title) if rest.starts_with("  ") => (title, rest),
            _ => ("", text),
        };
        (!text.is_empty()).then(|| Paragraph { title: title.to_string(), body: body.to_string() })
    }

    fn has_section(&self) -> bool {
        ["Exit status", "Examples", "See also"].contains(&self.title.as_str())
    }

    fn note(&self) -> String {
        match self.title.as_str() {
            "" => format!(".PP\n{}\n", roff(&self.body.replace('\n', " "))),
            title => format!(".PP\n{}:\n{}", roff(title), verbatim(&self.body)),
        }
    }
}

/// Lines as they are.
fn verbatim(body: &str) -> String {
    let lines: String =
        body.lines().map(|line| roff(line.strip_prefix("  ").unwrap_or(line)) + "\n").collect();
    format!(".PP\n.nf\n.RS 4\n{lines}.RE\n.fi\n")
}

/// `  124  what it means`, and lines that go on; before them, what has no number.
fn statuses(body: &str) -> String {
    let is_number = |word: &str| !word.is_empty() && word.chars().all(|c| c.is_ascii_digit());
    let line = |line: &str| match line.trim().split_once("  ") {
        Some((number, meaning)) if is_number(number) => {
            format!(".TP\n.B {number}\n{}\n", roff(meaning))
        }
        _ => roff(line.trim()) + "\n",
    };
    body.lines().map(line).collect()
}

fn entries(table: &[Entry], verb: &str) -> String {
    let is_of =
        |(_, _, verbs): &&Entry| verbs.is_empty() || verb.is_empty() || verbs.contains(&verb);
    let entry = |(name, text, _): &Entry| format!(".TP\n.B \"{}\"\n{}\n", roff(name), roff(text));
    table.iter().filter(is_of).map(entry).collect()
}

fn see_also(page: &str, verb: &str, named: Option<&str>, verbs: &[String]) -> String {
    let mut pages: Vec<String> =
        std::iter::once("weigh".to_string()).chain(verbs.iter().cloned()).collect();
    pages.retain(|other| other != page);
    let mut all: Vec<String> = pages.iter().map(|page| format!("{page}(1)")).collect();
    all.extend(OTHERS.iter().filter(|(of, _)| *of == verb).map(|(_, others)| others.to_string()));
    let named = named.map(|text| format!(".PP\n{}\n", roff(text))).unwrap_or_default();
    format!("{}\n{named}", roff(&all.join(", ")))
}

/// A line of text for the formatter: nothing of it is an instruction, and what a shell reads stays what it is.
fn roff(text: &str) -> String {
    let mut escaped = String::new();
    for c in text.chars() {
        match c {
            '\\' => escaped += "\\e",
            '-' => escaped += "\\-",
            '\'' => escaped += "\\(aq",
            '`' => escaped += "\\(ga",
            '^' => escaped += "\\(ha",
            '~' => escaped += "\\(ti",
            '"' => escaped += "\\(dq",
            c => escaped.push(c),
        }
    }
    if escaped.starts_with('.') { format!("\\&{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Vec<(String, String)> {
        super::pages().expect("pages")
    }

    #[test]
    fn every_page_has_the_sections_that_are_looked_for() {
        for (name, text) in pages() {
            for title in ["\"EXIT STATUS\"", "ENVIRONMENT", "FILES", "\"SEE ALSO\""] {
                assert_eq!(text.matches(&format!(".SH {title}\n")).count(), 1, "{name}: {title}");
            }
            assert!(!text.contains(".SH EXTRA"), "{name}");
            assert!(text.contains("125"), "{name} has weigh's own failures");
        }
    }

    #[test]
    fn examples_are_lines_that_can_be_copied() {
        let (_, run) = pages().into_iter().find(|(name, _)| name == "weigh-run").expect("a page");
        let (_, examples) = run.split_once(".SH EXAMPLES\n").expect("examples");
        assert!(examples.starts_with(".PP\n.nf\n"), "{examples}");
        assert!(examples.contains("\nweigh run \\-\\- make \\-j4\n"), "{examples}");
        let status = run.split_once(".SH \"EXIT STATUS\"\n").expect("statuses").1;
        assert!(status.contains(".TP\n.B 127\nthe command was not found\n"), "{status}");
    }

    #[test]
    fn a_verb_has_what_is_of_it_and_no_more() {
        let pages = pages();
        let page = |wanted: &str| &pages.iter().find(|(name, _)| name == wanted).expect("a page").1;
        assert!(
            page("weigh-run").contains("XDG_STATE_HOME")
                && page("weigh").contains("XDG_STATE_HOME")
        );
        assert!(!page("weigh-explain").contains("XDG_STATE_HOME"));
        assert!(
            page("weigh-io-mount").contains("iotop(8)"),
            "what is of the verb is of all below it"
        );
    }

    #[test]
    fn nothing_of_a_text_is_an_instruction() {
        assert_eq!(roff(".nf 'a' \\b"), "\\&.nf \\(aqa\\(aq \\eb");
        let (title, body) = Paragraph::parse("Examples:\n  weigh run -- ls")
            .map(|p| (p.title, p.body))
            .expect("a paragraph");
        assert_eq!((title.as_str(), body.as_str()), ("Examples", "  weigh run -- ls"));
    }

    /// The long help of a command and of all below it.
    fn helps(command: &mut Command, texts: &mut Vec<(String, String)>) {
        let help = command.render_long_help().to_string();
        texts.push((name_of(command), help));
        for below in command.get_subcommands_mut() {
            helps(below, texts);
        }
    }

    #[test]
    fn help_names_no_path_of_the_source_tree() {
        let mut texts = Vec::new();
        let mut command = Arguments::command();
        command.build();
        helps(&mut command, &mut texts);
        assert!(texts.len() > 15, "all verbs");
        texts.extend(pages());
        for (name, text) in texts {
            for path in ["crates/", "docs/", ".md", "libweigh/", "tests/", ".rs"] {
                assert!(!text.contains(path), "{name} names {path}");
            }
        }
    }
}
