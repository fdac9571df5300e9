//! The side of the stream: never waits for anybody, and goes on without a socket if there can be none.
//!
//! Reads requests; emits answers, and descriptors to those who read along, who are known as long as they are
//! connected. Turns away who is neither root nor the stream's own user, who says too much, and who takes too long.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use weigh_schema::synthesis::SynthesisReport;
use weigh_wire::peer_of;

use super::super::description::{Description, StreamPosition};
use super::conversation::send;
use super::reader::{Reader, Written};
use super::report_reader::{ReportReader, report_interval};
use super::socket::{folder, listen};
use super::wire::{Answer, Ask, AttachBy, Attachment, Change};

/// At once.
const MOST_CLIENTS: usize = 64;
/// Of a request.
const MOST_BYTES: usize = 64 * 1024;
/// For a request to come whole, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
/// For a report to be taken.
const REPORT_PATIENCE: Duration = Duration::from_secs(60);

/// A stream that is asked.
pub trait ControlTarget {
    /// Does what is asked for. Who reads along is not its business.
    fn answer(&mut self, ask: Ask) -> Answer;

    /// What it has.
    fn description(&self) -> Description;

    /// The buffers that can be read along, by their places and names, the usual one first.
    fn readable(&self) -> Vec<(usize, String)>;

    /// Where it is in the rings of a buffer, and what it has seen there.
    fn r#where(&self, buffer: usize) -> StreamPosition;

    /// How much that was.
    fn written(&self, buffer: usize) -> Written;

    /// The rings of a buffer, for one who reads only; none if there are none (any more).
    fn rings(&self, buffer: usize) -> Option<BorrowedFd<'_>>;

    /// Whether nothing more will come into a buffer, and all of it was seen.
    fn has_ended(&self, buffer: usize) -> bool;

    /// What several events say together until now, with so many rows of each table at most; none: nobody has asked for
    /// that.
    fn synthesis_report(&self, rows: usize) -> Option<SynthesisReport>;

    /// These buffers are read along, and somebody wants it to look when a CPU has written so much.
    fn look_after(&mut self, read: &[(usize, u64)]);
}

/// Where a stream is asked.
pub struct Control {
    listener: Option<(UnixListener, PathBuf)>,
    clients: Vec<Client>,
}

struct Client {
    stream: UnixStream,
    pid: u32,
    since: Instant,
    asked: Vec<u8>,
    /// What is left to say, and to give with it.
    answer: Vec<u8>,
    with: Vec<OwnedFd>,
    /// If it reads along.
    reader: Option<Reader>,
    /// If it wants reports.
    reports: Option<ReportReader>,
    /// What it read along has ended: when that is said, it is taken leave of.
    is_done: bool,
}

impl Control {
    /// Listens, if there is a place for that.
    pub fn open() -> Control {
        let listener = folder().and_then(|folder| listen(folder).ok());
        Control { listener, clients: Vec::new() }
    }

    /// Nobody can ask.
    pub fn closed() -> Control {
        Control { listener: None, clients: Vec::new() }
    }

