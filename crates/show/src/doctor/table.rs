//! The findings as lines for the terminal, of at most the given width.

use weigh_schema::amount::show_size;
use weigh_schema::availability::Availability;
use weigh_schema::doctor::{
    CollectorFinding, Condition, ConventionFinding, DoctorReport, MechanismFinding, RunVerdict,
};
use weigh_schema::event::CollectorState;
use weigh_schema::printable::in_words;
use weigh_schema::summary::Host;

/// Where, for collectors, the state and the text begin.
const COLLECTOR_COLUMNS: (usize, usize) = (13, 24);
/// Where, for conditions, the value and the text begin.
const CONDITION_COLUMNS: (usize, usize) = (29, 38);

const BOLD: &str = "1";
const GREEN: &str = "32";
const YELLOW: &str = "33";
const RED: &str = "31";
const DIM: &str = "2";

/// Text that grows line by line.
struct Page {
    text: String,
    width: usize,
    color: bool,
}

/// The most lines of the short form.
const LINES: usize = 12;

/// Where the text of the short form begins.
const SHORT_COLUMN: usize = 11;

/// In twelve lines: how jobs are followed here, what is missing, what works. What finds no room is left out whole.
pub fn render_short(findings: &DoctorReport, width: usize, color: bool) -> String {
    let mut rows = Vec::new();
    let page = || Page { text: String::new(), width, color };
    let mut add = |fill: &dyn Fn(&mut Page)| {
        let mut page = page();
        fill(&mut page);
        rows.push(page.text);
    };
    add(&|page| verdict(page, findings.run));
    if let Some(reason) = missing(findings) {
        add(&|page| page.short("missing", &reason, ""));
    }
    let mechanisms = findings.mechanisms.iter().map(|one| &one.availability);
    let works = names(mechanisms.filter(|one| one.is_active()).map(|one| one.name.as_str()));
    let of_state = |is_active: bool| {
        let collectors = findings.collectors.iter().map(|one| &one.availability);
        names(collectors.filter(|one| one.is_active() == is_active).map(|one| one.name.as_str()))
    };
    let shorts = [
        ("followed", format!("by {works}"), GREEN),
        ("not here", of_state(false), YELLOW),
        ("measured", of_state(true), GREEN),
    ];
    for (label, text, color) in shorts.iter().filter(|(_, text, _)| !text.is_empty()) {
        add(&|page| page.short(label, text, color));
    }
    if let Some(host) = &findings.host {
        add(&|page| page.short("host", &host_words(host), ""));
    }
    let mut text = String::new();
    for row in rows {
        if text.lines().count() + row.lines().count() < LINES {
            text += &row;
        }
    }
    text + "weigh doctor -v says why, what each mechanism sees and loses, and what helps\n"
}

