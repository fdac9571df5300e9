//! What is told of files, by the kernel side or by a library in the programs, gathered: for `weigh io`, and for a recording.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use weigh_account::io::{
    Checkpoint, Files, IoBook, IoSeries, RowState, Run, Step, file_use, found_at_end, io_call,
};
use weigh_collect::follow::{FileMechanism, MechanismError};
use weigh_collect::io::MAPPED_READ;
use weigh_collect::io::last_look::{Generation, LastLook, LastLooks};
use weigh_schema::io::{Called, Event, FileId, FileStates, FileUse, IoFound, Trust, Who};
use weigh_schema::sink::Sink;
use weigh_schema::update::Update;
use weigh_schema::{Mechanism, Quality};

/// How often what was told is taken in, unless there is much.
pub const LOOK: Duration = Duration::from_millis(50);

/// What is known so far, and where it comes from.
pub struct Gatherer {
    /// Who tells.
    pub io: Box<dyn FileMechanism>,
    /// What was told.
    pub book: IoBook,
    /// The devices of files that rows have shown to be written.
    pub written_devices: BTreeSet<u32>,
    series: IoSeries,
    stepped: Instant,
    /// Calls that were told with the last batch: the names of what they are about may have come after them, and
    /// are there with the next one.
    called: Vec<Called>,
    epoch_ns: i64,
    /// What calls are called, by their numbers.
    pub name: fn(u64) -> String,
}

impl Gatherer {
    /// Nothing is known yet.
    pub fn new(io: Box<dyn FileMechanism>, name: fn(u64) -> String) -> Gatherer {
        let mut book = IoBook::default();
        book.stand_on(&io.grounds());
        let (series, stepped) = (IoSeries::default(), Instant::now());
        let (written_devices, called) = (BTreeSet::new(), Vec::new());
        let mut gatherer =
            Gatherer { io, book, written_devices, series, stepped, called, epoch_ns: 0, name };
        gatherer.set_clock(now_ns());
        gatherer
    }

    /// What the book is about, of a command that was followed for so long, and how far it can be trusted.
    pub fn run_of(&self, command: &[OsString], wall: Duration) -> Run {
        Run {
            command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            command_base64: weigh_schema::base64::of_words(command),
            pid: None,
            mount: None,
            wall_seconds: wall.as_secs_f64(),
            tally: self.io.tally(),
            grounds: self.io.grounds(),
        }
    }

    /// The command is about to begin: what was needed to get ready is none of its time.
    pub fn begin(&mut self) {
        self.io.begin();
        self.set_clock(now_ns());
    }

    /// Times of calls are told by this clock: that it is now so late since the epoch.
    pub fn set_clock(&mut self, now_ns: i64) {
        self.epoch_ns = now_ns.saturating_sub_unsigned(self.io.elapsed_ns());
    }

    /// Takes in what has come, but for no longer than [`LOOK`]. `sink` takes what cannot wait for the end: rows
    /// of files that leave the book to make room, and each call where each is wanted.
    pub fn take_in(&mut self, sink: &mut dyn Sink) {
        let until = Instant::now() + LOOK;
        while self.take_in_a_batch(sink) && Instant::now() < until {}
    }

    /// Whether there was anything.
    fn take_in_a_batch(&mut self, sink: &mut dyn Sink) -> bool {
        let events = self.io.events();
        let is_something = !events.is_empty() || !self.called.is_empty();
        let before = std::mem::take(&mut self.called);
        for event in events {
            match event {
                Event::Called(called) => self.called.push(called),
                event => self.book.add(event),
            }
        }
        for called in &before {
            let call = io_call(&self.book, called, self.epoch_ns, &self.name);
            sink.emit(&Update::Syscall(Box::new(call)));
        }
        self.make_room(sink);
        is_something
    }

