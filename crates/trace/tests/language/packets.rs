//! Filters over packets' headers: the programs that are made of them, run here over packets that the test makes.

use crate::btf_types::Types;
use weigh_trace::btf::Btf;
use weigh_trace::event::Event;
use weigh_trace::generate::{Access, Maps, Slot, program};
use weigh_trace::path_resolve::Shape;
use weigh_trace::probe::Probe;
use weigh_trace::state::State;

/// `TRACE(net_dev_queue)(struct sk_buff *skb)` and `TRACE(netif_receive_skb)(struct sk_buff *skb)`.
fn kernel() -> Btf {
    let mut types = Types::default();
    let int = types.add("int", 1, 0, 4, &[1 << 24 | 32]);
    let word = types.add("u32", 1, 0, 4, &[32]);
    let short = types.add("u16", 1, 0, 2, &[16]);
    let byte = types.add("u8", 1, 0, 1, &[8]);
    let to_byte = types.add("", 2, 0, byte, &[]);
    let members = [
        ("len", word, 0, 0),
        ("protocol", short, 32, 0),
        ("network_header", short, 48, 0),
        ("tail", word, 64, 0),
        ("head", to_byte, 128, 0),
        ("data", to_byte, 192, 0),
    ];
    let packet = types.members("sk_buff", 4, 32, &members);
    let to_packet = types.add("", 2, 0, packet, &[]);
    let (data, skb) = (types.name("__data"), types.name("skb"));
    let bare = types.add("", 13, 2, 0, &[0, to_packet, 0, to_packet]);
    let to_bare = types.add("", 2, 0, bare, &[]);
    let named = types.add("", 13, 2, int, &[data, to_packet, skb, to_packet]);
    for name in ["net_dev_queue", "netif_receive_skb", "kfree_skb"] {
        types.add(&format!("btf_trace_{name}"), 8, 0, to_bare, &[]);
        types.add(&format!("__traceiter_{name}"), 12, 0, named, &[]);
    }
    Btf::new(types.finish()).unwrap()
}

fn check(text: &str) -> Result<Probe, String> {
    let event = Event::parse(text).map_err(|refusal| refusal.to_string())?;
    Probe::check(&kernel(), &event, &[]).map_err(|refusal| refusal.to_string())
}

/// A packet, as the kernel has it.
#[derive(Clone)]
struct Packet {
    ether_type: u16,
    /// Behind Ethernet's header.
    bytes: Vec<u8>,
    /// How many of them lie in the first part.
    first_part: usize,
}

const ETHERNET: usize = 14;

fn packet(ether_type: u16, parts: &[&[u8]]) -> Packet {
    let bytes = parts.concat();
    Packet { ether_type, first_part: bytes.len(), bytes }
}

