//! Chrome's Trace Event Format, as chrome://tracing, Perfetto and speedscope read it: events as instants of their
//! threads, fields as arguments, pairs as slices of the thread, or, if they happen at once with others there or end in
//! another thread, as asynchronous ones.
//!
//! Times are microseconds since the stream began, with three places behind the point. Room for the end of the
//! file is kept while it is written: on a full disk it is whole, with the events that were written before.

use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::io::{self, Write as _};
use std::path::Path;

use weigh_trace::probe::Probe;
use weigh_trace::record::Record;
use weigh_trace::sink::{Meaning, RecordSink, Totals};

use super::format::StreamFormat;
use super::json;
use super::pairs::{self, Pair, Pairs};
use super::whole_file::{WholeFile, line_length};

/// Chrome's Trace Event Format. speedscope takes the first ending for a format of its own, and knows the second by what
/// is in it.
pub const FORMAT: StreamFormat = StreamFormat {
    endings: &[".chrome.json", ".trace.json"],
    create: |file| Ok(Box::new(Chrome::create(file.path, file.probes)?)),
};

const BEGIN: &str = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n";
/// The end has the command, of whose characters each may take several bytes.
const END_ROOM: u64 = 32 * 1024;

/// A trace that is being written.
struct Chrome {
    file: WholeFile,
    /// Threads and processes that were named.
    named: HashSet<(u32, Option<u32>)>,
    pairs: Pairs,
    has_any: bool,
    /// How many asynchronous pairs there were.
    asynchronous: u64,
    /// Until when each thread has slices: others that begin before would not lie within them.
    until_ns: HashMap<u32, u64>,
}

impl Chrome {
    fn create(path: &Path, probes: &[&Probe]) -> anyhow::Result<Chrome> {
        let mut file = WholeFile::create(path, line_length)?;
        file.keep_room(END_ROOM);
        // By itself: the first events may have no room.
        file.pending.extend(BEGIN.as_bytes());
        file.write()?;
        Ok(Chrome {
            file,
            named: HashSet::new(),
            pairs: Pairs::new(probes),
            has_any: false,
            asynchronous: 0,
            until_ns: HashMap::new(),
        })
    }

    /// Begins an event; what it has besides, and its end, are the caller's.
    fn begin(&mut self, kind: &str, tgid: u32, tid: impl Display) -> io::Result<()> {
        let comma = if std::mem::replace(&mut self.has_any, true) { "," } else { "" };
        write!(self.file.pending, "{comma}{{\"ph\":\"{kind}\",\"pid\":{tgid},\"tid\":{tid}")
    }

    /// Names a thread and its process before their first event.
    fn meet(&mut self, tgid: u32, tid: u32, meaning: &Meaning) -> io::Result<()> {
        for (id, kind, key) in
            [(tgid, "process_name", (tgid, None)), (tid, "thread_name", (tgid, Some(tid)))]
        {
            let name = meaning.threads.borrow().name(id);
            if self.named.insert(key) && !name.is_empty() {
                self.begin("M", tgid, tid)?;
                write!(self.file.pending, ",\"name\":\"{kind}\",\"args\":{{\"name\":")?;
                json::text(&mut self.file.pending, name.as_bytes())?;
                self.file.pending.extend(b"}}\n");
            }
        }
        Ok(())
    }

    /// The name, category and time of the event that was begun.
    fn head(&mut self, name: &str, category: &str, time_ns: u64) -> io::Result<()> {
        let to = &mut self.file.pending;
        write!(to, ",\"ts\":{},\"name\":", Microseconds(time_ns))?;
        json::text(to, name.as_bytes())?;
        write!(to, ",\"cat\":")?;
        json::text(to, category.as_bytes())
    }

    /// A pair, from the one to the other.
    fn pair(&mut self, pair: &Pair) -> io::Result<()> {
        let Pair { name, tgid, tid, end_tid, from_ns, to_ns } = pair;
        let until = self.until_ns.entry(*tid).or_default();
        if tid == end_tid && *until <= *from_ns {
            *until = *to_ns;
            let lasts = Microseconds(to_ns.saturating_sub(*from_ns));
            self.begin("X", *tgid, tid)?;
            self.head(name, "pair", *from_ns)?;
            return writeln!(self.file.pending, ",\"dur\":{lasts}}}");
        }
        self.asynchronous += 1;
        for (kind, time_ns) in [("b", from_ns), ("e", to_ns)] {
            self.begin(kind, *tgid, tid)?;
            self.head(name, "pair", *time_ns)?;
            writeln!(self.file.pending, ",\"id\":\"{:#x}\"}}", self.asynchronous)?;
        }
        Ok(())
    }