    /// What becomes ready when somebody asks.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let listener = self.listener.iter().map(|(listener, _)| listener.as_fd());
        listener.chain(self.clients.iter().map(|client| client.stream.as_fd()))
    }

    /// When somebody who reads along is to be waked at the latest.
    pub fn look_at(&self) -> Option<Instant> {
        let reports = self.clients.iter().filter_map(|client| client.reports.as_ref());
        self.readers().filter_map(Reader::look_at).chain(reports.map(ReportReader::look_at)).min()
    }

    fn readers(&self) -> impl Iterator<Item = &Reader> {
        self.clients.iter().filter_map(|client| client.reader.as_ref())
    }

    /// Answers all who have asked.
    pub fn attend(&mut self, stream: &mut dyn ControlTarget) {
        if let Some((listener, _)) = &self.listener {
            while let Ok((client, _)) = listener.accept() {
                if self.clients.len() < MOST_CLIENTS
                    && let Some(pid) = may_ask(&client)
                {
                    self.clients.push(Client::new(client, pid));
                }
            }
        }
        let before = self.readers().count();
        for place in (0..self.clients.len()).rev() {
            let is_there = match self.clients[place].has_asked() {
                Ok(Some(asked)) => {
                    self.reply(place, &asked, stream);
                    true
                }
                Ok(None) => true,
                Err(_) => false,
            };
            if !is_there || !self.clients[place].goes_on().unwrap_or(false) {
                self.clients.swap_remove(place);
            }
        }
        if before > 0 || self.readers().count() > 0 {
            self.want(stream);
        }
    }

    /// Says which buffers are read along, and who wants to be waked first.
    fn want(&self, stream: &mut dyn ControlTarget) {
        let mut read: Vec<(usize, u64)> = Vec::new();
        for reader in self.readers() {
            match read.iter_mut().find(|(buffer, _)| *buffer == reader.buffer) {
                Some((_, bytes)) => *bytes = reader.watermark().min(*bytes),
                None => read.push((reader.buffer, reader.watermark())),
            }
        }
        stream.look_after(&read);
    }

    fn reply(&mut self, place: usize, asked: &[u8], stream: &mut dyn ControlTarget) {
        let answer = match serde_json::from_slice(asked) {
            Ok(Ask::Attach(how)) => {
                let answer = self.attach(place, how, stream);
                // From now on its rings stay as they are, whatever is asked for next.
                self.want(stream);
                answer
            }
            Ok(Ask::Where) => {
                let reader = self.clients[place].reader.as_ref();
                let usual = || stream.readable().first().map_or(0, |(buffer, _)| *buffer);
                Answer::Where(stream.r#where(reader.map_or_else(usual, |reader| reader.buffer)))
            }
            Ok(Ask::Reports { ms }) => self.want_reports(place, ms, stream),
            Ok(Ask::Describe) => Answer::Description(Box::new(stream.description())),
            Ok(ask) => match stream.answer(ask) {
                Answer::Register(mut register) => {
                    let reads = |r: &Reader| r.reads(stream.written(r.buffer));
                    register.clients = self.readers().map(reads).collect();
                    let wants_reports = |client: &&Client| client.reports.is_some();
                    register.report_readers = self.clients.iter().filter(wants_reports).count();
                    Answer::Register(register)
                }
                answer => answer,
            },
            Err(error) => Answer::Refused(format!("the request is not understood: {error}")),
        };
        self.clients[place].say(&answer);
    }

    fn attach(&mut self, place: usize, how: AttachBy, stream: &mut dyn ControlTarget) -> Answer {
        let AttachBy { wake, buffer: asked } = how;
        let readable = stream.readable();
        let is_asked = |name: &String| asked.as_ref().is_none_or(|asked| asked == name);
        let Some((buffer, name)) = readable.iter().find(|(_, name)| is_asked(name)).cloned() else {
            return Answer::NoBuffer(readable.into_iter().map(|(_, name)| name).collect());
        };
        let at = stream.r#where(buffer);
        let client = &mut self.clients[place];
        let begun = || -> io::Result<(Reader, Vec<OwnedFd>)> {
            let rings = stream.rings(buffer).ok_or(io::ErrorKind::NotFound)?;
            let written = stream.written(buffer);
            let (reader, with) = Reader::new(client.pid, (buffer, name.clone()), wake, written)?;
            let rings = rings.try_clone_to_owned()?;
            Ok((reader, std::iter::once(rings).chain(with).collect()))
        };
        match begun() {
            Ok((reader, with)) => {
                (client.reader, client.with) = (Some(reader), with);
                let description = stream.description();
                Answer::Attached(Box::new(Attachment { buffer: name, description, r#where: at }))
            }
            Err(error) => Answer::Refused(format!("nobody can read along: {error}")),
        }
    }

    fn want_reports(&mut self, place: usize, ms: u64, stream: &dyn ControlTarget) -> Answer {
        if stream.synthesis_report(0).is_none() {
            return Answer::Refused(
                "it has no reports: it was started without --latency, --sequence, --rate, --top and --histogram".into(),
            );
        }
        match report_interval(ms) {
            Ok(every) => {
                self.clients[place].reports = Some(ReportReader::new(every));
                Answer::Done(Change { ids: Vec::new(), what: Some("reports".into()), took_us: 0 })
            }
            Err(why) => Answer::Refused(why),
        }
    }

    /// The stream has come so far: wakes those who are to be waked, and reports to those who want that.
    pub fn tell(&mut self, stream: &dyn ControlTarget) {
        self.clients.iter_mut().for_each(|client| client.report(stream));
        if self.readers().next().is_none() {
            return;
        }
        let now = Instant::now();
        for client in &mut self.clients {
            let Some(reader) = &mut client.reader else { continue };
            reader.tell(stream.written(reader.buffer), now);
            if stream.has_ended(reader.buffer) {
                client.end(stream);
            }
        }
    }

    /// The stream has ended: those who read along are told where.
    pub fn end(mut self, stream: &dyn ControlTarget) {
        for client in &mut self.clients {
            client.report_last(stream);
            client.end(stream);
        }
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        if let Some((_, path)) = &self.listener {
            let _ = fs::remove_file(path);
        }
    }
}

fn may_ask(stream: &UnixStream) -> Option<u32> {
    let peer = peer_of(stream).ok()?;
    (peer.is_trusted() && stream.set_nonblocking(true).is_ok()).then_some(peer.pid)
}

impl Client {
    fn new(stream: UnixStream, pid: u32) -> Client {
        Client {
            stream,
            pid,
            since: Instant::now(),
            asked: Vec::new(),
            answer: Vec::new(),
            with: Vec::new(),
            reader: None,
            reports: None,
            is_done: false,
        }
    }

    /// Sends a report that is due.
    fn report(&mut self, stream: &dyn ControlTarget) {
        let Some(reports) = &mut self.reports else { return };
        let line = reports.line(self.answer.is_empty(), |rows| stream.synthesis_report(rows));
        if let Some(line) = line {
            self.say_line(&line);
        }
        // One that has gone is taken leave of when it is attended to.
        let _ = self.speak();
    }

    /// The stream has ended: a last report, whole.
    fn report_last(&mut self, stream: &dyn ControlTarget) {
        let Some(mut reports) = self.reports.take() else { return };
        if let Some(line) = reports.last(|rows| stream.synthesis_report(rows)) {
            self.say_line(&line);
        }
        if self.reader.is_none() {
            self.say(&Answer::Ended(StreamPosition::default()));
        }
        let _ = self.speak();
    }

    /// What it read along has ended: it is told where.
    fn end(&mut self, stream: &dyn ControlTarget) {
        let Some(reader) = self.reader.take() else { return };
        self.say(&Answer::Ended(stream.r#where(reader.buffer)));
        self.is_done = true;
        let _ = self.goes_on();
    }

    fn say(&mut self, answer: &Answer) {
        self.say_line(&serde_json::to_vec(answer).unwrap_or_default());
    }

    fn say_line(&mut self, line: &[u8]) {
        self.answer.extend(line);
        self.answer.push(b'\n');
        self.since = Instant::now();
    }

    /// Whether it is still to be attended to. A client that does not take its answers, or says nothing, is not waited for;
    /// who reads along may be silent.
    fn goes_on(&mut self) -> io::Result<bool> {
        self.speak()?;
        if self.is_done && self.answer.is_empty() {
            return Ok(false);
        }
        // Who wants reports may take them late: it misses some, and is told.
        let patience = if self.reports.is_some() { REPORT_PATIENCE } else { PATIENCE };
        let has_time = self.since.elapsed() < patience;
        let may_be_silent = self.reader.is_some() || self.reports.is_some();
        Ok(has_time || may_be_silent && self.answer.is_empty())
    }

    /// What was asked, when it has come whole.
    fn has_asked(&mut self) -> io::Result<Option<Vec<u8>>> {
        let mut part = [0; 4096];
        loop {
            match self.stream.read(&mut part) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(length) => self.asked.extend(&part[..length]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) => return Err(error),
            }
            if self.asked.ends_with(b"\n") {
                return Ok(Some(std::mem::take(&mut self.asked)));
            }
            if self.asked.len() > MOST_BYTES {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }

    fn speak(&mut self) -> io::Result<()> {
        while !self.answer.is_empty() {
            match send(&self.stream, &self.answer, &self.with) {
                Ok(length) => {
                    self.answer.drain(..length);
                    self.with.clear();
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
