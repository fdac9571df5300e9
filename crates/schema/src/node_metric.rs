//! The metrics of the node: what collectors of the whole machine emit. They are no part of a job's summary, but for those
//! of [`METRICS`](crate::METRICS) that begin with `node_` (pressure).
//!
//! Each is a static under its own name: `weigh_schema::node_metric::node_forks_total`.

use crate::metric::{self, Formula, Group, Metric, MetricKind, MetricScope};
use crate::unit::Unit;

/// The metric of that name: of the summary or of the node.
pub fn metric(name: &str) -> Option<&'static Metric> {
    metric::metric(name).or_else(|| NODE_METRICS.iter().copied().find(|m| m.name == name))
}

macro_rules! node_metrics {
    ($( $name:ident : $kind:ident $unit:ident in $group:ident of $scope:ident; help $help:literal counts $counts:literal )+) => {
        $(
            #[doc = $help]
            #[allow(non_upper_case_globals)]
            pub static $name: Metric = Metric {
                name: stringify!($name),
                unit: Unit::$unit,
                kind: MetricKind::$kind,
                scope: MetricScope::$scope,
                group: Group::$group,
                help: $help,
                counts: $counts,
                formula: Formula::NotMeasured("it is a metric of the node, in no job's summary"),
                series: None,
            };
        )+

        /// Every metric of the node, in the order in which it is shown.
        pub static NODE_METRICS: &[&Metric] = &[$( &$name, )+];
    };
}

