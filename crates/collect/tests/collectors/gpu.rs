//! GPUs through a stand-in for NVML, a library that answers as the real one does, and through recorded `fdinfo`.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weigh_collect::gpu::{self, DeviceUse, GpuError, GpuSample, GpuSource, Gpus, JobGpus, JobLook};
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
/* The first GPU has a name and accounts; it is busy for process 100 half of the time. The second one tells nothing of
 * processes, as one that is split into instances. */
typedef struct { char old[16]; unsigned domain, bus, device, id, subsystem; char name[32]; } pci;
int nvmlDeviceGetPciInfo_v3(void *d, pci *p) {
    const char *name = "00000000:0C:00.0";
    if ((uintptr_t)d != 1) return 3;
    for (int i = 0; i < 17; i++) p->name[i] = name[i];
    for (int i = 0; i < 13; i++) p->old[i] = name[i + 4];
    p->bus = 12;
    return 0;
}
int nvmlDeviceGetUUID(void *d, char *uuid, unsigned size) {
    if ((uintptr_t)d != 1 || size < 8) return 3;
    for (int i = 0; i < 8; i++) uuid[i] = "GPU-4711"[i];
    uuid[8] = 0;
    return 0;
}
int nvmlDeviceGetMinorNumber(void *d, unsigned *n) { *n = (uintptr_t)d + 6; return 0; }
int nvmlDeviceGetAccountingMode(void *d, unsigned *on) {
    *on = (uintptr_t)d == 1;
    return 0;
}
typedef struct {
    unsigned gpu, memory; unsigned long long most, time, start; unsigned running, reserved[5];
} account;
int nvmlDeviceGetAccountingStats(void *d, unsigned pid, account *a) {
    if ((uintptr_t)d != 1 || pid != 100) return 6;
    *a = (account){ .gpu = 37, .memory = 1, .most = 1234567, .time = 10007, .start = 1 };
    return 0;
}
typedef struct { unsigned pid; unsigned long long at; unsigned sm, memory, enc, dec; } busy;
int nvmlDeviceGetProcessUtilization(void *d, busy *out, unsigned *n, unsigned long long since) {
    static unsigned long long at = 1000;
    if ((uintptr_t)d != 1) return 3;
    if (!out) { *n = 2; return 7; }
    if (*n < 2) return 7;
    at = (since > at ? since : at) + 1000;
    out[0] = (busy){ 100, at, 50, 1, 0, 0 };
    out[1] = (busy){ 200, at, 4000000000u, 1, 0, 0 };
    *n = 2;
    return 0;
}
"#;

