//! Messages over sockets, with the descriptors that are passed along.

use std::io::{self, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use crate::frame::{HEAD_BYTES, Head, Message, WireError, encode};
use crate::messages::Answer;

/// Descriptors of one message at most: a group of CPU counters.
const MOST_DESCRIPTORS: usize = 16;
/// Room for a payload before any of it has come.
const FIRST_ROOM: usize = 1 << 16;

/// Sends as much of the bytes as goes at once, and descriptors with the first of them.
/// Errors: what sendmsg(2) has, and more descriptors than any message has.
pub fn send_parts(
    socket: impl AsFd,
    bytes: &[u8],
    with: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() && !control.push(SendAncillaryMessage::ScmRights(with)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [io::IoSlice::new(bytes)];
    let flags = flags | SendFlags::NOSIGNAL;
    Ok(retry_on_intr(|| sendmsg(&socket, &parts, &mut control, flags))?)
}

/// Receives what there is into the bytes, and the descriptors that came with it.
/// Errors: what recvmsg(2) has, and more descriptors than any message has.
pub fn receive_parts(
    socket: impl AsFd,
    bytes: &mut [u8],
    flags: RecvFlags,
) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let mut parts = [io::IoSliceMut::new(bytes)];
    let received = retry_on_intr(|| recvmsg(&socket, &mut parts, &mut control, flags))?;
    let mut with = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            with.extend(descriptors);
        }
    }
    match received.flags.contains(ReturnFlags::CTRUNC) {
        true => Err(io::ErrorKind::InvalidData.into()),
        false => Ok((received.bytes, with)),
    }
}

/// Sends a message. Errors: what [`encode`] refuses; the other side has gone, or takes nothing.
pub fn send<M: Message>(
    mut stream: &UnixStream,
    message: &M,
    with: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let frame = encode(message, with.len())?;
    let sent = send_parts(stream, &frame, with, SendFlags::empty())?;
    stream.write_all(&frame[sent..])
}

/// The next message and what came with it; none if there will be no more. Memory is taken as bytes come.
/// Errors: what [`Head::payload_bytes`] refuses, payloads that are not understood, and an end in the middle of a message.
pub fn receive<M: Message>(
    mut stream: &UnixStream,
) -> Result<Option<(M, Vec<OwnedFd>)>, WireError> {
    let mut head = [0; HEAD_BYTES];
    let (received, with) = receive_parts(stream, &mut head, RecvFlags::empty())?;
    if received == 0 {
        return Ok(None);
    }
    stream.read_exact(&mut head[received..])?;
    let head = Head::parse(&head).ok_or(WireError::NotUnderstood)?;
    let length = head.payload_bytes::<M>(with.len())?;
    let mut payload = Vec::with_capacity(length.min(FIRST_ROOM));
    stream.take(length as u64).read_to_end(&mut payload)?;
    if payload.len() < length {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    let message = M::decode_payload(head.kind, &payload).ok_or(WireError::NotUnderstood)?;
    Ok(Some((message, with)))
}

/// The next request; one that is not taken is refused with the reason. Errors: those of [`receive`].
pub fn receive_request<M: Message>(
    stream: &UnixStream,
) -> Result<Option<(M, Vec<OwnedFd>)>, WireError> {
    receive(stream).inspect_err(|error| {
        if !matches!(error, WireError::Io(_)) {
            // It may have gone.
            let _ = send(stream, &Answer::Refused(error.to_string()), &[]);
        }
    })
}

/// Asks, and has the answer. A client that is not served any more finds there why, if there is a reason.
/// Errors: those of [`send`] and [`receive`], and an end in place of an answer.
pub fn ask<M: Message>(
    stream: &UnixStream,
    request: &M,
    with: &[BorrowedFd<'_>],
) -> Result<(Answer, Vec<OwnedFd>), WireError> {
    let is_closed = |error: &io::Error| {
        matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
    };
    match send(stream, request, with) {
        Err(error) if is_closed(&error) => receive(stream).ok().flatten().ok_or(error.into()),
        Err(error) => Err(error.into()),
        Ok(()) => receive(stream)?.ok_or(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
    }
}
