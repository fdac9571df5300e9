//! Kernels of a few functions for tests, put together byte by byte.

use std::collections::HashMap;

/// Where they are linked to.
pub const TEXT: u64 = 0xffff_ffff_8100_0000;
const DATA: u64 = 0xffff_ffff_8200_0000;
const PAGE: usize = 64;

/// A piece of a function.
#[derive(Clone, Copy)]
pub enum Piece {
    /// `call __fentry__`.
    Fentry,
    /// A place for ftrace that the build has made a no-op, behind `endbr64`.
    Endbr,
    /// A direct call.
    Call(&'static str),
    /// A jump to another function.
    Jump(&'static str),
    /// So many `push %rax`.
    Work(u8),
    /// `call *%rax`.
    ByPointer,
    /// A jump to where it stands.
    Loop,
    /// `ret`.
    Return,
}

/// A kernel to be put together.
#[derive(Default)]
pub struct Sample {
    functions: Vec<(&'static str, &'static [Piece])>,
    tables: Vec<(&'static str, Vec<&'static str>)>,
    pub notes: Vec<u8>,
    pub btf: Vec<u8>,
    pub rodata: Vec<u8>,
    pub machine: u16,
}

impl Sample {
    pub fn new() -> Self {
        Self { machine: 62, ..Self::default() }
    }

    pub fn function(mut self, name: &'static str, pieces: &'static [Piece]) -> Self {
        self.functions.push((name, pieces));
        self
    }

    pub fn table(mut self, name: &'static str, functions: &[&'static str]) -> Self {
        self.tables.push((name, functions.to_vec()));
        self
    }

    fn address(&self, name: &str) -> u64 {
        let place = self.functions.iter().position(|(own, _)| *own == name).expect("a function");
        TEXT + (place * PAGE) as u64
    }

    fn code(&self) -> Vec<u8> {
        let mut code = Vec::new();
        for (_, pieces) in &self.functions {
            let start = code.len();
            for piece in *pieces {
                let branch = |code: &mut Vec<u8>, opcode: u8, name: &str| {
                    let next = TEXT + code.len() as u64 + 5;
                    let away = self.address(name).wrapping_sub(next) as u32;
                    code.push(opcode);
                    code.extend(away.to_le_bytes());
                };
                match piece {
                    Piece::Fentry => branch(&mut code, 0xe8, "__fentry__"),
                    Piece::Endbr => code.extend(b"\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00"),
                    Piece::Call(name) => branch(&mut code, 0xe8, name),
                    Piece::Jump(name) => branch(&mut code, 0xe9, name),
                    Piece::Work(count) => code.extend(vec![0x50; usize::from(*count)]),
                    Piece::ByPointer => code.extend(b"\xff\xd0"),
                    Piece::Loop => code.extend(b"\xeb\xfe"),
                    Piece::Return => code.push(0xc3),
                }
            }
            assert!(code.len() <= start + PAGE, "it has grown into the next");
            code.resize(start + PAGE, 0xcc);
        }
        code
    }

    fn data(&self) -> Vec<u8> {
        let words = self.tables.iter().flat_map(|(_, functions)| functions);
        words.flat_map(|name| self.address(name).to_le_bytes()).collect()
    }

    /// Names and addresses, moved by so much, in the form of `/proc/kallsyms`.
    pub fn list(&self, moved: u64) -> String {
        let line = |address: u64, kind, name| {
            format!("{:016x} {kind} {name}\n", address.wrapping_add(moved))
        };
        let mut text = line(TEXT, 'T', "_text");
        for (name, _) in &self.functions {
            text.push_str(&line(self.address(name), 't', name));
        }
        let mut at = DATA;
        for (name, functions) in &self.tables {
            text.push_str(&line(at, 'd', name));
            at += functions.len() as u64 * 8;
        }
        text.push_str(&line(at, 'd', "_edata"));
        text + "ffffffffc0000000 t of_a_module\t[module]\n"
    }

    /// The ELF file, without symbols.
    pub fn elf(&self) -> Vec<u8> {
        let sections: [(&str, u32, u64, u64, Vec<u8>); 5] = [
            (".text", 1, 6, TEXT, self.code()),
            (".data", 1, 3, DATA, self.data()),
            (".notes", 7, 2, DATA + 0x10_0000, self.notes.clone()),
            (".BTF", 1, 2, DATA + 0x20_0000, self.btf.clone()),
            (".rodata", 1, 2, DATA + 0x30_0000, self.rodata.clone()),
        ];
        let mut names = vec![0];
        let mut content: Vec<u8> = Vec::new();
        let mut headers = vec![[0; 64]];
        let mut name_at = HashMap::new();
        for (name, ..) in &sections {
            name_at.insert(*name, names.len() as u32);
            names.extend(name.as_bytes());
            names.push(0);
        }
        let own = names.len() as u32;
        names.extend(b".shstrtab\0");
        let mut add = |name: u32, kind: u32, flags: u64, address: u64, bytes: &[u8]| {
            let mut header = [0; 64];
            header[..4].copy_from_slice(&name.to_le_bytes());
            header[4..8].copy_from_slice(&kind.to_le_bytes());
            header[8..16].copy_from_slice(&flags.to_le_bytes());
            header[16..24].copy_from_slice(&address.to_le_bytes());
            header[24..32].copy_from_slice(&(64 + content.len() as u64).to_le_bytes());
            header[32..40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            content.extend(bytes);
            content.resize(content.len().next_multiple_of(8), 0);
            headers.push(header);
        };
        for (name, kind, flags, address, bytes) in &sections {
            add(name_at[name], *kind, *flags, *address, bytes);
        }
        add(own, 3, 0, 0, &names);
        let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0".to_vec();
        elf.extend(self.machine.to_le_bytes());
        elf.extend(1u32.to_le_bytes());
        elf.extend([0; 16]); // entry, program headers
        elf.extend((64 + content.len() as u64).to_le_bytes());
        elf.extend([0; 4]);
        for half in [64u16, 56, 0, 64, headers.len() as u16, headers.len() as u16 - 1] {
            elf.extend(half.to_le_bytes());
        }
        elf.extend(content);
        elf.extend(headers.iter().flatten());
        elf
    }
}

/// How `scripts/kallsyms.c` lays out what it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Up to 6.1: addresses, negative ones, before the names.
    Old,
    /// 6.2: the same, with the order of the names.
    Ordered,
    /// Since 6.4: addresses behind the tokens.
    New,
}

/// What an image holds for its `/proc/kallsyms`: the lines of a list, each name spelt out.
pub fn kallsyms(list: &str, layout: Layout) -> Vec<u8> {
    let lines: Vec<Vec<&str>> = list
        .lines()
        .map(|line| line.split_whitespace().collect())
        .filter(|fields: &Vec<&str>| fields.len() == 3)
        .collect();
    let (mut names, mut markers) = (Vec::new(), Vec::new());
    for (number, fields) in lines.iter().enumerate() {
        if number % 256 == 0 {
            markers.extend((names.len() as u32).to_le_bytes());
        }
        let name = [fields[1], fields[2]].concat();
        if name.len() > 127 {
            names.push(name.len() as u8 | 0x80);
            names.push((name.len() >> 7) as u8);
        } else {
            names.push(name.len() as u8);
        }
        names.extend(name.bytes());
    }
    let (mut tokens, mut index) = (Vec::new(), Vec::new());
    for token in 0..=255u8 {
        index.extend((tokens.len() as u16).to_le_bytes());
        if (0x21..0x7f).contains(&token) {
            tokens.push(token)
        } else {
            tokens.extend(b"no_such_name")
        }
        tokens.push(0);
    }
    let offsets = lines.iter().flat_map(|fields| {
        let address = u64::from_str_radix(fields[0], 16).expect("an address");
        let offset = address.wrapping_sub(TEXT) as i32;
        (if layout == Layout::New { offset } else { -1 - offset }).to_le_bytes()
    });
    let offsets: Vec<u8> = offsets.collect();
    let order = vec![7; lines.len() * 3];
    let (base, count) = (TEXT.to_le_bytes().to_vec(), (lines.len() as u32).to_le_bytes().to_vec());
    let parts: Vec<&[u8]> = match layout {
        Layout::Old => vec![&offsets, &base, &count, &names, &markers, &tokens, &index],
        Layout::Ordered => vec![&offsets, &base, &count, &names, &markers, &order, &tokens, &index],
        Layout::New => vec![&count, &names, &markers, &tokens, &index, &offsets, &base, &order],
    };
    let mut data = b"what lies before, 0123456789".to_vec();
    for part in parts {
        data.resize(data.len().next_multiple_of(8), 0);
        data.extend(part);
    }
    data.resize(data.len().next_multiple_of(8) + 64, 0);
    data
}

/// A boot image round a payload, which ends with the size unpacked.
pub fn boot_image(payload: &[u8]) -> Vec<u8> {
    let mut image = vec![0; 1024];
    image[0x1f1] = 1;
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x20fu16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x100u16.to_le_bytes());
    image[0x300..0x304].copy_from_slice(b"9.9\0");
    image[0x248..0x24c].copy_from_slice(&16u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    image.extend([0x90; 16]);
    image.extend(payload);
    image.extend([0; 100]);
    image
}
