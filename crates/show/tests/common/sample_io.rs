//! What was read and written in the invented recording.

use std::collections::BTreeMap;

use weigh_schema::io::{Advice, FileUse, Flow, IoFound, Object, Rest, Totals, Transferred};
use weigh_schema::recording::FileRow;
use weigh_schema::{Mechanism, Number, Quality};

/// Numbers that differ from row to row.
fn totals(n: u64) -> Totals {
    let by_calls = Transferred {
        read_bytes: 4096 * n,
        read_calls: n,
        written_bytes: 1024 * (n % 7),
        write_calls: n % 7,
    };
    let mapped = Transferred { read_bytes: 8192, read_calls: 2, ..Transferred::default() };
    Totals {
        by_calls,
        by_kind: BTreeMap::from([("plain".into(), by_calls), ("mapped".into(), mapped)]),
        read_sizes: BTreeMap::from([(4096, n)]),
        write_sizes: BTreeMap::new(),
        numbers: BTreeMap::from([
            ("read_seconds".to_string(), Number::Real(0.001 * n as f64)),
            ("consecutive_reads_total".to_string(), Number::Whole(n)),
        ]),
    }
}

/// Gives each file what was done with it.
pub fn follow(files: &mut [FileRow]) {
    for (n, row) in files.iter_mut().enumerate() {
        row.used = Some(Box::new(FileUse {
            name: row.path.clone(),
            object: Object::Regular,
            pid: row.pid,
            process: "cc1".to_string(),
            device: 8 << 20,
            inode: 1000 + n as u64,
            is_deleted: false,
            totals: totals(n as u64),
            read_strides: Vec::new(),
            write_strides: Vec::new(),
            again_quality: Quality::Exact,
            slowest: None,
        }));
    }
}

pub fn found(uses_total: u64) -> IoFound {
    IoFound {
        wall_seconds: super::WALL,
        mechanism: Mechanism::Bpf,
        quality: Quality::Exact,
        witness: None,
        unavailable: BTreeMap::new(),
        totals: totals(4000),
        uses_total,
        flows: vec![Flow {
            name: "/srv/build/server/libserver.a".to_string(),
            object: Object::Regular,
            writer: 4712,
            writer_name: "ar".to_string(),
            reader: 4713,
            reader_name: "ld.lld".to_string(),
            bytes: Some(148_100_000),
        }],
        advice: vec![Advice {
            rule: "small_calls".to_string(),
            file: "/srv/build/build.log".to_string(),
            text: "96 % of 20 000 writes are below 4 KiB".to_string(),
            seconds: 1.25,
            figures: BTreeMap::from([("small_calls".to_string(), Number::Whole(19_200))]),
        }],
        rest: Some(Rest { uses_total: 12, unkept_calls_total: 3, totals: totals(5) }),
        notes: vec!["2 names of files could not be told when they were first used".to_string()],
    }
}
