use std::path::Path;

use super::*;

const TAIL: &str = "S 42 7 7 0 -1 4194560 11 12 13 14 15 16 17 18 20 0 3 0 999 4096000 77 \
                    18446744073709551615 1 1 0 0 0 0 0 0 65536 0 0 0 17 1 0 0 0 0 0 1 1 1 1 1 1 1 \
                    256";

#[test]
fn a_name_in_a_status_is_as_it_was_given() {
    let name = |line: &[u8]| parse_status(line).name;
    assert_eq!(name(b"Name:\tcat\nPid:\t7\n"), "cat");
    assert_eq!(name(b"Name:\t a\\nb\\\\n:\\x\n"), " a\nb\\n:\\x");
}

#[test]
fn a_name_may_hold_anything() {
    for name in ["sh", "a b", ")", ") R 1 (", "a\nb", "((", "", "ünï) S 9"] {
        let stat = parse_stat(format!("7 ({name}) {TAIL}").as_bytes()).expect(name);
        assert_eq!((stat.name.as_str(), stat.pid, stat.parent_pid), (name, 7, 42));
        assert_eq!((stat.state, stat.threads, stat.start_ticks), ('S', 3, 999));
        assert_eq!((stat.minor_faults, stat.major_faults), (11, 13));
        assert_eq!((stat.user_ticks, stat.system_ticks), (15, 16));
        assert_eq!((stat.child_minor_faults, stat.child_major_faults), (12, 14));
        assert_eq!((stat.child_user_ticks, stat.child_system_ticks), (17, 18));
        assert_eq!((stat.virtual_bytes, stat.rss_pages), (4096000, 77));
        assert_eq!(stat.exit_code, Some(256));
    }
    let mut broken = b"7 (".to_vec();
    broken.extend_from_slice(&[0xff, 0xfe, b')', b' ']);
    broken.extend_from_slice(TAIL.as_bytes());
    assert!(parse_stat(&broken).is_some());
}

#[test]
fn half_a_line_is_no_process() {
    for text in ["", "7", "7 (sh", "7 (sh)", "7 (sh) S", "7 (sh) S 1 2 3", ")7(", "x (sh) S 1"] {
        assert_eq!(parse_stat(text.as_bytes()), None, "{text}");
    }
    assert_eq!(parse_stat(format!("-7 (sh) {TAIL}").as_bytes()), None);
}

#[test]
fn io_needs_every_line() {
    let whole = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\n\
                  cancelled_write_bytes: 7\n";
    let io = parse_io(whole).unwrap();
    assert_eq!((io.read_chars, io.write_calls, io.storage_cancelled), (1, 4, 7));
    assert_eq!(io.storage_written, 6, "not the line that ends in write_bytes");
    assert_eq!(parse_io(&whole[..40]), None);
    assert_eq!(parse_io(b""), None);
}

#[test]
fn arguments_keep_their_blanks() {
    assert_eq!(parse_cmdline(b"a\0b c\0\0d\n\0"), ["a", "b c", "", "d\n"]);
    assert_eq!(parse_cmdline(b"title"), ["title"]);
    assert_eq!(parse_cmdline(b"a\0"), ["a"]);
    assert!(parse_cmdline(b"").is_empty());
}

#[test]
fn maps_keep_odd_names() {
    let line = b"7f00-7fff rw-s 00001000 fe:01 123                      /a b\\012c (deleted)";
    let entry = parse_map_line(line).unwrap();
    assert_eq!(entry.name, b"/a b\nc (deleted)");
    assert_eq!((entry.start, entry.end, entry.offset, entry.inode), (0x7f00, 0x7fff, 4096, 123));
    assert_eq!(&entry.permissions, b"rw-s");
    let anonymous = parse_map_line(b"1000-2000 rw-p 00000000 00:00 0 ").unwrap();
    assert!(anonymous.name.is_empty());
    assert!(parse_map_line(b"1000-2000 rw-p 00000000 00:00 0").is_some());
    for bad in ["", "x-y rw-p 0 0:0 0", "2000-1000 rw-p 0 0:0 0 ", "1-2 rw 0 0:0 0 ", "1-2 rw-p"] {
        assert_eq!(parse_map_line(bad.as_bytes()), None, "{bad}");
    }
    let smaps = b"1000-2000 rw-p 00000000 00:00 0 [heap]\nSize: 4 kB\nRss: 3 kB\nPss: 1 kB\n\
                  VmFlags: rd\n3000-4000 r--p 00000000 00:00 0 \nRss:\nRss: x kB\n";
    let parsed = parse_smaps(smaps);
    assert_eq!(parsed.iter().map(|(_, rss)| *rss).collect::<Vec<_>>(), [3072, 0]);
    assert_eq!(parse_smaps_rollup(b"Rss: 8 kB\nPss_Dirty: 1 kB\nPss: 4 kB\n"), Some((8192, 4096)));
    assert_eq!(parse_smaps_rollup(b"Rss: 8 kB\n"), None);
}

#[test]
fn lists_and_tables() {
    assert_eq!(parse_cpu_list("0-3,5,8-9\n"), Some(7));
    assert_eq!(parse_cpu_list("0"), Some(1));
    for bad in ["", "3-1", "a", "0-", "0-4294967295"] {
        assert_eq!(parse_cpu_list(bad), None, "{bad}");
    }
    let passwd = b"root:x:0:0::/root:/bin/sh\nbroken\n:x:7::\nj.doe:x:1001:1::/:\n";
    assert_eq!(parse_passwd(passwd, 1001).as_deref(), Some("j.doe"));
    assert_eq!(parse_passwd(passwd, 7), None);
    assert_eq!(parse_account(passwd, "j.doe"), Some((1001, 1)));
    assert_eq!((parse_account(passwd, ""), parse_account(passwd, "broken")), (None, None));
    assert_eq!(parse_mem_total(b"MemTotal:  12 kB\n"), Some(12288));
    assert_eq!(parse_mem_total(b"MemFree: 12 kB\n"), None);
}

#[test]
fn cgroups_and_mounts() {
    let lines =
        parse_cgroup(b"4:memory:/a:b\n3:cpu,cpuacct:/\n1:name=systemd:/x\n0::/y z\xff\njunk\n");
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0].path, Path::new("/a:b"));
    assert_eq!(lines[1].controllers, ["cpu", "cpuacct"]);
    assert_eq!((lines[3].hierarchy, lines[3].controllers.len()), (0, 0));
    assert_eq!(lines[3].path, path_of(b"/y z\xff".to_vec()));
    let mounts = parse_mountinfo(
        b"36 35 98:0 /m1 /a\\040b rw,noatime master:1 shared:2 - ext3 /dev/root rw,errors=x\n\
          37 35 0:5 / /t rw - tmpfs - rw\n38 35 0:5 / /t rw tmpfs none rw\n",
    );
    assert_eq!(mounts.len(), 2);
    assert_eq!(mounts[0].point, Path::new("/a b"));
    assert_eq!((mounts[0].device, mounts[0].kind.as_str()), ((98, 0), "ext3"));
    assert_eq!((mounts[1].kind.as_str(), mounts[1].options.as_str()), ("tmpfs", "rw"));
    assert_eq!(unescape_octal(b"\\134\\012\\9\\77\\400\\"), b"\\\n\\9\\77\\400\\");
}
