//! The names of the kernel's errors and signals, by their numbers, as Linux has them on x86 and ARM.

use std::sync::LazyLock;

/// Names and their numbers, in the order of these.
type Names = Vec<(&'static str, i64)>;

/// From 1 on; two numbers are none.
const ERROR_NAMES: &str = "\
    EPERM ENOENT ESRCH EINTR EIO ENXIO E2BIG ENOEXEC EBADF ECHILD EAGAIN ENOMEM EACCES EFAULT ENOTBLK EBUSY EEXIST \
    EXDEV ENODEV ENOTDIR EISDIR EINVAL ENFILE EMFILE ENOTTY ETXTBSY EFBIG ENOSPC ESPIPE EROFS EMLINK EPIPE EDOM \
    ERANGE EDEADLK ENAMETOOLONG ENOLCK ENOSYS ENOTEMPTY ELOOP - ENOMSG EIDRM ECHRNG EL2NSYNC EL3HLT EL3RST ELNRNG \
    EUNATCH ENOCSI EL2HLT EBADE EBADR EXFULL ENOANO EBADRQC EBADSLT - EBFONT ENOSTR ENODATA ETIME ENOSR ENONET \
    ENOPKG EREMOTE ENOLINK EADV ESRMNT ECOMM EPROTO EMULTIHOP EDOTDOT EBADMSG EOVERFLOW ENOTUNIQ EBADFD EREMCHG \
    ELIBACC ELIBBAD ELIBSCN ELIBMAX ELIBEXEC EILSEQ ERESTART ESTRPIPE EUSERS ENOTSOCK EDESTADDRREQ EMSGSIZE \
    EPROTOTYPE ENOPROTOOPT EPROTONOSUPPORT ESOCKTNOSUPPORT EOPNOTSUPP EPFNOSUPPORT EAFNOSUPPORT EADDRINUSE \
    EADDRNOTAVAIL ENETDOWN ENETUNREACH ENETRESET ECONNABORTED ECONNRESET ENOBUFS EISCONN ENOTCONN ESHUTDOWN \
    ETOOMANYREFS ETIMEDOUT ECONNREFUSED EHOSTDOWN EHOSTUNREACH EALREADY EINPROGRESS ESTALE EUCLEAN ENOTNAM ENAVAIL \
    EISNAM EREMOTEIO EDQUOT ENOMEDIUM EMEDIUMTYPE ECANCELED ENOKEY EKEYEXPIRED EKEYREVOKED EKEYREJECTED EOWNERDEAD \
    ENOTRECOVERABLE ERFKILL EHWPOISON";

/// The kernel's own, which tracers see and programs never do: of a call that a signal has interrupted, of an ioctl that
/// nobody knows.
const INTERNAL_ERRORS: [(&str, i64); 5] = [
    ("ERESTARTSYS", 512),
    ("ERESTARTNOINTR", 513),
    ("ERESTARTNOHAND", 514),
    ("ENOIOCTLCMD", 515),
    ("ERESTART_RESTARTBLOCK", 516),
];

/// From 1 on.
const SIGNAL_NAMES: &str = "\
    SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV SIGUSR2 SIGPIPE SIGALRM \
    SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF \
    SIGWINCH SIGIO SIGPWR SIGSYS";

static ERRORS: LazyLock<Names> =
    LazyLock::new(|| numbered(ERROR_NAMES).chain(INTERNAL_ERRORS).collect());
static SIGNALS: LazyLock<Names> = LazyLock::new(|| numbered(SIGNAL_NAMES).collect());

fn numbered(names: &'static str) -> impl Iterator<Item = (&'static str, i64)> {
    names.split_ascii_whitespace().zip(1..).filter(|(name, _)| *name != "-")
}

/// All errors: `ENOENT` is 2.
pub fn errors() -> &'static [(&'static str, i64)] {
    &ERRORS
}

/// All signals but those of real time: `SIGKILL` is 9.
pub fn signals() -> &'static [(&'static str, i64)] {
    &SIGNALS
}

/// The name of an error: `ENOENT`, or `error 999` of one that has none.
pub(crate) fn error_name(number: u64) -> String {
    name_of(&ERRORS, number).map_or_else(|| format!("error {number}"), str::to_string)
}

/// The name of a signal: `SIGKILL`.
pub fn signal_name(number: i32) -> Option<&'static str> {
    name_of(&SIGNALS, number)
}

fn name_of(names: &Names, number: impl TryInto<i64>) -> Option<&'static str> {
    let number = number.try_into().ok()?;
    let place = names.binary_search_by_key(&number, |(_, number)| *number).ok()?;
    Some(names[place].0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_has_its_name() {
        let errors = [(1, "EPERM"), (40, "ELOOP"), (42, "ENOMSG"), (57, "EBADSLT"), (59, "EBFONT")];
        let more = [(110, "ETIMEDOUT"), (133, "EHWPOISON"), (515, "ENOIOCTLCMD")];
        for (number, name) in errors.into_iter().chain(more) {
            assert_eq!(error_name(number), name);
        }
        for number in [0, 41, 58, 134, 511, 517, u64::MAX] {
            assert_eq!(error_name(number), format!("error {number}"));
        }
        assert_eq!((super::errors().len(), signals().len()), (136, 31));
        assert_eq!([9, 16, 31].map(signal_name), ["SIGKILL", "SIGSTKFLT", "SIGSYS"].map(Some));
        assert_eq!([0, -1, 32].map(signal_name), [None; 3]);
        assert!(super::errors().is_sorted_by_key(|(_, number)| *number));
    }
}
