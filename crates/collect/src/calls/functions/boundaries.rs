//! The functions at the borders of parts: as the analysis of the kernel's image chose them, or those
//! that weigh knows by itself, by which calls enter the VFS and the socket layer, for which no kernel
//! has tracepoints.
//!
//! The latter are chosen so that a call passes few of them: where a system call's own code hands it on. Names are
//! those of Linux 6.1 and later; what a kernel lacks, or has built into its callers, is named.

use std::collections::BTreeMap;

use weigh_schema::call::ChosenBy;

/// Parts, and what has to be probed for them.
#[derive(Clone, Debug, Default)]
pub struct PartBoundaries {
    /// By whom the functions were chosen.
    pub chosen_by: ChosenBy,
    /// Why not by the analysis.
    pub why: Option<String>,
    /// The parts, those first whose time is known by nothing else.
    pub parts: Vec<Border>,
    /// By the number of a system call, the part that its own code is of.
    pub calls: BTreeMap<u32, String>,
}

/// The border of a part.
#[derive(Clone, Debug, Default)]
pub struct Border {
    /// The part.
    pub part: String,
    /// Its functions, the most important ones first.
    pub functions: Vec<BorderFunction>,
    /// How many more there are that the kernel lets nobody probe.
    pub forbidden: usize,
}

/// A function at a border.
#[derive(Clone, Debug)]
pub struct BorderFunction {
    /// Its name.
    pub name: String,
    /// Whether ftrace has a place at its beginning.
    pub is_traceable: bool,
}

impl PartBoundaries {
    /// The parts of which weigh knows some by itself.
    pub fn listed() -> impl Iterator<Item = &'static str> {
        BORDERS.iter().map(|(part, _)| *part)
    }

    /// What weigh knows by itself, of these parts; and why nothing better is known.
    pub fn of_list(is_wanted: &dyn Fn(&str) -> bool, why: String) -> PartBoundaries {
        let border = |(part, functions): &(&str, &[&str])| Border {
            part: (*part).to_string(),
            functions: functions
                .iter()
                .map(|name| BorderFunction { name: (*name).to_string(), is_traceable: true })
                .collect(),
            forbidden: 0,
        };
        let wanted = BORDERS.iter().filter(|(part, _)| is_wanted(part));
        PartBoundaries {
            chosen_by: ChosenBy::List,
            why: Some(why),
            parts: wanted.map(border).collect(),
            calls: BTreeMap::new(),
        }
    }
}

/// Parts, and the functions at their border. A built-in part gets its time by them.
const BORDERS: &[(&str, &[&str])] = &[
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