node_metrics! {
    node_cpu_user_seconds_total: Counter Seconds in Cpu of Core;
        help "time in programs"
        counts "Time of the CPU in user mode at usual priority, guests included. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_nice_seconds_total: Counter Seconds in Cpu of Core;
        help "time in programs of low priority"
        counts "Time of the CPU in user mode with a positive nice value, guests included. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_system_seconds_total: Counter Seconds in Cpu of Core;
        help "time in the kernel"
        counts "Time of the CPU in the kernel, interrupts excluded. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_idle_seconds_total: Counter Seconds in Cpu of Core;
        help "time without work"
        counts "Time for which the CPU had nothing to do. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_iowait_seconds_total: Counter Seconds in Cpu of Core;
        help "time without work while I/O was outstanding"
        counts "Time for which the CPU had nothing to do while a thread that last ran on it waited for I/O. The kernel itself calls it unreliable, and it may even fall: `estimated`. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_irq_seconds_total: Counter Seconds in Cpu of Core;
        help "time in interrupts"
        counts "Time of the CPU in hardware interrupts. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_softirq_seconds_total: Counter Seconds in Cpu of Core;
        help "time in software interrupts"
        counts "Time of the CPU in software interrupts. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_steal_seconds_total: Counter Seconds in Cpu of Core;
        help "time that the host kept"
        counts "Time for which the host of this virtual machine ran something else while this CPU wanted to run. `exact` as far as the host says so. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_guest_seconds_total: Counter Seconds in Cpu of Core;
        help "time in guests"
        counts "Time of the CPU in virtual machines of this node; it is in `node_cpu_user_seconds_total` as well. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."
    node_cpu_guest_nice_seconds_total: Counter Seconds in Cpu of Core;
        help "time in guests of low priority"
        counts "As `node_cpu_guest_seconds_total`; it is in `node_cpu_nice_seconds_total` as well. Read from `/proc/stat`, in ticks of 10 ms; since boot. Where the kernel accounts by ticks (most do) the split between states is what each timer tick meets: `sampled`."

    node_interrupts_total: Counter Count in Cpu of Node;
        help "hardware interrupts"
        counts "All hardware interrupts since boot (`intr` in `/proc/stat`)."
    node_softirqs_total: Counter Count in Cpu of Node;
        help "software interrupts"
        counts "All software interrupts since boot (`softirq` in `/proc/stat`)."
    node_context_switches_total: Counter Count in Scheduler of Node;
        help "switches between threads"
        counts "Switches between threads on all CPUs since boot (`ctxt` in `/proc/stat`)."
    node_forks_total: Counter Count in Processes of Node;
        help "processes and threads made"
        counts "Forks and clones since boot, threads included (`processes` in `/proc/stat`)."
    node_threads_running: Gauge Count in Processes of Node;
        help "threads that run or could run"
        counts "Threads that run or are ready to run at this moment (`procs_running` in `/proc/stat`)."
    node_threads_blocked: Gauge Count in Processes of Node;
        help "threads that wait for I/O"
        counts "Threads that wait for block I/O at this moment (`procs_blocked` in `/proc/stat`)."
    node_load_1m_threads: Gauge Threads in Cpu of Node;
        help "load of 1 minute"
        counts "Threads that run, could run or wait uninterruptibly, as an average that forgets over 1 min (`/proc/loadavg`). The kernel looks every 5 s: `sampled`."
    node_load_5m_threads: Gauge Threads in Cpu of Node;
        help "load of 5 minutes"
        counts "Threads that run, could run or wait uninterruptibly, as an average that forgets over 5 min (`/proc/loadavg`). The kernel looks every 5 s: `sampled`."
    node_load_15m_threads: Gauge Threads in Cpu of Node;
        help "load of 15 minutes"
        counts "Threads that run, could run or wait uninterruptibly, as an average that forgets over 15 min (`/proc/loadavg`). The kernel looks every 5 s: `sampled`."
    node_threads: Gauge Count in Processes of Node;
        help "threads"
        counts "Threads of all processes and of the kernel at this moment (`/proc/loadavg`)."
    node_uptime_seconds: Gauge Seconds in Processes of Node;
        help "time since the machine was started"
        counts "Time since the machine was started, sleep included (CLOCK_BOOTTIME, as `/proc/uptime` has it; in a time namespace with its offset)."
    node_processes: Gauge Count in Processes of Node;
        help "processes"
        counts "Processes at this moment, those of the kernel and zombies included, as the number of links of `/proc` has them."
    node_files_open: Gauge Count in Files of Node;
        help "open files"
        counts "Open files of all processes, by the kernel's own table; one that several descriptors share counts once (`/proc/sys/fs/file-nr`). The kernel sums it over CPUs in batches: `estimated`."
    node_files_open_limit: Gauge Count in Files of Node;
        help "open files that the kernel allows"
        counts "The greatest number of open files (`fs.file-max`)."
    node_memory_total_bytes: Gauge Bytes in Memory of Node;
        help "memory"
        counts "Memory that the kernel manages; firmware and its own image are not in it (`MemTotal` in `/proc/meminfo`)."
    node_memory_free_bytes: Gauge Bytes in Memory of Node;
        help "memory that nothing uses"
        counts "Memory that nothing uses, not even as cache (`MemFree` in `/proc/meminfo`)."
    node_memory_used_bytes: Gauge Bytes in Memory of Node;
        help "memory that programs could not have"
        counts "`node_memory_total_bytes` without `node_memory_available_bytes`: as far as that is an estimate of the kernel, `estimated`."
    node_memory_available_bytes: Gauge Bytes in Memory of Node;
        help "memory that programs could have without swap"
        counts "The kernel's estimate of what new programs could have without swapping: free memory, and most of the caches (`MemAvailable` in `/proc/meminfo`). `estimated`, by the kernel."
    node_memory_buffers_bytes: Gauge Bytes in Memory of Node;
        help "cache of block devices"
        counts "Page cache of block devices (`Buffers` in `/proc/meminfo`)."
    node_memory_cached_bytes: Gauge Bytes in Memory of Node;
        help "page cache"
        counts "Page cache of files, shared memory and tmpfs included (`Cached` in `/proc/meminfo`)."
    node_memory_active_bytes: Gauge Bytes in Memory of Node;
        help "memory used lately"
        counts "Pages used lately (`Active` in `/proc/meminfo`)."
    node_memory_inactive_bytes: Gauge Bytes in Memory of Node;
        help "memory not used lately"
        counts "Pages not used lately (`Inactive` in `/proc/meminfo`)."
    node_memory_unevictable_bytes: Gauge Bytes in Memory of Node;
        help "memory that cannot be reclaimed"
        counts "Pages that cannot be reclaimed (`Unevictable` in `/proc/meminfo`)."
    node_memory_locked_bytes: Gauge Bytes in Memory of Node;
        help "memory locked by programs"
        counts "Pages locked by mlock(2) (`Mlocked` in `/proc/meminfo`)."
    node_memory_dirty_bytes: Gauge Bytes in Memory of Node;
        help "memory to be written to storage"
        counts "Pages to be written to storage (`Dirty` in `/proc/meminfo`)."
    node_memory_writeback_bytes: Gauge Bytes in Memory of Node;
        help "memory being written to storage"
        counts "Pages being written to storage (`Writeback` in `/proc/meminfo`)."
    node_memory_anonymous_bytes: Gauge Bytes in Memory of Node;
        help "memory of programs that is no file"
        counts "Anonymous pages mapped by programs (`AnonPages` in `/proc/meminfo`)."
    node_memory_mapped_bytes: Gauge Bytes in Memory of Node;
        help "files mapped by programs"
        counts "Pages of files that programs have mapped (`Mapped` in `/proc/meminfo`)."
    node_memory_shared_bytes: Gauge Bytes in Memory of Node;
        help "shared memory and tmpfs"
        counts "Shared memory and tmpfs (`Shmem` in `/proc/meminfo`)."
    node_memory_slab_bytes: Gauge Bytes in Memory of Node;
        help "kernel objects"
        counts "Memory of the kernel's objects (`Slab` in `/proc/meminfo`)."
    node_memory_slab_reclaimable_bytes: Gauge Bytes in Memory of Node;
        help "kernel objects that can be reclaimed"
        counts "Memory of the kernel's objects that can be reclaimed, such as caches of names (`SReclaimable` in `/proc/meminfo`)."
    node_memory_slab_unreclaimable_bytes: Gauge Bytes in Memory of Node;
        help "kernel objects that cannot be reclaimed"
        counts "Memory of the kernel's objects that cannot be reclaimed (`SUnreclaim` in `/proc/meminfo`)."
    node_memory_kernel_stack_bytes: Gauge Bytes in Memory of Node;
        help "stacks in the kernel"
        counts "Kernel stacks of all threads (`KernelStack` in `/proc/meminfo`)."
    node_memory_page_tables_bytes: Gauge Bytes in Memory of Node;
        help "page tables"
        counts "Page tables of user memory (`PageTables` in `/proc/meminfo`)."
    node_memory_percpu_bytes: Gauge Bytes in Memory of Node;
        help "memory per CPU"
        counts "Memory that the kernel keeps for each CPU (`Percpu` in `/proc/meminfo`)."
    node_memory_committed_bytes: Gauge Bytes in Memory of Node;
        help "memory promised to programs"
        counts "Memory that programs may come to use: the worst case (`Committed_AS` in `/proc/meminfo`)."
    node_memory_commit_limit_bytes: Gauge Bytes in Memory of Node;
        help "memory that may be promised"
        counts "The limit of `node_memory_committed_bytes`, where overcommit is strict (`CommitLimit` in `/proc/meminfo`)."
    node_memory_huge_anonymous_bytes: Gauge Bytes in Memory of Node;
        help "transparent huge pages"
        counts "Anonymous memory in transparent huge pages (`AnonHugePages` in `/proc/meminfo`)."
    node_memory_hugetlb_bytes: Gauge Bytes in Memory of Node;
        help "huge pages set aside"
        counts "Memory set aside as huge pages of all sizes (`Hugetlb` in `/proc/meminfo`)."
    node_memory_corrupted_bytes: Gauge Bytes in Memory of Node;
        help "memory taken out of use"
        counts "Memory that the hardware reported as faulty (`HardwareCorrupted` in `/proc/meminfo`)."
    node_swap_total_bytes: Gauge Bytes in Memory of Node;
        help "swap"
        counts "Swap space (`SwapTotal` in `/proc/meminfo`)."
    node_swap_free_bytes: Gauge Bytes in Memory of Node;
        help "swap that nothing uses"
        counts "Swap space that nothing uses (`SwapFree`)."
    node_swap_cached_bytes: Gauge Bytes in Memory of Node;
        help "memory that is in swap as well"
        counts "Memory that was swapped in and still is in swap as well (`SwapCached`)."
    node_swap_in_pages_total: Counter Count in Memory of Node;
        help "pages read from swap"
        counts "Pages read from swap since boot (`pswpin` in `/proc/vmstat`)."
    node_swap_out_pages_total: Counter Count in Memory of Node;
        help "pages written to swap"
        counts "Pages written to swap since boot (`pswpout` in `/proc/vmstat`)."
    node_page_faults_total: Counter Count in Scheduler of Node;
        help "page faults"
        counts "Page faults since boot, minor and major (`pgfault` in `/proc/vmstat`)."
    node_page_faults_major_total: Counter Count in Scheduler of Node;
        help "page faults with I/O"
        counts "Page faults with I/O since boot (`pgmajfault` in `/proc/vmstat`)."
    node_memory_reclaim_scans_direct_total: Counter Count in Memory of Node;
        help "pages looked at by reclaim in programs"
        counts "Pages that threads looked at which had to free memory before they got any, since boot (`pgscan_direct` in `/proc/vmstat`)."
    node_memory_reclaim_scans_background_total: Counter Count in Memory of Node;
        help "pages looked at by reclaim in the background"
        counts "Pages that the kernel's own thread looked at to free memory, since boot (`pgscan_kswapd` in `/proc/vmstat`)."
    node_memory_reclaimed_pages_direct_total: Counter Count in Memory of Node;
        help "pages reclaimed by programs"
        counts "Pages that threads freed which had to, before they got memory, since boot (`pgsteal_direct` in `/proc/vmstat`)."
    node_memory_reclaimed_pages_background_total: Counter Count in Memory of Node;
        help "pages reclaimed in the background"
        counts "Pages that the kernel's own thread freed, since boot (`pgsteal_kswapd` in `/proc/vmstat`)."
    node_oom_kills_total: Counter Count in Memory of Node;
        help "processes killed for lack of memory"
        counts "Processes that the kernel killed since boot because memory ran out, for the machine or for a control group (`oom_kill` in `/proc/vmstat`)."

    node_disk_read_bytes_total: Counter Bytes in Storage of Disk;
        help "bytes read"
        counts "Sectors of 512 bytes read by completed requests. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_written_bytes_total: Counter Bytes in Storage of Disk;
        help "bytes written"
        counts "Sectors of 512 bytes written by completed requests. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_reads_total: Counter Count in Storage of Disk;
        help "reads"
        counts "Completed read requests. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_writes_total: Counter Count in Storage of Disk;
        help "writes"
        counts "Completed write requests. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_read_seconds_total: Counter Seconds in Storage of Disk;
        help "time of reads"
        counts "Time from submission to completion, summed over read requests, in milliseconds of each. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_write_seconds_total: Counter Seconds in Storage of Disk;
        help "time of writes"
        counts "Time from submission to completion, summed over write requests. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_busy_seconds_total: Counter Seconds in Storage of Disk;
        help "time with requests outstanding"
        counts "Time for which at least one request was outstanding. The kernel takes it in whole ticks from 5.0 on: `estimated`. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_queue_seconds_total: Counter Seconds in Storage of Disk;
        help "time times outstanding requests"
        counts "Time, weighted by the number of requests outstanding; its growth in a second is the mean length of the queue. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_discarded_bytes_total: Counter Bytes in Storage of Disk;
        help "bytes discarded"
        counts "Sectors of 512 bytes told to the device to be free. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_flushes_total: Counter Count in Storage of Disk;
        help "flushes"
        counts "Completed flushes of the device's cache. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_flush_seconds_total: Counter Seconds in Storage of Disk;
        help "time of flushes"
        counts "Time of flushes of the device's cache. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."
    node_disk_requests_outstanding: Gauge Count in Storage of Disk;
        help "requests outstanding"
        counts "Requests outstanding at this moment. Read from `/proc/diskstats`; since boot or since the disk appeared. Whole disks that have done something, no partitions."

    node_filesystem_total_bytes: Gauge Bytes in Storage of Mount;
        help "size of a file system"
        counts "Size of a file system that lies on a device here, by its mount point, at most each 5 s (statvfs(2): `f_blocks`). File systems of other machines and of programs (FUSE) are left out, for asking them may wait for ever; so are those that nothing can be written to."
    node_filesystem_available_bytes: Gauge Bytes in Storage of Mount;
        help "space that users can have"
        counts "Space of a file system that ordinary users can have; what is reserved for root is not in it (statvfs(2): `f_bavail`)."
    node_filesystem_inodes: Gauge Count in Storage of Mount;
        help "inodes of a file system"
        counts "Inodes that a file system has room for (statvfs(2): `f_files`); unavailable where it makes them as they are needed."
    node_filesystem_inodes_available: Gauge Count in Storage of Mount;
        help "inodes that users can have"
        counts "Inodes of a file system that ordinary users can have (statvfs(2): `f_favail`)."

    node_net_received_bytes_total: Counter Bytes in Network of Interface;
        help "bytes received"
        counts "Bytes received, with headers of the link. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_sent_bytes_total: Counter Bytes in Network of Interface;
        help "bytes sent"
        counts "Bytes sent, with headers of the link. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_received_packets_total: Counter Count in Network of Interface;
        help "packets received"
        counts "Packets received. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_sent_packets_total: Counter Count in Network of Interface;
        help "packets sent"
        counts "Packets sent. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_receive_errors_total: Counter Count in Network of Interface;
        help "faulty packets received"
        counts "Packets that came damaged or otherwise wrong. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_send_errors_total: Counter Count in Network of Interface;
        help "packets that failed to be sent"
        counts "Packets that failed to be sent. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_receive_drops_total: Counter Count in Network of Interface;
        help "packets received and not kept"
        counts "Packets that the kernel had no room or no use for. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."
    node_net_send_drops_total: Counter Count in Network of Interface;
        help "packets not sent for lack of room"
        counts "Packets that were not sent for lack of room. Read from `/proc/net/dev` of weigh's own network namespace; since the interface appeared."

    node_sensor_celsius: Gauge Celsius in Power of Sensor;
        help "temperature"
        counts "Temperature at a sensor (`tempN_input` of `/sys/class/hwmon`), at most once a second. Not run on a real one."
    node_sensor_watts: Gauge Watts in Power of Sensor;
        help "power"
        counts "Power at a sensor (`powerN_input` or `powerN_average` of `/sys/class/hwmon`), at most once a second. Not run on a real one."
    node_sensor_joules_total: Counter Joules in Power of Sensor;
        help "energy"
        counts "Energy at a sensor (`energyN_input` of `/sys/class/hwmon`), at most once a second. Not run on a real one."

    node_power_zone_joules_total: Counter Joules in Power of PowerZone;
        help "energy of the CPUs"
        counts "Energy of a zone (package, cores, memory) by the CPU's own counter (`energy_uj` of `/sys/class/powercap`; root alone may read it), from weigh's start on; where the counter wraps it goes on. The CPU models it: `estimated`. Not run on a real one."

    node_mount_read_bytes_total: Counter Bytes in Storage of Mount;
        help "bytes read from the server"
        counts "Bytes that came from the server, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_written_bytes_total: Counter Bytes in Storage of Mount;
        help "bytes written to the server"
        counts "Bytes that went to the server, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."

    node_mount_operations_total: Counter Count in Storage of Operation;
        help "operations"
        counts "Operations of this kind that have ended, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_seconds_total: Counter Seconds in Storage of Operation;
        help "time of operations"
        counts "Time from request to end, summed over operations of this kind, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_queue_seconds_total: Counter Seconds in Storage of Operation;
        help "time before operations were sent"
        counts "Time for which operations waited before they were sent; NFS alone, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_server_seconds_total: Counter Seconds in Storage of Operation;
        help "time of the server and the network"
        counts "Time from sending to the answer; NFS alone, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_retransmits_total: Counter Count in Storage of Operation;
        help "operations sent again"
        counts "Transmissions beyond the first of each operation; NFS alone, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_timeouts_total: Counter Count in Storage of Operation;
        help "operations without answer in time"
        counts "Operations that the server did not answer in time (major timeouts); NFS alone, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."
    node_mount_operation_errors_total: Counter Count in Storage of Operation;
        help "operations that failed"
        counts "Operations that ended with an error; NFS of kernels from 5.3 on, of an NFS mount from `/proc/self/mountstats`, of Lustre from `/proc/fs/lustre/llite/*/stats`; since the mount. Not run on a real one."

    node_gpu_memory_total_bytes: Gauge Bytes in Gpu of Gpu;
        help "GPU memory"
        counts "Memory of the GPU (NVML)."
    node_gpu_memory_used_bytes: Gauge Bytes in Gpu of Gpu;
        help "GPU memory in use"
        counts "Memory of the GPU that is in use, the driver's own included (NVML)."
    node_gpu_utilization_ratio: Gauge Ratio in Gpu of Gpu;
        help "GPU use"
        counts "Part of the last sample period of NVML (1 s or less) for which a kernel ran on the GPU: `sampled`."
    node_gpu_celsius: Gauge Celsius in Gpu of Gpu;
        help "GPU temperature"
        counts "Temperature of the GPU's die (NVML)."
    node_gpu_watts: Gauge Watts in Gpu of Gpu;
        help "GPU power"
        counts "Power that the GPU draws (NVML): `sampled`."
    node_gpu_joules_total: Counter Joules in Gpu of Gpu;
        help "GPU energy"
        counts "Energy since the driver was loaded (NVML), on GPUs from Volta on."
    node_gpu_engine_seconds_total: Counter Seconds in Gpu of Gpu;
        help "time of the GPU's engines"
        counts "Time for which the engines of a GPU without NVML worked, summed over engines, from weigh's start on, as its driver says for each client (`drm-engine-*` in `fdinfo` of files of `/dev/dri`, which weigh reads each 5 s). Clients that begin and end in between are not in it: `estimated`. Not run on a real one."
    node_gpu_clients: Gauge Count in Gpu of Gpu;
        help "programs that use the GPU"
        counts "Clients that have a GPU without NVML open (`drm-client-id` in `fdinfo`). Not run on a real one."
    node_gpu_resident_bytes: Gauge Bytes in Gpu of Gpu;
        help "memory of the GPU's clients"
        counts "Buffers of all clients that are resident, in the GPU's memory or in the machine's (`drm-resident-*`, or `drm-memory-*` of older drivers, in `fdinfo`); one that several clients share counts for each: `estimated`. Not run on a real one."

    node_group_cpu_seconds_total: Counter Seconds in Cpu of ControlGroup;
        help "CPU time of the group"
        counts "CPU time of all processes that are or were in the group and in those below it (`usage_usec` in `cpu.stat`; version 1: `cpuacct.usage`)."
    node_group_cpu_throttled_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which the group had used up its CPU quota"
        counts "Time for which the group's own quota of CPU kept its threads from running, summed over CPUs (`throttled_usec` in `cpu.stat`; version 1: `throttled_time`). Quotas of groups above and below it are not in it."
    node_group_memory_bytes: Gauge Bytes in Memory of ControlGroup;
        help "memory of the group"
        counts "Memory that is charged to the group and to those below it, page cache and the kernel's included (`memory.current`; version 1: `memory.usage_in_bytes`). The kernel charges in batches: `estimated`."
    node_group_memory_limit_bytes: Gauge Bytes in Memory of ControlGroup;
        help "memory that the group may have"
        counts "The group's own limit (`memory.max`; version 1: `memory.limit_in_bytes`); unavailable where it has none. A group above it may have a lower one."
    node_group_oom_kills_total: Counter Count in Memory of ControlGroup;
        help "processes of the group killed for lack of memory"
        counts "Processes that the kernel killed for lack of memory (`oom_kill` in `memory.events`, groups below it included; version 1: in `memory.oom_control`, of the group itself)."
    node_group_read_bytes_total: Counter Bytes in Storage of ControlGroup;
        help "bytes the group read from devices"
        counts "Bytes read from block devices for the group and those below it (`rbytes` in `io.stat`; version 1: `blkio.throttle.io_service_bytes_recursive`)."
    node_group_written_bytes_total: Counter Bytes in Storage of ControlGroup;
        help "bytes the group wrote to devices"
        counts "Bytes written to block devices for the group and those below it (`wbytes` in `io.stat`; version 1: `blkio.throttle.io_service_bytes_recursive`). Version 1 charges pages that are written later to the root."
    node_group_threads: Gauge Count in Processes of ControlGroup;
        help "threads of the group"
        counts "Threads in the group and in those below it at this moment (`pids.current`)."
    node_group_pressure_cpu_some_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which some thread of the group waited for a CPU"
        counts "Time for which some thread of the group that could have worked waited for a CPU (`total` of `some` in `cpu.pressure`; version 2 alone)."
    node_group_pressure_memory_some_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which some thread of the group waited for memory"
        counts "Time for which some thread of the group that could have worked waited for memory (`total` of `some` in `memory.pressure`; version 2 alone)."
    node_group_pressure_memory_full_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which all threads of the group waited for memory"
        counts "Time for which all threads of the group that could have worked waited for memory (`total` of `full` in `memory.pressure`; version 2 alone)."
    node_group_pressure_io_some_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which some thread of the group waited for I/O"
        counts "Time for which some thread of the group that could have worked waited for I/O (`total` of `some` in `io.pressure`; version 2 alone)."
    node_group_pressure_io_full_seconds_total: Counter Seconds in Waiting of ControlGroup;
        help "time for which all threads of the group waited for I/O"
        counts "Time for which all threads of the group that could have worked waited for I/O (`total` of `full` in `io.pressure`; version 2 alone)."
}

/// What a recording says of its machine just before the command began and just after the job has ended, in the order in
/// which it is shown.
pub static HOST_METRICS: &[&Metric] = &[
    &node_load_1m_threads,
    &node_load_5m_threads,
    &node_load_15m_threads,
    &node_threads_running,
    &node_threads,
    &node_memory_total_bytes,
    &node_memory_free_bytes,
    &node_memory_available_bytes,
    &node_memory_used_bytes,
    &node_swap_total_bytes,
    &node_swap_free_bytes,
    &node_uptime_seconds,
];
