//! What collectors cost, measured in pairs (off, on, off, on, …): `cargo test --release -p
//! weigh-collect --test collectors -- --ignored costs --nocapture --test-threads 1`. Prints figures; holds no
//! bounds, for those depend on the machine.

use std::time::{Duration, Instant};

use weigh_collect::hardware::{HardwareCounters, HardwareEvent};

const PING_PONG: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <unistd.h>
#include <sys/wait.h>
int main(int argc, char **argv) {
    int rounds = atoi(argv[1]), there[2], back[2];
    char c = 0;
    if (pipe(there) || pipe(back)) return 1;
    int child = fork() == 0;
    if (argc > 2) {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(child, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    for (int i = 0; i < rounds; i++) {
        if (child) { if (read(there[0], &c, 1) != 1 || write(back[1], &c, 1) != 1) return 1; }
        else if (write(there[1], &c, 1) != 1 || read(back[0], &c, 1) != 1) return 1;
    }
    if (!child) wait(0);
    return 0;
}
"#;

/// Every switch leads to the idle task and back.
const SLEEPS: &str = r#"
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    struct timespec t = {0, 1000};
    for (int i = atoi(argv[1]); i; i--) nanosleep(&t, 0);
    return 0;
}
"#;

/// 500 short processes.
pub const TRUES: &str = "sh -c 'i=0; while [ $i -lt 500 ]; do /bin/true; i=$((i+1)); done'";

#[derive(Clone, Copy)]
struct Cost {
    wall: Duration,
    cpu: Duration,
}

fn children_cpu() -> Duration {
    // SAFETY: getrusage fills the structure it is given.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    let of = |t: libc::timeval| Duration::from_micros((t.tv_sec * 1_000_000 + t.tv_usec) as u64);
    of(usage.ru_utime) + of(usage.ru_stime)
}

fn timed(script: &str, before: impl FnOnce(u32) -> HardwareCounters) -> Cost {
    let mut child = crate::common::stopped(script);
    let mut counters = before(child.id());
    let (start, cpu) = (Instant::now(), children_cpu());
    crate::common::resume(child.id());
    assert!(child.wait().unwrap().success());
    let cost = Cost { wall: start.elapsed(), cpu: children_cpu() - cpu };
    assert!(counters.read().iter().all(|c| c.as_ref().is_ok_and(|c| c.count > 0)));
    cost
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn report(what: &str, off: &[Cost], on: &[Cost]) {
    let ms = |d: Duration| d.as_secs_f64() * 1e3;
    let of = |costs: &[Cost], part: fn(&Cost) -> Duration| {
        median(costs.iter().map(|c| ms(part(c))).collect())
    };
    let ratios = |part: fn(&Cost) -> Duration| {
        median(off.iter().zip(on).map(|(a, b)| ms(part(b)) / ms(part(a))).collect())
    };
    println!(
        "{what}: wall {:.1} -> {:.1} ms (paired ratio {:.3}), cpu {:.1} -> {:.1} ms ({:.3})",
        of(off, |c| c.wall),
        of(on, |c| c.wall),
        ratios(|c| c.wall),
        of(off, |c| c.cpu),
        of(on, |c| c.cpu),
        ratios(|c| c.cpu),
    );
}

#[test]
#[ignore = "a measurement"]
fn hardware_counters() {
    let folder = tempfile::tempdir().unwrap();
    let ping_pong = crate::common::compile(folder.path(), "ping_pong", PING_PONG, &[]);
    let sleeps = crate::common::compile(folder.path(), "sleeps", SLEEPS, &[]);
    let scripts = [
        ("500 x /bin/true", TRUES.to_owned()),
        ("ping-pong, 2 CPUs", format!("{} 20000 apart", ping_pong.display())),
        ("20000 sleeps", format!("{} 20000", sleeps.display())),
        ("ping-pong, 1 CPU", format!("taskset -c 0 {} 20000", ping_pong.display())),
        ("cpu-bound", "sh -c 'i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done'".to_owned()),
    ];
    for (what, script) in &scripts {
        for events in [HardwareEvent::ALL, &HardwareEvent::ALL[..1]] {
            let (mut off, mut on) = (Vec::new(), Vec::new());
            for _ in 0..11 {
                off.push(timed(script, |pid| HardwareCounters::attach(pid, &[])));
                on.push(timed(script, |pid| HardwareCounters::attach(pid, events)));
            }
            report(&format!("{what}, {} counters", events.len()), &off, &on);
        }
    }
}

/// Opens and closes one file as fast as it can, or several in turn.
const OPENS: &str = r#"
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    for (int i = atoi(argv[1]); i; i--) close(open(argv[2 + i % (argc - 2)], O_RDONLY));
    return 0;
}
"#;

/// What an unmeasured program pays while the opens of the whole machine are followed, drained
/// every 100 ms, none of them wanted.
#[test]
#[ignore = "a measurement"]
fn fanotify_marks() {
    let folder = tempfile::tempdir().unwrap();
    let opens = crate::common::compile(folder.path(), "opens", OPENS, &[]);
    let scripts = [
        ("500 x /bin/true", TRUES.to_owned()),
        ("200000 opens of one file", format!("{} 200000 /etc/passwd", opens.display())),
        (
            "200000 opens of three files in turn",
            format!("{} 200000 /etc/passwd /etc/group /etc/hostname", opens.display()),
        ),
    ];
    for (what, script) in &scripts {
        let (mut off, mut on) = (Vec::new(), Vec::new());
        let mut drain_cpu = Duration::ZERO;
        for _ in 0..11 {
            off.push(timed(script, |pid| HardwareCounters::attach(pid, &[])));
            let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
            let theirs = stop.clone();
            let mut events = weigh_collect::fanotify::OpenEvents::start().unwrap();
            let drainer = std::thread::spawn(move || {
                while !theirs.load(std::sync::atomic::Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(100));
                    events.drain(&mut |_| false).unwrap();
                }
                (rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime), events)
            });
            on.push(timed(script, |pid| HardwareCounters::attach(pid, &[])));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            let (cpu, events) = drainer.join().unwrap();
            drain_cpu += Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32);
            drop(events);
        }
        report(&format!("{what}, drainer used {:?} each", drain_cpu / 11), &off, &on);
    }
}
