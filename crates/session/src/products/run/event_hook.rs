//! `--on-event COMMAND`: a command of the user's that is run for what happens to the job.
//!
//! Reads the events; emits them to a helper, which runs the command for each, one after the other, so
//! that neither the measuring nor the job waits for it. The helper is weigh itself, but no child of it.
//! At the end weigh waits until all is told.

mod helper;
mod order;

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use anyhow::Context as _;
use jiff::Timestamp;
use weigh_collect::clock::Moment;
use weigh_collect::notice;
use weigh_schema::announcement::{Announcement, Happening, SCHEMA};
use weigh_schema::byte_text;
use weigh_schema::summary::Job;

use order::HELPER;

pub use helper::{be_helper, is_helper, run_command};
pub use order::Order;

/// The user's command, if there is one.
#[derive(Default)]
pub struct EventHook {
    helper: Option<Helper>,
    /// The start of the job: what happens later is counted from there, as in the recording, whatever
    /// the clock of the day is set to meanwhile.
    started: Option<(Timestamp, Moment)>,
}

struct Helper {
    orders: File,
    /// At its end when the helper has done everything.
    done: File,
    is_gone: bool,
}

impl EventHook {
    /// Starts the helper. Before orphans are adopted: it is to be nobody's child but the system's.
    pub fn start(command: Option<&OsString>) -> anyhow::Result<EventHook> {
        let Some(command) = command else { return Ok(EventHook::default()) };
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let (orders, done) = pipe().and_then(|orders| Ok((orders, pipe()?))).context("pipe")?;
        weigh_collect::daemonize::start_itself(
            &[HELPER.into(), command.clone()],
            &orders.0,
            &done.1,
        )
        .context("cannot start the helper that runs the command of --on-event")?;
        let helper = Helper { orders: orders.1.into(), done: done.0.into(), is_gone: false };
        Ok(EventHook { helper: Some(helper), started: None })
    }

    /// The job began at that time, which is now.
    pub(super) fn begins(&mut self, at: Timestamp) {
        self.started = Some((at, Moment::now()));
    }

    fn now(&self) -> Timestamp {
        let counted = self.started.and_then(|(at, since)| at.checked_add(since.elapsed()).ok());
        counted.unwrap_or_else(Timestamp::now)
    }

    /// Tells of something.
    pub fn tell(&mut self, job: &Job, recording: &Path, happening: Happening) {
        let at = self.now();
        let Some(helper) = self.helper.as_mut().filter(|helper| !helper.is_gone) else { return };
        let order = order(at, job, recording, happening);
        let written = serde_json::to_string(&order)
            .map_err(std::io::Error::from)
            .and_then(|line| helper.orders.write_all((line + "\n").as_bytes()));
        if let Err(error) = written {
            helper.is_gone = true;
            notice!("the command of --on-event is not run any more: {error}");
        }
    }

    /// Waits until all is told.
    pub fn finish(self) {
        let Some(Helper { orders, mut done, .. }) = self.helper else { return };
        drop(orders);
        // Nothing is ever written there.
        let _ = done.read(&mut [0]);
    }
}

fn order(at: Timestamp, job: &Job, recording: &Path, happening: Happening) -> Order {
    let place = byte_text::keep(recording.as_os_str().as_bytes());
    let kept = |text: &str| byte_text::keep(text.as_bytes());
    let variables = [
        ("WEIGH_EVENT", kept(happening.event())),
        ("WEIGH_NAME", kept(&happening.name())),
        ("WEIGH_JOB", kept(&job.id)),
        ("WEIGH_RECORDING", place.clone()),
    ];
    let announcement = Announcement {
        schema: SCHEMA.to_string(),
        at,
        job: job.clone(),
        recording: byte_text::shown(&place),
        recording_base64: byte_text::base64(&place),
        happening,
    };
    let input = serde_json::to_string(&announcement).unwrap_or_default() + "\n";
    Order { variables: variables.map(|(name, value)| (name.to_string(), value)).into(), input }
}