    /// What processes have open still: a batch after the other, for they may be as many as the kernel has
    /// room for.
    fn take_in_open(&mut self, sink: &mut dyn Sink) -> Result<(), MechanismError> {
        let Gatherer { io, book, written_devices, series, name, .. } = self;
        io.each_open_use(&mut |used| {
            book.add_use(&used);
            // Names stay: a file that is still open has been named for good.
            give_room(book, series, *name, &mut |row| emit_row(row, written_devices, sink));
        })
    }

    fn make_room(&mut self, sink: &mut dyn Sink) {
        let Gatherer { book, written_devices, series, name, .. } = self;
        let left = give_room(book, series, *name, &mut |row| emit_row(row, written_devices, sink));
        if !left.is_empty() {
            let forgotten: Vec<FileId> = self.book.forget_names(&left);
            self.io.forget_names(&forgotten);
        }
    }

    /// All that is known, with what processes have open still.
    pub fn so_far(&self) -> Result<IoBook, MechanismError> {
        let mut book = self.book.clone();
        book.stand_on(&self.io.grounds());
        self.io.events_so_far().into_iter().for_each(|event| book.add(event));
        self.io.each_open_use(&mut |used| book.add_use(&used))?;
        take_in_processes(&mut book, &*self.io)?;
        Ok(book)
    }

    /// What has come since this was asked last; `book` is all that is known.
    pub fn step(&mut self, book: &IoBook, time_ns: i64) -> Step {
        let rest = self.io.rest();
        let seconds = self.stepped.elapsed().as_secs_f64();
        self.stepped = Instant::now();
        self.series.step(book, rest.as_ref(), time_ns, seconds)
    }

    /// Emits rows that have changed since the last time, `most` of them at most; they are not the last.
    pub fn emit_changed(
        &mut self,
        book: &IoBook,
        saved: &mut Checkpoint,
        most: usize,
        sink: &mut dyn Sink,
    ) {
        for row in saved.changed(book, most).iter().filter_map(|key| book.row(key)) {
            let used = file_use(book, &row, &self.name);
            note_written(&used, &mut self.written_devices);
            sink.emit(&Update::FileUseSoFar(Box::new(used)));
        }
    }

    /// Emits all rows as they are in the end; returns what is known of all files together.
    pub fn conclude(&mut self, book: &IoBook, run: &Run, sink: &mut dyn Sink) -> IoFound {
        let files = Files::of(book, &self.name);
        files.iter().for_each(|row| emit_row(row, &mut self.written_devices, sink));
        found_at_end(book, run)
    }

    /// Files may have been renamed and deleted since they were closed.
    fn look_for_names(&mut self, mechanism: Mechanism) {
        let generation = match mechanism {
            Mechanism::Bpf => Generation::Kernel,
            _ => Generation::Birth,
        };
        // Who serves the files knows what they are called.
        let is_served = mechanism == Mechanism::Fuse;
        let looks = LastLooks::new(generation);
        let files = self
            .book
            .regular_files()
            .filter(|(file, _)| may_have_a_name(&self.book, *file, mechanism));
        let first_uses = self.book.first_uses();
        let look = |(file, name)| {
            let used_ns = first_uses.get(&file).copied().unwrap_or_default();
            (file, looks.look(file, name, self.epoch_ns.saturating_add_unsigned(used_ns)))
        };
        let found: Vec<_> = files.map(look).collect();
        for (file, found) in found {
            // With another name it may be another file, which has got the number of one that is gone.
            let has_other = found.name.is_some() || self.book.later_name(file).is_some();
            let is_other = has_other && !found.is_told_apart;
            let is_unknown = is_other || found.is_elsewhere;
            self.book.set_states(file, self.states(&found, is_unknown));
            match is_unknown {
                _ if is_served => {}
                true => self.book.set_end_unknown(file),
                false => self.book.set_end(file, found.is_deleted, found.name),
            }
        }
    }

