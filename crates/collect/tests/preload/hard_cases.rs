//! What jobs do to make it hard for a library in their programs: nothing of it may harm them, and
//! what the library cannot see must be said.

use std::io::Read as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::process::Command;

use crate::preloaded::{Job, Run, run, workload};
use weigh_collect::preload::Level::{self, Calls, Files, Processes};
use weigh_collect::preload::PreloadedJob;
use weigh_schema::byte_text;

/// Does what its first argument says; ends with 0 if it came through.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static int is(const char *a, const char *b) { return !strcmp(a, b); }
static int waited(pid_t pid) {
    int status = -1;
    if (pid < 0 || waitpid(pid, &status, 0) != pid) return 99;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}
static int runs(char *const argv[]) {
    pid_t pid = fork();
    if (!pid) { execvp(argv[0], argv); _exit(98); }
    return waited(pid);
}
static int runs_true(void) { return runs((char *[]){ "/bin/true", 0 }); }
/* Kills for each of the calls, or, the other way round, for all but them. */
static void filter(int only, const int *calls, int n) {
    struct sock_filter code[64];
    int k = 0;
    code[k++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < n; i++) {
        code[k++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, only ? SECCOMP_RET_ALLOW : SECCOMP_RET_KILL_PROCESS);
    }
    code[k++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, only ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ALLOW);
    struct sock_fprog program = { k, code };
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) _exit(97);
}
static void *vforks(void *unused) {
    (void)unused;
    pid_t pid = vfork();
    if (!pid) { execl("/bin/true", "true", (char *)0); _exit(98); }
    return (void *)(long)waited(pid);
}
static void *spawns(void *unused) {
    static char text[2000][24], *variables[2001];
    (void)unused;
    for (int i = 0; i < 2000; i++) { sprintf(text[i], "VARIABLE%d=value", i); variables[i] = text[i]; }
    pid_t pid = 0;
    if (posix_spawn(&pid, "/bin/true", 0, 0, (char *[]){ "true", 0 }, variables)) return (void *)88;
    return (void *)(long)waited(pid);
}
int main(int argc, char **argv) {
    const char *what = argv[1];
    (void)argc;
    if (is(what, "close-range")) { close_range(3, ~0u, 0); int e = runs_true(); closefrom(0); return e + runs_true(); }
    if (is(what, "setuid")) {
        if (setgid(65534) || setuid(65534)) return 96;
        return runs_true() + runs((char *[]){ "/bin/sh", "-c", "/bin/true; :", 0 });
    }
    if (is(what, "chroot")) {
        pid_t pid = fork();
        if (!pid) {
            if (chroot(argv[2]) || chdir("/")) _exit(96);
            /* Over the C library, and by the bare system call. */
            if (fork() == 0) { execl("/true", "true", (char *)0); _exit(98); }
            int status; wait(&status);
            syscall(SYS_execve, "/true", (char *[]){ "true", 0 }, environ);
            _exit(98);
        }
        return waited(pid);
    }
    if (is(what, "strict")) {
        pid_t pid = fork();
        if (!pid) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); (void)!write(1, "behind", 6); syscall(SYS_exit, 3); }
        return waited(pid) == 3 ? 0 : 1;
    }
    if (is(what, "filter")) {
        pid_t pid = fork();
        if (!pid) {
            filter(1, (int[]){ SYS_write, SYS_exit_group, SYS_rt_sigreturn }, 3);
            (void)!write(1, "behind", 6);
            exit(3);
        }
        return waited(pid) == 3 ? 0 : 1;
    }
    if (is(what, "filter-syscall")) {
        pid_t pid = fork();
        if (!pid) {
            struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
            };
            struct sock_fprog program = { 4, code };
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
            if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) _exit(97);
            exit(3);
        }
        return waited(pid) == 3 ? 0 : 1;
    }
    if (is(what, "filter-exec")) {
        pid_t pid = fork();
        if (!pid) {
            filter(0, (int[]){ SYS_getrusage, SYS_readlinkat, SYS_getppid, SYS_getsockopt }, 4);
            execl("/bin/true", "true", (char *)0);
            _exit(98);
        }
        return waited(pid);
    }
    if (is(what, "subreaper")) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        if (!fork()) { if (!fork()) { usleep(50000); _exit(0); } _exit(0); }
        int n = 0;
        while (wait(0) > 0) n++;
        return n == 2 ? 0 : 1;
    }
    if (is(what, "stop")) {
        pid_t pid = fork();
        if (!pid) { raise(SIGSTOP); _exit(5); }
        int status;
        waitpid(pid, &status, WUNTRACED);
        if (!WIFSTOPPED(status)) return 1;
        kill(pid, SIGCONT);
        return waited(pid) == 5 ? 0 : 1;
    }
    if (is(what, "thread-vfork")) {
        pthread_t threads[8];
        long sum = 0;
        for (int i = 0; i < 8; i++) pthread_create(threads + i, 0, vforks, 0);
        for (int i = 0; i < 8; i++) { void *e; pthread_join(threads[i], &e); sum += (long)e; }
        return sum;
    }
    if (is(what, "small-stack")) {
        pthread_attr_t small;
        pthread_t thread;
        void *status;
        pthread_attr_init(&small);
        if (pthread_attr_setstacksize(&small, 16384) || pthread_create(&thread, &small, spawns, 0)) return 87;
        pthread_join(thread, &status);
        return (int)(long)status;
    }
    if (is(what, "many")) {
        int go[2], n = 700;
        if (pipe(go)) return 86;
        for (int i = 0; i < n; i++) if (!fork()) { char c; close(go[1]); (void)!read(go[0], &c, 1); _exit(0); }
        close(go[1]);
        while (wait(0) > 0) n--;
        return n;
    }
    if (is(what, "cut")) {
        /* Its own library has no file any more, either. */
        *strrchr(getenv("WEIGH_PRELOAD"), ':') = 0;
        return truncate(getenv("WEIGH_PRELOAD"), 0) ? 85 : 0;
    }
    if (is(what, "limited")) {
        struct rlimit limit = { 100 << 20, 100 << 20 };
        setrlimit(RLIMIT_AS, &limit);
        if (fork() == 0) { execv(argv[0], (char *[]){ argv[0], "limited-child", 0 }); _exit(98); }
        int status;
        wait(&status);
        return WEXITSTATUS(status);
    }
    if (is(what, "limited-child")) {
        /* The address space is the program's own. */
        if (!malloc(60 << 20)) return 95;
        pid_t pid = fork();
        if (!pid) { usleep(200000); _exit(0); }
        return waited(pid);
    }
    if (is(what, "paths")) {
        char part[201], path[4096] = "";
        memset(part, 'd', 200); part[200] = 0;
        if (chdir(argv[2])) return 94;
        strcpy(path, argv[2]);
        while (strlen(path) + 202 < 4000) {
            if (mkdir(part, 0777) || chdir(part)) return 93;
            strcat(path, "/"); strcat(path, part);
        }
        strcat(path, "/");
        size_t left = 4000 - strlen(path);
        memset(part, 'f', left); part[left] = 0;
        strcat(path, part);
        int fd = open(path, O_CREAT | O_WRONLY, 0666);
        if (fd < 0) return 92;
        close(fd);
        memset(part, 'd', 200); part[200] = 0;
        for (int i = 0; i < 3; i++) if (mkdir(part, 0777) || chdir(part)) return 91;
        fd = open("beyond", O_CREAT | O_WRONLY, 0666);
        return fd < 0 ? 90 : 0;
    }
    return 89;
}
"#;

