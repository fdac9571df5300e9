//! Sends datagrams under a token and prints what a part of the agent's configuration has of them:
//! `cargo run --example own PART NUMBER`.

use std::net::UdpSocket;

use libweigh::{Subsystem, Thread};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (name, number) = arguments.next().zip(arguments.next()).ok_or("a part and its number")?;
    let thread = Thread::open();
    let part = thread.part(&name).ok_or_else(|| format!("there is no part {name}"))?;
    let own = thread.own(part, &number).ok_or_else(|| format!("{name} has no {number}"))?;
    assert_eq!(thread.part("block"), Some(Subsystem::Block as u32));
    assert_eq!(thread.part_name(part).as_ref(), Some(&name));
    let to = UdpSocket::bind("127.0.0.1:0")?;
    let from = UdpSocket::bind("127.0.0.1:0")?;
    let address = to.local_addr()?;
    for _ in 0..31 {
        let wanted = 1 << part | Subsystem::Socket.bit();
        thread.measure(1, wanted, || from.send_to(&[7; 1003], address))?;
    }
    let account = thread.read(1).ok_or("no account")?;
    println!("{} sent {}", account.calls.get(), account.socket.sent_bytes.get());
    match thread.why_not(part) {
        Some(why) => println!("{name}: {why}"),
        None => println!(
            "{name} {} {number} {}",
            account.parts[part as usize].entries.get(),
            account.own[own].get()
        ),
    }
    println!("memory: {}", thread.why_not(Subsystem::Memory as u32).unwrap_or_default());
    Ok(())
}