fn open(arguments: &[&str]) -> Result<Gpus, GpuError> {
    let folder = tempfile::tempdir().unwrap();
    let arguments = [&["-shared", "-fPIC"], arguments].concat();
    let library = crate::common::compile(folder.path(), "libnvidia-ml.so.1", STUB, &arguments);
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

/// In the form of Documentation/gpu/drm-usage-stats.rst. i915: the example of proc_pid_fdinfo(5) in the Linux man-pages.
const I915: &str = "pos:\t0\nflags:\t02100002\nmnt_id:\t26\nino:\t284\ndrm-driver:\ti915\ndrm-client-id:\t39\n\
drm-pdev:\t0000:00:02.0\ndrm-total-system0:\t6044 KiB\ndrm-shared-system0:\t0\ndrm-active-system0:\t0\n\
drm-resident-system0:\t6044 KiB\ndrm-purgeable-system0:\t1688 KiB\ndrm-total-stolen-system0:\t0\n\
drm-shared-stolen-system0:\t0\ndrm-active-stolen-system0:\t0\ndrm-resident-stolen-system0:\t0\n\
drm-purgeable-stolen-system0:\t0\ndrm-engine-render:\t346249 ns\ndrm-engine-copy:\t0 ns\n\
drm-engine-video:\t0 ns\ndrm-engine-capacity-video:\t2\ndrm-engine-video-enhance:\t0 ns\n";

/// xe: the example of drivers/gpu/drm/xe/xe_drm_client.c of Linux, with the cycles of the render engine.
fn xe(cycles: u64, total: u64) -> String {
    format!(
        "pos:\t0\nflags:\t0100002\nmnt_id:\t26\nino:\t685\ndrm-driver:\txe\ndrm-client-id:\t3\n\
         drm-pdev:\t0000:03:00.0\ndrm-total-system:\t0\ndrm-resident-system:\t0\ndrm-total-gtt:\t192 KiB\n\
         drm-resident-gtt:\t192 KiB\ndrm-total-vram0:\t23992 KiB\ndrm-shared-vram0:\t16 MiB\n\
         drm-resident-vram0:\t23992 KiB\ndrm-cycles-rcs:\t{cycles}\ndrm-total-cycles-rcs:\t{total}\n\
         drm-cycles-bcs:\t0\ndrm-total-cycles-bcs:\t{total}\ndrm-engine-capacity-vcs:\t2\n"
    )
}

/// amdgpu: in the form that drivers/gpu/drm/amd/amdgpu/amdgpu_fdinfo.c of Linux 6.1 writes.
fn amdgpu(client: u32, engine_ns: u64) -> String {
    format!(
        "pos:\t0\nflags:\t02100002\nmnt_id:\t27\nino:\t1061\npasid:\t32770\ndrm-driver:\tamdgpu\n\
         drm-pdev:\t0000:0c:00.0\ndrm-client-id:\t{client}\ndrm-memory-vram:\t1021 KiB\n\
         drm-memory-gtt: \t3 KiB\ndrm-memory-cpu: \t0 KiB\ndrm-engine-gfx:\t{engine_ns} ns\n\
         drm-engine-compute:\t13 ns\n"
    )
}

/// A machine whose `/proc` and `/sys` are written here.
struct Machine(tempfile::TempDir);

impl Machine {
    /// With GPUs: the number of the render node, its address on the bus.
    fn new(gpus: &[(u32, &str)]) -> Machine {
        let machine = Machine(tempfile::tempdir().unwrap());
        for (number, bus) in gpus {
            let device = machine.path("sys/devices").join(bus);
            std::fs::create_dir_all(&device).unwrap();
            for name in [format!("renderD{number}"), format!("card{}", number - 128)] {
                let node = machine.path("sys/class/drm").join(name);
                std::fs::create_dir_all(&node).unwrap();
                symlink(&device, node.join("device")).unwrap();
            }
        }
        machine
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, nvml: Result<Gpus, GpuError>, runs_already: bool) -> JobGpus {
        JobGpus::under(self.0.path(), nvml, runs_already).unwrap()
    }

    fn descriptor(&self, pid: u32, number: u32, target: &str, fdinfo: &str) {
        let process = self.path(&format!("proc/{pid}"));
        for (folder, is_link) in [("fd", true), ("fdinfo", false)] {
            std::fs::create_dir_all(process.join(folder)).unwrap();
            let file = process.join(folder).join(number.to_string());
            match is_link {
                true if !file.is_symlink() => symlink(target, &file).unwrap(),
                true => {}
                false => std::fs::write(&file, fdinfo).unwrap(),
            }
        }
    }

    fn end(&self, pid: u32) {
        std::fs::remove_dir_all(self.path(&format!("proc/{pid}"))).unwrap();
    }
}

/// After a pause in which another walk may begin.
fn look(gpus: &mut JobGpus, pids: &[u32]) -> JobLook {
    std::thread::sleep(Duration::from_millis(100));
    gpus.look(&pids.iter().copied().collect::<BTreeSet<u32>>()).unwrap()
}

fn no_nvml() -> Result<Gpus, GpuError> {
    Gpus::open(Some(Path::new("/no/such/libnvidia-ml.so.1")))
}

fn nanoseconds(used: &DeviceUse) -> u128 {
    used.busy.unwrap().as_nanos()
}

#[test]
fn a_client_of_several_descriptors_and_processes_is_counted_once() {
    let machine = Machine::new(&[(128, "0000:0c:00.0"), (129, "0000:00:02.0")]);
    let mut gpus = machine.open(no_nvml(), false);
    for (pid, number) in [(70, 4), (70, 5), (71, 9)] {
        machine.descriptor(pid, number, "/dev/dri/renderD128", &amdgpu(7, 1_000_003));
    }
    machine.descriptor(71, 3, "/dev/dri/card1", I915);
    machine.descriptor(71, 1, "/dev/null", "pos:\t0\n");
    let first = look(&mut gpus, &[70, 71]);
    assert_eq!(first.memory_bytes, Some((1024 + 6044) << 10));
    assert_eq!(first.busy, Some(Duration::from_nanos(1_000_003 + 13 + 346_249)));
    let of = |look: &JobLook, pid| look.processes[&pid].memory_bytes;
    assert_eq!((of(&first, 70), of(&first, 71)), (Some(1024 << 10), Some(6044 << 10)));
    let opened = |look: &JobLook, pid, gpu| look.uses[&(pid, gpu)].opened.clone();
    assert_eq!(opened(&first, 70, 0), [PathBuf::from("/dev/dri/renderD128")].into());
    assert_eq!(opened(&first, 71, 1), [PathBuf::from("/dev/dri/card1")].into());
    assert_eq!(first.uses[&(71, 0)].source, GpuSource::Opened, "the client is the other's");
    // The first one ends, and the other goes on with the client: what is new is its.
    machine.end(70);
    machine.descriptor(71, 9, "/dev/dri/renderD128", &amdgpu(7, 1_500_003));
    let second = look(&mut gpus, &[71]);
    assert_eq!(nanoseconds(&second.uses[&(70, 0)]), 1_000_016);
    assert_eq!(nanoseconds(&second.uses[&(71, 0)]), 500_000);
    assert_eq!(second.uses[&(70, 0)].memory_peak_bytes, Some(1024 << 10), "of one that has ended");
    assert_eq!(second.memory_bytes, Some((1024 + 6044) << 10));
    let names: Vec<_> = gpus.devices().iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names, ["0000:0c:00.0", "0000:00:02.0"]);
}

