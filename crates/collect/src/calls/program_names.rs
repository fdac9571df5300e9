//! Names of programs, and what they say.

/// Attached for a moment, to find where packets are counted.
pub(super) const BACKLOG: &str = "serve__backlog";
/// Always attached: without it the time of the others would be wrong.
pub(super) const ALWAYS: &str = "sched";
/// Attached but where only those are asked for that no interrupt has a part in: what the others see
/// while one runs is not the thread's doing.
pub(super) const INTERRUPTS: &str = "irq";
pub(super) const WITHOUT_INTERRUPTS: [&str; 2] = [ALWAYS, "socket"];

/// Attached to functions, many times, or not at all.
pub(super) const OWN: &str = "own__";
/// To all of them at once.
pub(super) const MANY: &str = "_many";

/// Run on request, not attached.
pub(super) const JOIN: &str = "member__join";
pub(super) const LOOK: &str = "member__look";
pub(super) const PAGES: &str = "member__pages";
pub(super) const UNDER_WAY: &str = "member__under_way";

/// What tells of writes on those.
pub(super) const F2FS: &str = "pagecache__f2fs_write_end";
pub(super) const XFS: &str = "pagecache__xfs_file_buffered_write";

/// Whose a program is: of one part, or of several, `net_and_tcp__queue`. A second program at one
/// tracepoint costs twice as much as the first.
pub(super) fn owners(program: &str) -> impl Iterator<Item = &str> {
    program.split("__").next().unwrap_or_default().split("_and_")
}

/// The name of a program without the kernel that it is for: `uring__submit_before_6_4`.
pub(super) fn root_of(program: &str) -> &str {
    program.split("_before_").next().unwrap_or(program)
}
