use super::*;
use proptest::prelude::*;

#[test]
fn stat_has_cpus_and_totals() {
    let text = b"cpu  10 2 3 400 5 6 7 8 9 1\ncpu0 1 2 3 4 5 6 7 8\ncpux 1\nintr 77 1 2 3\nctxt 5\nbtime x\nprocesses 12\nprocs_ru";
    let mut found = Vec::new();
    each_stat_line(text, |line| found.push(line));
    let all = [10, 2, 3, 400, 5, 6, 7, 8, 9, 1].map(Some);
    let old = [Some(1), Some(2), Some(3), Some(4), Some(5), Some(6), Some(7), Some(8), None, None];
    assert_eq!(
        found,
        [
            StatLine::Cpu(None, all),
            StatLine::Cpu(Some(0), old),
            StatLine::Total(b"intr", 77),
            StatLine::Total(b"ctxt", 5),
            StatLine::Total(b"processes", 12),
        ]
    );
}

#[test]
fn pairs_have_their_line() {
    let mut found = Vec::new();
    each_pair(
        b"MemTotal:  16 kB\nHugePages_Total: 0\nbad\nActive(anon): 5 kB\ncut 7",
        |_| true,
        |at, name, value| {
            found.push((at, String::from_utf8_lossy(name).into_owned(), value));
        },
    );
    let expected = [(0, "MemTotal", 16), (1, "HugePages_Total", 0), (3, "Active(anon)", 5)];
    assert_eq!(found, expected.map(|(at, name, value)| (at, name.to_string(), value)));
}

#[test]
fn a_disk_has_the_same_counters_in_its_own_file() {
    let line = " 254 0 vda 63880 8215 3927730 32481 15569 48894 3766752 28488 0 10392 61625 5377 58 281024 586 1423 69\n";
    let own = line.replace(" 254 0 vda ", "   ");
    let mut of_line = Vec::new();
    each_disk(line.as_bytes(), |disk| of_line.push(disk.fields));
    assert_eq!(of_line, [disk_fields(own.as_bytes())]);
    assert_eq!(of_line[0][16], Some(69));
    assert_eq!(disk_fields(b"7 8"), [None; 17], "it is cut off");
}

#[test]
fn disks_and_interfaces() {
    let mut disks = Vec::new();
    each_disk(b" 8 0 sda 1 2 3 4 5 6 7 8 9 10 11\n", |disk| disks.push(disk));
    assert_eq!(
        (disks.len(), disks[0].name, disks[0].fields[10], disks[0].fields[11]),
        (1, &b"sda"[..], Some(11), None)
    );
    let mut interfaces = Vec::new();
    let text = b"Inter-|   Receive  | Transmit\n face |bytes |bytes\n  eth0:1001 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n a:b: 7\n";
    each_interface(text, |interface| interfaces.push(interface));
    let names: Vec<&[u8]> = interfaces.iter().map(|interface| interface.name).collect();
    assert_eq!(names, [&b"eth0"[..], b"a:b"]);
    assert_eq!((interfaces[0].fields[0], interfaces[0].fields[15]), (Some(1001), Some(16)));
    assert_eq!((interfaces[1].fields[0], interfaces[1].fields[1]), (Some(7), None));
}

#[test]
fn small_files() {
    let load = load_averages(b"0.20 1.18 0.12 1/345 11206\n").expect("parses");
    assert_eq!((load.averages, load.running, load.threads), ([0.2, 1.18, 0.12], 1, 345));
    assert_eq!(load_averages(b"0.20 1.18 0.12 x/345 11206\n"), None);
    assert_eq!(load_averages(b"0.20 nan 0.12 1/345 11206\n"), None);
    assert_eq!(open_files(b"1952\t0\t9223372036854775807\n"), Some((1952, i64::MAX as u64)));
    let pressure = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=17\nfull avg10=0.00 total=7\n";
    assert_eq!(pressure_totals(pressure), [Some(17), Some(7)]);
    assert_eq!(pressure_totals(b"some avg10=0.00\n"), [None, None]);
    assert_eq!(
        [attribute(b"-5000\n"), attribute(b"42"), attribute(b"")],
        [Some(-5000), Some(42), None]
    );
    assert_eq!(number(b"18446744073709551616"), None);
}

const ID: &str = "4f797c539e6c745de61a93ca3ff892358ecbcaccd8414d5db545c38428142970";

