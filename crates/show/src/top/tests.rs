use super::*;
use std::collections::BTreeMap;

use weigh_schema::busiest::{Amounts, BUSIEST, BusiestKind, BusiestReport, BusiestRow};
use weigh_schema::event::CollectorState;
use weigh_schema::program_profile::ProgramState;
use weigh_schema::region::FlatRegion;
use weigh_schema::rule::{RuleStanding, RuleStatus, Severity};
use weigh_schema::stream::TraceQuery;
use weigh_schema::top::{
    CoreUse, PublishedValue, TOP, TopCollector, TopGroup, TopJob, TopJobKind, TopProcess,
    TopProfile, TopValue,
};
use weigh_schema::top_detail::{
    ProcessReading, TOP_JOB, TopFile, TopIo, TopLimit, TopOpenFiles, TopProcessDetail, TopThread,
};
use weigh_schema::update::Scope;
use weigh_schema::{Mechanism, Number, Quality, Unit};

const EVIL: &str = "\x1b[2Jevil\u{202e}\n";

fn process(pid: u32, cpu_cores: Option<f64>, name: &str) -> TopProcess {
    TopProcess {
        pid,
        parent_pid: 1,
        user: "root".into(),
        name: name.into(),
        name_base64: None,
        command: vec![name.into()],
        command_base64: Vec::new(),
        state: "R".into(),
        threads: 3,
        cpu_cores,
        cpu_seconds: 1.0,
        memory_rss_bytes: 4096 * u64::from(pid),
        job: None,
    }
}

fn status(rule: &str, state: RuleStanding) -> RuleStatus {
    RuleStatus {
        rule: rule.into(),
        state,
        severity: Severity::Critical,
        scope: Some(Scope::Node),
        metric: "node_load_1m_threads".into(),
        value: Some(1.0),
        unit: Unit::Threads,
        per_second: false,
        true_seconds: Some(2.0),
        for_seconds: 30.0,
        text: format!("{rule} says {EVIL}"),
        paste: format!("ls {EVIL}"),
        reason: (state == RuleStanding::Unavailable).then(|| EVIL.to_string()),
    }
}

fn published(metric: &str, value: f64) -> PublishedValue {
    let query = TraceQuery { asked: EVIL.into(), followed_pid: None };
    PublishedValue {
        scope: Scope::Other(EVIL.into()),
        metric: metric.into(),
        value,
        unit: Some(Unit::Count),
        query: Some(query.into()),
        user: Some(EVIL.into()),
        pid: Some(7),
        job: None,
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
    }
}

#[test]
fn published_values_are_listed_and_the_screen_says_how_many() {
    let text = text(&report(), 200);
    let line = text.lines().find(|line| line.starts_with("trace_pairs_total")).expect("a line");
    assert!(line.contains(" 0.5 \\u{1b}[") && line.contains("\\u{1b}[2Jevil"), "{line}");
    assert!(text.contains("1.0000e300") && text.contains("and 3 more that a report"), "{text}");
    let view = |list| TopView { list, ..TopView::default() };
    let screen = |list| {
        let buffer = draw(&report(), None, &view(list), 120, 24);
        buffer.content.iter().map(|cell| cell.symbol()).collect::<String>()
    };
    assert!(
        screen(TopList::Processes)
            .contains("published values: 5, programs with regions: 3 (v: all)")
    );
    assert!(screen(TopList::Published).contains("PUBLISHED VALUE"));
    let mut none = report();
    (none.published, none.published_left_out) = (Vec::new(), 0);
    assert!(!super::text(&none, 120).contains("PUBLISHED"));
}

