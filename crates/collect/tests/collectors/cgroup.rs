//! A control group of the job's own (root, and a memory controller).

use std::time::Instant;

use weigh_collect::cgroup::{self, CgroupError, JobCgroup};

const FILL: &str = r#"
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv) {
    size_t n = atol(argv[1]);
    char *p = malloc(n);
    memset(p, 1, n);
    return p[n / 2] - 1;
}
"#;

fn create(id: &str) -> Option<JobCgroup> {
    match JobCgroup::create(&format!("{id}-{}", std::process::id())) {
        Ok(group) => Some(group),
        Err(error) => {
            crate::common::left_out::leave_out(&format!("{error}"));
            assert!(!error.to_string().is_empty());
            None
        }
    }
}

#[test]
fn the_peak_is_the_job_s() {
    let Some(group) = create("peak") else { return };
    let folder = tempfile::tempdir().unwrap();
    let program = crate::common::compile(folder.path(), "fill", FILL, &["-static"]);
    let mut child = crate::common::stopped(&format!("{} 57000000", program.display()));
    group.add(child.id()).unwrap();
    crate::common::resume(child.id());
    assert!(child.wait().unwrap().success());
    let peak = group.peak_bytes().unwrap();
    assert!((57_000_000..62_000_000).contains(&peak), "{peak}");
    let path = group.path().to_owned();
    group.remove().unwrap();
    assert!(!path.exists());
}

#[test]
fn a_group_in_use_is_left_and_said_to_be() {
    let Some(group) = create("used") else { return };
    let mut child =
        crate::common::Reaper(std::process::Command::new("sleep").arg("20").spawn().unwrap());
    group.add(child.0.id()).unwrap();
    let path = group.path().to_owned();
    let begun = Instant::now();
    let error = group.remove().unwrap_err();
    assert!(begun.elapsed().as_millis() < 200);
    assert!(matches!(error, CgroupError::StillUsed { processes: 1, .. }), "{error}");
    assert!(cgroup::status(Err(&error)).reason.unwrap().contains("left behind"));
    assert!(path.exists());
    child.0.kill().unwrap();
    child.0.wait().unwrap();
    crate::common::wait_until("it can be removed", || std::fs::remove_dir(&path).is_ok());
}

#[test]
fn errors_name_what_was_tried() {
    let Some(group) = create("errors") else { return };
    let error = group.add(u32::MAX / 2).unwrap_err().to_string();
    assert!(error.contains("cgroup.procs"), "{error}");
    drop(group);
}

#[test]
#[ignore = "a measurement"]
fn what_it_costs() {
    for _ in 0..20 {
        let Some(group) = create("cost") else { return };
        drop(group);
        let mut child = crate::common::stopped("/bin/true");
        let begun = Instant::now();
        let group = create("cost").unwrap();
        let created = begun.elapsed();
        group.add(child.id()).unwrap();
        let added = begun.elapsed() - created;
        crate::common::resume(child.id());
        child.wait().unwrap();
        let begun = Instant::now();
        let _ = group.peak_bytes().unwrap();
        group.remove().unwrap();
        println!("create {created:?}, add {added:?}, peak and remove {:?}", begun.elapsed());
    }
}