#[test]
fn cycles_are_a_part_of_the_time_between_two_looks() {
    let machine = Machine::new(&[(128, "0000:03:00.0")]);
    let mut gpus = machine.open(no_nvml(), false);
    machine.descriptor(70, 4, "/dev/dri/renderD128", &xe(28_257_900, 7_655_183_225));
    let first = look(&mut gpus, &[70]);
    assert_eq!(first.busy, Some(Duration::ZERO), "when it was done is not known");
    assert_eq!(first.memory_bytes, Some((192 + 23_992) << 10));
    machine.descriptor(70, 4, "/dev/dri/renderD128", &xe(28_257_900 + 250, 7_655_183_225 + 1000));
    let began = std::time::Instant::now();
    let second = look(&mut gpus, &[70]);
    let quarter = began.elapsed().as_secs_f64() / 4.0;
    let busy = second.busy.unwrap().as_secs_f64();
    assert!((quarter * 0.5..quarter * 1.5).contains(&busy), "{busy} of {quarter}");
}

#[test]
fn of_a_job_that_ran_before_only_what_comes_counts() {
    let machine = Machine::new(&[(128, "0000:0c:00.0")]);
    let mut gpus = machine.open(no_nvml(), true);
    look(&mut gpus, &[]);
    machine.descriptor(70, 4, "/dev/dri/renderD128", &amdgpu(7, 5_000_000));
    assert_eq!(look(&mut gpus, &[70]).busy, Some(Duration::ZERO));
    machine.descriptor(70, 4, "/dev/dri/renderD128", &amdgpu(7, 5_000_017));
    machine.descriptor(70, 5, "/dev/dri/renderD128", &amdgpu(8, 11));
    assert_eq!(look(&mut gpus, &[70]).busy, Some(Duration::from_nanos(17 + 11 + 13)));
}

#[test]
fn without_any_gpu_the_reason_is_the_loaders() {
    let machine = Machine::new(&[]);
    let error = JobGpus::under(machine.0.path(), no_nvml(), false).err().unwrap();
    assert!(error.to_string().contains("/no/such"), "{error}");
}

#[test]
fn nvml_tells_of_processes_and_their_end() {
    let machine = Machine::new(&[(128, "0000:0c:00.0")]);
    let mut gpus = machine.open(open(&[]), false);
    let device = &gpus.devices()[0];
    assert_eq!((device.name.as_str(), device.uuid.as_deref()), ("0000:0c:00.0", Some("GPU-4711")));
    machine.descriptor(100, 7, "/dev/nvidia7", "pos:\t0\n");
    machine.descriptor(100, 8, "/dev/nvidiactl", "pos:\t0\n");
    machine.descriptor(100, 9, "/dev/dri/renderD128", &amdgpu(1, 1));
    look(&mut gpus, &[]);
    let began = std::time::Instant::now();
    let running = look(&mut gpus, &[100]);
    let half = began.elapsed().as_secs_f64() / 2.0;
    let used = &running.uses[&(100, 0)];
    assert_eq!((used.source, used.memory_peak_bytes), (GpuSource::Nvml, Some(1000)));
    let busy = used.busy.unwrap().as_secs_f64();
    assert!((half * 0.5..half * 1.5).contains(&busy), "{busy} of {half}");
    assert_eq!(used.opened, ["/dev/dri/renderD128", "/dev/nvidia7"].map(PathBuf::from).into());
    // The second GPU does not tell: so the sum is not known.
    assert_eq!((running.uses[&(100, 1)].busy, running.busy), (None, None));
    assert_eq!(running.processes[&100].memory_bytes, Some(1070));
    let ended = look(&mut gpus, &[]);
    let used = &ended.uses[&(100, 0)];
    assert_eq!((used.source, used.memory_peak_bytes), (GpuSource::NvmlAccounts, Some(1_234_567)));
    assert_eq!(used.busy, Some(Duration::from_millis(10_007) * 37 / 100));
    // What a driver cannot mean is not taken.
    let other = look(&mut gpus, &[200]);
    assert_eq!(other.uses[&(200, 0)].busy, Some(Duration::ZERO));
}