/// Paths as they were recorded by others: Slurm's `cgroup_v2.html` and `cgroup.html`, the trees of cgroup_exporter's tests
/// (version 1), the container numbers of neuvector's `cgroup_test.go`, pods of Kubernetes by both of its drivers,
/// systemd's `CGROUP_DELEGATION` and `systemd-cgls` of Debian 12.
#[test]
fn groups_are_told_by_their_paths() {
    let (slurm, container, unit) = (GroupKind::Slurm, GroupKind::Container, GroupKind::Unit);
    let docker = format!("docker-{ID}.scope");
    for (above, below, kind, manager, name, uid) in [
        ("/slurm/uid_20821/job_10", "", slurm, "slurm", "10", Some(20821)),
        ("/slurm/uid_20821/job_10", "/step_batch/task_0", slurm, "slurm", "10", Some(20821)),
        ("/slurm_node7/uid_7/job_11", "/step_0", slurm, "slurm", "11", Some(7)),
        ("/system.slice/slurmstepd.scope/job_8", "/step_0/user/task_0", slurm, "slurm", "8", None),
        (
            "/system.slice/n7_slurmstepd.scope/job_9",
            "/step_extern/slurm",
            slurm,
            "slurm",
            "9",
            None,
        ),
        ("/system.slice/slurmstepd.scope", "/system", unit, "systemd", "slurmstepd.scope", None),
        ("/system.slice/cron.service", "", unit, "systemd", "cron.service", None),
        (
            "/system.slice/system-getty.slice/getty@tty1.service",
            "",
            unit,
            "systemd",
            "getty@tty1.service",
            None,
        ),
        (
            "/user.slice/user-1000.slice/session-3.scope",
            "",
            unit,
            "systemd",
            "session-3.scope",
            Some(1000),
        ),
        (
            "/user.slice/user-1000.slice/user@1000.service/app.slice/a.service",
            "",
            unit,
            "systemd",
            "a.service",
            Some(1000),
        ),
        ("/init.scope", "", unit, "systemd", "init.scope", None),
        (&format!("/docker/{ID}"), "/system.slice/cron.service", container, "docker", ID, None),
        (&format!("/system.slice/{docker}"), "", container, "docker", ID, None),
        (&format!("/machine.slice/libpod-{ID}.scope"), "/container", container, "podman", ID, None),
        (
            &format!("/user.slice/user-7.slice/user@7.service/user.slice/libpod-{ID}.scope"),
            "",
            container,
            "podman",
            ID,
            Some(7),
        ),
        (&format!("/kubepods/besteffort/podc3a0/{ID}"), "", container, "kubernetes", ID, None),
        (
            &format!("/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope"),
            "",
            container,
            "containerd",
            ID,
            None,
        ),
        (
            &format!("/kubepods.slice/kubepods-pod1.slice/crio-{ID}.scope"),
            "",
            container,
            "cri-o",
            ID,
            None,
        ),
        (
            &format!("/system.slice/containerd.service/kubepods-pod1.slice:cri-containerd:{ID}"),
            "",
            container,
            "containerd",
            ID,
            None,
        ),
        ("/lxc.payload.web", "/init.scope", container, "lxc", "web", None),
        ("/lxc/web", "", container, "lxc", "web", None),
    ] {
        let path = format!("{above}{below}");
        let group = control_group(path.as_bytes()).unwrap_or_else(|| panic!("{path}"));
        let expected =
            ControlGroup { kind, manager, name: name.as_bytes(), uid, path: above.as_bytes() };
        assert_eq!(group, expected, "{path}");
    }
}

#[test]
fn groups_of_no_job_are_none_and_names_can_lie_only_where_their_maker_may() {
    for path in [
        "/",
        "",
        "x",
        "/user.slice",
        "/user.slice/user-1000.slice/user@1000.service",
        "/.service",
        "//cron.service",
        "/process_api/410f9f1b0039373267c6a7f9d84bc36e",
        "/slurm/uid_1/job_x",
        "/docker/short",
        "/slurm/system",
    ] {
        assert_eq!(control_group(path.as_bytes()), None, "{path}");
    }
    // A user's own folder is no job of Slurm.
    for path in [
        "/user.slice/user-7.slice/user@7.service/a.service/slurm/uid_0/job_1",
        "/user.slice/user-7.slice/user@7.service/a.service/system.slice/slurmstepd.scope/job_1",
    ] {
        let group = control_group(path.as_bytes()).expect("a unit");
        assert_eq!((group.kind, group.uid), (GroupKind::Unit, Some(7)), "{path}");
    }
}

