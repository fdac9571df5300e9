//! What is told of a process that crossed a limit, from its files in `/proc`: its greatest mappings, and its stack in
//! the kernel.

use weigh_schema::byte_text;
use weigh_schema::summary::Mapping;

use crate::procfs;

const MAPPINGS: usize = 10;

/// The mappings with the greatest resident size.
pub fn largest_mappings(smaps: &[u8]) -> Vec<Mapping> {
    let mut maps = procfs::parse_smaps(smaps);
    maps.sort_by_key(|(map, rss)| (std::cmp::Reverse(*rss), map.start));
    maps.into_iter()
        .take(MAPPINGS)
        .filter(|(_, rss)| *rss > 0)
        .map(|(map, rss_bytes)| {
            let name = byte_text::keep(&map.name);
            Mapping {
                name: match name.is_empty() {
                    true => "[anonymous]".to_owned(),
                    false => byte_text::shown(&name),
                },
                name_base64: byte_text::base64(&name),
                rss_bytes,
                size_bytes: map.end - map.start,
            }
        })
        .collect()
}

/// The frames of `/proc/PID/stack`: `[<0>] name+0x1/0x2` becomes `name+0x1`.
pub fn parse_kernel_stack(text: &[u8]) -> Vec<String> {
    String::from_utf8_lossy(text)
        .lines()
        .map(|line| line.split_once("] ").map_or(line, |(_, frame)| frame))
        .map(|frame| frame.rsplit_once('/').map_or(frame, |(place, _)| place).trim().to_owned())
        .filter(|frame| !frame.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_frames_lose_their_decoration() {
        let text = b"[<0>] do_wait+0x5e/0x110\n[<0>] mod_fn+0x1/0x2 [ext4]\nodd\n\n";
        assert_eq!(parse_kernel_stack(text), ["do_wait+0x5e", "mod_fn+0x1", "odd"]);
    }

    #[test]
    fn the_largest_mappings_come_first() {
        let mut smaps = String::new();
        for n in 0..20 {
            let name = if n == 7 { "" } else { "/lib x" };
            smaps +=
                &format!("{:x}-{:x} rw-p 0 0:0 0 {name}\nRss: {n} kB\n", n << 16, (n + 1) << 16);
        }
        let maps = largest_mappings(smaps.as_bytes());
        assert_eq!(maps.len(), 10);
        assert_eq!((maps[0].rss_bytes, maps[0].size_bytes), (19 << 10, 1 << 16));
        assert_eq!((maps[0].name.as_str(), maps[9].rss_bytes), ("/lib x", 10 << 10));
        assert!(largest_mappings(b"1000-2000 rw-p 0 0:0 0 \nRss: 0 kB\n").is_empty());
        assert_eq!(
            largest_mappings(b"1000-2000 rw-p 0 0:0 0 \nRss: 1 kB\n")[0].name,
            "[anonymous]"
        );
        let strange = &largest_mappings(b"1000-2000 rw-p 0 0:0 7 /a\xff\nRss: 1 kB\n")[0];
        assert_eq!(strange.name, "/a\u{fffd}");
        assert_eq!(strange.name_base64, Some(weigh_schema::base64::encode(b"/a\xff")));
    }
}
