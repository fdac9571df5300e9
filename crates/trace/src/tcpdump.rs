//! tcpdump's syntax of filters (pcap-filter(7)), where it says the same as a filter of weigh: `udp port 53`,
//! `src host 10.0.0.1`, `net 10.0.0.0/8`, `portrange 1000-2000`, `tcp[tcpflags] & tcp-syn != 0`.
//!
//! Reads one primitive; emits the filter that it means, in weigh's names. What has an operator behind its first word
//! (`port == 53`) is no primitive, and is left. Refuses primitives that weigh has no name for, with the nearest that it
//! has; names of hosts, which are not looked up; and addresses with bits behind their prefix.

use std::net::{IpAddr, Ipv4Addr};

use crate::cursor::Cursor;
use crate::error::{Refusal, Span, Wrong};
use crate::filter::{self, Comparison, Filter, Operand};
use crate::ip_prefix::Prefix;
use crate::packet_header::path_of;
use crate::path::Path;
use crate::suggest::nearest;
use crate::vocabulary::{self, Vocabulary};

/// Words that say what carries the value.
const PROTOCOLS: &[&str] =
    &["ip", "ip6", "tcp", "udp", "sctp", "arp", "rarp", "icmp", "icmp6", "igmp", "ether"];
/// Ports that have names, as /etc/services has them everywhere.
const SERVICES: &[(&str, u16)] = &[
    ("ftp", 21),
    ("ssh", 22),
    ("telnet", 23),
    ("smtp", 25),
    ("domain", 53),
    ("bootps", 67),
    ("bootpc", 68),
    ("http", 80),
    ("ntp", 123),
    ("snmp", 161),
    ("https", 443),
    ("syslog", 514),
    ("nfs", 2049),
];
/// Bytes of headers that have names: the protocol, the first byte, how many.
const BYTES: &[(&str, u64, u64, &str)] = &[
    ("ip", 9, 1, "proto"),
    ("ip6", 6, 1, "proto"),
    ("tcp", 0, 2, "tcp.sport"),
    ("tcp", 2, 2, "tcp.dport"),
    ("tcp", 13, 1, "tcp.flags"),
    ("udp", 0, 2, "udp.sport"),
    ("udp", 2, 2, "udp.dport"),
];
/// Words that weigh has no name for, and what is near.
const OTHERS: &[(&str, &str)] = &[
    ("less", "skb->len <= 100 (without Ethernet's header where packets come in)"),
    ("greater", "skb->len >= 100 (without Ethernet's header where packets come in)"),
    ("multicast", "ip.dst == 224.0.0.0/4, ip.dst == ff00::/8"),
    ("broadcast", "ip.dst == 255.255.255.255"),
    ("gateway", "host == 10.0.0.1"),
    ("vlan", "eth.type == vlan"),
    ("mpls", "eth.type == mpls"),
    ("pppoes", "eth.type == pppoe"),
    ("protochain", "proto == tcp, which looks behind the extension headers of IPv6"),
    ("ifname", "skb->dev->name == \"eth0\""),
];
/// What stands behind a whole filter or a comparison of weigh, and is no name of a host.
const NO_VALUES: &[&str] = &["in", "and", "or", "not", "sample", "at", "every", "if"];

/// What stands before a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Qualifiers {
    protocol: Option<&'static str>,
    direction: Direction,
    kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Any,
    Source,
    Destination,
    Both,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Host,
    Net,
    Port,
    PortRange,
    Protocol,
}

const KINDS: &[(&str, ValueKind)] = &[
    ("host", ValueKind::Host),
    ("net", ValueKind::Net),
    ("port", ValueKind::Port),
    ("portrange", ValueKind::PortRange),
    ("proto", ValueKind::Protocol),
];

/// What may stand where words are not read any further.
pub(crate) fn near(cursor: &Cursor<'_>) -> Vec<String> {
    let Some((word, _)) = cursor.clone().name() else { return Vec::new() };
    let words = KINDS.iter().map(|(word, _)| *word).chain(["src", "dst", "and", "or"]);
    nearest(word, words)
}

