//! `--live`: the table so far, on the terminal.

use std::io::IsTerminal as _;

use anyhow::bail;
use weigh_account::io::Files;
use weigh_schema::io::IoReport;
use weigh_session::products::io::IoView;

use crate::live::Live;
use weigh_arguments::IoTelling;

/// The table so far.
pub struct LiveTable<'a> {
    live: Live,
    telling: &'a IoTelling,
}

impl<'a> LiveTable<'a> {
    /// None if it is not asked for.
    pub fn open(telling: &'a IoTelling) -> anyhow::Result<Option<LiveTable<'a>>> {
        if telling.live && !std::io::stderr().is_terminal() {
            bail!("--live: standard error is no terminal");
        }
        Ok(telling.live.then(|| LiveTable { live: Live::new(), telling }))
    }
}

impl IoView for LiveTable<'_> {
    fn is_due(&self) -> bool {
        self.live.is_due()
    }

    fn draw(&mut self, report: &IoReport<Files<'_>>) {
        self.live.draw(|screen| super::text(report, self.telling, screen));
    }

    fn clear(&mut self) {
        self.live.clear();
    }
}
