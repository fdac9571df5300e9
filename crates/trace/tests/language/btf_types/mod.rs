//! Types of a kernel that a test makes itself.

/// Type information that is being made.
#[derive(Default)]
pub struct Types {
    /// Types, one behind the other.
    pub types: Vec<u8>,
    /// Their names.
    pub strings: Vec<u8>,
    /// How many there are, those before included.
    pub count: u32,
    /// Bytes of the names that lie before, in the kernel's.
    pub before: u32,
}

impl Types {
    pub fn name(&mut self, name: &str) -> u32 {
        if self.strings.is_empty() {
            self.strings.push(0);
        }
        if name.is_empty() {
            return 0;
        }
        let at = self.before + self.strings.len() as u32;
        self.strings.extend(name.bytes().chain([0]));
        at
    }

    pub fn add(&mut self, name: &str, kind: u32, count: u32, size: u32, rest: &[u32]) -> u32 {
        let name = self.name(name);
        for word in [name, kind << 24 | count, size].iter().chain(rest) {
            self.types.extend(word.to_le_bytes());
        }
        self.count += 1;
        self.count
    }

    /// Members: name, type, first bit, bits.
    pub fn members(
        &mut self,
        name: &str,
        kind: u32,
        size: u32,
        of: &[(&str, u32, u32, u32)],
    ) -> u32 {
        let has_bits = u32::from(of.iter().any(|member| member.3 > 0)) << 7;
        let mut rest = Vec::new();
        for (name, kind, bit, bits) in of {
            rest.extend([self.name(name), *kind, *bit | bits << 24]);
        }
        self.add(name, kind | has_bits, of.len() as u32, size, &rest)
    }

    pub fn finish(self) -> Vec<u8> {
        let (types, strings) = (self.types.len() as u32, self.strings.len() as u32);
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        for word in [24, 0, types, types, strings] {
            bytes.extend(u32::to_le_bytes(word));
        }
        bytes.extend(self.types);
        bytes.extend(self.strings);
        bytes
    }
}