/// Takes a primitive, if one stands here. `last` is what stood before the last value.
pub(crate) fn primitive(
    cursor: &mut Cursor<'_>,
    last: &mut Option<Qualifiers>,
) -> Result<Option<Filter>, Refusal> {
    let mut ahead = cursor.clone();
    let is_address = ahead.address().is_some();
    if is_address || last.is_some() && matches!(ahead.number(), Ok(Some(_))) {
        let host = Qualifiers { protocol: None, direction: Direction::Any, kind: ValueKind::Host };
        return value(cursor, last.unwrap_or(host)).map(Some);
    }
    let Some((word, span)) = ahead.name() else { return Ok(None) };
    refuse_others(word, span, &ahead)?;
    let protocol = PROTOCOLS.iter().find(|protocol| **protocol == word).copied();
    if let Some(protocol) = protocol
        && ahead.eat("[")
    {
        *cursor = ahead;
        return bytes(cursor, protocol, span).map(Some);
    }
    let direction_word = [("inbound", "in"), ("outbound", "out")];
    if let Some((_, name)) = direction_word.iter().find(|(other, _)| *other == word) {
        *cursor = ahead;
        return Ok(Some(is(name, span)));
    }
    if protocol.is_none() {
        ahead = cursor.clone();
    }
    let Some(qualifiers) = qualifiers(&mut ahead, protocol) else { return Ok(None) };
    *cursor = ahead;
    *last = Some(qualifiers);
    if protocol == Some("ether") && qualifiers.kind != ValueKind::Protocol {
        let wrong =
            "Ethernet's addresses have no names here; those of IP are host, ip.src and ip.dst";
        return Err(span.refuse(cursor.text(), Wrong::Unsupported(wrong.to_string())));
    }
    value(cursor, qualifiers).map(Some)
}

/// Words of tcpdump's that weigh has no name for.
fn refuse_others(word: &str, span: Span, ahead: &Cursor<'_>) -> Result<(), Refusal> {
    let mut behind = ahead.clone();
    let second = if PROTOCOLS.contains(&word) { behind.name() } else { None };
    let (word, span) = second.map_or((word, span), |(next, end)| (next, span.to(end)));
    let Some((word, near)) = OTHERS.iter().find(|(other, _)| *other == word) else { return Ok(()) };
    let stands_alone = second.is_some()
        || behind.is_at_end()
        || behind.sees(")")
        || matches!(behind.clone().number(), Ok(Some(_)))
        || behind.name().is_some_and(|(next, _)| next != "in");
    if !stands_alone {
        return Ok(());
    }
    let wrong = format!("tcpdump's '{word}' has no filter of the same meaning here");
    let refusal = span.refuse(ahead.text(), Wrong::Unsupported(wrong));
    Err(refusal.near(vec![(*near).to_string()]))
}

/// Takes what stands before a value; none if that is no primitive.
fn qualifiers(cursor: &mut Cursor<'_>, protocol: Option<&'static str>) -> Option<Qualifiers> {
    let direction = direction(cursor);
    let kind = KINDS.iter().find(|(word, _)| cursor.eat_word(word)).map(|(_, kind)| *kind);
    if direction.is_none() && kind.is_none() {
        return None;
    }
    let has_value = cursor.sees("\\")
        || cursor.clone().address().is_some()
        || matches!(cursor.clone().number(), Ok(Some(_)))
        || cursor.clone().name().is_some_and(|(name, _)| !NO_VALUES.contains(&name));
    let (direction, kind) = (direction.unwrap_or(Direction::Any), kind.unwrap_or(ValueKind::Host));
    has_value.then_some(Qualifiers { protocol, direction, kind })
}

fn direction(cursor: &mut Cursor<'_>) -> Option<Direction> {
    let words = [("src", Direction::Source, "dst"), ("dst", Direction::Destination, "src")];
    let (_, one, other) = words.into_iter().find(|(word, ..)| cursor.eat_word(word))?;
    for (joint, both) in [("or", Direction::Any), ("and", Direction::Both)] {
        let mut ahead = cursor.clone();
        if ahead.eat_word(joint) && ahead.eat_word(other) {
            *cursor = ahead;
            return Some(both);
        }
    }
    Some(one)
}

/// Takes a value, with what stood before it.
fn value(cursor: &mut Cursor<'_>, of: Qualifiers) -> Result<Filter, Refusal> {
    let begin = cursor.at();
    let filter = match of.kind {
        ValueKind::Host | ValueKind::Net => {
            let right = match of.kind {
                ValueKind::Net => net(cursor)?,
                _ => host(cursor)?,
            };
            sides(
                of.direction,
                ["host", "ip.src", "ip.dst"],
                |left| equal(left, right.clone()),
                begin,
            )
        }
        ValueKind::Port => {
            let right = port(cursor)?;
            sides(
                of.direction,
                ["port", "src.port", "dst.port"],
                |left| equal(left, right.clone()),
                begin,
            )
        }
        ValueKind::PortRange => {
            let first = port(cursor)?;
            cursor.need("-")?;
            let items = vec![filter::range(cursor.text(), first, port(cursor)?)?];
            let within = |left| Filter::In { left, items: items.clone() };
            sides(of.direction, ["port", "src.port", "dst.port"], within, begin)
        }
        ValueKind::Protocol => return protocol(cursor, of.protocol),
    };
    Ok(match of.protocol {
        None => filter,
        Some(name) => {
            let span = Span { at: begin, length: cursor.at() - begin };
            Filter::And(Box::new(is(name, span)), Box::new(filter))
        }
    })
}

