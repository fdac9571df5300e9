//! A span of OpenTelemetry, as a program tells it when it has ended.

/// One span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanRecord<'a> {
    /// The process, as it says itself (`process.pid`); 0: it does not.
    pub process: u32,
    /// The thread, as the program says it (`thread.id`); 0: it does not.
    pub thread: u32,
    /// The service, as the program says it (`service.name`); empty: it does not.
    pub service: &'a str,
    /// The trace that it belongs to.
    pub trace: u128,
    /// Its own number.
    pub id: u64,
    /// The number of the span around it; 0: none.
    pub parent: u64,
    /// Its name.
    pub name: &'a str,
    /// When it began, nanoseconds since the Unix epoch.
    pub begun_ns: u64,
    /// When it ended, the same.
    pub ended_ns: u64,
}
