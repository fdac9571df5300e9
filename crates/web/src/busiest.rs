//! The busiest files, connections, phases and syscalls of the jobs that run: what `/api/v1/busiest` answers.
//!
//! Takes the activity of each job that fits a filter; emits the rows that take most time now, each with its job.

use serde::Deserialize;
use weigh_schema::busiest::{BUSIEST, BusiestKind, BusiestReport, BusiestRow};

use crate::activity::{ActivityKind, JobActivity, NamedActivity};
use crate::api::JobRow;

/// Rows of a kind.
const ROWS: usize = 15;

/// Which jobs, and which files of them: what the page's filter says. What is absent lets all through.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(crate) struct BusiestFilter {
    /// Its id.
    job: Option<String>,
    user: Option<String>,
    category: Option<String>,
    /// `NAME=VALUE`.
    label: Option<String>,
    /// Words that the job's user, id and command have.
    q: Option<String>,
    /// A pattern of names of files and addresses: a part of them, or with `*` and `?` all of it.
    file: Option<String>,
}

impl BusiestFilter {
    /// Whether a job is one of them.
    pub(crate) fn fits(&self, job: &JobRow) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        is(&self.job, Some(&job.id))
            && is(&self.user, Some(&job.user))
            && is(&self.category, job.category.as_deref())
            && self.label.as_deref().is_none_or(|label| job.has_label(label))
            && self.q.as_deref().is_none_or(|words| has_words(job, words))
    }

    /// Whether a name is one of those.
    fn fits_name(&self, kind: ActivityKind, name: &str) -> bool {
        let has_files = matches!(kind, ActivityKind::Files | ActivityKind::Connections);
        self.file.as_deref().is_none_or(|pattern| has_files && matches(pattern, name))
    }
}

fn has_words(job: &JobRow, words: &str) -> bool {
    let text = format!("{} {} {}", job.user, job.id, job.command.join(" ")).to_lowercase();
    words.to_lowercase().split_whitespace().all(|word| text.contains(word))
}

/// Whether a name has the pattern in it, or is like it where it has wildcards.
fn matches(pattern: &str, name: &str) -> bool {
    match pattern.contains(['*', '?']) {
        true => is_like(pattern.as_bytes(), name.as_bytes()),
        false => name.contains(pattern),
    }
}

/// `*` stands for any bytes, `?` for one. Takes no longer than both lengths multiplied.
fn is_like(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while place < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, place));
                at += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[place] => {
                (at, place) = (at + 1, place + 1)
            }
            _ => {
                let Some((after, from)) = star else { return false };
                star = Some((after, from + 1));
                (at, place) = (after + 1, from + 1);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

/// Collects the report, job by job.
pub(crate) struct BusiestBuilder<'a> {
    filter: &'a BusiestFilter,
    jobs: u64,
    kinds: [BusiestKind; ActivityKind::ALL.len()],
}

