//! A limit on what an account has sent: prints what is told, and when.
//!
//! usage: limits

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

const SUBSYSTEMS: u64 = 1 << libweigh::Subsystem::Socket as u32;
const BYTES: u64 = 1009;

fn main() -> std::io::Result<()> {
    let thread = libweigh::Thread::open();
    if let Some(why) = thread.why() {
        println!("not measured: {why}");
        return Ok(());
    }
    let (sender, receiver) = UnixDatagram::pair()?;
    let send = || -> std::io::Result<()> {
        thread.measure(17, SUBSYSTEMS, || sender.send(&[0; BYTES as usize]))?;
        receiver.recv(&mut [0; BYTES as usize]).map(drop)
    };
    let unknown = thread.limit(17, |account| &account.socket.sent_bytes, 3 * BYTES);
    println!("before: {unknown:?}");
    send()?;
    thread.limit(17, |account| &account.socket.sent_bytes, 3 * BYTES).expect("a limit");
    thread.limit(17, |account| &account.calls, 1000).expect("another one");
    thread.unlimit(17, |account| &account.calls);
    send()?;
    println!("below: {:?}", thread.passed());
    send()?;
    // A program with an event loop waits for `thread.descriptor()` there.
    let passed = loop {
        match thread.passed() {
            Some(passed) => break passed,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    let account = thread.read(17).expect("it has one");
    let is_it = passed.is_of(account, |account| &account.socket.sent_bytes);
    println!("passed: {} {} {} {is_it}", passed.token, passed.value, passed.reached);
    println!("again: {:?}", thread.passed());
    Ok(())
}
