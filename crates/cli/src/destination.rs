//! Where JSON goes: a file, standard output, or a descriptor that weigh was given.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, IsTerminal as _, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::net::SendFlags;
use serde::Serialize;
use weigh_collect::inherited;
use weigh_session::unless_medium_failed;

/// Whether such a name is that of a stream, and of no file.
pub fn is_stream(name: &str) -> bool {
    name == "-" || name.starts_with("fd:")
}

/// A place for what is told as JSON, opened before the command runs.
pub struct Destination {
    name: String,
    /// Why it could not be opened, if that is the medium's fault.
    broken: Option<anyhow::Error>,
    /// None: standard output.
    file: Option<File>,
    /// What is not whole yet, and is taken away if it does not become so.
    unfinished: Option<Unfinished>,
    /// Which writes to standard output there were before the command began.
    written: Option<Written>,
}

/// How writes of others to standard output are known.
enum Written {
    /// It is a file: when it was written to last.
    Last(i64, i64),
    /// It is a pipe, which keeps no such time since Linux 6.15: the watch is readable after the first write.
    Watched(OwnedFd),
}

impl Written {
    /// Of files and pipes.
    fn of_output() -> Option<Written> {
        let about = output_metadata()?;
        match about.file_type() {
            kind if kind.is_file() => Some(Written::Last(about.mtime(), about.mtime_nsec())),
            kind if kind.is_fifo() => {
                let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).ok()?;
                let first = WatchFlags::MODIFY | WatchFlags::ONESHOT;
                inotify::add_watch(&watch, "/proc/self/fd/1", first).ok()?;
                Some(Written::Watched(watch))
            }
            _ => None,
        }
    }

    /// Whether somebody has written since.
    fn has_more(&self) -> bool {
        match self {
            Written::Last(seconds, ns) => {
                output_metadata().is_some_and(|a| (a.mtime(), a.mtime_nsec()) != (*seconds, *ns))
            }
            Written::Watched(watch) => {
                let mut wait = [PollFd::new(watch, PollFlags::IN)];
                poll(&mut wait, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
            }
        }
    }
}

fn output_metadata() -> Option<std::fs::Metadata> {
    let output = std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned().ok()?;
    File::from(output).metadata().ok()
}

/// A file that a name leads to, by whatever links.
struct Unfinished {
    path: PathBuf,
    /// Device and inode: what came to the same place meanwhile is somebody else's.
    is: (u64, u64),
    is_whole: bool,
}