    fn instant(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> io::Result<()> {
        let since = record.time_ns().saturating_sub(meaning.began_ns);
        self.begin("i", record.tgid(), record.tid())?;
        let category = probe.name.split(':').next().unwrap_or_default();
        self.head(&probe.name, category, since)?;
        let to = &mut self.file.pending;
        let (cpu, id) = (record.cpu(), record.id());
        write!(to, ",\"s\":\"t\",\"args\":{{\"cpu\":{cpu},\"id\":\"{id:#x}\"")?;
        if !probe.fields.is_empty() {
            to.push(b',');
        }
        json::fields(to, probe, record, meaning, |_, _| None)?;
        to.extend(b"}}\n");
        Ok(())
    }

    fn put(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> io::Result<()> {
        let began_ns = meaning.began_ns;
        self.meet(record.tgid(), record.tid(), meaning)?;
        self.instant(probe, record, meaning)?;
        let joined = self.pairs.take(probe, record, began_ns);
        let pairs = pairs::derived(probe, record, began_ns).into_iter().chain(joined);
        pairs.into_iter().try_for_each(|pair| self.pair(&pair))
    }
}

/// A time in microseconds, with three places behind the point.
struct Microseconds(u64);

impl Display for Microseconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

impl RecordSink for Chrome {
    fn take(&mut self, probe: &Probe, record: Record<'_>, meaning: &Meaning) -> anyhow::Result<()> {
        meaning.meet(probe, record);
        self.put(probe, record, meaning)?;
        self.file.write_much()
    }

    fn join(&mut self, flow: u64) {
        self.pairs.join(flow);
    }

    fn add(&mut self, number: usize, probe: &Probe) -> anyhow::Result<()> {
        self.pairs.add(number, probe);
        Ok(())
    }

    fn end_batch(&mut self) -> anyhow::Result<()> {
        self.file.write()
    }

    fn finish(
        mut self: Box<Self>,
        totals: &Totals,
        meaning: &Meaning,
    ) -> anyhow::Result<Option<String>> {
        let written = self.file.write();
        let began = meaning.epoch_ns.saturating_add_unsigned(meaning.began_ns);
        let lost = totals.lost();
        let mut end = Vec::new();
        write!(
            end,
            "],\"otherData\":{{\"began_unix_ns\":\"{began}\",\"lost\":{lost},\"command\":"
        )?;
        json::text(&mut end, totals.origin.command.as_bytes())?;
        end.extend(b"}}\n");
        written.and(self.file.write_end(&end)).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_whole_if_there_is_no_room_for_its_first_events() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("t.chrome.json");
        let mut trace = Chrome::create(&path, &[]).expect("made");
        // So much no file system has.
        trace.file.keep_room(1 << 62);
        let (name, tgid, tid) = ("a -> b".to_string(), 1, 2);
        let pair = Pair { name, tgid, tid, end_tid: tid, from_ns: 1, to_ns: 2 };
        trace.pair(&pair).expect("memory takes it");
        assert!(trace.end_batch().is_err());
        let meaning = Meaning::recorded(0, 0, &[]);
        Box::new(trace).finish(&Totals::default(), &meaning).expect("its end has room");
        let text = std::fs::read_to_string(&path).expect("it is there");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("whole JSON");
        assert_eq!(trace["traceEvents"].as_array().map(Vec::len), Some(0), "{text}");
    }

    #[test]
    fn pairs_that_overlap_are_asynchronous() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut trace = Chrome::create(&folder.path().join("t.chrome.json"), &[]).expect("made");
        for ((tgid, tid, end_tid), (from_ns, to_ns)) in [
            ((1, 2, 2), (1000, 2500)),
            ((1, 2, 2), (2500, 3000)),
            ((1, 2, 2), (2900, 4000)),
            ((1, 3, 3), (10, 20)),
            ((1, 3, 4), (30, 40)),
        ] {
            let name = "a -> b".to_string();
            let pair = Pair { name, tgid, tid, end_tid, from_ns, to_ns };
            trace.pair(&pair).expect("memory takes it");
        }
        let text = String::from_utf8_lossy(&trace.file.pending);
        let kinds: Vec<&str> = text.split("\"ph\":\"").skip(1).map(|part| &part[..1]).collect();
        assert_eq!(kinds, ["X", "X", "b", "e", "X", "b", "e"]);
        assert!(text.contains("\"ts\":1.000,"), "{text}");
        assert!(text.contains("\"dur\":1.500}"), "{text}");
    }
}
