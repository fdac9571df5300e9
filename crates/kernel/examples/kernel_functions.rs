//! Makes `data/functions.gz`, the functions of each kernel source file, and judges it.
//!
//! Reads images with debugging information (the `vmlinux` of a distribution's -dbg package).
//! `scripts/kernel-functions.sh` fetches them and calls this.
//!
//! usage: kernel_functions make TABLE VMLINUX...     the table that all of them together give
//!        kernel_functions judge TABLE VMLINUX       how often it is right of an image
//!        kernel_functions cover TABLE KALLSYMS      how many names of a list it places
//!        kernel_functions analyse VMLINUX [CALL...] an analysis, as JSON

use std::error::Error;
use std::fs;
use std::io::{Read as _, Write as _};

use flate2::{Compression, GzBuilder, read::GzDecoder};
use weigh_kernel::{Input, Subsystems, Symbols, Table};
use weigh_trace::btf::Btf;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", out, ref images @ ..] if !images.is_empty() => make(out, images)?,
        ["judge", table, image] => {
            let judged =
                weigh_kernel::judge(&read(table)?, &fs::read(image)?, &Subsystems::shipped())?;
            println!("{judged:#?}");
        }
        ["cover", table, list] => {
            let placed = weigh_kernel::cover(&read(table)?, &Symbols::parse(&fs::read(list)?)?);
            println!("{placed:#?} of {}", placed.all());
        }
        ["analyse", image, ref calls @ ..] => {
            let wanted: Vec<String> = calls.iter().map(|call| call.to_string()).collect();
            let subsystems = Subsystems::shipped();
            let image = fs::read(image)?;
            let input = Input {
                image: &image,
                symbols: None,
                btf: None,
                typed_functions: |btf| match Btf::new(btf.to_vec()) {
                    Ok(types) => Ok(types.functions().map(|(_, name)| name.to_string()).collect()),
                    Err(error) => Err(error.to_string()),
                },
                build_id: None,
                filter_functions: None,
                wanted: &wanted,
                told_apart: &[],
                subsystems: &subsystems,
            };
            println!("{}", serde_json::to_string_pretty(&weigh_kernel::analyse(&input)?)?);
        }
        _ => {
            return Err(
                "usage: make TABLE VMLINUX..., judge TABLE VMLINUX, cover TABLE KALLSYMS".into()
            );
        }
    }
    Ok(())
}

fn make(out: &str, images: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut all = Table::default();
    for image in images {
        let table = weigh_kernel::table_of(&fs::read(image)?)?;
        eprintln!("{image}: {}", table.counts());
        all.merge(table);
    }
    eprintln!("all: {}", all.counts());
    // The time of its making is no part of it: the same kernels give the same file.
    let mut packed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    packed.write_all(all.text().as_bytes())?;
    Ok(fs::write(out, packed.finish()?)?)
}

fn read(table: &str) -> Result<Table, Box<dyn Error>> {
    let mut text = String::new();
    GzDecoder::new(fs::File::open(table)?).read_to_string(&mut text)?;
    Ok(Table::parse(&text)?)
}
