//! Texts that keep bytes which are no UTF-8, from where they are read to where they are written.
//!
//! Each such byte is one of the last 128 characters of the private planes (U+10FF80 for 0x80 and so on); where
//! the bytes have such a character themselves, its four bytes are kept so, too. So each text stands for one row of
//! bytes. People and files get [`shown`], and beside it [`base64`] where that does not say all.

use std::borrow::Cow;

use crate::base64;

const FIRST: u32 = 0x10_ff80;

fn byte_of(character: char) -> Option<u8> {
    let at = u32::from(character).checked_sub(FIRST)?;
    u8::try_from(at + 0x80).ok()
}

fn mark_of(byte: u8) -> char {
    char::from_u32(FIRST - 0x80 + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

/// The text that keeps these bytes.
pub fn keep(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match byte_of(character) {
                None => text.push(character),
                Some(_) => {
                    let mut bytes = [0; 4];
                    let bytes = character.encode_utf8(&mut bytes).bytes();
                    text.extend(bytes.map(mark_of));
                }
            }
        }
        text.extend(chunk.invalid().iter().copied().map(mark_of));
    }
    text
}

/// The bytes that a text keeps.
pub fn bytes(text: &str) -> Cow<'_, [u8]> {
    if !text.chars().any(|character| byte_of(character).is_some()) {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut bytes = Vec::with_capacity(text.len());
    for character in text.chars() {
        match byte_of(character) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Cow::Owned(bytes)
}

/// As people and files have it: what is no UTF-8 is U+FFFD.
pub fn shown(text: &str) -> String {
    String::from_utf8_lossy(&bytes(text)).into_owned()
}

/// Its bytes in Base64; none where what is shown says all.
pub fn base64(text: &str) -> Option<String> {
    let bytes = bytes(text);
    std::str::from_utf8(&bytes).is_err().then(|| base64::encode(&bytes))
}

/// As people and files have it, and its bytes in Base64 where that does not say all.
pub fn shown_with_base64(text: &str) -> (String, Option<String>) {
    (shown(text), base64(text))
}

/// All of several texts, each in Base64; none where all are shown as they are.
pub fn base64_of_each<T: AsRef<str>>(texts: &[T]) -> Vec<String> {
    let is_shown = |text: &T| std::str::from_utf8(&bytes(text.as_ref())).is_ok();
    match texts.iter().all(is_shown) {
        true => Vec::new(),
        false => texts.iter().map(|text| base64::encode(&bytes(text.as_ref()))).collect(),
    }
}

/// Those of several words, each with a NUL byte behind it; none where all are shown as they are.
pub fn base64_of_words<T: AsRef<str>>(words: &[T]) -> Option<String> {
    let is_shown = |word: &T| std::str::from_utf8(&bytes(word.as_ref())).is_ok();
    if words.iter().all(is_shown) {
        return None;
    }
    let ended = words.iter().flat_map(|word| [&bytes(word.as_ref())[..], &[0]].concat());
    Some(base64::encode(&ended.collect::<Vec<u8>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_as_they_were() {
        let own_mark = "\u{10ff85}";
        for bytes in [
            &b"plain"[..],
            "\u{e4}\u{1f600}\u{10ff7f}".as_bytes(),
            b"\xff",
            b"a\xfe\xff\xc3",
            b"\xf4\x8f\xbe",
            own_mark.as_bytes(),
            &[own_mark.as_bytes(), b"\xff"].concat(),
        ] {
            let text = keep(bytes);
            assert_eq!(super::bytes(&text), bytes, "{text:?}");
            assert_eq!(shown(&text), String::from_utf8_lossy(bytes));
            assert_eq!(base64(&text).is_some(), std::str::from_utf8(bytes).is_err());
        }
        assert_ne!(keep(b"\xff"), keep(b"\xfe"), "two files are two texts");
        assert_eq!(base64(&keep(b"\xff\xfe\xfb")).as_deref(), Some("//77"));
    }

    #[test]
    fn words_that_are_shown_whole_need_nothing_beside_them() {
        assert_eq!(base64_of_words(&["a", "\u{e4}"]), None);
        assert!(base64_of_each(&["a", "\u{e4}"]).is_empty());
        let words = [keep(b"a"), keep(b"\xff")];
        assert_eq!(base64_of_words(&words), Some(base64::encode(b"a\0\xff\0")));
        assert_eq!(base64_of_each(&words), ["YQ==", "/w=="]);
    }

    /// Texts of weigh's own, names that users give as text, and names that the kernel has for things of its own.
    const OWN: &[&str] = &[
        "FileSystemRoom.kind",
        "GpuUse.gpu",
        "GpuUse.uuid",
        "GpuUse.opened",
        "*.schema",
        "*.notes",
        "*.reason",
        "*.call",
        "*.metric",
        "*.missing",
        "*.category",
        "*.node",
        "BusiestRow.job",
        "BusiestRow.name",
        "Advice.rule",
        "Advice.text",
        "CollectorStatus.name",
        "Condition.value",
        "CounterDifference.counter",
        "CounterDifference.name",
        "CounterDifference.subsystem",
        "CounterState.name",
        "CounterState.unavailable",
        "Difference.subsystem",
        "DoctorReport.said",
        "EventNote.name",
        "Exit.error",
        "Exit.limit",
        "ExplainReport.unmeasured",
        "FieldNote.column",
        "FieldNote.name",
        "FollowedNote.asked",
        "FollowedNote.event",
        "FollowedNote.filter",
        "FollowedNote.sampling",
        "KernelCosts.measured",
        "SynthesisResult.asked",
        "SynthesisResult.sampled",
        "FunctionProbes.why",
        "AskedToken.given",
        "ControlledProcess.refused",
        "PhaseResource.help",
        "PhaseResource.metric",
        "PhaseResource.series",
        "PhaseResource.quality_reason",
        // In words: the recording has the bytes.
        "PhaseUsage.command",
        "PhaseUsage.phase",
        "TopCollector.name",
        "TopGroup.manager",
        "PublishedValue.user",
        "TopProfile.user",
        "TopJob.user",
        "TopLimit.name",
        "TopProcess.state",
        "TopProcess.user",
        "TopReport.user",
        "Host.cgroup_version",
        "Host.kernel",
        "Host.virtualisation",
        "Host.weigh",
        // Texts of the agent's own, and names that it holds to a few letters.
        "AgentStatus.weigh",
        "StreamStatus.name",
        "StreamRead.stream",
        "StreamCheckpoint.stream",
        "PolicyChange.stream",
        "CollectorSwitch.collector",
        "IoCall.deed",
        "IoCall.kind",
        "Job.id",
        "Job.user",
        "LimitOutcome.enforced_by",
        "LimitOutcome.overshoot",
        "LimitOutcome.written",
        "Offender.kernel_stack",
        "Offender.unreadable",
        // Of an address and a certificate's name.
        "PageStatus.origin",
        "RegionCounter.kind",
        "RegionRow.kind",
        "RivalShare.kind",
        // From a file of rules, with names of scopes in words.
        "RuleEvent.paste",
        "RuleEvent.rule",
        "RuleEvent.text",
        "RuleStatus.paste",
        "RuleStatus.rule",
        "RuleStatus.text",
        "SampleRow.scope",
        "Snapshot.label",
        "SubsystemState.name",
        "SwitchNote.error",
        "SwitchNote.rule",
        "Table.by",
        "Unavailable.name",
        // From an environment or a file of which nothing is taken that is no UTF-8.
        "SchedulerRequest.job",
        "SchedulerRequest.name",
        // From a client of the agent; what is no UTF-8 is no message.
        "PushedEvent.name",
        "PushedEvent.text",
        "TraceQuery.asked",
        // Keys of a map, which JSON has no bytes beside.
        "RegionsFound.metadata_differs",
        // On its way to where it is written, in the form that keeps its bytes.
        "ProcessEnd.command",
        "ProcessEnd.name",
    ];

    /// The text fields of structures in a source file that are written to files, as `Structure.field`.
    fn texts(source: &str) -> Vec<String> {
        let (mut is_written, mut structure, mut found) = (false, "", Vec::new());
        for line in source.lines() {
            if line.starts_with("#[derive(") {
                is_written = line.contains("Serialize");
            } else if let Some(rest) = line.strip_prefix("pub struct ") {
                structure = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            } else if line == "}" {
                (is_written, structure) = (false, "");
            } else if let Some((name, kind)) =
                line.strip_prefix("    pub ").and_then(|field| field.split_once(": "))
            {
                let is_text = ["String,", "Option<String>,", "Vec<String>,"].contains(&kind);
                if is_written && is_text && !structure.is_empty() {
                    found.push(format!("{structure}.{name}"));
                }
            }
        }
        found
    }

    fn sources(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("it").path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    /// A new text has its bytes beside it, or is said to be none from outside.
    #[test]
    fn every_text_from_outside_has_its_bytes_beside_it() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).expect("a source");
        let all: Vec<String> =
            sources(&folder).iter().flat_map(|path| texts(&read(path))).collect();
        assert!(all.len() > 50 && all.contains(&"IoCall.path".to_string()), "{all:?}");
        let is_unknown = |text: &&String| {
            let name = text.split('.').next_back().unwrap_or_default();
            let is_own =
                OWN.contains(&text.as_str()) || OWN.contains(&format!("*.{name}").as_str());
            let has_bytes = all.contains(&format!("{text}_base64"));
            !(name.ends_with("_base64") || has_bytes || is_own)
        };
        let unknown: Vec<_> = all.iter().filter(is_unknown).collect();
        assert!(unknown.is_empty(), "{unknown:?}: from outside? Then _base64 belongs beside it");
    }
}