fn program() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let program = crate::preloaded::compile(folder.path(), "hard", PROGRAM);
    (folder, program)
}

/// Runs one case; it has to come through, and the loader must not complain.
#[track_caller]
fn came_through(program: &str, arguments: &[&str]) -> Job {
    came_through_at(Files, program, arguments);
    came_through_at(Calls, program, arguments)
}

#[track_caller]
fn came_through_at(level: Level, program: &str, arguments: &[&str]) -> Job {
    let job = run(level, &[&[program], arguments].concat());
    let pids: Vec<&String> = job.rows.iter().map(|row| &row["pid"]).collect();
    let first = job.rows.iter().find(|row| !pids.contains(&&row["parent"]));
    assert_eq!(first.map(|row| row["status"].as_str()), Some("0"), "{arguments:?}: {job:?}");
    assert!(!job.stderr.contains("ld.so"), "{arguments:?}: {}", job.stderr);
    job
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn what_a_process_does_to_itself() {
    let (_folder, program) = program();
    for (case, processes) in
        [("close-range", 3), ("subreaper", 3), ("stop", 2), ("thread-vfork", 9), ("small-stack", 2)]
    {
        let job = came_through(&program, &[case]);
        assert_eq!(job.value("processes_total"), processes, "{case}: {job:?}");
        assert_eq!(job.rows.len() as u64, processes, "{case}: {job:?}");
        assert!(!job.notes.contains_key("processes_total"), "{case}: {job:?}");
    }
}

#[test]
fn another_user() {
    if !is_root() {
        return;
    }
    let (_folder, program) = program();
    let job = came_through(&program, &["setuid"]);
    // A process of that user could harm root's programs by the shared file: they are looked at from outside.
    assert!(job.value("processes_total") >= 3, "{job:?}");
    assert!(job.named("true").iter().all(|row| row["uid"] == "65534"), "{job:?}");
    let said = &job.notes["processes_total"];
    assert!(said.1.contains("/bin/true (the library is out of its reach"), "{said:?}");
}

/// More than the shared file has room for at the beginning: a process that finds none left makes some.
#[test]
fn many_at_once() {
    let (_folder, program) = program();
    let job = came_through(&program, &["many"]);
    assert_eq!(job.value("processes_total"), 701, "{job:?}");
    assert!(!job.notes.contains_key("processes_total"), "{:?}", job.notes);
}

/// Weigh goes on, and says of nothing that it is exact.
#[test]
fn a_shared_file_that_was_cut() {
    let (_folder, program) = program();
    for level in [Processes, Files] {
        let job = run(level, &[&program, "cut"]);
        let said = &job.notes["processes_total"];
        assert_eq!(said.0, "sampled", "{job:?}");
        assert!(said.1.contains("cut the shared file short"), "{said:?}");
        assert_eq!(job.notes["memory_peak_bytes"].0, "sampled", "{job:?}");
        assert!(job.statuses.contains("cut the shared file short"), "{}", job.statuses);
    }
}

/// They end a program with what they have found. ThreadSanitizer's runtime calls functions of the library before it
/// can bear that: see the next one.
#[test]
fn sanitizers_find_nothing_in_the_library() {
    let (folder, _) = program();
    let job = PreloadedJob::open(Files, "true".as_ref(), folder.path()).unwrap();
    let place = job.variables().into_iter().find(|(name, _)| name == "WEIGH_PRELOAD").unwrap().1;
    let file = place.to_str().and_then(|place| place.rsplit_once(':')).unwrap().0;
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/preloaded/together.c");
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/preload");
    let parts = std::fs::read_dir(library).unwrap().map(|entry| entry.unwrap().path());
    let parts: Vec<_> = parts.filter(|path| path.extension().is_some_and(|e| e == "c")).collect();
    for sanitizer in ["address", "undefined"] {
        let path = folder.path().join(sanitizer);
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O1", "-std=gnu17", "-pthread", "-rdynamic", "-DLEVEL=4"]);
        // Two beginnings of what is loaded, of which one is the library's.
        cc.args(["-ftls-model=initial-exec", "-Wl,-z,muldefs", "-I", env!("OUT_DIR")]);
        cc.args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/bpf")]);
        cc.arg(format!("-fsanitize={sanitizer}")).arg("-fno-sanitize-recover=all");
        cc.arg("-o").args([&path, &tests]).args(&parts);
        let made = cc.output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "its runtime comes with the compiler: {said}");
        let run =
            Command::new(&path).current_dir(folder.path()).env("WEIGH_PRELOAD", &place).output();
        let run = run.unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success() && said.is_empty(), "{sanitizer}: {} {said}", run.status);
        let mut slots = Vec::new();
        std::fs::File::open(file).unwrap().take(1 << 20).read_to_end(&mut slots).unwrap();
        let path = path.as_os_str().as_bytes();
        assert!(slots.windows(path.len()).any(|part| part == path), "{sanitizer}: it was idle");
    }
}