fn detail() -> TopDetail {
    let thread = |tid, cpu_cores| TopThread {
        tid,
        name: EVIL.into(),
        name_base64: None,
        state: 'S',
        cpu_cores,
        cpu_seconds: 0.25,
    };
    let io = TopIo { read_bytes: 12_345, read_bytes_per_second: Some(2048.0), ..TopIo::default() };
    let open = TopFile { descriptor: 3, target: EVIL.into(), target_base64: None };
    let whole = TopProcessDetail {
        process: process(3, Some(1.5), "burn"),
        io: ProcessReading::of(io),
        thread_list: ProcessReading::of(vec![thread(3, Some(0.5)), thread(4, Some(1.0))]),
        open_files: ProcessReading::of(TopOpenFiles { count: 7, list: vec![open] }),
        limits: ProcessReading::of(vec![TopLimit {
            name: "open_files".into(),
            soft: Some(1024),
            hard: None,
        }]),
    };
    let closed = TopProcessDetail {
        process: process(5, None, EVIL),
        io: ProcessReading::unavailable("only its user and root may read it"),
        thread_list: ProcessReading::unavailable(EVIL),
        open_files: ProcessReading::unavailable("it has ended"),
        limits: ProcessReading::of(Vec::new()),
    };
    TopDetail {
        schema: TOP_JOB.into(),
        node: EVIL.into(),
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
        interval_seconds: Some(1.0),
        job: Some(report().jobs[0].clone()),
        processes: vec![whole, closed],
    }
}

fn report() -> TopReport {
    let real = |value, unit, rate| TopValue {
        value: Some(Number::Real(value)),
        unit,
        quality: Quality::Exact,
        per_second: rate,
    };
    let node = BTreeMap::from([
        ("node_load_1m_threads".to_string(), real(1.25, Unit::Threads, None)),
        ("node_cpu_steal_seconds_total".to_string(), real(9.0, Unit::Seconds, Some(Some(0.25)))),
    ]);
    TopReport {
        schema: TOP.into(),
        node: EVIL.into(),
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
        interval_seconds: Some(1.0),
        user: None,
        metrics: BTreeMap::from([(Scope::Node, node), (Scope::Disk(EVIL.into()), BTreeMap::new())]),
        cores: vec![
            CoreUse { core: 0, busy_ratio: Some(0.0), steal_ratio: None },
            CoreUse { core: 1, busy_ratio: Some(1.0), steal_ratio: None },
            CoreUse { core: 2, busy_ratio: None, steal_ratio: None },
        ],
        collectors: vec![TopCollector {
            name: "disks".into(),
            mechanism: Mechanism::Proc,
            status: CollectorState::Degraded,
            reason: Some(EVIL.into()),
            no_data_seconds: Some(17.0),
            failures: 3,
        }],
        rules: vec![
            status("memory_low", RuleStanding::Holds),
            status("steal", RuleStanding::Pending),
            status("gpu_idle", RuleStanding::Unavailable),
        ],
        published: vec![published(EVIL, 1e300), published("trace_pairs_total", 0.5)],
        published_left_out: 3,
        jobs: vec![TopJob {
            kind: TopJobKind::Weigh,
            group: None,
            pid: 7,
            user: EVIL.into(),
            command: vec!["weigh".into(), "run".into(), EVIL.into()],
            command_base64: Vec::new(),
            processes: 2,
            cpu_cores: None,
            memory_rss_sum_bytes: 8192,
            cpus_requested: Some(4.0),
            memory_limit_bytes: None,
            time_left_seconds: None,
        }],
        processes: vec![
            process(1, Some(0.5), EVIL),
            process(2, None, "idle"),
            process(3, Some(1.5), "burn"),
        ],
        processes_unreadable: 0,
        processes_left_out: 0,
        profiles: vec![program()],
        profiles_left_out: 2,
        busiest: Some(busiest().into()),
    }
}

