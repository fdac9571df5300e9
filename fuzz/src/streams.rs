//! What a program of libweigh's reads of a stream of `weigh trace`: answers, and rings. In C: `streams.c`.

unsafe extern "C" {
    fn weigh_fuzz_stream(data: *const u8, size: usize);
}

/// Answers, each behind its length in two bytes, until one of none; then what is in the rings.
pub fn stream_conversation(data: &[u8]) {
    // SAFETY: it reads so many bytes from there, and keeps nothing.
    unsafe { weigh_fuzz_stream(data.as_ptr(), data.len()) }
}