/// Their runtimes end them where they are not the first library.
#[test]
fn programs_with_sanitizers() {
    let (folder, _) = program();
    let source = "#include <stdio.h>\nint main(void) { return puts(\"ok\") < 0; }";
    for sanitizer in ["address", "thread", "leak"] {
        let path = folder.path().join(sanitizer);
        std::fs::write(path.with_extension("c"), source).unwrap();
        let mut cc = Command::new("cc");
        cc.arg(format!("-fsanitize={sanitizer}"))
            .arg("-o")
            .args([&path, &path.with_extension("c")]);
        assert!(cc.status().unwrap().success(), "{cc:?}: its runtime comes with the compiler");
        let path = path.to_str().unwrap();
        came_through(path, &[]);
        let script = format!("{path} && /bin/true && env LD_PRELOAD=$RUNTIME /bin/true && :");
        let runtime = Command::new("cc").arg("-print-file-name=libasan.so").output().unwrap();
        let runtime = String::from_utf8(runtime.stdout).unwrap();
        let variables = vec![("RUNTIME", runtime.trim()), ("ASAN_OPTIONS", "detect_leaks=0")];
        let command = vec!["sh", "-c", &script];
        let job = Run { level: Calls, command, variables, as_nobody: false }.run();
        // One that looks for leaks makes a process for that, of whose end nobody is told.
        let went_well = |status: &str| ["0", "none"].contains(&status);
        assert!(job.rows.iter().all(|row| went_well(&row["status"])), "{sanitizer}: {job:?}");
        assert!(job.value("processes_total") >= 4, "{sanitizer}: {job:?}");
        let said = &job.notes["processes_total"];
        let named = format!("{path} (its sanitizer's runtime must be the first library)");
        assert!(said.1.contains(&named), "{said:?}");
    }
}

