use super::*;
use std::collections::BTreeMap;

use weigh_schema::event::CollectorState;
use weigh_schema::top::{CoreUse, TOP, TopCollector, TopJob, TopProcess, TopValue};
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
        jobs: vec![TopJob {
            pid: 7,
            user: EVIL.into(),
            command: vec!["weigh".into(), "run".into(), EVIL.into()],
            command_base64: Vec::new(),
            processes: 2,
            cpu_cores: None,
            memory_rss_sum_bytes: 8192,
        }],
        processes: vec![
            process(1, Some(0.5), EVIL),
            process(2, None, "idle"),
            process(3, Some(1.5), "burn"),
        ],
        processes_unreadable: 0,
        processes_left_out: 0,
    }
}

fn screen(view: &TopView) -> Vec<String> {
    let buffer = draw(&report(), view, 80, 24);
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
    for shows_collectors in [false, true] {
        let lines = screen(&TopView { shows_collectors, ..TopView::default() });
        let text = lines.join("\n") + &text(&report(), 80);
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
        draw(&report(), &TopView::default(), columns, rows);
    }
    let mut many = report();
    many.cores =
        (0..2000).map(|core| CoreUse { core, busy_ratio: Some(0.5), steal_ratio: None }).collect();
    let cells = text(&many, 80).matches('▅').count();
    assert!((256..=4 * 74).contains(&cells), "{cells}");
}
