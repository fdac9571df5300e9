//! Opens and writes odd amounts under two tokens, from several threads, and prints what the accounts
//! say: `cargo run --example opens FILE`.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::net::UnixDatagram;

use libweigh::{ALL, Counter, Peer, Reason, Subsystem, Thread};

const OPENS: u64 = 1;
const BYTES: u64 = 2;
const CALLS: usize = 23;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("a file is wanted")?;
    let thread = Thread::open();
    if let Some(why) = thread.why() {
        return Err(why.into());
    }
    thread.want(Subsystem::Socket.bit() | Subsystem::Memory.bit())?;
    let (one, other) = UnixDatagram::pair()?;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let thread = Thread::open();
            for _ in 0..CALLS {
                let file =
                    thread.measure(OPENS, ALL, || OpenOptions::new().append(true).open(&path));
                let sent = file.and_then(|mut file| file.write_all(b"x"));
                assert!(sent.is_ok(), "{sent:?}");
            }
        });
    });
    let mut left = 1_000_003;
    let (bytes, mut taken) = (vec![7; 10_007], vec![0; 20_000]);
    while left > 0 {
        let part = bytes.len().min(left);
        left -= thread.measure(BYTES, Subsystem::Socket.bit(), || one.send(&bytes[..part]))?;
        other.recv(&mut taken)?;
    }
    let opens = thread.read(OPENS).ok_or("no account")?;
    let sent = thread.read(BYTES).ok_or("no account")?;
    println!(
        "opens {} allocations {} sent {} calls {} unmeasured {}",
        opens.calls.get(),
        opens.memory.allocations.get() >= CALLS as u64,
        sent.socket.sent_bytes.get(),
        sent.calls.get(),
        sent.unmeasured.get(),
    );
    // Neither asked for, nor wanted.
    let why = thread.why_counter(Counter::Cycles);
    println!("cycles {:?} {}", opens.counter(Counter::Cycles), why.is_err());
    println!("block: {:?}", thread.why_part(Subsystem::Block).err());
    println!("settled {:?} {:?}", thread.settled(BYTES), thread.settled(99));
    let peer = Peer::open(&thread, std::process::id())?;
    println!("peer {:?}", peer.read(BYTES).map(|account| account.calls.get()));
    println!("accounts {}", peer.accounts().count());
    println!("init: {}", Peer::open(&thread, 1).err().unwrap_or(Reason::Measured));
    thread.release(BYTES)?;
    assert!(thread.read(BYTES).is_none());
    Ok(())
}