fn busiest() -> BusiestReport {
    let row = |name: &str, seconds: f64, per_second| BusiestRow {
        job: "7".into(),
        name: name.into(),
        total: Amounts { seconds, calls: 3.0, read_bytes: 4_000_003.0, written_bytes: 0.0 },
        per_second,
    };
    let now = Amounts { seconds: 0.25, calls: 0.5, read_bytes: 2048.0, written_bytes: 0.0 };
    let long = format!("/{}/wide-幅/name.h5", "x".repeat(90));
    let rows = vec![row(&long, 1.5, Some(now)), row(EVIL, 0.5, None)];
    BusiestReport {
        schema: BUSIEST.into(),
        jobs: 1,
        files: BusiestKind { rows, rows_total: 9, ..BusiestKind::default() },
        phases: BusiestKind {
            rows: vec![row("step", 2.0, Some(now))],
            rows_total: 1,
            ..BusiestKind::default()
        },
        syscalls: BusiestKind { jobs_without: 1, ..BusiestKind::default() },
        ..BusiestReport::default()
    }
}

fn program() -> TopProfile {
    let region = |name: &str, calls, quality| FlatRegion {
        name: name.into(),
        calls,
        inclusive_seconds: 1.5,
        exclusive_seconds: 0.25,
        open_calls: 1,
        quality,
        ..FlatRegion::default()
    };
    TopProfile {
        uid: 7,
        user: EVIL.into(),
        pid: Some(4711),
        told_pid: None,
        name: EVIL.into(),
        name_base64: None,
        state: ProgramState::CutShort,
        job: None,
        time: "2026-01-02T03:04:05Z".parse().unwrap(),
        calls_total: 17,
        publishes_total: 3,
        regions: vec![region("solve", 17, Quality::Exact), region(EVIL, 3, Quality::Sampled)],
        regions_left_out: 41,
    }
}

#[test]
fn regions_of_programs_are_listed_and_nothing_in_them_steers_a_terminal() {
    let text = text(&report(), 100);
    assert!(!text.contains('\u{1b}') && text.contains(" 4711 of \\u{1b}[2Jevil"), "{text}");
    let line = text.lines().find(|line| line.starts_with("  solve")).expect("a line");
    let words: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(words, ["solve", "250.0", "ms", "1.500", "s", "17", "1", "open"]);
    assert!(text.contains("~250.0 ms") && text.contains("and 41 more"), "{text}");
    assert!(text.contains("and 2 more programs"), "{text}");
}

/// A row of a control group whose name steers a terminal.
fn group_job(kind: TopJobKind, name: &str, cpu_cores: Option<f64>) -> TopJob {
    let group = TopGroup {
        scope: Scope::Group(format!("/x/{name}")),
        name: name.into(),
        name_base64: None,
        manager: "slurm".into(),
        missing: BTreeMap::new(),
    };
    TopJob { kind, group: Some(Box::new(group)), cpu_cores, ..report().jobs[0].clone() }
}

#[test]
fn groups_have_a_line_each_and_units_one_together() {
    let mut report = report();
    report.jobs.push(group_job(TopJobKind::Slurm, EVIL, None));
    for (unit, cpu_cores) in [("a", 0.1), ("b", 0.3), ("c", 0.2), ("d", 0.0)] {
        report.jobs.push(group_job(TopJobKind::Unit, unit, Some(cpu_cores)));
    }
    let text = text(&report, 120);
    assert!(text.contains("jobs of weigh run: 1, jobs and containers: 1;"), "{text}");
    assert!(text.contains("CPU – %, resident 8.0 KiB  slurm \\u{1b}[2Jevil"), "{text}");
    assert!(
        text.contains("units of systemd: 4, the busiest: b 30.0 %, c 20.0 %, a 10.0 %"),
        "{text}"
    );
    assert!(!text.contains('\u{1b}'), "{text:?}");
}

const LISTS: [TopList; 8] = [
    TopList::Processes,
    TopList::Collectors,
    TopList::Rules,
    TopList::Job(7),
    TopList::Process(3),
    TopList::Busiest(None),
    TopList::Busiest(Some(7)),
    TopList::Keys,
];

fn screen(view: &TopView) -> Vec<String> {
    let buffer = draw(&report(), Some(&detail()), view, 80, 24);
    let rows = buffer.content.chunks(80);
    rows.map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>()).collect()
}