/// Nobody takes the library out of the environment there.
#[test]
fn a_program_with_a_sanitizer_that_a_static_one_starts() {
    let folder = tempfile::tempdir().unwrap();
    let starter = "#include <unistd.h>\n#include <sys/wait.h>\n
        int main(int n, char **words) {
            int status = 1;
            if (!fork()) { execv(words[1], words + 1); _exit(98); }
            return wait(&status) < 0 || status;
        }";
    let checked = "#include <pthread.h>\n#include <stdio.h>\n#include <stdlib.h>\n
        static void *thread(void *text) { return text; }
        int main(int n, char **words) {
            pthread_t made;
            void *text = malloc(100);
            FILE *file = fopen(words[0], \"r\");
            int bad = !file || !fread(text, 100, 1, file) || fclose(file) || system(\"/bin/true\");
            bad |= pthread_create(&made, 0, thread, text) || pthread_join(made, &text);
            free(text);
            return bad;
        }";
    let compile = |name: &str, source: &str, options: &[&str]| {
        let path = folder.path().join(name);
        std::fs::write(path.with_extension("c"), source).unwrap();
        let mut cc = Command::new("cc");
        cc.args(options).arg("-o").args([&path, &path.with_extension("c")]).arg("-pthread");
        assert!(cc.status().unwrap().success(), "{cc:?}");
        path.to_str().unwrap().to_owned()
    };
    let starter = compile("starter", starter, &["-static"]);
    let sanitizers = ["address", "address -static-libasan", "thread", "leak", "undefined"];
    for sanitizer in sanitizers {
        let options = format!("-fsanitize={sanitizer}");
        let options: Vec<&str> = options.split(' ').collect();
        let checked = compile(options.last().unwrap(), checked, &options);
        let job = came_through(&starter, &[&checked]);
        assert!(!job.stderr.contains("Sanitizer"), "{sanitizer}: {}", job.stderr);
    }
}

#[test]
fn another_root() {
    if !is_root() {
        return;
    }
    let (folder, program) = program();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::copy("/bin/true", root.join("true")).unwrap();
    let needed = Command::new("ldd").arg("/bin/true").output().unwrap();
    for file in String::from_utf8_lossy(&needed.stdout).split_whitespace() {
        if let Some(inside) = file.strip_prefix('/') {
            let copy = root.join(inside);
            std::fs::create_dir_all(copy.parent().unwrap()).unwrap();
            std::fs::copy(file, copy).unwrap();
        }
    }
    let job = came_through(&program, &["chroot", root.to_str().unwrap()]);
    assert_eq!(job.value("processes_total"), 3, "{job:?}");
    let said = &job.notes["processes_total"];
    assert!(said.1.contains("/true (the library is out of its reach"), "{said:?}");
}

/// The library must do no call that the program would not do: it would be killed for it.
#[test]
fn filters_of_their_own() {
    let (_folder, program) = program();
    for case in ["strict", "filter", "filter-syscall", "filter-exec"] {
        let job = came_through(&program, &[case]);
        assert_eq!(job.value("processes_total"), 2, "{case}: {job:?}");
        assert!(job.statuses.contains("a filter of system calls"), "{case}: {}", job.statuses);
    }
}

#[test]
fn a_limited_address_space_is_the_programs() {
    let (_folder, program) = program();
    let job = came_through(&program, &["limited"]);
    assert!(job.value("processes_total") >= 3, "{job:?}");
    let said = &job.notes["processes_total"];
    assert_eq!(said.0, "sampled");
    assert!(said.1.contains("no place in the shared file"), "{said:?}");
}

#[test]
fn long_paths_are_whole_or_said_to_be_cut() {
    let (folder, program) = program();
    let place = folder.path().join("p");
    std::fs::create_dir(&place).unwrap();
    // Its folders can be made once.
    let job = came_through_at(Calls, &program, &["paths", place.to_str().unwrap()]);
    let whole = job.files.iter().any(|(path, times)| {
        path.len() == 4000 && Path::new(path).parent().is_some_and(Path::exists) && *times == 1
    });
    assert!(whole, "{:?}", job.files);
    assert!(job.files.iter().any(|(path, _)| path == "…/beyond"), "{:?}", job.files);
}

#[test]
fn names_of_any_bytes() {
    let folder = tempfile::tempdir().unwrap();
    for name in [&b"a b) (\"'\n["[..], b"\xff\xfe)"] {
        let path = folder.path().join(std::ffi::OsStr::from_bytes(name));
        std::fs::copy(workload("procs"), &path).unwrap();
        let link = folder.path().join("link");
        let _ = std::fs::remove_file(&link);
        std::fs::write(&link, "#!/bin/sh\ncd \"$(dirname \"$0\")\"; for i in ./a* ./[!a-z]*; do [ -x \"$i\" ] && \"$i\" 3 fork; done; :\n").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&link, mode).unwrap();
        let job = run(Processes, &["sh", link.to_str().unwrap()]);
        std::fs::remove_file(&path).unwrap();
        let seen = byte_text::keep(&name[..name.len().min(15)]).replace('\n', "\\n");
        assert_eq!(job.named(&seen).len(), 4, "{seen}: {job:?}");
    }
}

/// What of the library stands before no function of the C library's.
const COUNTING: [&str; 9] = [
    "slots",
    "mapping",
    "io_table",
    "io_count",
    "io_streams",
    "clock",
    "look",
    "lookup",
    "children",
];

#[test]
fn threads_that_count_at_once_race_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preload/preloaded/threads.c");
    let library = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../libweigh/preload");
    for sanitizer in ["thread", "address,undefined"] {
        let path = folder.path().join("program");
        let mut cc = Command::new("cc");
        cc.args([
            "-g",
            "-O1",
            "-std=gnu17",
            "-pthread",
            "-DLEVEL=4",
            "-Wno-tsan",
            "-I",
            env!("OUT_DIR"),
            "-I",
            concat!(env!("CARGO_MANIFEST_DIR"), "/bpf"),
        ]);
        cc.arg(format!("-fsanitize={sanitizer}")).arg("-fno-sanitize-recover=all").arg("-I");
        cc.args([&library, Path::new("-o"), &path, &tests]);
        cc.args(COUNTING.map(|part| library.join(part).with_extension("c")));
        let made = cc.output().unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        assert!(made.status.success(), "its runtime comes with the compiler: {said}");
        let place = tempfile::tempdir_in(folder.path()).unwrap();
        let run = Command::new(&path).arg(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert!(run.status.success() && said.is_empty(), "{sanitizer}: {} {said}", run.status);
    }
}
