//! The collectors of this crate: what each is for, what it takes, and whether it works here.

use weigh_schema::availability::CollectorInfo;

use crate::{
    calls, cgroup, delays, fanotify, features, follow, footprint, free_space, gpu, hardware, node,
    pages, poll, preload, trace,
};

/// All of them. Each is declared beside its code.
pub const COLLECTORS: &[CollectorInfo] = &[
    follow::PROCESSES,
    preload::INFO,
    poll::INFO,
    features::NETWORK,
    features::IO_URING,
    features::CALLS,
    features::FILES,
    fanotify::INFO,
    hardware::INFO,
    footprint::INFO,
    free_space::INFO,
    cgroup::INFO,
    pages::INFO,
    delays::INFO,
    gpu::INFO,
    calls::INFO,
    trace::INFO,
    node::INFO,
];
