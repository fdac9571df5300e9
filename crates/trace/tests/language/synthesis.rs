//! What is found in several events together, held to what a slow and simple way finds in the same records.

use proptest::prelude::*;
use weigh_schema::synthesis::{KeyPart, Pairs, Table, What};
use weigh_trace::condition::Source;
use weigh_trace::counter::Counter;
use weigh_trace::path_resolve::Shape;
use weigh_trace::probe::{Content, Probe, ProbeField};
use weigh_trace::record::{HEADER_BYTES, Record};
use weigh_trace::signature::Attach;
use weigh_trace::synthesis::ask::Ask;
use weigh_trace::synthesis::merge::Merge;
use weigh_trace::synthesis::{Gaps, Out, Synthesis};
use weigh_trace::value::Value;

/// An event with a number of 64 bits, one of 32 bits that may be below 0, and a text of 8 bytes.
fn probe(name: &str) -> Probe {
    let fields =
        [("size", Shape::Unsigned, 8), ("code", Shape::Signed, 4), ("comm", Shape::Text, 8)];
    let mut offset = HEADER_BYTES as u32;
    let fields = fields.map(|(name, shape, bytes)| {
        offset += bytes;
        ProbeField {
            name: name.to_string(),
            shape,
            is_signed: shape == Shape::Signed,
            offset: offset - bytes,
            bytes,
            content: Content::Number(Source::Tid),
            constants: Vec::new(),
        }
    });
    Probe {
        name: name.to_string(),
        attach: Attach::Tracepoint { btf_id: 0, module: None },
        id: None,
        has_own_id: false,
        fields: fields.to_vec(),
        test: None,
        sampling: None,
        owner: None,
        packet: None,
        only: None,
        compatible: None,
        record_bytes: offset,
    }
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    event: u32,
    time_ns: u64,
    cpu: u32,
    tid: u32,
    size: u64,
    code: i32,
    absent: u32,
}

fn seen(event: u32, time_ns: u64, tid: u32) -> Seen {
    Seen { event, time_ns, cpu: 0, tid, size: 0, code: 0, absent: 0 }
}

fn bytes(seen: &Seen) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(seen.event.to_le_bytes());
    bytes.extend(60u32.to_le_bytes());
    bytes.extend(seen.time_ns.to_le_bytes());
    bytes.extend(0xabcdu64.to_le_bytes());
    for word in [seen.cpu, 1, seen.tid, seen.absent] {
        bytes.extend(word.to_le_bytes());
    }
    bytes.extend(seen.size.to_le_bytes());
    bytes.extend(seen.code.to_le_bytes());
    bytes.extend(format!("t{:<7}", seen.tid % 10).replace(' ', "\0").as_bytes());
    bytes
}

/// What is found in these, and the records that are derived, when it ends at that time.
fn find(asks: &[Ask], most: usize, all: &[Seen], end_ns: u64) -> (Vec<What>, Vec<Vec<u8>>) {
    let probes = [probe("g:a"), probe("g:b")];
    let mut synthesis = Synthesis::new(asks, &[&probes[0], &probes[1]], most).unwrap();
    let (mut out, mut derived) = (Out::default(), Vec::new());
    for one in all {
        let bytes = bytes(one);
        synthesis.take(&probes[one.event as usize], Record::new(&bytes).unwrap(), &mut out);
    }
    synthesis.pass(end_ns, &mut out);
    derived.extend(out.derived().map(|record| record.bytes().to_vec()));
    let gaps = Gaps { lost: &[], sampling: &[] };
    let report = synthesis.report(usize::MAX, (end_ns, 2.0), 0, &gaps);
    assert_eq!(report.events_total, all.len() as u64);
    (report.found.into_iter().map(|found| found.what).collect(), derived)
}

fn pairs(what: &What) -> &Pairs {
    match what {
        What::Latency(pairs) | What::Sequence(pairs) => pairs,
        other => panic!("{other:?}"),
    }
}