impl<'a> BusiestBuilder<'a> {
    pub(crate) fn new(filter: &'a BusiestFilter) -> BusiestBuilder<'a> {
        BusiestBuilder { filter, jobs: 0, kinds: Default::default() }
    }

    /// Takes in a job that runs.
    pub(crate) fn add(&mut self, job: &JobRow, activity: &JobActivity) {
        if !self.filter.fits(job) {
            return;
        }
        self.jobs += 1;
        for kind in ActivityKind::ALL {
            let found = &mut self.kinds[kind as usize];
            let Some(table) = activity.recorded(kind) else {
                found.jobs_without += 1;
                continue;
            };
            found.jobs_cut += u64::from(table.is_cut());
            let rows = table.by_name(activity.now_ns());
            let rows = rows.into_iter().filter(|(name, _)| self.filter.fits_name(kind, name));
            let rows = rows.map(|(name, activity)| row(&job.id, name, activity));
            let before = found.rows.len();
            found.rows.extend(rows);
            found.rows_total += (found.rows.len() - before) as u64;
            keep_busiest(&mut found.rows);
        }
    }

    /// The report.
    pub(crate) fn finish(self) -> BusiestReport {
        let [files, connections, phases, syscalls] = self.kinds;
        let schema = BUSIEST.to_string();
        BusiestReport { schema, jobs: self.jobs, files, connections, phases, syscalls }
    }
}

fn row(job: &str, name: &str, activity: NamedActivity) -> BusiestRow {
    let (job, name) = (job.to_string(), name.to_string());
    BusiestRow { job, name, total: activity.total, per_second: activity.rate }
}

/// By the time that they take now, then by that of all.
fn order(row: &BusiestRow) -> (f64, f64) {
    (row.per_second.map_or(0.0, |rate| rate.seconds), row.total.seconds)
}

fn keep_busiest(rows: &mut Vec<BusiestRow>) {
    rows.sort_by(|one, other| {
        let ((rate, total), (other_rate, other_total)) = (order(one), order(other));
        let by_time = other_rate.total_cmp(&rate).then(other_total.total_cmp(&total));
        by_time.then_with(|| (&one.name, &one.job).cmp(&(&other.name, &other.job)))
    });
    rows.truncate(ROWS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use weigh_schema::region::PhaseRow;
    use weigh_schema::update::{Scope, Update};

    const SECOND_NS: i64 = 1_000_000_000;

    fn clock(seconds: i64) -> Update {
        let values = Default::default();
        Update::Samples { time_ns: seconds * SECOND_NS, scope: Scope::Job, values }
    }

    fn use_so_far(name: &str, object: &str, inode: u64, pid: u32, amounts: (f64, u64)) -> Update {
        let (seconds, bytes) = amounts;
        let used = serde_json::json!({
            "name": name, "object": object, "pid": pid, "process": "sim", "device": 1, "inode": inode,
            "read_bytes": bytes, "read_calls": 3, "written_bytes": 0, "write_calls": 0,
            "by_kind": {}, "numbers": {"read_seconds": seconds}, "again_quality": "exact",
        });
        Update::FileUseSoFar(serde_json::from_value(used).unwrap())
    }

    fn report(filter: &BusiestFilter, jobs: &[(JobRow, JobActivity)]) -> serde_json::Value {
        let mut builder = BusiestBuilder::new(filter);
        jobs.iter().for_each(|(row, activity)| builder.add(row, activity));
        serde_json::to_value(builder.finish()).unwrap()
    }

    fn job(id: &str, entries: &[Update]) -> (JobRow, JobActivity) {
        let mut activity = JobActivity::default();
        entries.iter().for_each(|entry| activity.take(entry));
        (JobRow::new(id.to_string(), (String::new(), None)), activity)
    }

    #[test]
    fn rates_are_of_now_and_totals_of_all() {
        let busy = job(
            "busy",
            &[
                clock(10),
                use_so_far("/data/old", "regular", 7, 1, (90.0, 5)),
                clock(20),
                use_so_far("/data/a", "regular", 8, 1, (0.0, 0)),
                clock(24),
                use_so_far("/data/a", "regular", 8, 1, (1.0, 4_000_003)),
                use_so_far("/data/a", "regular", 8, 2, (1.0, 4_000_003)),
                use_so_far("10.0.0.1:80", "socket", 9, 1, (0.5, 7)),
            ],
        );
        let idle = job("idle", &[clock(24)]);
        let found = report(&BusiestFilter::default(), &[busy, idle]);
        assert_eq!((&found["schema"], &found["jobs"]), (&BUSIEST.into(), &2.into()));
        let files = &found["files"];
        assert_eq!((&files["rows_total"], &files["jobs_without"]), (&2.into(), &1.into()));
        let first = &files["rows"][0];
        assert_eq!((&first["name"], &first["job"]), (&"/data/a".into(), &"busy".into()));
        // One process in four seconds, the other one since the last time that anything was told.
        assert_eq!(first["per_second"]["seconds"], 0.5);
        assert_eq!(first["per_second"]["read_bytes"], 2_000_001.5);
        assert_eq!(first["total"]["read_bytes"], 8_000_006.0);
        let old = &files["rows"][1];
        assert_eq!(
            (&old["per_second"]["seconds"], &old["total"]["seconds"]),
            (&0.0.into(), &90.0.into())
        );
        assert_eq!(found["connections"]["rows"][0]["name"], "10.0.0.1:80");
        assert_eq!(
            (&found["phases"]["jobs_without"], &found["syscalls"]["jobs_without"]),
            (&2.into(), &2.into())
        );
    }

    #[test]
    fn phases_are_added_up() {
        let phase = |ended: i64| {
            let (started_ns, ended_ns) = ((ended - 2) * SECOND_NS, ended * SECOND_NS);
            Update::Phase(Box::new(PhaseRow {
                name: "step".into(),
                started_ns,
                ended_ns,
                ..PhaseRow::default()
            }))
        };
        let found = report(
            &BusiestFilter::default(),
            &[job("j", &[clock(1), phase(12), phase(14), phase(16)])],
        );
        let row = &found["phases"]["rows"][0];
        assert_eq!((&row["total"]["seconds"], &row["total"]["calls"]), (&6.0.into(), &3.0.into()));
        assert_eq!(row["per_second"]["seconds"], 1.0);
    }

    #[test]
    fn what_a_process_did_until_its_end_is_in_no_rate() {
        let region = |seconds| {
            let (name, kind) = ("solve".to_string(), weigh_schema::region::RegionKind::Region);
            let row = weigh_schema::region::RegionRow {
                name,
                kind,
                calls: 3,
                exclusive_seconds: seconds,
                ..Default::default()
            };
            Update::Region(Box::new(row))
        };
        let found = report(
            &BusiestFilter::default(),
            &[job("j", &[clock(10), region(900.0), clock(14), region(700.0), clock(15)])],
        );
        let row = &found["phases"]["rows"][0];
        assert_eq!(
            (&row["total"]["seconds"], &row["per_second"]["seconds"]),
            (&1600.0.into(), &0.0.into())
        );
    }

    /// Then it ends, and another program of the same process begins with nothing.
    #[test]
    fn regions_of_a_process_that_runs_have_a_rate_and_are_counted_once() {
        let row = |seconds: f64, calls| {
            let (name, path) = ("solve".to_string(), vec!["solve".to_string()]);
            let kind = weigh_schema::region::RegionKind::Region;
            let exclusive_seconds = seconds;
            Box::new(weigh_schema::region::RegionRow {
                name,
                path,
                kind,
                calls,
                exclusive_seconds,
                ..Default::default()
            })
        };
        let so_far = |seconds, calls| Update::RegionSoFar(row(seconds, calls));
        let mut entries = vec![clock(10), so_far(900.0, 90), clock(12), so_far(901.0, 94)];
        let found = report(&BusiestFilter::default(), &[job("j", &entries)]);
        let first = &found["phases"]["rows"][0];
        assert_eq!(
            (&first["total"]["seconds"], &first["total"]["calls"]),
            (&901.0.into(), &94.0.into())
        );
        assert_eq!(
            (&first["per_second"]["seconds"], &first["per_second"]["calls"]),
            (&0.5.into(), &2.0.into())
        );
        entries.push(clock(30));
        let found = report(&BusiestFilter::default(), &[job("j", &entries)]);
        let rate = &found["phases"]["rows"][0]["per_second"];
        assert!(rate.is_null(), "nobody has looked for long: {rate}");
        entries.extend([Update::Region(row(902.0, 95)), clock(31), so_far(1.0, 1)]);
        let found = report(&BusiestFilter::default(), &[job("j", &entries)]);
        assert_eq!(found["phases"]["rows_total"], 1);
        assert_eq!(found["phases"]["rows"][0]["total"]["calls"], 96.0);
        let one = BusiestFilter { job: Some("j".into()), ..Default::default() };
        assert_eq!(report(&one, &[job("j", &entries), job("k", &entries)])["jobs"], 1);
    }

    #[test]
    fn filters_choose_jobs_and_names() {
        let entries = [
            clock(1),
            use_so_far("/data/a.h5", "regular", 7, 1, (1.0, 5)),
            use_so_far("/tmp/b", "regular", 8, 1, (2.0, 5)),
        ];
        let mut jobs = [job("one", &entries), job("two", &entries)];
        jobs[0].0.user = "ada".into();
        jobs[1].0.category = Some("cfd".into());
        let rows = |filter: BusiestFilter| {
            let found = report(&filter, &jobs);
            let rows = found["files"]["rows"].as_array().unwrap();
            let text = |row: &serde_json::Value| {
                format!("{} {}", row["job"].as_str().unwrap(), row["name"].as_str().unwrap())
            };
            rows.iter().map(text).collect::<Vec<_>>()
        };
        let wanted = |text: &str| Some(text.to_string());
        assert_eq!(
            rows(BusiestFilter { user: wanted("ada"), ..Default::default() }),
            ["one /tmp/b", "one /data/a.h5"]
        );
        assert_eq!(
            rows(BusiestFilter {
                category: wanted("cfd"),
                file: wanted("*.h5"),
                ..Default::default()
            }),
            ["two /data/a.h5"]
        );
        assert_eq!(
            rows(BusiestFilter { q: wanted("ADA one"), file: wanted("tmp"), ..Default::default() }),
            ["one /tmp/b"]
        );
        assert!(rows(BusiestFilter { label: wanted("a=b"), ..Default::default() }).is_empty());
    }

    #[test]
    fn patterns_are_parts_or_have_wildcards() {
        for (pattern, name, is) in [
            ("data", "/data/x", true),
            ("*.h5", "/a/b.h5", true),
            ("*.h5", "/a/b.h5.tmp", false),
            ("/a/?", "/a/b", true),
            ("/a/?", "/a/bc", false),
            ("**", "", true),
            ("*a*a*a*b", &"a".repeat(5000), false),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, name), is, "{pattern} {name}");
        }
    }

