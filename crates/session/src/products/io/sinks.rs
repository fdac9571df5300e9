//! What takes what is found of files: rows as they come, and the report so far.

use weigh_account::io::{Files, Run, report};
use weigh_collect::follow::MechanismError;
use weigh_schema::io::IoReport;
use weigh_schema::sink::Sink;

use super::gatherer::Gatherer;

/// Shows what is known so far, now and then.
pub trait IoView {
    /// Whether it is time to draw.
    fn is_due(&self) -> bool;

    /// Draws the report so far in the place of the last one.
    fn draw(&mut self, report: &IoReport<Files<'_>>);

    /// Takes away what is drawn: what follows is written in its place.
    fn clear(&mut self);
}

/// The sinks of one measurement.
pub struct IoSinks<'a> {
    /// Takes rows that cannot wait for the end: [`FileUse`](weigh_schema::update::Update::FileUse) of files that leave the book to make room, and
    /// [`Syscall`](weigh_schema::update::Update::Syscall) where each call has a row.
    pub rows: &'a mut dyn Sink,
    /// Shows what is known so far.
    pub view: Option<&'a mut dyn IoView>,
}

impl IoSinks<'_> {
    /// Takes in what has come; what leaves the book to make room has its row in the file now.
    pub(super) fn take_in(&mut self, gatherer: &mut Gatherer) {
        gatherer.take_in(self.rows);
    }

    /// Takes in what is left at the end.
    pub(super) fn end(
        &mut self,
        gatherer: &mut Gatherer,
        run: &mut Run,
    ) -> Result<(), MechanismError> {
        gatherer.end(run, self.rows)
    }

    pub(super) fn is_view_due(&self) -> bool {
        self.view.as_ref().is_some_and(|view| view.is_due())
    }

    /// Has all that is known drawn.
    pub(super) fn draw(&mut self, gatherer: &Gatherer, run: &Run) -> Result<(), MechanismError> {
        let book = gatherer.so_far()?;
        if let Some(view) = &mut self.view {
            view.draw(&report(&book, run, &gatherer.name));
        }
        Ok(())
    }

    pub(super) fn clear_view(&mut self) {
        if let Some(view) = &mut self.view {
            view.clear();
        }
    }
}
