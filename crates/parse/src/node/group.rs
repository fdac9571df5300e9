//! Which job, unit or container a control group is, by its path. Anybody who may make groups chooses their names: nothing
//! is made of one but a text that is shown.

use super::text::number;

/// What a control group holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKind {
    /// A service or scope of systemd.
    Unit,
    /// A container.
    Container,
    /// A job of Slurm.
    Slurm,
}

/// A control group that is worth a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlGroup<'a> {
    /// What it holds.
    pub kind: GroupKind,
    /// Who manages it: `slurm`, `systemd`, `docker`, `podman`, `containerd`, `cri-o`, `nerdctl`, `lxc`, `kubernetes`.
    pub manager: &'static str,
    /// The job's number, the unit's name, the container's number or name.
    pub name: &'a [u8],
    /// The user, where the path names one.
    pub uid: Option<u32>,
    /// The path of the group itself: where a path lies deeper, its beginning.
    pub path: &'a [u8],
}

/// Components of a path that are looked at.
const DEEPEST: usize = 16;
/// Numbers of containers have so many hexadecimal digits.
const CONTAINER_DIGITS: usize = 64;

/// The group that a path (`/system.slice/cron.service`) is or lies in. Of a unit in a unit the inner one; a Slurm job or a
/// container is one whatever is below it.
pub fn control_group(path: &[u8]) -> Option<ControlGroup<'_>> {
    let mut unit = None;
    let mut uid = None;
    let (mut above, mut top): (&[u8], &[u8]) = (b"", b"");
    let mut end = 0;
    for (depth, name) in path.strip_prefix(b"/")?.split(|byte| *byte == b'/').enumerate() {
        end += 1 + name.len();
        if name.is_empty() || depth >= DEEPEST {
            break;
        }
        uid = named_uid(name).or(uid);
        let group = |kind, manager, name| {
            Some(ControlGroup { kind, manager, name, uid, path: &path[..end] })
        };
        if depth == 0 {
            top = name;
        }
        if let Some(job) = name.strip_prefix(b"job_")
            && is_of_slurm(&path[..end - name.len()])
            && number(job).is_some()
        {
            return group(GroupKind::Slurm, "slurm", job);
        }
        if let Some((manager, name)) = container(top, above, name) {
            return group(GroupKind::Container, manager, name);
        }
        if is_unit(name) {
            unit = group(GroupKind::Unit, "systemd", name);
        }
        above = name;
    }
    unit
}

/// `uid_1000` of Slurm, `user-1000.slice` of systemd.
fn named_uid(name: &[u8]) -> Option<u32> {
    let systemd = || name.strip_prefix(b"user-")?.strip_suffix(b".slice");
    let digits = name.strip_prefix(b"uid_").or_else(systemd)?;
    number(digits).and_then(|uid| u32::try_from(uid).ok())
}

/// Whether this path, which ends with a slash, is where Slurm has its jobs: `/slurm/uid_1000/`, `/slurm_node7/uid_1000/`
/// (version 1), `/system.slice/slurmstepd.scope/`, `/system.slice/node7_slurmstepd.scope/` (version 2). Users can make
/// groups below their own alone.
fn is_of_slurm(above: &[u8]) -> bool {
    let mut names = above.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    let (first, second, third) = (names.next().unwrap_or_default(), names.next(), names.next());
    let is_folder = first == b"slurm" || first.starts_with(b"slurm_");
    match (second, third) {
        (Some(user), None) if is_folder => user.starts_with(b"uid_"),
        (Some(scope), None) => first == b"system.slice" && scope.ends_with(b"slurmstepd.scope"),
        _ => false,
    }
}

fn is_unit(name: &[u8]) -> bool {
    let is_manager = name.starts_with(b"user@") && name.ends_with(b".service");
    let stem = name.strip_suffix(b".service").or_else(|| name.strip_suffix(b".scope"));
    stem.is_some_and(|stem| !stem.is_empty()) && !is_manager
}

/// Names of scopes before the container's number, and who makes them.
const SCOPES: [(&[u8], &str); 5] = [
    (b"docker-", "docker"),
    (b"libpod-", "podman"),
    (b"cri-containerd-", "containerd"),
    (b"crio-", "cri-o"),
    (b"nerdctl-", "nerdctl"),
];

/// Who manages a container, and its number or name.
fn container<'a>(top: &[u8], above: &[u8], name: &'a [u8]) -> Option<(&'static str, &'a [u8])> {
    let stem = name.strip_suffix(b".scope").unwrap_or(name);
    for (prefix, manager) in SCOPES {
        if let Some(id) = stem.strip_prefix(prefix).filter(|id| is_container_id(id)) {
            return Some((manager, id));
        }
    }
    // Of containerd in version 1, with systemd's names: `kubepods-pod1.slice:cri-containerd:0123…`.
    let last = name.rsplit(|byte| *byte == b':').next().unwrap_or_default();
    if name.contains(&b':') && is_container_id(last) {
        return Some(("containerd", last));
    }
    if let Some(payload) = name.strip_prefix(b"lxc.payload.") {
        return (!payload.is_empty()).then_some(("lxc", payload));
    }
    match above {
        b"docker" if is_container_id(name) => Some(("docker", name)),
        b"lxc" if top == b"lxc" => Some(("lxc", name)),
        _ if top.starts_with(b"kubepods") && is_container_id(name) => Some(("kubernetes", name)),
        _ => None,
    }
}

fn is_container_id(name: &[u8]) -> bool {
    name.len() == CONTAINER_DIGITS && name.iter().all(u8::is_ascii_hexdigit)
}
