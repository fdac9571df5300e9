//! Borders that weigh knows by itself: functions by which calls enter the VFS and the socket layer,
//! for which no kernel has tracepoints.
//!
//! Chosen so that a call passes few of them: where a system call's own code hands it on. Names are
//! those of Linux 6.1 and later; what a kernel lacks, or has built into its callers, is named.

/// Parts, and the functions at their border. A built-in part gets its time by them.
pub(super) const BORDERS: &[(&str, &[&str])] = &[
    (
        "vfs",
        &[
            "vfs_read",
            "vfs_write",
            "vfs_readv",
            "vfs_writev",
            "vfs_fsync_range",
            "do_sys_openat2",
            "filp_close",
            "vfs_statx",
            "iterate_dir",
            "do_unlinkat",
            "do_renameat2",
            "do_mkdirat",
            "vfs_fallocate",
            "do_sendfile",
        ],
    ),
    (
        "socket",
        &[
            "__sys_sendto",
            "__sys_recvfrom",
            "__sys_sendmsg",
            "__sys_recvmsg",
            "sock_write_iter",
            "sock_read_iter",
            "__sys_connect",
            "__sys_accept4",
            "__sys_socket",
            "__sys_bind",
            "__sys_shutdown",
        ],
    ),
];