/// The comparison of one side, of either or of both.
fn sides(
    direction: Direction,
    [either, source, destination]: [&str; 3],
    compare: impl Fn(Path) -> Filter,
    at: usize,
) -> Filter {
    let one = |name: &str| compare(path_of(name, Span { at, length: 1 }));
    match direction {
        Direction::Any => one(either),
        Direction::Source => one(source),
        Direction::Destination => one(destination),
        Direction::Both => Filter::And(Box::new(one(source)), Box::new(one(destination))),
    }
}

fn equal(left: Path, right: Operand) -> Filter {
    Filter::Compare { left, mask: None, how: Comparison::Equal, right }
}

fn is(name: &str, span: Span) -> Filter {
    filter::is_set(path_of(name, span), None, span.at)
}

fn host(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    if let Some((word, span)) = cursor.address() {
        return filter::address(word, span, cursor.text());
    }
    Err(no_address(cursor))
}

fn no_address(cursor: &Cursor<'_>) -> Refusal {
    let expected = "an address (10.0.0.1, 2001:db8::1): names of hosts are not looked up";
    cursor.expected(expected)
}

/// `10.0.0.0/8`, `10` and `192.168.1`, whose missing numbers are not looked at, and `10.0.0.0 mask 255.0.0.0`.
fn net(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    let begin = cursor.at();
    let word = match cursor.address() {
        Some((word, _)) => word.to_string(),
        None => cursor.number()?.ok_or_else(|| no_address(cursor))?.0.to_string(),
    };
    let mask = if cursor.eat_word("mask") { Some(netmask(cursor)?) } else { None };
    let length = cursor.text()[begin..cursor.at()].trim_end().len();
    let span = Span { at: begin, length };
    let (numbers, bits) = word.split_once('/').map_or((word.as_str(), None), |(a, b)| (a, Some(b)));
    if numbers.contains(':') || mask.is_none() && numbers.matches('.').count() == 3 {
        return filter::address(&word, span, cursor.text());
    }
    let said: Result<Vec<u8>, _> = numbers.split('.').map(str::parse).collect();
    let mut octets =
        said.ok().filter(|octets| octets.len() <= 4).ok_or_else(|| no_address(cursor))?;
    let bits = bits.and_then(|bits| bits.parse().ok()).or(mask).unwrap_or(8 * octets.len() as u32);
    octets.resize(4, 0);
    let address = IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]));
    match Prefix::new(address, bits.min(32)) {
        Ok(prefix) => Ok(Operand::Address { prefix, span }),
        Err(expected) => Err(span.refuse(cursor.text(), Wrong::Address(expected))),
    }
}

/// How many bits a mask has: `255.0.0.0`.
fn netmask(cursor: &mut Cursor<'_>) -> Result<u32, Refusal> {
    let Some((word, span)) = cursor.address() else { return Err(no_address(cursor)) };
    let bits = word.parse::<Ipv4Addr>().map(Ipv4Addr::to_bits);
    match bits {
        Ok(bits) if bits.leading_ones() + bits.trailing_zeros() == 32 => Ok(bits.leading_ones()),
        _ => {
            let expected = "a mask whose bits stand at its beginning, as 255.255.0.0";
            Err(span.refuse(cursor.text(), Wrong::Expected { expected }))
        }
    }
}

fn port(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    if let Some((number, span)) = cursor.number()? {
        return match u16::try_from(number) {
            Ok(_) => Ok(Operand::Number { value: number.into(), span }),
            Err(_) => {
                let allowed = "a port is 0 to 65535".to_string();
                let wrong = Wrong::Range { number: number.to_string(), allowed };
                Err(span.refuse(cursor.text(), wrong))
            }
        };
    }
    let Some((name, span)) = cursor.name() else { return Err(cursor.expected("a port")) };
    if let Some((_, number)) = SERVICES.iter().find(|(service, _)| *service == name) {
        return Ok(Operand::Number { value: (*number).into(), span });
    }
    let wrong = Wrong::Expected { expected: "the number of a port" };
    let near = nearest(name, SERVICES.iter().map(|(service, _)| *service));
    Err(span.refuse(cursor.text(), wrong).near(near))
}

