//! Every message: what is written is read again, and nothing else is taken.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use proptest::prelude::*;
use weigh_schema::event::FileKey;
use weigh_schema::io::{FileId, Tally};
use weigh_schema::limit::OnLimit;
use weigh_schema::rule::Severity;
use weigh_schema::stream::{
    CollectorSwitch, PolicyChange, PushedEvent, PushedSample, RecordBody, RecordClient,
    RecordSource, StreamPolicy, StreamRead, StreamRecord, StreamRecords, TraceQuery,
};
use weigh_schema::update::Scope;
use weigh_wire::messages::{FileParts, FilesOpened, JobParts, Limits, Records, UnseenMemory};
use weigh_wire::{
    AgentRequest, Answer, FileRequest, HEAD_BYTES, Head, JobRequest, Message, Rule, StreamRequest,
    VERSION, WireError, WriteRequest, ask, decode, encode, receive, receive_request, send,
};

fn job_request() -> impl Strategy<Value = JobRequest> {
    let number = || any::<u32>().prop_map(f64::from);
    let limit = (".{0,40}", number(), number());
    prop_oneof![
        any::<[bool; 3]>().prop_map(|[calls, network, files]| {
            JobRequest::Open(JobParts { calls, network, files })
        }),
        Just(JobRequest::Arm),
        Just(JobRequest::Read),
        prop::collection::vec(limit, 0..9).prop_map(|limits| {
            JobRequest::SetLimits(Limits { limits, on_limit: OnLimit::Stop })
        }),
        any::<(u64, u64)>().prop_map(|(bytes, departures)| {
            JobRequest::SetUnseen(UnseenMemory { bytes, departures })
        }),
        any::<(u64, u64, u64)>().prop_map(|(process, inode, device)| {
            JobRequest::TakeOpens(FileKey { process, inode, device })
        }),
    ]
}

fn file_request() -> impl Strategy<Value = FileRequest> {
    let file = any::<(u32, u32, u64)>().prop_map(|(device, generation, inode)| FileId {
        device,
        generation,
        inode,
    });
    prop_oneof![
        any::<(u64, bool, bool)>().prop_map(|(layout, each, threads)| {
            FileRequest::Open(FileParts { layout, each, threads })
        }),
        Just(FileRequest::Join),
        Just(FileRequest::Rest),
        prop::collection::vec(file, 0..20).prop_map(FileRequest::ForgetNames),
    ]
}

fn sample() -> impl Strategy<Value = PushedSample> {
    (".{0,40}", ".{0,40}", any::<i32>()).prop_map(|(scope, metric, value)| PushedSample {
        scope: scope.into(),
        metric,
        value: f64::from(value),
        unit: None,
        query: (value > 0).then(|| {
            let asked = "A -> B by tid".to_string();
            Box::new(TraceQuery { asked, followed_pid: (value > 9).then_some(7) })
        }),
    })
}

fn stream_request() -> impl Strategy<Value = StreamRequest> {
    let read = (".{0,40}", any::<(u64, u64, bool, bool, Option<u64>)>());
    prop_oneof![
        Just(StreamRequest::Status),
        read.prop_map(|(stream, (from_sequence, at_most_bytes, newest, wait, interval_ms))| {
            StreamRequest::Read(StreamRead {
                stream,
                from_sequence,
                at_most_bytes,
                newest,
                wait,
                interval_ms,
            })
        }),
        (".{0,40}", 1u32..).prop_map(|(stream, records)| {
            StreamRequest::SetPolicy(PolicyChange {
                stream,
                policy: StreamPolicy::FillRead(records),
            })
        }),
        any::<u64>().prop_map(StreamRequest::SetInterval),
        (".{0,40}", any::<bool>()).prop_map(|(collector, is_on)| {
            StreamRequest::SetCollector(CollectorSwitch { collector, is_on })
        }),
        prop::collection::vec(sample(), 0..20).prop_map(StreamRequest::Push),
        (".{0,40}", ".{0,99}").prop_map(|(name, text)| {
            let (scope, severity) = (Scope::Node, Severity::Note);
            StreamRequest::PushEvent(PushedEvent { scope, name, severity, text })
        }),
    ]
}

