//! Sockets where the kernel does not count them: alike by each mechanism, or not exact.

use weigh_schema::Quality;

use crate::support::agent::NOBODY;
use crate::support::run::Weigh;

/// What is sent and received is in no sum of the kernel: where nobody looks at sockets, whether there was any is not known.
#[test]
fn a_sum_that_may_lack_what_sockets_moved_is_not_exact() {
    for by in ["ptrace", "poll", "preload --level 2"] {
        let measured = Weigh::workload("io send 100003 4099")
            .run_by(NOBODY)
            .options(&format!("--mechanism {by}"))
            .end();
        for metric in ["io_read_bytes_total", "io_written_bytes_total", "io_write_calls_total"] {
            let value = measured.value(metric);
            let reason = value.reason.clone().unwrap_or_default();
            measured.check(value.quality != Quality::Exact && reason.contains("send"), || {
                format!("{by}: {metric}: {value:?}")
            });
        }
    }
}

/// One that fails counts as a call if it came to a socket; of those that move several messages each message does.
#[test]
fn calls_on_sockets_count_alike_by_each_mechanism() {
    const SCRIPT: &str = "
import ctypes
from socket import *
library = ctypes.CDLL(None)
class Message(ctypes.Structure):
    _fields_ = [(\"name\", ctypes.c_void_p), (\"name_length\", ctypes.c_uint), (\"parts\", ctypes.c_void_p),
        (\"number\", ctypes.c_size_t), (\"control\", ctypes.c_void_p), (\"control_length\", ctypes.c_size_t),
        (\"flags\", ctypes.c_size_t), (\"length\", ctypes.c_size_t)]
room = ctypes.create_string_buffer(64)
part = (ctypes.c_size_t * 2)(ctypes.addressof(room), 21)
messages = (Message * 5)(*(Message(parts=ctypes.addressof(part), number=1) for _ in range(5)))
one, other = socketpair(AF_UNIX, SOCK_DGRAM)
def several(call, at, number, expected):
    extra = (None,) if call == \"recvmmsg\" else ()
    assert getattr(library, call)(at.fileno(), ctypes.byref(messages), number, MSG_DONTWAIT, *extra) == expected
for _ in range(700):
    assert library.recv(one.fileno(), room, 64, MSG_DONTWAIT) == -1
for _ in range(100):
    several(\"recvmmsg\", other, 5, -1)
    several(\"sendmmsg\", one, 3, 3)
    several(\"recvmmsg\", other, 5, 3)
other.close()
for _ in range(500):
    assert library.send(one.fileno(), room, 64, MSG_NOSIGNAL) == -1
file = open(\"/dev/null\", \"r+\")
for at in 100 * (file.fileno(), 999):
    assert library.send(at, room, 64, 0) == library.recv(at, room, 64, 0) == -1";
    const NOTHING: &str = "import ctypes; from socket import *; file = open(\"/dev/null\", \"r+\")";
    let mut mechanisms = vec!["ptrace --level 3", "preload"];
    if crate::support::is_root() {
        mechanisms.push("bpf");
    }
    for by in mechanisms {
        let run = |text: &str| {
            let line = format!("exec python3 -c '{text}'");
            Weigh::bash(&line).options(&format!("--mechanism {by}")).end()
        };
        let (nothing, moved) = (run(NOTHING), run(SCRIPT));
        moved.check(moved.status.success(), || format!("{by}: it failed"));
        for (metric, expected) in [
            ("io_read_calls_total", 1000.0),
            ("io_write_calls_total", 800.0),
            ("io_read_bytes_total", 6300.0),
            ("io_written_bytes_total", 6300.0),
        ] {
            let more = moved.number(metric) - nothing.number(metric);
            // Python itself makes a read more or less.
            let is_right = (more - expected).abs() < 9.0;
            moved.check(is_right, || format!("{by}: {metric} {more}, expected {expected}"));
        }
    }
}

/// A number instead of a function's name passes the library by, and is told.
#[test]
fn calls_by_their_numbers_are_told_by_the_library() {
    let script = "import ctypes, socket; one, other = socket.socketpair(); \
        assert ctypes.CDLL(None).syscall(44, one.fileno(), b'x' * 909, 909, 0, None, 0) == 909";
    let program = ["python3", "-c", script];
    let measured = Weigh::run(program).options("--mechanism preload").end();
    assert!(measured.status.success(), "{}", measured.everything());
    let value = measured.value("io_written_bytes_total");
    let reason = value.reason.clone().unwrap_or_default();
    let is_told = reason.contains("passed the library by: calls by their numbers");
    measured.check(value.quality == Quality::Estimated && is_told, || format!("{value:?}"));
}