/// By the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/blkio-controller.rst.
#[test]
fn values_of_groups() {
    assert_eq!(first_number(b"4097\n"), Some(4097));
    assert_eq!([first_number(b"max\n"), first_number(b"7"), first_number(b"")], [None; 3]);
    let io = |read, written| Some(IoBytes { read, written });
    let text = b"8:16 rbytes=1459200 wbytes=3 rios=192 wios=353 dbytes=0 dios=0\n8:0 rbytes=9 wbytes=1\n7:0 \n";
    assert_eq!(io_bytes(text), io(1_459_209, 4));
    let text = b"8:0 Read 11\n8:0 Write 7\n8:0 Sync 4\n8:0 Total 18\n8:16 Read 2\nTotal 20\n";
    assert_eq!(io_bytes(text), io(13, 7));
    assert_eq!([io_bytes(b""), io_bytes(b"Total 0\n")], [io(0, 0); 2]);
    let too_much = b"8:0 rbytes=18446744073709551615\n8:1 rbytes=1\n";
    assert_eq!(
        [io_bytes(b"garbage\n"), io_bytes(b"8:0 rbytes=x\n"), io_bytes(too_much)],
        [None; 3]
    );
}

/// In the form of the kernel's Documentation/gpu/drm-usage-stats.rst, and of amdgpu_fdinfo.c for `drm-memory-`.
#[test]
fn clients_of_a_gpu() {
    let text = b"pos:\t0\nflags:\t0100002\ndrm-driver:\ti915\ndrm-pdev:\t0000:00:02.0\ndrm-client-id:\t7\n\
        drm-engine-render:\t9288864723 ns\ndrm-engine-capacity-video:\t2\ndrm-resident-system0:\t3 MiB\n\
        drm-total-system0:\t9 MiB\ndrm-memory-vram:\t5 KiB\ndrm-resident-vram0:\t17\ndrm-engine-x:\tbad ns\n";
    let mut found = Vec::new();
    each_drm_line(text, |line| found.push(line));
    let expected = [
        DrmLine::Device(b"0000:00:02.0"),
        DrmLine::Client(7),
        DrmLine::Engine(b"render", 9_288_864_723),
        DrmLine::Resident(b"system0", 3 << 20),
        DrmLine::Memory(b"vram", 5 << 10),
        DrmLine::Resident(b"vram0", 17),
    ];
    assert_eq!(found, expected);
}

#[test]
fn loads_are_what_floating_point_reads() {
    for text in ["0.00", "0.07", "123.45", "9007199254.99"] {
        let line = format!("{text} 1.00 2.00 1/2 3\n");
        let load = load_averages(line.as_bytes()).expect("parses").averages[0];
        assert_eq!(load, text.parse::<f64>().unwrap());
    }
    for text in ["1", "1.", ".1", "-1.00", "1.2.3", "99999999999.99999999999"] {
        assert_eq!(load_averages(format!("{text} 1.00 2.00 1/2 3\n").as_bytes()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn the_path_of_a_group_is_where_its_own_begins(path in "(/[a-z_:@.0-9]{0,12}(job_7|uid_7|slurm|\\.service|\\.scope|lxc)?){0,6}") {
        if let Some(group) = control_group(path.as_bytes()) {
            prop_assert!(path.as_bytes().starts_with(group.path));
            prop_assert_eq!(control_group(group.path), Some(group));
        }
    }

    #[test]
    fn any_bytes_are_walked_through(text in proptest::collection::vec(prop_oneof![Just(b' '), Just(b'\n'), Just(b':'), b'0'..=b'9', any::<u8>()], 0..300)) {
        each_stat_line(&text, |_| ());
        each_pair(&text, |_| true, |_, _, _| ());
        each_disk(&text, |disk| assert!(!disk.name.is_empty()));
        each_interface(&text, |_| ());
        each_nfs_line(&text, |_| ());
        each_lustre_line(&text, |_| ());
        let _ = (load_averages(&text), open_files(&text), pressure_totals(&text), attribute(&text));
        let _ = (first_number(&text), io_bytes(&text));
        each_drm_line(&text, |_| ());
    }

    #[test]
    fn what_was_written_is_read(cores in proptest::collection::vec(proptest::array::uniform10(any::<u64>()), 0..9)) {
        let line = |(core, ticks): (usize, &[u64; 10])| {
            let ticks: Vec<String> = ticks.iter().map(u64::to_string).collect();
            format!("cpu{core} {}\n", ticks.join(" "))
        };
        let text: String = cores.iter().enumerate().map(line).collect();
        let mut found = Vec::new();
        each_stat_line(text.as_bytes(), |line| found.push(line));
        let expected: Vec<StatLine<'_>> = cores.iter().enumerate().map(|(core, ticks)| StatLine::Cpu(Some(core as u32), ticks.map(Some))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_number_is_read_as_it_is(value in any::<u64>()) {
        prop_assert_eq!(number(value.to_string().as_bytes()), Some(value));
    }
}
