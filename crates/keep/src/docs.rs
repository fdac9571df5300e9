//! `docs/recording.md`: the files of a recording and their columns.
//!
//! Reads the declarations of the tables; emits Markdown.

use weigh_schema::recording::files;
use weigh_schema::summary::SCHEMA;

use crate::describe::{TableDescription, calls_table, tables};

/// The reference of a recording's files.
pub fn recording_markdown() -> String {
    let mut out = String::from(
        "# A recording\n\n\
         Derived from the declarations in `crates/keep/src/table.rs` and \
         `crates/schema/src/recording.rs`; do not edit by hand.\n\n\
         `weigh run` leaves a directory (`-o DIR`; by default a new one below \
         `$XDG_STATE_HOME/weigh`, else `~/.local/state/weigh`; with \
         `--replace` in the place of the recording that is there).\n\n\
         | file | holds |\n|---|---|\n",
    );
    let rows = [
        (files::SUMMARY, format!("the totals, schema `{SCHEMA}`: see [metrics.md](metrics.md)")),
        (files::SERIES, "values over time, long form: one row for each time and series".into()),
        (
            files::SERIES_OVERVIEW,
            "the same in slots of time (least, greatest and last value), where there are a million samples or more; \
             for pages, and made of the samples alone"
                .into(),
        ),
        (files::PROCESSES, "one row for each process there ever was".into()),
        (
            files::FILES,
            "one row for each process and file it opened; with `--io` all that it did with it"
                .into(),
        ),
        (
            files::IO_SERIES,
            "with `--io`: what was read and written over time, a row for each interval, process and file".into(),
        ),
        (files::IO_PLACES, "with `--io`: where in the files that was".into()),
        (files::IO_CALLS, "with `--io-calls`: every call that was about a file".into()),
        (
            files::CALLS,
            "with `--calls`: what system calls cost in each part of the kernel, as `weigh calls --json` writes it".into(),
        ),
        (
            files::REGIONS,
            "where programs name regions: one row for each region, place in the call tree and thread".into(),
        ),
        (files::PHASES, "the same of phases: one row for each that has ended".into()),
        (files::REPORT, "the page for people; it needs no network and no other file".into()),
        (files::JOURNAL, "what has been recorded so far; there only while the job runs".into()),
    ];
    for (file, holds) in rows {
        out.push_str(&format!("| `{file}` | {holds} |\n"));
    }
    out.push_str(&format!(
        "\nThe tables are Parquet files, compressed with Snappy. Times are nanoseconds since the \
         Unix epoch, UTC. What is not known is null, never 0. Units and a line of help for each \
         column, and for each series, stand in the file's own key-value metadata as `NAME.unit` \
         and `NAME.help`.\n\n\
         While the job runs everything goes to `{journal}`, one JSON object a line. When the job \
         has ended the tables and the summary are made of it and it is removed; files are put in \
         place whole. If weigh is killed, the journal stays: `weigh show` and `weigh report` read \
         it and say that the recording is incomplete. When the disk fills while the job runs, rows \
         are lost, and counted; the journal's last line, which says how the job ended and how much \
         is missing, has room kept for it from the start, where the file system can do that \
         (fallocate).\n\n\
         By BPF `{series}` has samples every 10 ms at first; the interval doubles after the time of 64, up to \
         1 s. Samples take 2 ms of CPU time and beyond that 0.25 % of a CPU: where one costs much they are further apart, in the first 2 s by 80 ms at most or what takes 2 % of a CPU. \
         So a long job has up to 400 samples more than it has seconds. By all other mechanisms a sample is a look at `/proc`, every 100 ms at first; the interval doubles after the time of 16. \
         `--interval` fixes the interval. Nothing is thinned out in a recording; `{report}` draws at most \
         4,000 samples of a series, among them the least and the greatest of each stretch and the last.\n\n\
         Columns of `{files}` from `object` on are there with `--io` alone (see [io.md](io.md)). A file \
         that was used again after weigh had to make room for others has several rows: they add \
         up.\n\n\
         Size, permissions and time of a file are those that its file system says when the job has ended. No file \
         is opened for that, and no file system is asked that may not answer (NFS, FUSE and their like). What a file \
         was before the job is known where nothing of it has changed since, by the time that the kernel keeps of \
         each inode; a file that was made since was not there. `state_reason` says why something is not known.\n\n",
        series = files::SERIES,
        report = files::REPORT,
        files = files::FILES,
        journal = files::JOURNAL
    ));
    for table in tables() {
        out.push_str(&section(&table));
    }
    out.push_str(EXAMPLES);
    out.push_str(CALLS);
    out.push_str(&columns(&calls_table()));
    out
}

const CALLS: &str = "
## Calls, one by one

`weigh calls --per-call FILE` writes one row for each call; the file stands alone, and `weigh explain`
reads it. A number of a part of the kernel that was not asked for, or that this kernel cannot show,
is absent, not 0. The times of all parts, `*_time_seconds` and `*_waiting_seconds`, and
`sched_run_queue_seconds` add up to `time_seconds`. The key `weigh.untold` holds how many calls came
too fast to be told one by one, `weigh.lost` what found no room, `weigh.command` what was followed,
`weigh.command_base64` its bytes where they are no UTF-8.
What came later of calls is in the columns `later_…`: absent of calls of which it is not known, because bits
of it that may be theirs came too fast (`weigh.unknown_later` of them; `weigh.untold_later` bits are missing).

";

fn section(table: &TableDescription) -> String {
    format!("## `{}`\n\n{}\n", table.file, columns(table))
}

fn columns(table: &TableDescription) -> String {
    let mut out = String::from("| column | type | unit | holds |\n|---|---|---|---|\n");
    for column in &table.columns {
        out.push_str(&format!(
            "| `{}` | {}{} | {} | {} |\n",
            column.name,
            column.kind,
            if column.optional { ", optional" } else { "" },
            column.unit.map(|unit| unit.to_string()).unwrap_or_default(),
            column.help
        ));
    }
    out
}

const EXAMPLES: &str = "\
## Reading it elsewhere

DuckDB:

```sql
SELECT metric, max(value) FROM 'series.parquet' WHERE scope = 'job' GROUP BY metric;
SELECT name, count(*), sum(cpu_seconds) FROM 'processes.parquet' GROUP BY name ORDER BY 3 DESC;
```

Python:

```python
import pandas
series = pandas.read_parquet('series.parquet')
series[series.metric == 'memory_bytes'].plot('time', 'value')
```
";