fn ipv4(protocol: u8, fragment: u16, options: usize, above: &[u8]) -> Packet {
    let mut header = vec![0; 20 + options];
    let length = header.len() + above.len();
    header[0] = 0x40 | (header.len() / 4) as u8;
    header[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    header[6..8].copy_from_slice(&fragment.to_be_bytes());
    header[9] = protocol;
    header[12..16].copy_from_slice(&[10, 1, 2, 3]);
    header[16..20].copy_from_slice(&[192, 168, 0, 9]);
    packet(0x0800, &[&header, above])
}

fn ipv6(next: u8, above: &[u8]) -> Packet {
    let mut header = vec![0; 40];
    header[0] = 0x60;
    header[4..6].copy_from_slice(&(above.len() as u16).to_be_bytes());
    header[6] = next;
    header[8..24].copy_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    header[24..40].copy_from_slice(&[0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet(0x86dd, &[&header, above])
}

/// From port 4242 to 53.
fn udp() -> Vec<u8> {
    [&4242u16.to_be_bytes()[..], &53u16.to_be_bytes(), &[0, 8, 0, 0]].concat()
}

fn tcp(flags: u8) -> Vec<u8> {
    let mut header = vec![0; 20];
    header[..2].copy_from_slice(&443u16.to_be_bytes());
    header[2..4].copy_from_slice(&65535u16.to_be_bytes());
    header[12] = 0x50;
    header[13] = flags;
    header
}

const STACK: u64 = 0x1000_0000;
const CONTEXT: u64 = 0x2000_0000;
const SKB: u64 = 0x3000_0000;
const HEAD: u64 = 0x4000_0000;
const MAP: u64 = 0x5000_0000;
const HELPER_CPU: u64 = 8;
const HELPER_READ_KERNEL: u64 = 113;

/// A machine for programs that end at their filter.
struct Machine {
    registers: [u64; 11],
    memory: Vec<(u64, Vec<u8>)>,
}

impl Machine {
    fn new(packet: &Packet, comes: bool, state: &[u8]) -> Machine {
        let head = [&[0xee; ETHERNET][..], &packet.bytes].concat();
        let mut skb = vec![0; 32];
        skb[4..6].copy_from_slice(&packet.ether_type.to_be_bytes());
        let network = if comes { 0 } else { ETHERNET as u16 };
        skb[6..8].copy_from_slice(&network.to_le_bytes());
        skb[8..12].copy_from_slice(&((ETHERNET + packet.first_part) as u32).to_le_bytes());
        skb[16..24].copy_from_slice(&HEAD.to_le_bytes());
        let data = HEAD + if comes { ETHERNET as u64 } else { 0 };
        skb[24..32].copy_from_slice(&data.to_le_bytes());
        let memory = vec![
            (STACK, vec![0xaa; 512]),
            (CONTEXT, SKB.to_le_bytes().to_vec()),
            (SKB, skb),
            (HEAD, head),
            (MAP, state.to_vec()),
        ];
        let mut registers = [0; 11];
        (registers[1], registers[10]) = (CONTEXT, STACK + 512);
        Machine { registers, memory }
    }

    fn at(&mut self, address: u64, bytes: usize) -> Option<&mut [u8]> {
        self.memory.iter_mut().find_map(|(begin, memory)| {
            let from = usize::try_from(address.checked_sub(*begin)?).ok()?;
            memory.get_mut(from..from.checked_add(bytes)?)
        })
    }

    fn load(&mut self, address: u64, bytes: usize) -> u64 {
        let place = self.at(address, bytes).unwrap_or_else(|| panic!("a load at {address:#x}"));
        place.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
    }

    fn store(&mut self, address: u64, bytes: usize, value: u64) {
        let place = self.at(address, bytes).unwrap_or_else(|| panic!("a store at {address:#x}"));
        place.copy_from_slice(&value.to_le_bytes()[..bytes]);
    }

    fn read_kernel(&mut self) {
        let [to, bytes, from] = [1, 2, 3].map(|register| self.registers[register]);
        let found = self.at(from, bytes as usize).map(|place| place.to_vec());
        self.registers[0] = if found.is_some() { 0 } else { u64::MAX };
        let found = found.unwrap_or_else(|| vec![0; bytes as usize]);
        self.at(to, bytes as usize).unwrap().copy_from_slice(&found);
    }

    /// Whether the program goes on behind its filter.
    fn passes(&mut self, code: &[u64]) -> bool {
        let mut at = 0;
        for _ in 0..10_000 {
            let word = code[at];
            let (kind, to, from) =
                (word as u8, (word >> 8 & 15) as usize, (word >> 12 & 15) as usize);
            let (offset, constant) = ((word >> 16) as i16, (word >> 32) as i32);
            let place = |register: u64| register.wrapping_add_signed(offset.into());
            let size = [4, 2, 1, 8][usize::from(kind >> 3 & 3)];
            let right = if kind & 8 == 0 {
                i64::from(constant).cast_unsigned()
            } else {
                self.registers[from]
            };
            let left = self.registers[to];
            at += 1;
            match (kind & 7, kind) {
                (0, 0x18) => {
                    let high = code[at] >> 32 << 32;
                    at += 1;
                    self.registers[to] = match from {
                        2 => MAP + (high >> 32),
                        _ => high | u64::from(constant.cast_unsigned()),
                    };
                }
                (1, _) => {
                    self.registers[to] = self.load(place(self.registers[from]), size);
                }
                (2, _) => self.store(place(left), size, i64::from(constant).cast_unsigned()),
                (3, _) => self.store(place(left), size, self.registers[from]),
                (4, 0xdc) => {
                    assert_eq!(constant, 16);
                    self.registers[to] = (left as u16).swap_bytes().into();
                }
                (7, _) => {
                    self.registers[to] = match kind & 0xf0 {
                        0x00 => left.wrapping_add(right),
                        0x10 => left.wrapping_sub(right),
                        0x40 => left | right,
                        0x50 => left & right,
                        0x60 => left << right,
                        0x70 => left >> right,
                        0xa0 => left ^ right,
                        0xb0 => right,
                        0xc0 => (left.cast_signed() >> right).cast_unsigned(),
                        other => panic!("an operation {other:#x}"),
                    };
                }
                (5, 0x85) => match constant as u64 {
                    HELPER_CPU => return true,
                    HELPER_READ_KERNEL => self.read_kernel(),
                    other => panic!("helper {other}"),
                },
                (5, 0x95) => return false,
                (5, _) => {
                    let (a, b) = (left.cast_signed(), right.cast_signed());
                    let jumps = match kind & 0xf0 {
                        0x00 => true,
                        0x10 => left == right,
                        0x20 => left > right,
                        0x30 => left >= right,
                        0x50 => left != right,
                        0x60 => a > b,
                        0x70 => a >= b,
                        0xa0 => left < right,
                        0xb0 => left <= right,
                        0xc0 => a < b,
                        0xd0 => a <= b,
                        other => panic!("a jump {other:#x}"),
                    };
                    if jumps {
                        at = at.wrapping_add_signed(offset.into());
                    }
                }
                other => panic!("an instruction {other:?}"),
            }
        }
        panic!("it does not end");
    }
}

/// Programs that end at their filter write nowhere.
const MAPS: Maps<'_> = Maps {
    state: 3,
    buffers: Vec::new(),
    members: None,
    calls: None,
    name_at: None,
    pages: None,
    counters: &[],
};

/// Whether a filter takes a packet, as it leaves and as it comes in, and however the structure is read.
#[track_caller]
fn takes(filter: &str, packet: &Packet) -> bool {
    let mut said = Vec::new();
    for (event, comes) in [("net_dev_queue", false), ("netif_receive_skb", true)] {
        let probe = check(&format!("{event}{{}} if {filter}"))
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        let state = State { probes: 1, cpus: 1 };
        let mut shared = vec![0; state.bytes()];
        let constants = probe.test.as_ref().unwrap().constants();
        for (number, constant) in constants.into_iter().enumerate().take(8) {
            let at = state.constant(0, 0, number);
            shared[at..at + 8].copy_from_slice(&constant.to_le_bytes());
        }
        for access in [Access::Direct, Access::Helpers] {
            let slot = Slot { number: 0, gate: 0, flip: 0, site: 0 };
            let code = program(&probe, slot, &state, &MAPS, access).unwrap();
            assert!(code.len() < 420, "{filter}: {} instructions", code.len());
            said.push(Machine::new(packet, comes, &shared).passes(&code));
        }
    }
    assert!(said.iter().all(|takes| *takes == said[0]), "{filter}: {said:?}");
    said[0]
}

#[track_caller]
fn holds(packet: &Packet, filters: &[&str]) {
    for filter in filters {
        assert!(takes(filter, packet), "{filter} does not hold");
        assert!(!takes(&format!("!({filter})"), packet), "the contrary of {filter} holds");
    }
}

#[track_caller]
fn fails(packet: &Packet, filters: &[&str]) {
    for filter in filters {
        assert!(!takes(filter, packet), "{filter} holds");
    }
}

#[test]
fn ports_and_addresses_of_ipv4_are_found() {
    for options in [0, 4, 40] {
        let packet = ipv4(17, 0x4000, options, &udp());
        holds(
            &packet,
            &[
                "port == 53",
                "port == 4242 && port in 1..60",
                "src.port == 4242 && dst.port == 53",
                "udp.dport == 53 && udp && !tcp && ip && !ip6 && !arp",
                "proto == udp && eth.type == ip",
                "host == 10.0.0.0/8 && host == 192.168.0.9",
                "ip.src == 10.1.2.3 && ip.dst != 10.1.2.3",
                "ip.src == 0.0.0.0/0 && ip.src in (1.1.1.1, 10.1.2.0/24)",
                "src.port > dst.port && u8(src.port) == 146",
                "udp port 53 and src net 10.1",
            ],
        );
        fails(
            &packet,
            &[
                "port == 54",
                "port != 53",
                "tcp.dport == 53",
                "tcp.dport != 53",
                "tcp.flags == 0",
                "host == ::/0",
                "host == 10.1.2.4",
                "ip.src == 10.1.2.2/31 && port == 1",
            ],
        );
    }
}

#[test]
fn flags_of_tcp_have_names() {
    let packet = ipv4(6, 0, 0, &tcp(0x12));
    holds(
        &packet,
        &[
            "tcp.flags & syn",
            "tcp.flags == (syn | ack)",
            "tcp.flags & (syn | fin) == syn",
            "tcp && src.port == 443 && tcp.dport == 65535",
            "tcp[tcpflags] & (tcp-syn|tcp-ack) = 18",
        ],
    );
    fails(&packet, &["tcp.flags & fin", "tcp.flags == syn", "udp.sport == 443"]);
}

#[test]
fn extension_headers_are_walked_through() {
    let hop = |next: u8, length: u8| {
        let mut header = vec![0; 8 * (usize::from(length) + 1)];
        (header[0], header[1]) = (next, length);
        header
    };
    let fragment = |next: u8, offset: u16| {
        let [high, low] = (offset << 3).to_be_bytes();
        vec![next, 0, high, low | 1, 0, 0, 0, 7]
    };
    let whole = ipv6(17, &udp());
    let behind = ipv6(0, &[hop(60, 0), hop(43, 2), hop(17, 1), udp()].concat());
    let first = ipv6(44, &[fragment(17, 0), udp()].concat());
    for packet in [&whole, &behind, &first] {
        holds(
            packet,
            &[
                "udp.dport == 53 && src.port == 4242 && proto == udp",
                "ip6 && udp && host == 2001:db8::/32 && ip.dst == fe80::2",
                "ip.src == 2001:db8::1 && ip.src == 2001:db8::/127 && ip.src != 10.0.0.1",
            ],
        );
        fails(packet, &["host == 0.0.0.0/0", "ip.src == 2001:db9::/32", "port == 0"]);
    }
    let later = ipv6(44, &[fragment(17, 185), udp()].concat());
    holds(&later, &["udp && proto == 17 && ip6 && host == fe80::2"]);
    fails(&later, &["port == 53", "port != 1", "udp.dport >= 0"]);
    let chain =
        (0..9).fold(udp(), |above, n| [hop(if n == 0 { 17 } else { 60 }, 0), above].concat());
    fails(&ipv6(60, &chain), &["port == 53", "proto == udp", "proto == 60", "udp"]);
    holds(&ipv6(50, &udp()), &["esp && proto == esp"]);
    fails(&ipv6(50, &udp()), &["port == 53"]);
}

#[test]
fn what_is_not_there_is_absent() {
    let later = ipv4(17, 0x2001, 0, &udp());
    holds(&later, &["udp && proto == udp && host == 10.1.2.3"]);
    fails(&later, &["port == 53", "port != 1", "port in 0..65535", "tcp.flags & 0xff == 0"]);
    // A first fragment has its ports.
    holds(&ipv4(17, 0x2000, 0, &udp()), &["port == 53"]);
    let whole = ipv4(17, 0, 0, &udp());
    for cut in 0..24 {
        let packet = Packet { first_part: cut, ..whole.clone() };
        fails(&packet, &["port == 53", "port == 0", "dst.port != 1"]);
        assert_eq!(takes("host == 10.1.2.3", &packet), cut >= 20, "{cut}");
        assert_eq!(takes("udp", &packet), cut >= 20, "{cut}");
    }
    holds(&Packet { first_part: 24, ..whole.clone() }, &["port == 53"]);
    // Bytes behind the length that IP says are none of the packet's.
    let mut padded = ipv4(17, 0, 0, &udp());
    padded.bytes[2..4].copy_from_slice(&22u16.to_be_bytes());
    fails(&padded, &["port == 53", "port != 1"]);
    // Too long to say how long.
    padded.bytes[2..4].copy_from_slice(&[0, 0]);
    holds(&padded, &["port == 53"]);
    for cut in 0..44 {
        let packet = Packet { first_part: cut, ..ipv6(17, &udp()) };
        fails(&packet, &["port == 53", "port == 0"]);
        assert_eq!(takes("host == fe80::2", &packet), cut >= 40, "{cut}");
    }
    for cut in 20..34 {
        fails(
            &Packet { first_part: cut, ..ipv4(6, 0, 0, &tcp(2)) },
            &["tcp.flags == 2", "port == 443"],
        );
    }
    let mut wrong = ipv4(17, 0, 0, &udp());
    wrong.bytes[0] = 0x44;
    fails(&wrong, &["port == 53", "host == 10.1.2.3", "udp"]);
    wrong.bytes[0] = 0x65;
    fails(&wrong, &["port == 53", "host == 10.1.2.3"]);
}

#[test]
fn what_is_no_ip_has_a_type_alone() {
    let arp = packet(0x0806, &[&[0; 28]]);
    holds(&arp, &["arp && !ip && !ip6 && !tcp && eth.type == arp", "eth.type == 0x0806"]);
    fails(&arp, &["proto == 0", "host == 0.0.0.0", "port == 0", "not arp", "ip.src != 1.1.1.1"]);
    let icmp = ipv4(1, 0, 0, &[8, 0, 0, 0, 0, 0, 0, 0]);
    holds(&icmp, &["icmp && proto == icmp && !icmp6 && !(port == 0)"]);
    fails(&icmp, &["port == 2048", "port != 1"]);
}

#[test]
fn a_packet_leaves_or_comes_in() {
    let direction = |text: &str| {
        let probe = check(text).unwrap();
        (probe.fields[0].shape, probe.fields[0].bytes)
    };
    assert_eq!(direction("net_dev_queue{out}"), (Shape::Bool, 1));
    assert_eq!(direction("net:netif_receive_skb{in}"), (Shape::Bool, 1));
    let refusal = check("kfree_skb{out}").unwrap_err();
    assert!(refusal.contains("does not say whether a packet leaves"), "{refusal}");
    for (filter, leaves) in [("out", true), ("in", false), ("!in", true), ("outbound", true)] {
        let probe = check(&format!("net_dev_queue if {filter}")).unwrap();
        let state = State { probes: 1, cpus: 1 };
        let slot = Slot { number: 0, gate: 0, flip: 0, site: 0 };
        let code = program(&probe, slot, &state, &MAPS, Access::Direct).unwrap();
        let shared = vec![0; state.bytes()];
        let passes = Machine::new(&ipv4(17, 0, 0, &udp()), false, &shared).passes(&code);
        assert_eq!(passes, leaves, "{filter}");
    }
}

#[test]
fn names_are_of_packets_and_arguments_go_before() {
    for (text, words) in [
        ("net_dev_queue{host}", &["two values", "ip.src or ip.dst"][..]),
        ("net_dev_queue if u8(port) == 1", &["two values"]),
        ("net_dev_queue if ip.sorc == 1.1.1.1", &["no header 'ip.sorc'", "ip.src"]),
        ("net_dev_queue if prot == tcp", &["proto"]),
        ("net_dev_queue if proto == 256", &["0 to 255"]),
        ("net_dev_queue if port == 70000", &["0 to 65535"]),
        ("net_dev_queue if ip.src & 5", &["a prefix"]),
        ("net_dev_queue if ip.src > 10.0.0.1", &["== or !="]),
        ("net_dev_queue if skb->len == 10.0.0.1", &["a number"]),
        ("net_dev_queue if proto == \"tcp\"", &["no text"]),
        ("net_dev_queue if u8(ip.src) == 1", &["an address of IP"]),
    ] {
        let refusal = check(text).unwrap_err();
        assert!(words.iter().all(|word| refusal.contains(word)), "{text}: {refusal}");
    }
    let probe = check("net_dev_queue{ip.src, dst.port, proto, tcp.flags}").unwrap();
    let shapes: Vec<Shape> = probe.fields.iter().map(|field| field.shape).collect();
    assert_eq!(shapes, [Shape::Address, Shape::Unsigned, Shape::Enum(0), Shape::Unsigned]);
    assert!(probe.fields[0].offset.is_multiple_of(8) && probe.packet.is_some());
    assert_eq!(check("net_dev_queue{skb->len}").unwrap().packet, None);
}
