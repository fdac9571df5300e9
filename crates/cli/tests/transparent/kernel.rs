//! `weigh doctor kernel`: on a machine that has its kernel's image the analysis of it, held to what
//! that kernel itself says; elsewhere what is missing.
//!
//! In the virtual machine (tests/vm) the image is always there, and `WEIGH_TEST_KERNEL_IMAGE` says so.

use std::collections::HashSet;
use std::fs;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::run::Scratch;
use crate::support::{is_root, weigh_binary, weigh_for_everybody};
use serde_json::Value;

const TRACING: &str = "/sys/kernel/tracing";
const NOBODY: u32 = 65534;

fn doctor(arguments: &[&str]) -> Output {
    let mut command = Command::new(weigh_binary());
    command.args(["doctor", "kernel"]).args(arguments).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn analysis(output: &Output) -> Value {
    assert!(output.status.success(), "{}", said(output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// The running kernel's image, where Debian has it. In the virtual machine it has to be there.
fn image() -> Option<PathBuf> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").expect("it says so");
    let image = PathBuf::from(format!("/boot/vmlinuz-{}", release.trim()));
    let is_promised = std::env::var_os("WEIGH_TEST_KERNEL_IMAGE").is_some();
    assert!(image.exists() || !is_promised, "there is no {}", image.display());
    image.exists().then_some(image)
}

fn probes<'a>(analysis: &'a Value, subsystem: Option<&'a str>) -> Vec<&'a Value> {
    let all = analysis["subsystems"].as_array().expect("a list").iter();
    let wanted = all.filter(|border| subsystem.is_none_or(|name| border["name"] == name));
    wanted.flat_map(|border| border["probes"].as_array().expect("a list")).collect()
}

fn names(analysis: &Value) -> Vec<&str> {
    probes(analysis, None).iter().map(|probe| probe["function"].as_str().expect("a name")).collect()
}

#[test]
fn the_running_kernel_is_analysed_or_what_is_missing_is_said() {
    let output = doctor(&["--json", "--fresh"]);
    let Some(image) = image() else {
        // Elsewhere an image may be in another of its places.
        if !output.status.success() {
            let said = said(&output);
            assert_eq!(output.status.code(), Some(125), "{said}");
            assert!(said.contains("there is no image of the running kernel"), "{said}");
            assert!(said.contains("/boot/vmlinuz-") && said.contains("--image FILE"), "{said}");
        }
        return;
    };
    let found = analysis(&output);
    let id = found["build_id"].as_str().expect("a build id");
    let notes: String = fs::read("/sys/kernel/notes")
        .expect("notes")
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    assert!(id.len() == 40 && notes.contains(id), "{id} is not in {notes}");
    assert_eq!(found["symbols"], if is_root() { "list" } else { "embedded" });
    // What a probe costs is tried out where one can be attached.
    let can_be_probed = is_root() && Path::new("/sys/bus/event_source/devices/kprobe").exists();
    assert_eq!(
        found["probe_cost"].is_object(),
        can_be_probed,
        "{}",
        found["probe_cost_unavailable"]
    );
    assert_eq!(found["probe_cost_unavailable"].is_string(), !can_be_probed);
    if can_be_probed {
        let cost = |key: &str| found["probe_cost"][key].as_f64().expect("seconds");
        assert!(cost("followed_seconds") > 0.0 && cost("others_seconds") > 0.0);
    }
    // `read` is of the VFS, `sendto` of the socket layer.
    assert_eq!((&found["calls"]["0"], &found["calls"]["44"]), (&"vfs".into(), &"socket".into()));

    // What the image itself holds gives the same, wherever the running kernel lies.
    let by_image = analysis(&doctor(&["--json", "--image", &image.display().to_string()]));
    assert_eq!(by_image["symbols"], "embedded");
    assert_eq!(names(&by_image), names(&found));
    assert_eq!(by_image["code"], found["code"]);
    assert_eq!(by_image["reached"], found["reached"]);
}

#[test]
fn what_is_said_to_be_allowed_is_offered_by_the_kernel() {
    let offered = format!("{TRACING}/available_filter_functions");
    let (Some(image), Ok(offered)) = (image(), fs::read_to_string(offered)) else {
        assert!(std::env::var_os("WEIGH_TEST_KERNEL_IMAGE").is_none(), "tracefs is mounted there");
        return;
    };
    let offered: HashSet<&str> =
        offered.lines().filter_map(|line| line.split(' ').next()).collect();
    // The image knows nothing of tracefs: what it says rests on how functions begin, and on BTF.
    let found = analysis(&doctor(&["--json", "--image", &image.display().to_string()]));
    let fentry = probes(&found, None).into_iter().filter(|probe| probe["allowed"] == "fentry");
    let names: Vec<&str> =
        fentry.map(|probe| probe["function"].as_str().expect("a name")).collect();
    assert!(names.len() > 2000, "{}", names.len());
    let refused: Vec<_> = names.iter().filter(|name| !offered.contains(**name)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}

#[test]
fn a_call_that_crosses_a_border_meets_its_probes() {
    let events = Path::new(TRACING).join("kprobe_events");
    if image().is_none() || !is_root() || !events.exists() {
        assert!(std::env::var_os("WEIGH_TEST_KERNEL_IMAGE").is_none(), "the kernel has kprobes");
        return;
    }
    let found = analysis(&doctor(&["--json", "--calls", "fsync"]));
    assert_eq!(found["wanted"], serde_json::json!(["fsync"]));
    let journal = probes(&found, Some("journal"));
    let mut list = fs::OpenOptions::new().append(true).open(&events).expect("kprobes");
    for (number, probe) in journal.iter().enumerate() {
        let function = probe["function"].as_str().expect("a name");
        list.write_all(format!("p:weigh/j{number} {function}\n").as_bytes()).expect(function);
    }
    drop(list);
    let enable = Path::new(TRACING).join("events/weigh/enable");
    fs::write(&enable, "1").expect("enabled");
    // On the root file system, which is ext4 with a journal.
    let place = Path::new("/root/synced");
    let file = fs::File::create(place).and_then(|mut file| {
        file.write_all(b"something")?;
        file.sync_all()
    });
    file.expect("it is written");
    let profile = fs::read_to_string(Path::new(TRACING).join("kprobe_profile")).expect("counts");
    fs::write(&enable, "0").expect("disabled");
    let mut list = fs::OpenOptions::new().append(true).open(&events).expect("kprobes");
    for number in 0..journal.len() {
        list.write_all(format!("-:weigh/j{number}\n").as_bytes()).expect("it is taken away");
    }
    let hits = |name: &str| {
        let number = journal.iter().position(|probe| probe["function"] == name)?;
        let event = format!("j{number}");
        let mut lines = profile.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        let line = lines.find(|fields| fields.first() == Some(&event.as_str()))?;
        line.get(1)?.parse::<u64>().ok()
    };
    // How ext4's fsync waits for the journal, since 2.6.
    let committed = ["jbd2_complete_transaction", "jbd2_log_wait_commit", "jbd2_log_start_commit"];
    let total: u64 = committed.iter().filter_map(|name| hits(name)).sum();
    assert!(total > 0, "{profile}");
}

#[test]
fn an_analysis_is_kept_and_a_damaged_one_made_again() {
    if image().is_none() || !is_root() {
        return;
    }
    let scratch = Scratch::new();
    let cache = scratch.path("cache");
    fs::create_dir_all(&cache).expect("a folder");
    std::os::unix::fs::chown(&cache, Some(NOBODY), Some(NOBODY)).expect("it is his");
    let weigh = weigh_for_everybody();
    let as_nobody = || {
        let mut command = Command::new(&weigh);
        command.args(["doctor", "kernel", "--json"]).env("XDG_CACHE_HOME", &cache);
        command.uid(NOBODY).gid(NOBODY).output().expect("it runs")
    };
    let first = as_nobody();
    // The kernel shows no addresses to him: the image has them.
    assert_eq!(analysis(&first)["symbols"], "embedded");
    let kept: Vec<PathBuf> = fs::read_dir(cache.join("weigh/kernel"))
        .expect("it is kept")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(kept.len(), 1, "{kept:?}");
    let content = fs::read(&kept[0]).expect("it can be read");
    let again = as_nobody();
    assert_eq!(again.stdout, first.stdout);
    assert!(said(&again).is_empty(), "{}", said(&again));
    assert_eq!(fs::read(&kept[0]).expect("it can be read"), content);

    let mut damaged = content.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&kept[0], &damaged).expect("it is written");
    let after = as_nobody();
    assert_eq!(after.stdout, first.stdout);
    assert!(said(&after).contains("its content is not what was written"), "{}", said(&after));
    assert_eq!(fs::read(&kept[0]).expect("it can be read"), content, "it is whole again");
}

#[test]
fn a_wrong_name_is_said_before_a_missing_image_with_what_is_like_it() {
    let refused = |arguments: &[&str], wrong: &str, near: &str| {
        let output = Command::new(weigh_binary()).args(arguments).output().expect("weigh starts");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {said}");
        let expected = format!("this kernel has no {wrong}; did you mean ");
        let names = said.split_once(&expected).map(|(_, names)| names.trim_end_matches("?\n"));
        let is_named = names.is_some_and(|names| names.split(" or ").any(|name| name == near));
        assert!(is_named, "{arguments:?}: {said}");
        assert!(!said.contains("image") && output.stdout.is_empty(), "{arguments:?}: {said}");
    };
    let part = "part \"vsf\"";
    refused(&["doctor", "kernel", "--parts", "vsf"], part, "vfs");
    refused(&["doctor", "kernel", "--parts", "vsf", "--image", "/nowhere/vmlinuz"], part, "vfs");
    let symbols = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    if !symbols.contains(" __x64_sys_read\n") {
        return crate::support::leave_out("names of calls: the kernel does not name its functions");
    }
    let call = "system call \"raed\"";
    refused(&["doctor", "kernel", "--calls", "raed"], call, "read");
    refused(&["calls", "--functions", "--reached-by", "raed", "--", "true"], call, "read");
}

#[test]
fn what_is_no_image_is_refused_with_its_name() {
    let scratch = Scratch::new();
    let path = scratch.path("vmlinuz").display().to_string();
    fs::write(&path, "MZ, but nothing else").expect("it is written");
    for (arguments, parts) in [
        (vec!["--image", &path], vec![path.as_str(), "neither an ELF file nor an x86 boot image"]),
        (vec!["--image", "/nowhere/vmlinuz"], vec!["/nowhere/vmlinuz", "No such file"]),
        (vec!["--symbols", &path], vec!["--image <FILE>"]),
    ] {
        let output = doctor(&arguments);
        assert_eq!(output.status.code(), Some(125), "{arguments:?}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
        for part in parts {
            assert!(said(&output).contains(part), "{arguments:?}: {}", said(&output));
        }
    }
}
