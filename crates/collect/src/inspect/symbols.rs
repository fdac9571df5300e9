//! From addresses to names: which mapping an address lies in, and which function of its file.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use weigh_schema::byte_text;

use crate::procfs::{self, MapEntry};

/// Symbol tables larger than this are not read: the job is waiting.
const LARGEST_FILE: u64 = 1 << 30;

/// Names for addresses in a process that still exists: `function+0x1`, else `module+0x1` with the
/// address in the module as debuggers count it, else the bare address. In the form that keeps bytes that are no UTF-8.
pub fn symbolize(pid: u32, addresses: &[u64]) -> Vec<String> {
    let maps = procfs::read_of(pid, "maps").map_or(Vec::new(), |t| procfs::parse_maps(&t));
    let mut modules = Modules::default();
    addresses.iter().map(|&address| modules.name(pid, &maps, address)).collect()
}

/// Files whose symbols have been read: by name and inode.
#[derive(Default)]
pub(super) struct Modules(HashMap<(Vec<u8>, u64), Module>);

/// More files are forgotten.
const MOST_MODULES: usize = 1024;

impl Modules {
    /// The name of an address in a process with these mappings.
    pub(super) fn name(&mut self, pid: u32, maps: &[MapEntry], address: u64) -> String {
        let Some(map) = maps.iter().find(|m| (m.start..m.end).contains(&address)) else {
            return format!("{address:#x}");
        };
        if map.inode == 0 {
            let name = byte_text::keep(&map.name);
            let name = if name.is_empty() { "[anonymous]" } else { &name };
            return format!("{name}+{:#x}", address - map.start);
        }
        let in_file = address - map.start + map.offset;
        match self.module(pid, map) {
            Some(module) => module.name(map, in_file),
            None => format!("{}+{in_file:#x}", file_name(map)),
        }
    }

    fn module(&mut self, pid: u32, map: &MapEntry) -> Option<&Module> {
        if self.0.len() >= MOST_MODULES {
            self.0.clear();
        }
        let key = (map.name.clone(), map.inode);
        if !self.0.contains_key(&key) {
            self.0.insert(key.clone(), Module::read(pid, map)?);
        }
        self.0.get(&key)
    }
}

fn file_name(map: &MapEntry) -> String {
    let path = procfs::path_of(map.name.clone());
    byte_text::keep(path.file_name().unwrap_or(path.as_os_str()).as_encoded_bytes())
}

struct Module {
    /// File offset, length and address of what is loaded.
    segments: Vec<(u64, u64, u64)>,
    /// Address, size (0 if not known) and name of functions, by address.
    functions: Vec<(u64, u64, String)>,
}

impl Module {
    fn read(pid: u32, map: &MapEntry) -> Option<Module> {
        let file = open(pid, map)?;
        let cache = ReadCache::new(file);
        let object = object::File::parse(&cache).ok()?;
        let segments =
            object.segments().map(|s| (s.file_range().0, s.file_range().1, s.address())).collect();
        let mut functions: Vec<(u64, u64, String)> = object
            .symbols()
            .chain(object.dynamic_symbols())
            .filter(|s| s.kind() == SymbolKind::Text && s.is_definition())
            .filter_map(|s| Some((s.address(), s.size(), s.name().ok()?.to_owned())))
            .collect();
        // Of several names the one that is for everybody, as malloc, not __libc_malloc.
        functions.sort_by(|a, b| {
            let order = |f: &(u64, u64, String)| (f.0, f.1 == 0, f.2.starts_with('_'));
            order(a).cmp(&order(b)).then_with(|| a.2.cmp(&b.2))
        });
        functions.dedup_by_key(|f| f.0);
        Some(Module { segments, functions })
    }

    fn name(&self, map: &MapEntry, in_file: u64) -> String {
        let segment = self.segments.iter().find(|(offset, length, _)| {
            in_file.checked_sub(*offset).is_some_and(|into| into < *length)
        });
        let Some((offset, _, address)) = segment else {
            return format!("{}+{in_file:#x}", file_name(map));
        };
        let address = in_file - offset + address;
        let behind = self.functions.partition_point(|f| f.0 <= address);
        match behind.checked_sub(1).map(|at| &self.functions[at]) {
            Some((start, size, name)) if address - start < *size => {
                format!("{name}+{:#x}", address - start)
            }
            _ => format!("{}+{address:#x}", file_name(map)),
        }
    }
}

/// Opens the file behind a mapping as the process sees it, or as everybody does when it is gone; only if it
/// is still that file.
fn open(pid: u32, map: &MapEntry) -> Option<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = procfs::path_of(map.name.clone());
    let relative = path.strip_prefix("/").ok()?;
    let in_its_world = Path::new("/proc").join(pid.to_string()).join("root").join(relative);
    let by_mapping = format!("/proc/{pid}/map_files/{:x}-{:x}", map.start, map.end);
    [in_its_world, by_mapping.into(), path.clone()].into_iter().find_map(|path| {
        // What stands there now may be a pipe that would keep us waiting.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path).ok()?;
        let facts = file.metadata().ok()?;
        (facts.is_file() && facts.ino() == map.inode && facts.len() <= LARGEST_FILE).then_some(file)
    })
}