    /// What a file was before and after, by the last look at it.
    fn states(&self, found: &LastLook, is_unknown: bool) -> FileStates {
        match (found.is_deleted, &found.state) {
            (Some(true), _) => FileStates::unknown(FileStates::NO_NAME),
            (Some(false), Some(end)) if !is_unknown => FileStates::of_end(end, self.epoch_ns),
            _ => FileStates::unknown("it could not be looked for in the end"),
        }
    }

    /// Of how many files nobody can say whether they have a name in the end, if there are any.
    fn unknown_ends(&self) -> Option<Trust> {
        let files = self.book.files_of_unknown_end();
        let reason = format!(
            "{files} files could not be looked for in the end: their file system does not find files by their numbers, \
             or gives numbers again without a mark (overlayfs), or it takes root"
        );
        (files > 0).then_some(Trust { quality: Quality::Unavailable, reason })
    }

    /// Whether bytes came by mapped memory that no device read, where that can be told.
    fn read_from_nowhere(&self, run: &Run) -> Option<Trust> {
        let is_seen = run.grounds.mechanism == Mechanism::Bpf && run.tally.lost_pages == 0;
        let bytes = self.book.mapped_from_nowhere();
        let reason = format!(
            "{bytes} bytes came by mapped memory and no device read them: space that was allocated and never written, \
             or was still to come"
        );
        (is_seen && bytes > 0).then_some(Trust { quality: Quality::Estimated, reason })
    }

    /// The end: nothing more is followed, and what is left in the kernel is taken in.
    pub fn end(&mut self, run: &mut Run, sink: &mut dyn Sink) -> Result<(), MechanismError> {
        self.io.detach();
        run.grounds = self.io.grounds();
        self.book.stand_on(&run.grounds);
        while self.take_in_a_batch(sink) {}
        self.take_in_open(sink)?;
        take_in_processes(&mut self.book, &*self.io)?;
        if let Some(rest) = self.io.rest() {
            self.book.add_rest(&rest);
        }
        let requests = self.io.open_requests()?;
        for request in &requests {
            self.book.add_use(request);
        }
        if !requests.is_empty() {
            run.grounds.notes.push(format!(
                "{} AIO requests, whose results no call handed over, are counted as they were asked for",
                requests.len()
            ));
        }
        run.tally = self.io.tally();
        self.look_for_names(run.grounds.mechanism);
        if let Some(trust) = self.unknown_ends() {
            run.grounds.qualities.insert("is_deleted".to_string(), trust);
        }
        if let Some(trust) = self.read_from_nowhere(run) {
            run.grounds.qualities.entry(MAPPED_READ.to_string()).or_insert(trust);
        }
        Ok(())
    }
}

/// Where nobody has seen it deleted. A library may take one for another that was made at the same moment.
fn may_have_a_name(book: &IoBook, file: FileId, mechanism: Mechanism) -> bool {
    book.is_deleted(file) != Some(true) || mechanism == Mechanism::Preload
}

fn now_ns() -> i64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since_epoch.as_nanos()).unwrap_or(i64::MAX)
}

/// Where there is too much in the book, the oldest leaves it.
fn give_room(
    book: &mut IoBook,
    series: &mut IoSeries,
    name: fn(u64) -> String,
    emit: &mut dyn FnMut(FileUse),
) -> Vec<((FileId, Who), RowState)> {
    let left = book.make_room();
    for (key, row) in &left {
        let row = row.row(key);
        series.leaves(&row);
        emit(file_use(book, &row, &name));
    }
    left
}

/// The row of a file as it is in the end.
fn emit_row(row: FileUse, written_devices: &mut BTreeSet<u32>, sink: &mut dyn Sink) {
    note_written(&row, written_devices);
    sink.emit(&Update::FileUse(Box::new(row)));
}

fn note_written(row: &FileUse, devices: &mut BTreeSet<u32>) {
    if row.is_output() {
        devices.insert(row.device);
    }
}

/// The processes that live.
fn take_in_processes(book: &mut IoBook, io: &dyn FileMechanism) -> Result<(), MechanismError> {
    for process in io.processes()? {
        book.add_process(process);
    }
    Ok(())
}