fn table(what: &What) -> &Table {
    match what {
        What::Rate(table) | What::Top(table) | What::Histogram(table) => table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn counters_of_pairs_on_one_cpu_have_differences() {
    let counting = || {
        let mut probe = probe("g:a");
        let cycles = Counter::named("cycles").unwrap();
        probe.fields[0].content = Content::Number(Source::Counter(cycles));
        probe
    };
    let probes = [counting(), Probe { name: "g:b".to_string(), ..counting() }];
    let ask = Ask::latency("a -> b by tid").unwrap();
    let mut synthesis = Synthesis::new(&[ask], &[&probes[0], &probes[1]], 99).unwrap();
    let of = |event, tid, size, cpu, absent| {
        let time_ns = u64::from(10 * event + tid);
        Seen { cpu, size, absent, ..seen(event, time_ns, tid) }
    };
    // Known; on two CPUs; the first, and the second, without the count; one that went back.
    let firsts = [(7, 0, 0), (7, 0, 0), (7, 0, 1), (7, 0, 0), (7, 0, 0), (100, 3, 0)];
    let seconds = [(30, 0, 0), (30, 1, 0), (30, 0, 0), (30, 0, 1), (6, 0, 0), (140, 3, 0)];
    for (event, all) in [(0, firsts), (1, seconds)] {
        for (tid, (size, cpu, absent)) in (0..).zip(all) {
            let bytes = bytes(&of(event, tid, size, cpu, absent));
            let record = Record::new(&bytes).unwrap();
            synthesis.take(&probes[event as usize], record, &mut Out::default());
        }
    }
    let gaps = Gaps { lost: &[], sampling: &[] };
    let report = synthesis.report(9, (99, 1.0), 0, &gaps);
    let told = pairs(&report.found[0].what);
    assert_eq!(told.pairs_total, 6);
    let [counter] = &told.counters[..] else { panic!("{told:?}") };
    let totals = [counter.pairs_total, counter.other_cpu_total, counter.absent_total];
    assert_eq!((totals, counter.sum), ([2, 1, 3], 63));
    let values = counter.values.as_ref().unwrap();
    assert_eq!((values.min, values.max), (23.0, 40.0));
}

#[test]
fn an_event_that_is_added_is_looked_at_and_none_follows_once_it_is_removed() {
    let asks = [
        Ask::top("99 by event, tid").unwrap(),
        Ask::rate("of g:b by tid").unwrap(),
        Ask::rate("of g:a by tid").unwrap(),
        Ask::latency("g:a -> g:b by tid").unwrap(),
        Ask::sequence("g:a not followed by g:b by tid within 1us").unwrap(),
    ];
    // The one that comes is called as one that is there.
    let probes = [probe("g:a"), probe("g:b"), probe("g:b")];
    let all = [&probes[0], &probes[1], &probes[2]];
    let mut synthesis = Synthesis::new(&asks, &all[..2], 99).unwrap();
    let mut out = Out::default();
    let mut takes = |synthesis: &mut Synthesis, event: u32, time_ns, tid| {
        let bytes = bytes(&seen(event, time_ns, tid));
        synthesis.take(&probes[event as usize], Record::new(&bytes).unwrap(), &mut out);
    };
    (0..5).for_each(|tid| takes(&mut synthesis, 0, 10, tid));
    takes(&mut synthesis, 1, 20, 3);
    synthesis.add(&asks, &all).unwrap();
    (0..7).for_each(|tid| takes(&mut synthesis, 2, 30, tid));
    synthesis.remove(1);
    takes(&mut synthesis, 0, 40, 9);
    synthesis.pass(1_000_000, &mut out);
    assert_eq!(out.derived().count(), 0, "who was not watched may have been followed");
    let gaps = Gaps { lost: &[], sampling: &[] };
    let found = synthesis.report(99, (50, 1.0), 0, &gaps).found;
    let events =
        |n: usize| -> u64 { table(&found[n].what).rows.iter().map(|row| row.events_total).sum() };
    assert_eq!([events(0), events(1), events(2)], [14, 8, 6]);
    let named = |row: &weigh_schema::synthesis::Row| row.key[0] == KeyPart::Text("g:b".into());
    assert_eq!(table(&found[0].what).rows.iter().filter(|row| named(row)).count(), 8);
    for n in [3, 4] {
        let told = pairs(&found[n].what);
        let totals = [told.first_total, told.pairs_total, told.unanswered_total];
        assert_eq!((totals, told.waiting_total), ([6, 1, 5], 0), "{told:?}");
    }
    // What lacks the value cannot be looked at, and none does then.
    let asks = [Ask::top("9 by tid").unwrap(), Ask::histogram("size by tid").unwrap()];
    let mut synthesis = Synthesis::new(&asks, &all[..1], 99).unwrap();
    let mut bare = probe("g:c");
    bare.fields.remove(0);
    assert!(synthesis.add(&asks, &[&probes[0], &bare]).is_err());
    synthesis.take(&bare, Record::new(&bytes(&seen(1, 1, 1))).unwrap(), &mut Out::default());
    let found = synthesis.report(9, (50, 1.0), 0, &gaps).found;
    assert_eq!(table(&found[0].what).rows.len(), 0);
}

#[test]
fn an_odd_number_of_pairs_of_several_cpus_is_found_exactly() {
    // The ring of each CPU is read for itself: what answers comes before what it answers.
    let mut rings = vec![Vec::new(); 3];
    for n in 0..1003u64 {
        let (tid, began) = (1 + (n % 7) as u32, 1_000_000 + n * 1000);
        rings[(n % 2) as usize + 1].push(seen(0, began, tid));
        rings[0].push(seen(1, began + 100 + n % 50, tid));
    }
    let mut merge = Merge::default();
    for (cpu, ring) in rings.iter().enumerate() {
        for one in ring {
            merge.push(Record::new(&bytes(&Seen { cpu: cpu as u32, ..*one })).unwrap());
        }
    }
    let mut sorted = Vec::new();
    let take = |sorted: &mut Vec<Seen>, r: Record<'_>| {
        sorted.push(seen(r.event(), r.time_ns(), r.tid()));
    };
    // 5 ms behind what is known to be all nothing is handed on yet.
    assert_eq!(merge.hand_on(Some(6_000_000), |r| take(&mut sorted, r)), 1_000_000);
    assert_eq!(sorted.len(), 1);
    merge.hand_on(Some(u64::MAX), |r| take(&mut sorted, r));
    assert!(sorted.is_sorted_by_key(|one| one.time_ns) && merge.late() == 0);
    assert_eq!(sorted.len(), 2 * 1003);

    let ask = Ask::latency("a -> g:b by tid within 1ms").unwrap();
    let (found, _) = find(&[ask], 100, &sorted, u64::MAX);
    let pairs = pairs(&found[0]);
    assert_eq!((pairs.first_total, pairs.second_total, pairs.pairs_total), (1003, 1003, 1003));
    assert_eq!((pairs.unanswered_total, pairs.unmatched_total, pairs.waiting_total), (0, 0, 0));
    let spread = pairs.seconds.as_ref().unwrap();
    assert_eq!((spread.count, spread.min, spread.max), (1003, 100e-9, 149e-9));
}

proptest! {
    #[test]
    fn records_of_any_cpus_come_out_as_if_all_were_sorted_at_once(
        // How much later the next record is, whose it is, and whether an interrupt has come before its place was taken.
        all in proptest::collection::vec((0u64..200_000, 0u32..5, any::<bool>()), 1..400),
        rounds in 1usize..20,
    ) {
        let mut now = 100_000_000;
        let mut records = Vec::new();
        for (number, (later, cpu, is_before)) in all.into_iter().enumerate() {
            now += later;
            let time_ns = if is_before { now - 1_000_000 } else { now };
            records.push(Seen { cpu, ..seen(number as u32, time_ns, 1) });
        }
        let mut merge = Merge::default();
        let mut found = Vec::new();
        for round in records.chunks(records.len().div_ceil(rounds)) {
            // The rings are read one after the other.
            for cpu in 0..5 {
                for one in round.iter().filter(|one| one.cpu == cpu) {
                    merge.push(Record::new(&bytes(one)).unwrap());
                }
            }
            let until = round.iter().map(|one| one.time_ns).max().unwrap() + 3_999_999;
            merge.hand_on(Some(until), |r| found.push((r.time_ns(), r.cpu(), r.event())));
        }
        merge.hand_on(Some(u64::MAX), |r| found.push((r.time_ns(), r.cpu(), r.event())));
        let mut sorted: Vec<_> = records.iter().map(|one| (one.time_ns, one.cpu, one.event)).collect();
        sorted.sort();
        assert_eq!(merge.late(), 0);
        assert_eq!(found, sorted);
    }
}

#[test]
fn what_comes_too_late_is_counted_and_not_put_before_what_was_handed_on() {
    let mut merge = Merge::default();
    let mut times = Vec::new();
    merge.push(Record::new(&bytes(&seen(0, 20_000_000, 1))).unwrap());
    merge.hand_on(Some(30_000_000), |r| times.push(r.time_ns()));
    merge.push(Record::new(&bytes(&seen(0, 10_000_000, 1))).unwrap());
    merge.push(Record::new(&bytes(&seen(0, 40_000_000, 1))).unwrap());
    assert_eq!(merge.hand_on(Some(30_000_000), |r| times.push(r.time_ns())), 25_000_000);
    assert_eq!((&times[..], merge.late()), (&[20_000_000, 10_000_000][..], 1));
    // Of a ring that is not empty yet, all have come up to its last record.
    merge.push(Record::new(&bytes(&Seen { cpu: 1, ..seen(0, 90_000_000, 1) })).unwrap());
    merge.push(Record::new(&bytes(&seen(0, 46_000_000, 1))).unwrap());
    merge.hand_on(None, |r| times.push(r.time_ns()));
    assert_eq!(times.last(), Some(&40_000_000));
}

#[test]
fn each_first_event_is_counted_as_what_became_of_it() {
    let all = [
        seen(1, 5, 9),  // nobody waits for it
        seen(0, 10, 1), // overwritten
        seen(0, 11, 1), // answered
        seen(0, 12, 2), // unanswered: 101 later
        seen(0, 13, 3), // no room
        seen(1, 20, 1),
        Seen { absent: 1, ..seen(0, 21, 4) }, // its key is another
        seen(1, 113, 2),
        seen(0, 120, 7), // waits
    ];
    let ask = |text| Ask::latency(text).unwrap();
    let (found, _) = find(&[ask("a -> b by tid within 100ns")], 2, &all, 150);
    let told = pairs(&found[0]);
    assert_eq!((told.first_total, told.second_total, told.pairs_total), (6, 3, 1));
    assert_eq!((told.overwritten_total, told.not_kept_total), (1, 1));
    assert_eq!((told.unanswered_total, told.waiting_total), (2, 1), "{told:?}");
    assert_eq!(told.unmatched_total, 2);
    assert_eq!(told.seconds.as_ref().unwrap().max, 9e-9);

    let (found, _) = find(&[ask("a -> b by size, comm")], 9, &all, 150);
    let told = pairs(&found[0]);
    assert_eq!((told.without_key_total, told.pairs_total), (1, 2), "{told:?}");
}

#[test]
fn a_pair_becomes_an_event_with_the_fields_of_both() {
    let first = Seen { size: 77, code: -3, absent: 0b100, ..seen(0, 1000, 5) };
    let second = Seen { cpu: 2, size: 78, absent: 0b010, ..seen(1, 1400, 6) };
    let ask = Ask::sequence("a followed by b by id within 1us").unwrap();
    let not = Ask::sequence("b not followed by a by id within 1us").unwrap();
    let asks = [ask, not];
    let (_, derived) = find(&asks, 9, &[first, second], 2401);
    let probes = [probe("g:a"), probe("g:b")];
    let synthesis = Synthesis::new(&asks, &[&probes[0], &probes[1]], 9).unwrap();
    let shown = |number: usize| {
        let record = Record::new(&derived[number]).unwrap();
        let probe = synthesis.derived()[number];
        assert_eq!((record.event(), record.size()), (number as u32, probe.record_bytes));
        let names = probe.fields.iter().map(|field| field.name.as_str());
        let fields: Vec<String> = names
            .zip(probe.values(record))
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let header = format!("{} {} {} ", record.time_ns(), record.cpu(), record.tid());
        (probe.name.clone(), header + &fields.join(" "))
    };
    let (name, text) = shown(0);
    assert_eq!(name, "g:a followed by g:b");
    assert_eq!(
        text,
        "1400 0 5 after_ns=400 then_cpu=2 then_tgid=1 then_tid=6 size=77 code=-3 comm=- \
         then_size=78 then_code=- then_comm=t6"
    );
    let (name, text) = shown(1);
    assert_eq!(name, "g:b not followed by g:a");
    assert_eq!(text, "2400 2 6 after_ns=1000 size=78 code=- comm=t6", "when that was certain");
}

#[test]
fn the_most_frequent_rates_and_spreads_are_exact_as_long_as_there_is_room() {
    let second = 1_000_000_000;
    let mut all = Vec::new();
    for n in 0..100u64 {
        let one =
            seen((n % 2) as u32, n * second / 50, 1 + u32::from(n >= 60) + u32::from(n >= 95));
        all.push(Seen {
            size: n,
            code: if n % 10 == 0 { -1 } else { 1 },
            cpu: (n % 3) as u32,
            ..one
        });
    }
    let asks = [
        Ask::top("2 by tid").unwrap(),
        Ask::rate("by event, comm").unwrap(),
        Ask::histogram("size of b by code").unwrap(),
        Ask::top("9 of 0 by size").unwrap(),
    ];
    let (found, _) = find(&asks, 10, &all, 2 * second);
    let top = table(&found[0]);
    let rows: Vec<_> = top.rows.iter().map(|row| (row.key.clone(), row.events_total)).collect();
    assert_eq!(rows, [(vec![KeyPart::Unsigned(1)], 60), (vec![KeyPart::Unsigned(2)], 35)]);
    assert_eq!((top.rest_keys_total, top.rest_events_total, top.others_total), (1, 5, 0));

    let rates = table(&found[1]);
    assert_eq!(rates.by, ["event", "comm"]);
    let first = &rates.rows[0];
    assert_eq!(first.key, ["g:a", "t1"].map(|text| KeyPart::Text(text.to_string())));
    let rate = first.rate.unwrap();
    assert_eq!((first.events_total, rate.per_second, rate.last, rate.most), (30, 15.0, 5, 25));

    let spread = table(&found[2]);
    assert_eq!(spread.rows.iter().map(|row| row.events_total).sum::<u64>(), 50);
    let values = spread.rows[0].values.as_ref().unwrap();
    assert_eq!((values.count, values.min, values.max, values.mean), (50, 1.0, 99.0, 50.0));

    let bounded = table(&found[3]);
    assert_eq!((bounded.rows.len(), bounded.others_total, bounded.rest_keys_total), (9, 40, 1));
}

#[test]
fn what_is_not_there_is_refused_with_what_is_near() {
    let probes = [probe("g:alpha"), probe("g:beta"), probe("h:beta")];
    let probes = [&probes[0], &probes[1], &probes[2]];
    for (ask, words) in [
        (Ask::latency("alpa -> g:beta by tid"), &["alpa", "alpha"][..]),
        (Ask::latency("alpha -> beta by tid"), &["1, 2"]),
        (Ask::latency("alpha -> 7 by tid"), &["'7'"]),
        (Ask::latency("alpha -> g:beta by sice"), &["g:alpha", "sice", "size"]),
        (Ask::latency("alpha -> g:beta by tid == comm"), &["a number is never"]),
        (Ask::histogram("comm by tid"), &["comm", "only numbers"]),
        (Ask::rate("of alpha by com"), &["com", "comm"]),
    ] {
        let ask = ask.unwrap();
        let refusal = Synthesis::new(std::slice::from_ref(&ask), &probes, 9).err().unwrap();
        let text = refusal.to_string();
        assert!(words.iter().all(|word| text.contains(word)), "{text}");
        assert_eq!(refusal.text, ask.text);
    }
}

/// Events of few threads, close to each other.
fn any_events() -> impl Strategy<Value = Vec<Seen>> {
    let one = (0u32..2, 0u64..40, 0u32..3);
    prop::collection::vec(one, 0..80).prop_map(|steps| {
        let mut time = 0;
        let next = |(event, step, tid)| {
            time += step;
            seen(event, time, tid)
        };
        steps.into_iter().map(next).collect()
    })
}

proptest! {
    #[test]
    fn sequences_are_those_that_a_simple_search_finds(all in any_events(), end in 0u64..200) {
        let within = 50;
        let end = all.last().map_or(0, |one| one.time_ns) + end;
        let follows = |place: usize| {
            let first: Seen = all[place];
            let in_time = all[place + 1..].iter().find(|second| {
                second.event == 1 && second.tid == first.tid && second.time_ns <= first.time_ns + within
            });
            in_time.map(|second| second.time_ns)
        };
        let is_overwritten = |place: usize, until: u64| {
            let rest = &all[place + 1..];
            let answer = rest.iter().position(|one| one.event == 1 && one.tid == all[place].tid);
            let before = &rest[..answer.unwrap_or(rest.len())];
            before.iter().any(|one| one.event == 0 && one.tid == all[place].tid && one.time_ns <= until)
        };
        let firsts = || (0..all.len()).filter(|place| all[*place].event == 0);
        let unfollowed = firsts()
            .filter(|place| follows(*place).is_none() && all[*place].time_ns + within < end)
            .count();
        let followed = firsts()
            .filter(|place| follows(*place).is_some_and(|time| !is_overwritten(*place, time)))
            .count();
        let asks = [
            Ask::sequence("a not followed by b by tid within 50ns").unwrap(),
            Ask::sequence("a followed by b by tid within 50ns").unwrap(),
        ];
        let (found, derived) = find(&asks, 1000, &all, end);
        let of = |number| derived.iter().filter(|r| Record::new(r).unwrap().event() == number).count();
        prop_assert_eq!((of(0), of(1)), (unfollowed, followed));
        for what in &found {
            let told = pairs(what);
            let sum = told.pairs_total + told.overwritten_total + told.unanswered_total
                + told.waiting_total + told.not_kept_total;
            prop_assert_eq!(sum, told.first_total);
            prop_assert_eq!(told.first_total, firsts().count() as u64);
        }
    }

    #[test]
    fn no_first_event_is_without_an_end_however_little_room_there_is(all in any_events(), most in 1usize..4) {
        let asks = [
            Ask::sequence("a not followed by b by tid within 30ns").unwrap(),
            Ask::latency("a -> b by tid within 30ns").unwrap(),
            Ask::latency("a -> a by tid").unwrap(),
        ];
        let (found, _) = find(&asks, most, &all, u64::MAX);
        for what in &found {
            let told = pairs(what);
            let sum = told.pairs_total + told.overwritten_total + told.unanswered_total
                + told.waiting_total + told.not_kept_total;
            prop_assert_eq!(sum, told.first_total);
            prop_assert!(told.waiting_total <= most as u64);
        }
    }
}

#[test]
fn an_event_that_follows_itself_has_the_time_between() {
    let all = [seen(0, 10, 1), seen(0, 15, 1), seen(0, 35, 1)];
    let (found, _) = find(&[Ask::latency("a -> a by tid").unwrap()], 9, &all, 99);
    let told = pairs(&found[0]);
    assert_eq!((told.pairs_total, told.waiting_total, told.unmatched_total), (2, 1, 1));
    assert_eq!(told.seconds.as_ref().unwrap().max, 20e-9);
}

#[test]
fn a_value_is_absent_where_its_bit_says_so() {
    let probe = probe("g:a");
    let bytes = bytes(&Seen { absent: 1, size: 3, code: 4, ..seen(0, 1, 1) });
    let record = Record::new(&bytes).unwrap();
    assert_eq!(probe.value(record, 0), Value::Absent);
    assert_eq!(probe.value(record, 1), Value::Signed(4));
    assert_eq!(probe.value(record, 9), Value::Absent);
}