fn stream_records() -> impl Strategy<Value = StreamRecords> {
    let record = (any::<(u64, u64, Option<u32>, Option<u32>)>(), sample());
    let record = record.prop_map(|((sequence, time_ns, uid, pid), sample)| StreamRecord {
        sequence,
        time_ns,
        source: RecordSource { uid, pid, client: RecordClient::Socket },
        body: RecordBody::Sample(sample),
    });
    let numbers = any::<(u64, u64, u64, u64)>();
    (numbers, prop::collection::vec(record, 0..5)).prop_map(
        |((first_sequence, next_sequence, lost, numbering_ns), records)| StreamRecords {
            first_sequence,
            next_sequence,
            lost,
            hidden: 0,
            numbering_ns,
            records,
        },
    )
}

fn answer() -> impl Strategy<Value = Answer> {
    let opened = (any::<u64>(), any::<u64>(), prop::collection::vec(".*", 0..4));
    prop_oneof![
        Just(Answer::Done),
        Just(Answer::JobOpened),
        ".*".prop_map(Answer::Refused),
        opened.prop_map(|(began_ns, elapsed_ns, missing)| {
            Answer::FilesOpened(FilesOpened { began_ns, elapsed_ns, missing })
        }),
        any::<Option<u64>>().prop_map(Answer::Opens),
        any::<u64>().prop_map(|threads| Answer::Tally(Tally { threads, ..Tally::default() })),
        any::<Vec<u8>>().prop_map(|bytes| Answer::Records(Records(bytes))),
        stream_records().prop_map(|records| Answer::Stream(Box::new(records))),
    ]
}

