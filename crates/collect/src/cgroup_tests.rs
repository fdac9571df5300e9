use super::*;

fn mount(kind: &str, point: &str, root: &str, options: &str) -> Mount {
    Mount {
        device: (0, 1),
        root: root.into(),
        point: point.into(),
        kind: kind.to_owned(),
        options: options.to_owned(),
    }
}

#[test]
fn versions_are_told_apart() {
    let v1 = mount("cgroup", "/c/memory", "/", "rw,memory");
    let named = mount("cgroup", "/c/systemd", "/", "rw,name=systemd");
    let v2 = mount("cgroup2", "/c/unified", "/", "rw");
    assert_eq!(version_of(&[]), Version::None);
    assert_eq!(version_of(std::slice::from_ref(&v1)), Version::V1);
    assert_eq!(version_of(&[v1, v2.clone()]), Version::Hybrid);
    assert_eq!(version_of(&[v2, named]), Version::V2, "a named hierarchy has no controllers");
}

#[test]
fn the_own_group_is_found_below_the_mount() {
    let v1 = mount("cgroup", "/c/memory", "/", "rw,memory");
    let v2 = mount("cgroup2", "/c/unified", "/user", "rw");
    let text = b"4:memory:/a/b\n3:cpu:/z\n0::/user/me\n";
    let found = home(&[v2.clone(), v1], text).unwrap();
    assert_eq!((found.path.as_path(), found.is_v2), (Path::new("/c/memory/a/b"), false));
    let found = home(std::slice::from_ref(&v2), text).unwrap();
    assert_eq!((found.path.as_path(), found.is_v2), (Path::new("/c/unified/me"), true));
    assert!(matches!(home(&[], text), Err(CgroupError::NoController(Version::None))));
    assert!(matches!(home(&[v2], b"0::/elsewhere\n"), Err(CgroupError::OwnGroupUnknown(_))));
}

#[test]
fn the_least_limit_above_a_group_counts() {
    let folder = tempfile::tempdir().unwrap();
    let group = folder.path().join("a/b");
    fs::create_dir_all(&group).unwrap();
    let limit = |is_v2| least_limit(&Home { path: group.clone(), is_v2 });
    fs::write(group.join("memory.max"), "max\n").unwrap();
    assert_eq!(limit(true), None);
    fs::write(folder.path().join("a/memory.max"), "4096000\n").unwrap();
    fs::write(folder.path().join("memory.max"), "8192000\n").unwrap();
    assert_eq!(limit(true), Some(4_096_000));
    fs::write(group.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
    fs::write(folder.path().join("memory.limit_in_bytes"), "12288\n").unwrap();
    assert_eq!(limit(false), Some(12288));
}

#[test]
fn names_stay_one_component() {
    assert_eq!(group_name("../a b/ü\n"), "weigh-.._a_b___");
    assert!(group_name(&"x".repeat(1000)).len() < 120);
}

#[test]
fn a_v2_group_without_the_controller_says_so() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cgroup.controllers"), "cpu io\n").unwrap();
    let error = give_memory_to_children(folder.path(), "x").unwrap_err().to_string();
    assert!(error.contains("it has none itself"), "{error}");
    fs::write(folder.path().join("cgroup.subtree_control"), "cpu memory\n").unwrap();
    assert!(give_memory_to_children(folder.path(), "x").is_ok());
}

#[test]
fn an_old_v2_kernel_keeps_no_peak() {
    let folder = tempfile::tempdir().unwrap();
    let group = JobCgroup {
        path: folder.path().to_owned(),
        is_v2: true,
        is_removed: true,
        descriptor: None,
        _aside: None,
    };
    assert!(group.peak_bytes().unwrap_err().to_string().contains("older than 5.19"));
    fs::write(folder.path().join("memory.peak"), "4096\n").unwrap();
    assert_eq!(group.peak_bytes().unwrap(), 4096);
}