    #[test]
    fn memory_is_bounded_and_what_comes_back_is_whole() {
        let mut entries = vec![clock(1)];
        entries.extend(
            (0..5000).map(|n| use_so_far(&format!("/f/{n}"), "regular", n, 1, (n as f64, 1))),
        );
        entries.push(clock(4));
        entries.push(use_so_far("/f/3", "regular", 3, 1, (9000.0, 11)));
        let found = report(&BusiestFilter::default(), &[job("j", &entries)]);
        let files = &found["files"];
        assert_eq!(
            (files["rows"].as_array().unwrap().len(), &files["jobs_cut"]),
            (ROWS, &1.into())
        );
        assert!(files["rows_total"].as_u64().unwrap() <= 1024);
        let back = &files["rows"][0];
        assert_eq!((&back["name"], &back["total"]["seconds"]), (&"/f/3".into(), &9000.0.into()));
        assert_eq!(back["per_second"]["seconds"], 8997.0 / 3.0);
    }

    /// Each process that uses a file is a row of the journal: a shell that begins one after another makes thousands.
    #[test]
    fn many_processes_that_come_and_go_have_the_rate_of_all() {
        let mut entries = Vec::new();
        for second in 1..2000 {
            entries.push(clock(second));
            let pid = second as u32;
            entries.push(use_so_far("/data/a", "regular", 7, pid, (0.25, 4_000_003)));
            entries.push(use_so_far(
                &format!("/tmp/{pid}"),
                "regular",
                second as u64 + 10,
                pid,
                (0.125, 3),
            ));
        }
        let found = report(&BusiestFilter::default(), &[job("j", &entries)]);
        let rows = found["files"]["rows"].as_array().unwrap();
        assert_eq!(
            (&rows[0]["name"], &rows[0]["per_second"]["seconds"]),
            (&"/data/a".into(), &0.25.into())
        );
        assert_eq!(rows[0]["total"]["read_bytes"], 1999.0 * 4_000_003.0);
        assert_eq!(
            (&rows[1]["name"], &rows[1]["per_second"]["seconds"]),
            (&"/tmp/1999".into(), &0.125.into())
        );
    }

    #[test]
    fn what_is_told_of_seldom_has_the_rate_of_the_last_time_until_it_is_not_known() {
        let uses = |seconds| use_so_far("/data/a", "regular", 7, 1, (seconds, 5));
        let mut entries = vec![clock(10), uses(1.0), clock(100), uses(10.0), clock(170)];
        let rate = |entries: &[Update]| {
            let found = report(&BusiestFilter::default(), &[job("j", entries)]);
            found["files"]["rows"][0]["per_second"]["seconds"].clone()
        };
        assert_eq!(rate(&entries), 0.1);
        entries.push(clock(290));
        assert!(rate(&entries).is_null(), "it should have been told of again");
    }
}
