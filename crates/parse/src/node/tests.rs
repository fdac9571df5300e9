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
    assert_eq!((load.averages, load.threads), ([0.2, 1.18, 0.12], 345));
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

proptest! {
    #[test]
    fn any_bytes_are_walked_through(text in proptest::collection::vec(prop_oneof![Just(b' '), Just(b'\n'), Just(b':'), b'0'..=b'9', any::<u8>()], 0..300)) {
        each_stat_line(&text, |_| ());
        each_pair(&text, |_| true, |_, _, _| ());
        each_disk(&text, |disk| assert!(!disk.name.is_empty()));
        each_interface(&text, |_| ());
        each_nfs_line(&text, |_| ());
        each_lustre_line(&text, |_| ());
        let _ = (load_averages(&text), open_files(&text), pressure_totals(&text), attribute(&text));
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
