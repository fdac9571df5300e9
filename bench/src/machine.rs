//! Where and when the figures were taken: what a reader needs to judge them.

use std::fs;

use anyhow::{Context, Result};

fn read(path: &str) -> Result<String> {
    fs::read_to_string(path).with_context(|| path.to_string())
}

/// The value of a line `key : value`.
fn field(text: &str, key: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

/// The load averages of 1, 5 and 15 minutes.
pub fn load() -> Result<String> {
    let text = read("/proc/loadavg")?;
    Ok(text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
}

/// Seconds that the hypervisor ran something else while a CPU of this machine had work to do.
pub fn stolen_seconds() -> Result<f64> {
    let text = read("/proc/stat")?;
    let ticks = text.lines().next().and_then(|line| line.split_whitespace().nth(8));
    let ticks: f64 = ticks.context("/proc/stat has no steal")?.parse().context("/proc/stat")?;
    Ok(ticks / rustix::param::clock_ticks_per_second() as f64)
}

/// Its memory.
pub fn memory_bytes() -> Result<u64> {
    let memory = field(&read("/proc/meminfo")?, "MemTotal").unwrap_or_default();
    let kilobytes: u64 = memory.trim_end_matches(" kB").parse().context("/proc/meminfo")?;
    Ok(kilobytes * 1024)
}

/// The machine, one fact a line.
pub fn describe() -> Result<Vec<(&'static str, String)>> {
    let cpu = read("/proc/cpuinfo")?;
    let flags = field(&cpu, "flags").unwrap_or_default();
    let hypervisor = flags.split(' ').any(|flag| flag == "hypervisor");
    let system = rustix::system::uname();
    let cpus = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let model = field(&cpu, "model name").unwrap_or_else(|| "unknown".to_string());
    Ok(vec![
        (
            "CPU",
            format!("{model}, {cpus} CPUs{}", if hypervisor { ", virtual machine" } else { "" }),
        ),
        ("Memory", format!("{:.1} GiB", memory_bytes()? as f64 / (1 << 30) as f64)),
        (
            "Kernel",
            format!(
                "{} {} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy(),
                system.machine().to_string_lossy()
            ),
        ),
    ])
}

/// Processes named `weigh`: while there are any, nothing runs bare.
pub fn weighs_running() -> Result<usize> {
    let mut count = 0;
    for entry in fs::read_dir("/proc").context("/proc")? {
        let name = entry.context("/proc")?.path().join("comm");
        // Not every entry is a process, and processes come and go.
        count += usize::from(fs::read(name).is_ok_and(|name| name == b"weigh\n"));
    }
    Ok(count)
}