impl Unfinished {
    /// None of a device or a FIFO.
    fn of(name: &str, file: &File) -> Option<Unfinished> {
        let about = file.metadata().ok().filter(|about| about.is_file())?;
        let path = std::fs::canonicalize(name).ok()?;
        Some(Unfinished { path, is: (about.dev(), about.ino()), is_whole: false })
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        let is_it = |about: std::fs::Metadata| (about.dev(), about.ino()) == self.is;
        if !self.is_whole && std::fs::symlink_metadata(&self.path).is_ok_and(is_it) {
            // Where that is not allowed it stays, cut short: the error has been told.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Destination {
    /// Opens it: a file, `-`, or `fd:N`.
    pub fn open(name: &str) -> anyhow::Result<Destination> {
        let file = match name.strip_prefix("fd:") {
            None if name == "-" => {
                crate::show::check_output().map(|()| None).context("--json -")?
            }
            None => {
                let created = File::create(name).with_context(|| format!("--json {name}"));
                match unless_medium_failed(created)? {
                    Ok(file) => Some(file),
                    Err(error) => return Ok(Destination::broken(name, error)),
                }
            }
            Some(number) => {
                let Ok(number) = number.parse::<u32>() else {
                    bail!(
                        "--json {name}: '{number}' is no descriptor; expected a number as in fd:3"
                    )
                };
                let place = format!("/proc/self/fd/{number}");
                let opened = match inherited::was_closed(number as usize) {
                    true => Err(ErrorKind::NotFound.into()),
                    false => File::options().write(true).open(place),
                };
                Some(opened.with_context(|| {
                    format!("--json {name}: descriptor {number} cannot be written")
                })?)
            }
        };
        let unfinished = match is_stream(name) {
            true => None,
            false => file.as_ref().and_then(|file| Unfinished::of(name, file)),
        };
        let written = if name == "-" { Written::of_output() } else { None };
        Ok(Destination { name: name.to_string(), broken: None, file, unfinished, written })
    }

    /// A file without a place: what is written there ends with the error.
    fn broken(name: &str, error: anyhow::Error) -> Destination {
        let (name, broken) = (name.to_string(), Some(error));
        Destination { name, broken, file: None, unfinished: None, written: None }
    }

    /// For lines that are written while something runs; what was written stays. None: it could not be opened, which is
    /// told in the end.
    pub fn lines(&mut self) -> std::io::Result<Option<LineOutput>> {
        if self.broken.is_some() {
            return Ok(None);
        }
        stays(self.unfinished.take());
        // The lines themselves would be taken for those of others.
        self.written = None;
        let output = match &self.file {
            Some(file) => file.try_clone()?,
            None => File::from(std::os::fd::AsFd::as_fd(&std::io::stdout()).try_clone_to_owned()?),
        };
        LineOutput::new(output).map(Some)
    }

    /// Whether it is standard output, where nothing else may stand then.
    pub fn is_standard_output(&self) -> bool {
        self.name == "-"
    }

    /// Says so if somebody else has written there, where only JSON is to stand.
    fn warn_of_others(&self) {
        if self.written.as_ref().is_some_and(Written::has_more) {
            weigh_collect::notice!(
                "the command writes to standard output, too, before the JSON: `--json FILE` or `--json fd:3 3>FILE` \
                 keeps them apart"
            );
        }
    }

    /// What is known of the file, if it is one.
    pub fn metadata(&self) -> Option<std::fs::Metadata> {
        self.file.as_ref()?.metadata().ok()
    }

    /// Writes it as JSON, as it comes: it is never in memory as a whole.
    pub fn write_json(mut self, what: &impl Serialize) -> anyhow::Result<()> {
        self.broken.take().map_or(Ok(()), Err)?;
        self.warn_of_others();
        if self.file.is_none() && std::io::stdout().is_terminal() {
            return crate::show::print_json(&(serde_json::to_string_pretty(what)? + "\n"));
        }
        let Destination { name, file, unfinished, .. } = self;
        let mut out: BufWriter<Box<dyn Write>> = BufWriter::new(match file {
            None => Box::new(std::io::stdout()),
            Some(file) => Box::new(file),
        });
        let written = serde_json::to_writer_pretty(&mut out, what).map_err(std::io::Error::from);
        match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
            // The reader of standard output may have read enough.
            Err(error) if error.kind() == ErrorKind::BrokenPipe && name == "-" => Ok(()),
            Err(error) => Err(error).with_context(|| format!("--json {name}")),
            Ok(()) => {
                stays(unfinished);
                Ok(())
            }
        }
    }

    /// Writes the text.
    pub fn write(mut self, text: &str) -> anyhow::Result<()> {
        self.broken.take().map_or(Ok(()), Err)?;
        self.warn_of_others();
        match self.file {
            None => crate::show::print_json(text),
            Some(mut file) => {
                let written = file.write_all(text.as_bytes());
                written.with_context(|| format!("--json {}", self.name))?;
                stays(self.unfinished);
                Ok(())
            }
        }
    }
}

/// Where a writer never waits for a reader.
pub enum LineOutput {
    /// A file, which has room or fails; a pipe or a terminal, which says if it has none.
    File(File),
    /// A socket, which is asked not to wait each time: others may have it, too.
    Socket(OwnedFd),
}

impl LineOutput {
    fn new(file: File) -> std::io::Result<LineOutput> {
        let kind = file.metadata()?.file_type();
        if kind.is_socket() {
            return Ok(LineOutput::Socket(file.into()));
        }
        if !kind.is_fifo() && !kind.is_char_device() {
            return Ok(LineOutput::File(file));
        }
        // Opened anew: the flag is not for others who have it.
        let place = format!("/proc/self/fd/{}", file.as_raw_fd());
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        File::options().write(true).custom_flags(flags).open(place).map(LineOutput::File)
    }
}

impl Write for LineOutput {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            LineOutput::File(file) => file.write(bytes),
            LineOutput::Socket(socket) => {
                let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                Ok(rustix::net::send(socket, bytes, flags)?)
            }
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// It stays.
fn stays(unfinished: Option<Unfinished>) {
    if let Some(mut finished) = unfinished {
        finished.is_whole = true;
    }
}
