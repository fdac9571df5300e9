//! IP addresses and prefixes in filters: `10.0.0.1`, `10.0.0.0/8`, `2001:db8::/32`.
//!
//! Reads text; emits a prefix. Refuses what is no address, prefixes that are too long, and bits behind a prefix.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of an address in a record: IPv6, or IPv4 behind `::ffff:`.
pub const ADDRESS_BYTES: usize = 16;
/// The longest text of an address.
pub const ADDRESS_TEXT_BYTES: u32 = 45;

/// All addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u32,
}

impl Prefix {
    /// Reads an address, or a prefix; else says what is wrong and what may be meant.
    pub fn parse(text: &str) -> Result<Prefix, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let Ok(address) = address.parse::<IpAddr>() else {
            return Err(
                "an address: 10.0.0.1, 10.0.0.0/8, 2001:db8::1 or 2001:db8::/32".to_string()
            );
        };
        let width = width(address);
        let bits = match bits.map(str::parse) {
            None => width,
            Some(Ok(bits)) if bits <= width => bits,
            Some(_) => return Err(format!("a prefix of 0 to {width} bits: {address}/{width}")),
        };
        Prefix::new(address, bits)
    }

    /// The addresses whose first bits are these; bits behind them have to be 0.
    pub fn new(address: IpAddr, bits: u32) -> Result<Prefix, String> {
        let first = first_of(address, bits);
        match first == address {
            true => Ok(Prefix { address, bits }),
            false => Err(format!("no bits behind the prefix: {first}/{bits} or {address}")),
        }
    }

    /// Whether it is of IPv4.
    pub fn is_v4(&self) -> bool {
        self.address.is_ipv4()
    }

    /// Whether an address begins with it.
    pub fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.is_v4() && first_of(address, self.bits) == self.address
    }

    /// The address as it is on the wire, and the bits of it that count: 4 bytes, or 16.
    pub fn octets_and_mask(&self) -> (Vec<u8>, Vec<u8>) {
        match self.address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - self.bits).unwrap_or(0);
                (address.octets().to_vec(), mask.to_be_bytes().to_vec())
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
                (address.octets().to_vec(), mask.to_be_bytes().to_vec())
            }
        }
    }
}

fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn first_of(address: IpAddr, bits: u32) -> IpAddr {
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask))
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128u32.saturating_sub(bits)).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask))
        }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.bits == width(self.address) {
            true => write!(f, "{}", self.address),
            false => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

/// An address as a record has it.
pub fn address_of(bytes: [u8; ADDRESS_BYTES]) -> IpAddr {
    let address = Ipv6Addr::from(bytes);
    address.to_ipv4_mapped().map_or(IpAddr::V6(address), IpAddr::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_read_and_written_alike() {
        for text in ["10.0.0.1", "10.0.0.0/8", "0.0.0.0/0", "::1", "2001:db8::/32", "::/0"] {
            assert_eq!(Prefix::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Prefix::parse("10.0.0.1/32").unwrap().to_string(), "10.0.0.1");
    }

    #[test]
    fn what_is_no_prefix_is_refused_with_what_may_be_meant() {
        for (text, says) in [
            ("10.0.0", "an address: 10.0.0.1"),
            ("10.0.0.256", "an address"),
            ("10.0.0.1/8", "10.0.0.0/8 or 10.0.0.1"),
            ("10.0.0.0/33", "0 to 32 bits"),
            ("::/129", "0 to 128 bits"),
            ("10.0.0.0/", "0 to 32 bits"),
        ] {
            let refusal = Prefix::parse(text).unwrap_err();
            assert!(refusal.contains(says), "{text}: {refusal}");
        }
    }

    #[test]
    fn families_do_not_mix() {
        let of = |text: &str| Prefix::parse(text).unwrap();
        let address = |text: &str| text.parse().unwrap();
        assert!(of("10.0.0.0/8").contains(address("10.255.3.1")));
        assert!(!of("10.0.0.0/8").contains(address("11.0.0.1")));
        assert!(!of("::/0").contains(address("10.0.0.1")));
        assert!(of("0.0.0.0/0").contains(address("10.0.0.1")));
        let mapped = address_of("::ffff:10.0.0.1".parse::<Ipv6Addr>().unwrap().octets());
        assert_eq!(mapped, address("10.0.0.1"));
        let (octets, mask) = of("10.128.0.0/9").octets_and_mask();
        assert_eq!((octets, mask), (vec![10, 128, 0, 0], vec![255, 128, 0, 0]));
    }
}
