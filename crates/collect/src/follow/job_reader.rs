//! Readings and events of one job.

use std::os::fd::BorrowedFd;
use std::time::Instant;

use weigh_schema::Mechanism;
use weigh_schema::event::{CollectorStatus, Event, JobReading, Note};

use super::error::MechanismError;

/// Reads one job, and reports what happens in it.
pub trait JobReader {
    /// What most values come from.
    fn mechanism(&self) -> Mechanism;

    /// Becomes readable when there is something that should not wait.
    fn wake_fd(&self) -> Option<BorrowedFd<'_>>;

    /// When the job has to be looked at again on the mechanism's own account.
    fn next_look(&self) -> Option<Instant>;

    /// What has happened since the last call, in order.
    fn events(&mut self) -> Vec<Event>;

    /// Brings everything up to date and reads the job.
    fn read(&mut self) -> Result<JobReading, MechanismError>;

    /// The job as last known, without bringing anything up to date.
    fn glance(&self) -> JobReading;

    /// How the collectors on this side fare.
    fn statuses(&self) -> Vec<CollectorStatus>;

    /// What is to be said about values that follow from the readings.
    fn notes(&mut self) -> Vec<Note>;
}
