//! What was read and written in the invented recording.

use std::collections::BTreeMap;

use weigh_schema::io::{
    Advice, FileUse, Flow, IoFound, Object, Rest, Slowest, Stride, Totals, Transferred, Trust,
};
use weigh_schema::{Mechanism, Number, Quality};

/// Numbers that differ from row to row.
fn totals(n: u64) -> Totals {
    let by_calls = Transferred {
        read_bytes: 4096 * n,
        read_calls: n,
        written_bytes: 1024 * (n % 7),
        write_calls: n % 7,
        ..Transferred::default()
    };
    let mapped = Transferred { read_bytes: 8192, read_calls: 2, ..Transferred::default() };
    Totals {
        by_calls,
        by_kind: BTreeMap::from([("plain".into(), by_calls), ("mapped".into(), mapped)]),
        read_sizes: BTreeMap::from([(4096, n)]),
        write_sizes: BTreeMap::from([(1024, n % 7)]),
        numbers: BTreeMap::from([
            ("read_seconds".to_string(), Number::Real(0.001 * n as f64)),
            ("consecutive_reads_total".to_string(), Number::Whole(n)),
            ("reread_bytes".to_string(), Number::Whole(4096 * (n / 2))),
        ]),
    }
}

/// Gives each file what was done with it.
pub fn follow(files: &mut [FileUse]) {
    for (n, row) in files.iter_mut().enumerate() {
        *row = FileUse {
            object: Object::Regular,
            process: "cc1".to_string(),
            device: 8 << 20,
            inode: 1000 + n as u64,
            totals: totals(n as u64),
            read_strides: vec![Stride { bytes: 65_536, times: n as u64 }],
            write_strides: vec![Stride { bytes: -4096, times: 1 }],
            again_quality: if n % 2 == 0 { Quality::Exact } else { Quality::Estimated },
            readahead_quality: Quality::Exact,
            slowest: (n > 0).then(|| Slowest {
                call: "read".to_string(),
                seconds: 0.0005 * n as f64,
                at_seconds: 1.25,
            }),
            ..FileUse::followed(row.pid, row.name.clone())
        };
    }
}

/// A file with two writers and two readers, one of them through a pipe, and a name that is no markup.
fn flows() -> Vec<Flow> {
    let flow = |writer: (u32, &str), reader: (u32, &str), name: &str, bytes: Option<u64>| Flow {
        name: name.to_string(),
        name_base64: None,
        object: if bytes.is_some() { Object::Regular } else { Object::Pipe },
        writer: writer.0,
        writer_name: writer.1.to_string(),
        writer_name_base64: None,
        reader: reader.0,
        reader_name: reader.1.to_string(),
        reader_name_base64: None,
        bytes,
        is_upper_bound: false,
    };
    let (ar, link, strip, gzip) =
        ((4712, "ar"), (4713, "ld.lld"), (4714, "<b>strip"), (4715, "gzip"));
    let library = "/srv/build/server/libserver.a";
    vec![
        flow(ar, link, library, Some(148_100_000)),
        flow(strip, link, library, Some(2_000_003)),
        flow(ar, strip, library, Some(1009)),
        flow(link, gzip, "pipe:[4711]", None),
    ]
}

pub fn found(uses_total: u64) -> IoFound {
    IoFound {
        untold: None,
        wall_seconds: super::WALL,
        mechanism: Mechanism::Bpf,
        quality: Quality::Exact,
        witness: None,
        price: None,
        totals: totals(4000),
        uses_total,
        flows: flows(),
        advice: vec![Advice {
            rule: "small_calls".to_string(),
            file: "/srv/build/build.log".to_string(),
            file_base64: None,
            text: "96 % of 20 000 writes are below 4 KiB".to_string(),
            seconds: 1.25,
            figures: BTreeMap::from([("small_calls".to_string(), Number::Whole(19_200))]),
        }],
        rest: Some(Rest { uses_total: 12, unkept_calls_total: 3, totals: totals(5) }),
        qualities: BTreeMap::from([(
            "filled_bytes".to_string(),
            Trust { quality: Quality::Unavailable, reason: "nobody looked at it".to_string() },
        )]),
        notes: vec!["2 names of files could not be told when they were first used".to_string()],
    }
}
