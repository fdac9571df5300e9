//! Calls that are there to wait, and what for.

/// Calls whose very purpose is to wait, and what that is, in a sentence: "8 ms …".
const WAITS: &[(&[&str], &str)] = &[
    (&["nanosleep", "clock_nanosleep"], "sleeping, as it was asked to"),
    (
        &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"],
        "waiting for descriptors, as it was asked to",
    ),
    (
        &["pause", "rt_sigsuspend", "rt_sigtimedwait", "sigsuspend"],
        "waiting for a signal, as it was asked to",
    ),
    (&["wait4", "waitid", "waitpid"], "waiting for a child, as it was asked to"),
    (&["futex", "futex_wait", "futex_waitv"], "waiting on a futex, as it was asked to"),
    (
        &["io_getevents", "io_pgetevents", "io_uring_enter"],
        "waiting for completions, as it was asked to",
    ),
];

/// What waiting that no part of the kernel asked for is, in a call of this name that is there to wait.
pub fn asked_to_wait(call: &str) -> Option<&'static str> {
    // Of calls of 32-bit programs, and of clocks with 64 bits, the name goes on.
    let name = call.trim_end_matches(" (32-bit)").trim_end_matches("_time64");
    WAITS.iter().find(|(calls, _)| calls.contains(&name)).map(|(_, what)| *what)
}