/// Why jobs are not followed in the kernel, or what conditions are lacking.
fn missing(findings: &DoctorReport) -> Option<String> {
    let said = findings.said.iter().filter(|_| findings.run == RunVerdict::Fails);
    let mechanisms = findings.mechanisms.iter().map(|one| &one.availability);
    let refused = mechanisms.filter(|one| one.name == "bpf");
    let lacking = findings.conditions.iter().filter(|one| one.good == Some(false));
    let lacking = Some(names(lacking.map(|one| one.name))).filter(|names| !names.is_empty());
    let refused = refused.filter_map(|one| Some(format!("bpf: {}", one.reason.as_ref()?)));
    said.cloned().chain(refused).next().or(lacking)
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

/// The findings, with a line end after the last line.
pub fn render(findings: &DoctorReport, width: usize, color: bool) -> String {
    let mut page = Page { text: String::new(), width, color };
    head(&mut page, findings);
    page.heading("Mechanisms, each tried (--mechanism)");
    findings.mechanisms.iter().for_each(|finding| mechanism(&mut page, finding));
    if !findings.collectors.is_empty() {
        page.heading("Collectors, as a trial run found them");
        findings.collectors.iter().for_each(|finding| collector(&mut page, finding));
    }
    if !findings.conventions.is_empty() {
        page.heading("Conventions of annotated programs (weigh run --regions)");
        findings.conventions.iter().for_each(|finding| convention(&mut page, finding));
    }
    if !findings.unknown.is_empty() {
        page.heading("Metrics that no collector gave a value");
        for unknown in &findings.unknown {
            page.paragraph(2, &unknown.metrics.join(", "), "");
            page.paragraph(4, &unknown.reason, DIM);
        }
    }
    page.heading("What decides it");
    findings.conditions.iter().for_each(|one| condition(&mut page, one));
    page.text
}

fn head(page: &mut Page, findings: &DoctorReport) {
    if let Some(host) = &findings.host {
        page.paragraph(0, &host_words(host), "");
    }
    verdict(page, findings.run);
    for words in &findings.said {
        page.paragraph(2, words, "");
    }
}

fn verdict(page: &mut Page, run: RunVerdict) {
    let (words, color) = match run {
        RunVerdict::Exact => ("weigh run follows a job exactly here, in the kernel.", GREEN),
        RunVerdict::Reported => (
            "weigh run is told of every process here, but not by the kernel's own counters: see \
             what each mechanism loses.",
            YELLOW,
        ),
        RunVerdict::Fallback => (
            "weigh run does not follow a job exactly here; it only looks at it now and then.",
            YELLOW,
        ),
        RunVerdict::Fails => ("weigh run does not work here.", RED),
    };
    page.paragraph(0, words, color);
}

fn host_words(host: &Host) -> String {
    let mut words = vec![
        format!("weigh {} on Linux {}", host.weigh, host.kernel),
        format!("{} CPUs", host.cpus),
        show_size(host.memory_bytes as f64),
        format!("cgroup {}", host.cgroup_version),
    ];
    words.extend(host.virtualisation.clone());
    words.join(", ")
}

fn mechanism(page: &mut Page, finding: &MechanismFinding) {
    let Availability { name, reason, .. } = &finding.availability;
    let works = finding.availability.is_active();
    let state = if works { ("works", GREEN) } else { ("not here", RED) };
    page.row(COLLECTOR_COLUMNS, name, state, finding.sees);
    let loses = works.then_some(finding.loses);
    for (label, text) in [("loses", loses), ("why", reason.as_deref())] {
        let Some(text) = text else { continue };
        page.row(COLLECTOR_COLUMNS, "", (label, DIM), text);
    }
}

fn convention(page: &mut Page, finding: &ConventionFinding) {
    let Availability { name, status, reason, .. } = &finding.availability;
    let state = state_words(*status);
    let by_name = if finding.is_usual { "" } else { " (where it is named)" };
    page.row(COLLECTOR_COLUMNS, name, state, &format!("{}{by_name}", finding.programs));
    if let Some(reason) = reason {
        page.row(COLLECTOR_COLUMNS, "", ("why", DIM), reason);
    }
    let here = match (&finding.found, finding.looked_for) {
        (Some(path), _) => path.display().to_string(),
        (None, []) => return,
        (None, names) => format!("no {} on PATH", names.join(", ")),
    };
    page.row(COLLECTOR_COLUMNS, "", ("found", DIM), &here);
}

fn state_words(status: CollectorState) -> (&'static str, &'static str) {
    match status {
        CollectorState::Active => ("works", GREEN),
        CollectorState::Degraded => ("degraded", YELLOW),
        CollectorState::Unavailable => ("not here", RED),
        CollectorState::Disabled => ("off", DIM),
    }
}

fn collector(page: &mut Page, finding: &CollectorFinding) {
    let Availability { name, status, reason, remedy } = &finding.availability;
    let (state, color) = state_words(*status);
    let gives = finding.gives.unwrap_or("no description");
    let text = format!("{gives} ({})", finding.mechanism);
    page.row(COLLECTOR_COLUMNS, name, (state, color), &text);
    let lost = (!finding.lost_metrics.is_empty()).then(|| finding.lost_metrics.join(", "));
    let lines = [("why", reason.as_deref()), ("lost", lost.as_deref()), ("remedy", *remedy)];
    for (label, text) in lines {
        let Some(text) = text else { continue };
        page.row(COLLECTOR_COLUMNS, "", (label, DIM), text);
    }
}

fn condition(page: &mut Page, condition: &Condition) {
    let color = match condition.good {
        Some(true) => GREEN,
        Some(false) => YELLOW,
        None => "",
    };
    let (_, text_at) = CONDITION_COLUMNS;
    // A value is a word or a number; where it is longer it is an error.
    let is_short = condition.value.len() < text_at - CONDITION_COLUMNS.0;
    let (value, text) = if is_short {
        (condition.value.as_str(), condition.bears_on.to_string())
    } else {
        ("no", format!("{}; {}", condition.bears_on, condition.value))
    };
    page.row(CONDITION_COLUMNS, condition.name, (value, color), &text);
}

impl Page {
    fn heading(&mut self, words: &str) {
        self.text.push('\n');
        let painted = self.paint(words, BOLD);
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    fn paint(&self, text: &str, color: &str) -> String {
        if self.color && !color.is_empty() && !text.trim().is_empty() {
            format!("\x1b[{color}m{text}\x1b[0m")
        } else {
            text.to_string()
        }
    }

    fn paragraph(&mut self, indent: usize, words: &str, color: &str) {
        let words = in_words(words.to_string());
        for line in wrap(&words, self.width.saturating_sub(indent)) {
            let painted = self.paint(&line, color);
            self.text.push_str(&format!("{:indent$}{painted}\n", ""));
        }
    }

    /// A label, and a text that is wrapped beside it.
    fn short(&mut self, label: &str, text: &str, color: &str) {
        let mut start = format!("{label:<SHORT_COLUMN$}");
        for line in wrap(text, self.width.saturating_sub(SHORT_COLUMN)) {
            let painted = self.paint(&line, color);
            self.text.push_str(&format!("{start}{painted}\n"));
            start = " ".repeat(SHORT_COLUMN);
        }
    }

    /// A name, a state in its colour, and a text that is wrapped below itself.
    fn row(&mut self, columns: (usize, usize), name: &str, state: (&str, &str), text: &str) {
        let (state_at, text_at) = columns;
        let (state, color) = state;
        let name = format!("{:<state_at$}", format!("  {name}"));
        let gap = text_at.saturating_sub(name.chars().count() + state.chars().count()).max(1);
        let mut start = format!("{name}{}{:gap$}", self.paint(state, color), "");
        let text = in_words(text.to_string());
        for line in wrap(&text, self.width.saturating_sub(text_at)) {
            self.text.push_str(&start);
            self.text.push_str(&line);
            self.text.push('\n');
            start = " ".repeat(text_at);
        }
    }
}

/// Breaks text at spaces; a word that is longer than a line stands alone on one.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_string());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use weigh_schema::Mechanism;

    use super::*;

    fn findings() -> DoctorReport {
        let finding = |name: &str, status, reason: Option<&str>| CollectorFinding {
            availability: Availability {
                name: name.to_string(),
                status,
                reason: reason.map(str::to_string),
                remedy: reason.map(|_| "what helps"),
            },
            mechanism: Mechanism::Bpf,
            gives: Some("what it is good for, at some length so that it has to be wrapped"),
            lost_metrics: reason.map(|_| "cpu_cycles_total").into_iter().collect(),
        };
        DoctorReport {
            run: RunVerdict::Fallback,
            said: vec!["not enough rights: CAP_BPF missing".to_string()],
            host: None,
            mechanisms: Vec::new(),
            collectors: vec![
                finding("processes", CollectorState::Active, None),
                finding("hardware", CollectorState::Unavailable, Some("no such counter")),
            ],
            conventions: vec![ConventionFinding {
                availability: Availability::unavailable("gomp", "there is no libomp.so.5"),
                programs: "OpenMP of GCC, by LLVM's runtime, and more words than fit in a line of 60",
                is_usual: false,
                found: None,
                looked_for: &["mpirun", "srun"],
            }],
            unknown: Vec::new(),
            conditions: vec![Condition {
                name: "CAP_DAC_READ_SEARCH",
                value: "missing".to_string(),
                good: Some(false),
                bears_on: "names of files that fanotify saw, and more words than fit in a line",
            }],
        }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60, 80, 120] {
            for line in render(&findings(), width, false).lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert_eq!(line.trim_end(), line);
            }
        }
    }

    #[test]
    fn twelve_lines_say_what_works() {
        let mut found = findings();
        found.run = RunVerdict::Reported;
        found.mechanisms = vec![
            MechanismFinding {
                availability: Availability::unavailable(
                    "bpf",
                    "CAP_BPF is missing, and much can be said of it. ".repeat(7),
                ),
                sees: "all",
                loses: "nothing",
            },
            MechanismFinding { availability: Availability::active("ptrace"), sees: "", loses: "" },
        ];
        let text = render_short(&found, 80, false);
        assert!(text.lines().count() <= 12 && text.lines().all(|line| line.len() <= 80), "{text}");
        for part in ["by ptrace\n", "processes\n", "hardware\n", "CAP_BPF is missing", "doctor -v"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn conventions_say_what_is_missing() {
        let text = render(&findings(), 80, false);
        for part in
            ["gomp", "there is no libomp.so.5", "(where it is named)", "no mpirun, srun on PATH"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn what_does_not_work_says_why_and_what_helps() {
        let text = render(&findings(), 80, false);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} in {text}"));
        assert!(at("not here") < at("no such counter"));
        assert!(at("no such counter") < at("cpu_cycles_total"));
        assert!(at("cpu_cycles_total") < at("what helps"));
        assert!(text.contains("CAP_DAC_READ_SEARCH        missing  names"), "{text}");
        assert!(!text.contains('\x1b'));
        assert!(render(&findings(), 80, true).contains("\x1b[31mnot here\x1b[0m"));
    }
}