#[test]
fn what_is_not_known_is_no_zero() {
    let lines = screen(&TopView::default());
    let line = |part: &str| {
        lines
            .iter()
            .find(|line| line.contains(part))
            .unwrap_or_else(|| panic!("{part}: {lines:#?}"))
    };
    assert!(line("load").contains("load 1.25 – –"), "{lines:#?}");
    assert!(line("processes –").contains("threads –"), "{lines:#?}");
    assert!(
        line("3 CPUs:").contains("user –") && line("3 CPUs:").contains("steal 8%"),
        "{lines:#?}"
    );
    assert!(line("memory:").contains("used – of –"), "{lines:#?}");
    assert!(line("cores").starts_with("cores ▁█?"), "{lines:#?}");
    assert!(line("no data").contains("disks for 17 s"), "{lines:#?}");
    assert!(line(" idle").contains("–"), "{lines:#?}");
}

#[test]
fn names_steer_no_terminal() {
    for list in LISTS {
        let lines = screen(&TopView { list, ..TopView::default() });
        let text = lines.join("\n") + &text(&report(), 80) + &detail_text(&detail(), 80);
        let is_harmful = |c: char| c != '\n' && weigh_schema::printable::is_unprintable(c);
        assert!(!text.contains(is_harmful), "{text:?}");
        assert!(text.contains("\\u{1b}[2Jevil"), "{text}");
    }
}

#[test]
fn rows_are_sorted_and_filtered() {
    let order = |view: &TopView| {
        rows::chosen(&report(), view).iter().map(|row| row.pid).collect::<Vec<_>>()
    };
    assert_eq!(order(&TopView::default()), [3, 1, 2]);
    assert_eq!(order(&TopView { sort: SortKey::Memory, ..TopView::default() }), [3, 2, 1]);
    assert_eq!(order(&TopView { sort: SortKey::Pid, ..TopView::default() }), [1, 2, 3]);
    assert_eq!(order(&TopView { filter: "BURN".into(), ..TopView::default() }), [3]);
    assert_eq!(order(&TopView { filter: "idle".into(), ..TopView::default() }), [2]);
}

#[test]
fn any_size_is_drawn() {
    for (columns, rows) in [(0, 0), (1, 1), (3, 2), (40, 5), (400, 100)] {
        for list in LISTS {
            for row in [0, 1, 1000] {
                let view = TopView { list, row, ..TopView::default() };
                draw(&report(), Some(&detail()), &view, columns, rows);
                draw(&report(), None, &view, columns, rows);
            }
        }
    }
    let mut many = report();
    many.cores =
        (0..2000).map(|core| CoreUse { core, busy_ratio: Some(0.5), steal_ratio: None }).collect();
    let cells = text(&many, 80).matches('▅').count();
    assert!((256..=4 * 74).contains(&cells), "{cells}");
}

#[test]
fn rules_that_hold_are_on_the_screen_and_the_others_in_their_list() {
    let lines = screen(&TopView::default());
    assert!(lines.iter().any(|line| line.starts_with("critical: memory_low says")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("steal says")), "{lines:#?}");
    let text = text(&report(), 200);
    assert!(text.contains("(for 2 s, has to be for 30 s)"), "{text}");
    let lines = screen(&TopView { list: TopList::Rules, ..TopView::default() });
    for (rule, state) in
        [("memory_low", "holds"), ("steal", "pending"), ("gpu_idle", "unavailable")]
    {
        let is_its = |line: &&String| line.starts_with(rule) && line.contains(state);
        assert_eq!(lines.iter().filter(is_its).count(), 1, "{rule}: {lines:#?}");
    }
    let mut many = report();
    many.rules = vec![status("memory_low", RuleStanding::Holds); 9];
    let lines = rule_lines::holding(&many, true, 80);
    assert_eq!(lines.len(), 4);
    assert!(lines[3].to_string().contains("and 6 more"), "{lines:?}");
}

