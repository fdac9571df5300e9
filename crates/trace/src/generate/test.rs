//! Filters, as jumps.

use super::writer::{LEFT, TEXT, Writer};
use crate::assemble::{Helper, Label, Op, R, When};
use crate::condition::{COMPARED_BYTES, Right, Source, Test, TextSource};
use crate::filter::Comparison;
use crate::path_resolve::{End, PathEnd};
use crate::state::BANKS;

impl Writer<'_> {
    /// What a filter looks at in any of its parts has to be known before the first: parts may be
    /// passed over.
    pub(super) fn learn_for(&mut self, test: &Test) {
        match test {
            Test::And(a, b) | Test::Or(a, b) => {
                self.learn_for(a);
                self.learn_for(b);
            }
            Test::Not(of) => self.learn_for(of),
            Test::Number { left, right, .. } => {
                let right = match right {
                    Right::Source(source) => Some(source),
                    Right::Constant(_) => None,
                };
                for source in [Some(left), right].into_iter().flatten() {
                    self.learn_for_source(source);
                }
            }
            Test::Text { .. } => {}
            Test::Address { .. } => self.learn_packet(),
        }
    }

    fn learn_for_source(&mut self, source: &Source) {
        match source {
            Source::Tgid | Source::Tid => self.learn_thread(),
            Source::Cpu => self.learn_cpu(),
            Source::Id => self.learn_id(),
            Source::PathEnd(PathEnd { end: End::Duration, .. }) => self.learn_time(),
            Source::Packet(_) => self.learn_packet(),
            Source::Cast(of, _) => self.learn_for_source(of),
            Source::Event
            | Source::Size
            | Source::PathEnd(_)
            | Source::Counter(_)
            | Source::PacketKept
            | Source::PacketLength => {}
        }
    }

    pub(super) fn test(&mut self, test: &Test, passes: Label, fails: Label) {
        match test {
            Test::And(a, b) => {
                let next = self.code.label();
                self.test(a, next, fails);
                self.code.place(next);
                self.test(b, passes, fails);
            }
            Test::Or(a, b) => {
                let next = self.code.label();
                self.test(a, passes, next);
                self.code.place(next);
                self.test(b, passes, fails);
            }
            Test::Not(of) => self.test(of, fails, passes),
            Test::Number { left, mask, how, is_signed, right } => {
                self.compare(left, *mask, right, fails);
                self.jump_on(*how, *is_signed, passes);
                self.code.jump(fails);
            }
            Test::Text { source, text, is_equal } => {
                let (same, other) = if *is_equal { (passes, fails) } else { (fails, passes) };
                self.compare_text(source, text, fails, other);
                self.code.jump(same);
            }
            Test::Address { side, prefix, is_equal } => {
                let (same, other) = if *is_equal { (passes, fails) } else { (fails, passes) };
                self.compare_address(*side, prefix, fails, other);
                self.code.jump(same);
            }
        }
    }

    /// R0 is the left side, R1 the right one unless that is a small constant.
    fn compare(&mut self, left: &Source, mask: Option<u64>, right: &Right, absent: Label) {
        self.value(left, absent);
        if let Some(mask) = mask {
            self.code.constant(R::R1, mask);
            self.code.with(Op::And, R::R0, R::R1);
        }
        match right {
            Right::Constant(value) => match &mut self.constants {
                None => self.code.constant(R::R1, *value),
                Some(met) => {
                    let offset = BANKS + *met * 8;
                    *met += 1;
                    self.code.load(R::R1, R::R9, offset as i16, 8);
                }
            },
            Right::Source(source) => {
                self.code.store(R::Frame, LEFT, R::R0, 8);
                self.value(source, absent);
                self.code.with(Op::Move, R::R1, R::R0);
                self.code.load(R::R0, R::Frame, LEFT, 8);
            }
        }
    }

    fn jump_on(&mut self, how: Comparison, is_signed: bool, to: Label) {
        let when = match (how, is_signed) {
            (Comparison::Equal, _) => When::Equal,
            (Comparison::Unequal, _) => When::Unequal,
            (Comparison::Less, false) => When::Less,
            (Comparison::AtMost, false) => When::AtMost,
            (Comparison::Greater, false) => When::Greater,
            (Comparison::AtLeast, false) => When::AtLeast,
            (Comparison::Less, true) => When::LessSigned,
            (Comparison::AtMost, true) => When::AtMostSigned,
            (Comparison::Greater, true) => When::GreaterSigned,
            (Comparison::AtLeast, true) => When::AtLeastSigned,
        };
        self.code.jump_if(when, R::R0, R::R1, to);
    }

    /// Goes on if the text is that one, with its end.
    fn compare_text(&mut self, source: &TextSource, text: &[u8], absent: Label, other: Label) {
        let room = match source {
            TextSource::Comm => {
                let code = &mut self.code;
                code.with(Op::Move, R::R1, R::Frame);
                code.with_constant(Op::Add, R::R1, i32::from(TEXT));
                code.constant(R::R2, 16);
                code.call(Helper::CurrentComm);
                16
            }
            TextSource::PathEnd(place) => {
                self.address(place, absent);
                let reader = self.text_reader(place.meaning.is_of_program());
                let code = &mut self.code;
                code.with(Op::Move, R::R3, R::R0);
                code.with(Op::Move, R::R1, R::Frame);
                code.with_constant(Op::Add, R::R1, i32::from(TEXT));
                // The helper cuts what is longer and ends it: the cut must not look like the end.
                code.constant(R::R2, COMPARED_BYTES as u64);
                code.call(reader);
                code.jump_if_constant(When::LessSigned, R::R0, 0, absent);
                COMPARED_BYTES
            }
        };
        let mut wanted = text.to_vec();
        wanted.push(0);
        wanted.truncate(room);
        let mut at = 0;
        while at < wanted.len() {
            let left = wanted.len() - at;
            let bytes = [8, 4, 2, 1].into_iter().find(|bytes| *bytes <= left).unwrap_or(1);
            let mut word = [0u8; 8];
            word[..bytes].copy_from_slice(&wanted[at..at + bytes]);
            self.code.load(R::R0, R::Frame, TEXT + at as i16, bytes as u32);
            self.code.constant(R::R1, u64::from_le_bytes(word));
            self.code.jump_if(When::Unequal, R::R0, R::R1, other);
            at += bytes;
        }
    }
}
