//! How much of what is not the node's own is exported: jobs, and what clients of the agent have published.

use weigh_collect::message::notice;
use weigh_export::metrics::{JobBound, PublishedBound};
use weigh_schema::top::TopReport;

/// Leaves so much in reports.
pub struct ExportBound {
    jobs: JobBound,
    published: PublishedBound,
    most_published: usize,
    has_said_jobs: bool,
    has_said_published: bool,
}

impl ExportBound {
    /// So many of each at most.
    pub fn new(most_jobs: usize, most_published: usize) -> ExportBound {
        ExportBound {
            jobs: JobBound::new(most_jobs),
            published: PublishedBound::new(most_published),
            most_published,
            has_said_jobs: false,
            has_said_published: false,
        }
    }

    /// Takes the rest out of the report: how many jobs and values that are.
    pub fn apply(&mut self, report: &mut TopReport) -> (usize, usize) {
        (self.jobs.apply(report), self.published.apply(report))
    }

    /// The same; once it is said how many there are too many: which these are changes.
    pub fn apply_and_say(&mut self, report: &mut TopReport) {
        let (jobs, published) = self.apply(report);
        let (most_jobs, most_published) = (self.jobs.most(), self.most_published);
        if jobs > 0 && most_jobs > 0 && !std::mem::replace(&mut self.has_said_jobs, true) {
            notice(format_args!(
                "{jobs} jobs are not exported: there are more than the {most_jobs} that --export-jobs allows"
            ));
        }
        let is_too_much = published > 0 && most_published > 0;
        if is_too_much && !std::mem::replace(&mut self.has_said_published, true) {
            notice(format_args!(
                "{published} published values are not exported: there are more than the {most_published} that --export-published allows"
            ));
        }
    }
}
