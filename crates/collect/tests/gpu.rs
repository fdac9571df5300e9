//! GPUs through a stand-in for NVML: a library that answers as the real one does.
#![allow(clippy::unwrap_used)]

mod common;

use weigh_collect::gpu::{self, GpuError, GpuSample, Gpus};
use weigh_schema::event::CollectorState;

/// Three GPUs: processes 100 (computing) and 200 (computing and drawing) on the first, 100 on the
/// second, 300 with hidden memory on the third. It asks for a larger buffer first, as NVML does.
const STUB: &str = r#"
#include <stddef.h>
#include <stdint.h>
typedef struct { unsigned pid; unsigned long long used; unsigned gi, ci; } process;
typedef struct { unsigned gpu, memory; } use;
#ifndef INIT
#define INIT 0
#endif
int nvmlInit_v2(void) { return INIT; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *n) { *n = 3; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **d) {
    if (i > 2) return 2;
    *d = (void *)(uintptr_t)(i + 1);
    return 0;
}
static int list(unsigned *n, process *out, const process *rows, unsigned have) {
    unsigned room = *n;
    *n = have;
    if (room < have) return 7;
    for (unsigned i = 0; i < have; i++) out[i] = rows[i];
    return 0;
}
static const unsigned none = 0xffffffffu;
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *out) {
    const process first[] = {{100, 1000, none, none}, {200, 5000, none, none}};
    const process second[] = {{100, 70, none, none}};
    const process third[] = {{300, ~0ull, none, none}};
    switch ((uintptr_t)d) {
    case 1: return list(n, out, first, 2);
    case 2: return list(n, out, second, 1);
    default: return list(n, out, third, 1);
    }
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, process *out) {
    const process first[] = {{200, 5000, none, none}};
    if ((uintptr_t)d == 2) return 3;
    return list(n, out, first, (uintptr_t)d == 1);
}
int nvmlDeviceGetUtilizationRates(void *d, use *u) {
    if ((uintptr_t)d == 3) return 3;
    u->gpu = (uintptr_t)d == 1 ? 90 : 30;
    u->memory = 5;
    return 0;
}
"#;

fn open(arguments: &[&str]) -> Result<Gpus, GpuError> {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&["-shared", "-fPIC"], arguments].concat();
    let library = common::compile(folder.path(), "libnvidia-ml.so.1", STUB, &arguments);
    Gpus::open(Some(&library))
}

#[test]
fn only_the_job_s_processes_count() {
    let gpus = open(&[]).unwrap();
    assert_eq!(gpus.count(), 3);
    let nobody = gpus.sample(&|_| false).unwrap();
    assert_eq!(nobody, GpuSample { memory_bytes: Some(0), ..GpuSample::default() });
    let one = gpus.sample(&|pid| pid == 100).unwrap();
    assert_eq!((one.memory_bytes, one.gpus, one.processes), (Some(1070), 2, 1));
    assert!((one.utilization_ratio.unwrap() - 0.6).abs() < 1e-12);
    let drawing = gpus.sample(&|pid| pid == 200).unwrap();
    assert_eq!(drawing.memory_bytes, Some(5000), "in both lists, held once");
    assert_eq!(drawing.utilization_ratio, Some(0.9));
    let hidden = gpus.sample(&|pid| pid >= 200).unwrap();
    assert_eq!((hidden.memory_bytes, hidden.gpus, hidden.processes), (None, 2, 2));
    let all = gpus.sample(&|_| true).unwrap();
    let expected = [(100, Some(1070)), (200, Some(5000)), (300, None)].into();
    assert_eq!(all.memory_by_process, expected, "on two GPUs, in two lists, hidden");
    assert_eq!(hidden.utilization_ratio, Some(0.9), "of the one that tells");
    assert_eq!(gpu::status(Ok(())).status, CollectorState::Active);
}

#[test]
fn a_driver_that_is_not_loaded_says_so() {
    let error = open(&["-DINIT=9"]).err().unwrap();
    let status = gpu::status(Err(&error));
    assert_eq!(status.status, CollectorState::Unavailable);
    assert!(status.reason.unwrap().contains("driver"), "{error}");
}

#[test]
fn a_missing_library_is_the_loader_s_reason() {
    let missing = std::path::Path::new("/no/such/libnvidia-ml.so.1");
    let error = Gpus::open(Some(missing)).err().unwrap();
    let status = gpu::status(Err(&error));
    assert_eq!(status.status, CollectorState::Unavailable);
    let reason = status.reason.unwrap();
    assert!(reason.contains("/no/such") && reason.contains("No such file"), "{reason}");
}

#[test]
fn this_machine_answers_or_says_why_not() {
    match Gpus::open(None) {
        Ok(gpus) => {
            let own = std::process::id();
            let sample = gpus.sample(&|pid| pid == own).unwrap();
            assert_eq!((sample.memory_bytes, sample.processes), (Some(0), 0));
        }
        Err(error) => assert!(error.to_string().contains(gpu::LIBRARY), "{error}"),
    }
}