/// `ip proto 17`, `ether proto \arp`
fn protocol(cursor: &mut Cursor<'_>, of: Option<&'static str>) -> Result<Filter, Refusal> {
    let (left, names) = match of {
        Some("ether") => ("eth.type", Vocabulary::EtherTypes),
        _ => ("proto", Vocabulary::Protocols),
    };
    cursor.eat("\\");
    let begin = cursor.at();
    let (value, span) = match cursor.number()? {
        Some((number, span)) => (i128::from(number), span),
        None => {
            let Some((name, span)) = cursor.name() else {
                return Err(cursor.expected("a protocol"));
            };
            let Some(number) = names.value(name) else {
                let near = nearest(name, names.names().iter().map(|(name, _)| *name));
                let wrong = Wrong::NoName { what: "protocol", name: name.to_string() };
                return Err(span.refuse(cursor.text(), wrong).near(near));
            };
            (number.into(), span)
        }
    };
    let whole = Span { at: begin, length: span.length };
    let name = names.names().iter().find(|(_, number)| i128::from(*number) == value);
    let right = match name {
        Some((name, _)) => Operand::Path(Path::of_word(name, span)),
        None => Operand::Number { value, span },
    };
    let filter = equal(path_of(left, whole), right);
    Ok(match of {
        None | Some("ether") => filter,
        Some(name) => Filter::And(Box::new(is(name, whole)), Box::new(filter)),
    })
}

/// `tcp[tcpflags] & tcp-syn != 0`: bytes that have a name, with what they are compared with.
fn bytes(cursor: &mut Cursor<'_>, protocol: &str, begin: Span) -> Result<Filter, Refusal> {
    let place = match cursor.eat_word("tcpflags") {
        true => Some((13, 1)),
        false => cursor.number()?.map(|(at, _)| at).map(|at| (at, 1)),
    };
    let length = if cursor.eat(":") { Some(cursor.need_number()?.0) } else { None };
    let place = place.map(|(at, one)| (at, length.unwrap_or(one)));
    let known =
        BYTES.iter().find(|(of, at, length, _)| *of == protocol && Some((*at, *length)) == place);
    let Some((.., name)) = known else {
        let end = Span { at: cursor.at(), length: 1 };
        let wrong = "these bytes of a header have no name here".to_string();
        let near = BYTES.iter().filter(|(of, ..)| *of == protocol).map(|(.., name)| *name);
        let near: Vec<String> = near.map(str::to_string).collect();
        return Err(begin.to(end).refuse(cursor.text(), Wrong::Unsupported(wrong)).near(near));
    };
    let end = Span { at: cursor.at(), length: 1 };
    cursor.need("]")?;
    let left = path_of(name, begin.to(end));
    let has_mask = !cursor.sees("&&") && cursor.eat("&");
    let mask = if has_mask { Some(flags(cursor)?) } else { None };
    let how =
        filter::comparison_mark(cursor).or_else(|| cursor.eat("=").then_some(Comparison::Equal));
    let Some(how) = how else { return Err(cursor.expected("a comparison, as != 0")) };
    let right = flags(cursor)?;
    Ok(Filter::Compare { left, mask, how, right })
}

/// `tcp-syn`, `(tcp-syn|tcp-ack)`, or a number.
fn flags(cursor: &mut Cursor<'_>) -> Result<Operand, Refusal> {
    let is_list = cursor.eat("(");
    let begin = Span { at: cursor.at(), length: 0 };
    let mut bits = 0;
    let span = loop {
        let (value, span) = flag(cursor)?;
        bits |= value;
        if !is_list || !cursor.eat("|") {
            break begin.to(span);
        }
    };
    if is_list {
        cursor.need(")")?;
    }
    Ok(Operand::Number { value: bits, span })
}