fn is_read_again<M: Message + PartialEq + std::fmt::Debug>(message: &M) {
    let Rule { descriptors, .. } = M::rule(message.kind()).unwrap();
    let frame = encode(message, descriptors).unwrap();
    let (again, end) = decode::<M>(&frame, descriptors).unwrap().unwrap();
    assert_eq!((&again, end), (message, frame.len()));
    for length in 0..frame.len() {
        assert!(decode::<M>(&frame[..length], descriptors).unwrap().is_none(), "{length}");
    }
    assert!(encode(message, descriptors + 1).is_err());
    assert!(decode::<M>(&frame, descriptors + 1).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(
        job in job_request(),
        file in file_request(),
        stream in stream_request(),
        answer in answer(),
    ) {
        is_read_again(&job);
        is_read_again(&stream);
        is_read_again(&AgentRequest::Watch);
        is_read_again(&file);
        is_read_again(&answer);
    }

    #[test]
    fn no_bytes_make_it_fail(
        kind in prop_oneof![0u64..0x600, 0x8000u64..0x8020, any::<u64>()],
        length in prop_oneof![0u64..100, any::<u64>()],
        descriptors in prop_oneof![0u64..3, any::<u64>()],
        payload in any::<Vec<u8>>(),
    ) {
        let head = Head { version: VERSION, kind, length, descriptors };
        let frame = [&head.bytes()[..], &payload].concat();
        for received in 0..3 {
            let _ = decode::<JobRequest>(&frame, received);
            let _ = decode::<FileRequest>(&frame, received);
            let _ = decode::<WriteRequest>(&frame, received);
            let _ = decode::<StreamRequest>(&frame, received);
            if let Ok(Some((_, end))) = decode::<Answer>(&frame, received) {
                prop_assert_eq!((end - HEAD_BYTES, received), (length as usize, descriptors as usize));
            }
        }
    }
}

proptest! {
    /// JSON of the right form with other values, too long numbers, and names of anything.
    #[test]
    fn hostile_requests_of_streams_are_refused_or_read(
        name in ".*", number in any::<i128>(), policy in ".{0,20}", behind in any::<Vec<u8>>(),
    ) {
        let name = serde_json::to_string(&name).unwrap();
        let texts = [
            format!("{{\"stream\":{name},\"from_sequence\":{number},\"at_most_bytes\":1}}"),
            format!("{{\"stream\":{name},\"policy\":\"{policy}\"}}"),
            format!("{{\"collector\":{name},\"is_on\":{number}}}"),
            format!("[{{\"scope\":{name},\"metric\":{name},\"value\":{number}}}]"),
            number.to_string(),
        ];
        for text in texts.iter().flat_map(|text| [text.as_bytes().to_vec(), [text.as_bytes(), &behind].concat()]) {
            for kind in 0x500..0x508 {
                let head = Head { version: VERSION, kind, length: text.len() as u64, descriptors: 0 };
                let frame = [&head.bytes()[..], &text].concat();
                if let Ok(Some((request, end))) = decode::<StreamRequest>(&frame, 0) {
                    prop_assert_eq!((request.kind(), end), (kind, frame.len()));
                }
            }
        }
    }
}

/// The answer to a head and some bytes behind it, and what came of the frame.
fn received(
    head: Head,
    behind: &[u8],
    with: &[OwnedFd],
) -> (Result<(), WireError>, Option<Answer>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let bytes = [&head.bytes()[..], behind].concat();
    let with: Vec<_> = with.iter().map(|fd| fd.as_fd()).collect();
    weigh_wire::send_parts(&ours, &bytes, &with, rustix::net::SendFlags::empty()).unwrap();
    ours.shutdown(std::net::Shutdown::Write).unwrap();
    let outcome = receive_request::<JobRequest>(&theirs).map(|found| assert!(found.is_some()));
    drop(theirs);
    (outcome, receive(&ours).ok().flatten().map(|(answer, _)| answer))
}

#[test]
fn a_frame_of_another_version_or_with_what_it_may_not_have_is_refused_with_the_reason() {
    let null = || OwnedFd::from(File::open("/dev/null").unwrap());
    let read = Head { version: VERSION, kind: JobRequest::Read.kind(), length: 0, descriptors: 0 };
    assert!(received(read, &[], &[]).0.is_ok());
    let (error, answer) = received(Head { version: VERSION ^ 1, ..read }, &[], &[]);
    assert!(matches!(error, Err(WireError::OtherVersion)));
    assert_eq!(answer, Some(Answer::Refused("the agent is of another version of weigh".into())));
    let arm = Head { kind: JobRequest::Arm.kind(), descriptors: 1, ..read };
    assert!(received(arm, &[], &[null()]).0.is_ok());
    let limits = Head { kind: read.kind + 4, length: 9, ..read };
    for (head, behind, with) in [
        (arm, &b""[..], vec![]),
        (Head { descriptors: 2, ..arm }, b"", vec![null(), null()]),
        (read, b"", vec![null()]),
        (Head { length: 1, ..read }, b"1", vec![]),
        (Head { kind: 0x1ff, ..read }, b"", vec![]),
        (Head { kind: WriteRequest::Open.kind(), ..read }, b"", vec![]),
        (limits, b"[1, 2, 3]", vec![]),
        (Head { length: u64::MAX, ..limits }, b"", vec![]),
        (Head { length: (1 << 16) + 1, ..limits }, b"", vec![]),
    ] {
        let (error, answer) = received(head, behind, &with);
        assert!(matches!(error, Err(WireError::NotUnderstood)), "{head:?}");
        assert!(matches!(answer, Some(Answer::Refused(_))), "{head:?}");
    }
    // One that breaks off has gone.
    let (error, answer) = received(Head { length: 60_000, ..limits }, b"{", &[]);
    assert!(matches!(error, Err(WireError::Io(_))) && answer.is_none());
}

#[test]
fn a_descriptor_comes_with_its_message_and_no_other() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    send(&ours, &JobRequest::Arm, &[ours.as_fd()]).unwrap();
    send(&ours, &JobRequest::Read, &[]).unwrap();
    assert!(send(&ours, &JobRequest::Read, &[ours.as_fd()]).is_err());
    let next = || receive::<JobRequest>(&theirs).unwrap().unwrap();
    let (first, with) = next();
    assert_eq!((first, with.len()), (JobRequest::Arm, 1));
    drop(with);
    let (second, with) = next();
    assert_eq!((second, with.len()), (JobRequest::Read, 0));
    drop(ours);
    assert!(receive::<JobRequest>(&theirs).unwrap().is_none());
}

#[test]
fn who_is_not_listened_to_any_more_finds_why() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let why = Answer::Refused("there was need of the place".to_string());
    send(&ours, &why, &[]).unwrap();
    drop(ours);
    assert_eq!(ask(&theirs, &JobRequest::Read, &[]).unwrap().0, why);
    let Err(WireError::Io(error)) = ask(&theirs, &JobRequest::Read, &[]) else {
        panic!("nobody is there")
    };
    assert_eq!(error.kind(), std::io::ErrorKind::BrokenPipe);
}