#[test]
fn what_jobs_are_busy_with_is_listed_by_kind() {
    let lines = screen(&TopView { list: TopList::Busiest(None), ..TopView::default() });
    let line = |part: &str| lines.iter().find(|line| line.contains(part)).expect(part);
    // The end of the path stays, and columns stand below each other.
    let file = line("/name.h5");
    assert!(file.starts_with("/x"), "{lines:#?}");
    assert!(
        file.trim_end().ends_with(" 25.0    2.0 KiB        0 B      0.5   1.500 s       7"),
        "{lines:#?}"
    );
    assert!(
        line("500.0 ms").contains("      –          –          –        –  500.0 ms"),
        "{lines:#?}"
    );
    assert!(line("step").contains("25.0                            0.5   2.000 s"), "{lines:#?}");
    assert!(line("files").starts_with("files; 7 more take less time"), "{lines:#?}");
    assert!(line("connections").starts_with("connections and pipes; none yet"), "{lines:#?}");
    assert!(
        line("syscalls").starts_with("syscalls; none recorded (weigh run --calls)"),
        "{lines:#?}"
    );
    let filter = "step".to_string();
    let lines = screen(&TopView { list: TopList::Busiest(Some(7)), filter, ..TopView::default() });
    assert!(lines.iter().any(|line| line.starts_with("job 7: weigh run")), "{lines:#?}");
    assert!(!lines.iter().any(|line| line.contains("name.h5")), "{lines:#?}");
    let text = text(&report(), 120);
    assert!(text.contains("phases and regions\nstep "), "{text}");
}

#[test]
fn the_filter_chooses_jobs_too() {
    let rows = |filter: &str| {
        let view = TopView { filter: filter.into(), ..TopView::default() };
        rows::node_rows(&report(), &view).len()
    };
    assert_eq!((rows(""), rows("RUN"), rows("burn"), rows("7")), (4, 1, 1, 1));
}

#[test]
fn enter_leads_from_a_job_to_a_process() {
    let (report, detail) = (report(), detail());
    let at =
        |list, row| chosen(&report, Some(&detail), &TopView { list, row, ..TopView::default() });
    assert_eq!(at(TopList::Processes, 0), Some(TopList::Job(7)));
    assert_eq!(at(TopList::Processes, 1), Some(TopList::Process(3)));
    assert_eq!(at(TopList::Processes, 9), None);
    assert_eq!(at(TopList::Job(7), 0), Some(TopList::Process(3)));
    assert_eq!(at(TopList::Process(3), 0), None);
    let lines = screen(&TopView { list: TopList::Job(7), row: 1, ..TopView::default() });
    let line = |part: &str| lines.iter().find(|line| line.contains(part)).expect(part);
    assert!(line("job 7").contains("CPU – % of 4 CPUs"), "{lines:#?}");
    assert!(line("burn").contains("2.0 KiB/s"), "{lines:#?}");
    let lines = screen(&TopView { list: TopList::Process(3), ..TopView::default() });
    let line = |part: &str| lines.iter().find(|line| line.contains(part)).expect(part);
    assert!(line("I/O by calls").contains("read 2.0 KiB/s (12.1 KiB)"), "{lines:#?}");
    assert!(line("limits").contains("open_files 1024/unlimited"), "{lines:#?}");
    let threads: Vec<&String> = lines.iter().filter(|line| line.contains(" S ")).collect();
    assert!(threads[1].trim_start().starts_with("4 S  100.0"), "{threads:#?}");
    let text = detail_text(&detail, 80);
    assert!(text.contains("I/O unavailable: only its user and root may read it"), "{text}");
}

#[test]
fn the_chosen_row_is_always_among_those_shown() {
    let mut report = report();
    report.processes = (1..100).map(|pid| process(pid, Some(f64::from(pid)), "p")).collect();
    for row in [0, 10, 50, 99] {
        let view = TopView { row, ..TopView::default() };
        let buffer = draw(&report, None, &view, 80, 24);
        let reversed =
            |cell: &&ratatui_core::buffer::Cell| cell.modifier.contains(Modifier::REVERSED);
        assert_eq!(buffer.content.iter().filter(reversed).count(), 80, "{row}");
    }
}