fn flag(cursor: &mut Cursor<'_>) -> Result<(i128, Span), Refusal> {
    if let Some((number, span)) = cursor.number()? {
        return Ok((number.into(), span));
    }
    let expected = "a number, or a flag: tcp-syn, tcp-ack, tcp-fin, tcp-rst, tcp-push";
    let begin = Span { at: cursor.at(), length: 0 };
    if !cursor.eat_word("tcp") || !cursor.eat("-") {
        return Err(cursor.expected(expected));
    }
    let Some((name, span)) = cursor.name() else { return Err(cursor.expected(expected)) };
    match vocabulary::tcp_flag(name) {
        Some(bits) => Ok((bits.into(), begin.to(span))),
        None => Err(begin.to(span).refuse(cursor.text(), Wrong::Expected { expected })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> String {
        Filter::parse(text).unwrap_or_else(|refusal| panic!("{refusal}")).to_string()
    }

    #[test]
    fn primitives_are_filters_of_weigh() {
        for (typed, ours) in [
            ("udp port 53", "udp && port == 53"),
            ("tcp and host 10.0.0.1", "tcp && host == 10.0.0.1"),
            ("src host 10.0.0.1", "ip.src == 10.0.0.1"),
            ("dst 2001:db8::1", "ip.dst == 2001:db8::1"),
            ("10.0.0.1", "host == 10.0.0.1"),
            ("dst port 53", "dst.port == 53"),
            ("src or dst port domain", "port == 53"),
            ("src and dst port 53", "src.port == 53 && dst.port == 53"),
            ("net 10.0.0.0/8", "host == 10.0.0.0/8"),
            ("net 10", "host == 10.0.0.0/8"),
            ("src net 192.168.1", "ip.src == 192.168.1.0/24"),
            ("net 10.0.0.0 mask 255.0.0.0", "host == 10.0.0.0/8"),
            ("net 2001:db8::/32", "host == 2001:db8::/32"),
            ("portrange 1000-2000", "port in 1000..2000"),
            ("tcp dst portrange 1000 - 2000", "tcp && dst.port in 1000..2000"),
            ("not arp", "!arp"),
            ("not (tcp port 22 or 80)", "!(tcp && port == 22 || tcp && port == 80)"),
            ("host 10.0.0.1 or 10.0.0.2", "host == 10.0.0.1 || host == 10.0.0.2"),
            ("ip proto 17", "ip && proto == udp"),
            ("ip6 proto \\tcp", "ip6 && proto == tcp"),
            ("proto 99", "proto == 99"),
            ("ether proto \\arp", "eth.type == arp"),
            ("ether proto 0x88cc", "eth.type == lldp"),
            ("outbound and udp", "out && udp"),
            ("inbound", "in"),
            ("tcp[tcpflags] & tcp-syn != 0", "tcp.flags & 2 != 0"),
            ("tcp[13] & (tcp-syn|tcp-ack) = tcp-syn", "tcp.flags & 0x12 == 2"),
            ("udp[2:2] == 53 && tgid == 4", "udp.dport == 53 && tgid == 4"),
            ("ip6 and udp src port 53", "ip6 && udp && src.port == 53"),
        ] {
            assert_eq!(said(typed), ours, "{typed}");
            assert_eq!(said(&said(typed)), ours, "{typed} is read again");
        }
    }

    #[test]
    fn what_is_ours_stays_ours() {
        for text in ["port == 53", "src.port in 1..5", "host != 10.0.0.1", "net->x == 3", "proto"] {
            assert_eq!(said(text), text);
        }
        assert_eq!(said("src and dst"), "src && dst");
    }

    #[test]
    fn what_has_no_meaning_here_is_refused_with_what_is_near() {
        for (text, words) in [
            ("udp prot 53", &["&&, || or the end", "near it: port"][..]),
            ("port 70000", &["0 to 65535"]),
            ("port htp", &["the number of a port", "http"]),
            ("host example", &["an address", "not looked up"]),
            ("host 10.0.0.256", &["expected an address"]),
            ("net 10.0.0.1/8", &["10.0.0.0/8"]),
            ("net 10.0.0.0 mask 255.0.255.0", &["a mask"]),
            ("portrange 2000-1000", &["1000..2000 may be meant"]),
            ("less 100", &["'less'", "skb->len <= 100"]),
            ("ip multicast", &["'multicast'", "224.0.0.0/4"]),
            ("ether host 1", &["ip.src"]),
            ("ip[8] < 5", &["no name here", "proto"]),
            ("tcp[tcpflags] & tcp-sin != 0", &["tcp-syn"]),
            ("ip proto tpc", &["no protocol 'tpc'", "tcp"]),
            ("tcp port 80 or udp port 53 and host 10.0.0.1", &["parentheses"]),
            ("tcp or udp and tgid == 3", &["parentheses"]),
            ("vlan 5", &["'vlan'", "eth.type == vlan"]),
        ] {
            let refusal = Filter::parse(text).expect_err(text).to_string();
            assert!(words.iter().all(|word| refusal.contains(word)), "{text}: {refusal}");
        }
        assert!(Filter::parse("a || b && c").is_ok());
        assert!(Filter::parse("(tcp port 80 or udp port 53) and host 10.0.0.1").is_ok());
    }
}
