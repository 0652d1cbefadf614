//! Just enough framing.

pub struct Frame<'a> {
    pub kind: u8,
    pub channel: u16,
    pub payload: &'a [u8],
}

/// Takes one frame off the front of `bytes`.
#[inline]
pub fn split_frame<'a>(bytes: &mut &'a [u8]) -> Option<Frame<'a>> {
    let (head, rest) = bytes.split_first_chunk::<7>()?;
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    let (payload, rest) = rest.split_at_checked(size)?;
    let (&end, rest) = rest.split_first()?;
    assert_eq!(end, 0xCE, "frame end");
    *bytes = rest;
    Some(Frame {
        kind: head[0],
        channel: u16::from_be_bytes([head[1], head[2]]),
        payload,
    })
}

pub fn short<'a>(bytes: &mut &'a [u8]) -> &'a [u8] {
    let (text, rest) = bytes[1..].split_at(bytes[0] as usize);
    *bytes = rest;
    text
}

/// Appends a method frame; small, so that building it in place needs no second pass.
pub fn put_method(out: &mut Vec<u8>, channel: u16, class: u16, method: u16, arguments: &[&[u8]]) {
    let size = 4 + arguments.iter().map(|part| part.len()).sum::<usize>();
    put_head(out, 1, channel, size);
    out.extend_from_slice(&class.to_be_bytes());
    out.extend_from_slice(&method.to_be_bytes());
    for part in arguments {
        out.extend_from_slice(part);
    }
    out.push(0xCE);
}

#[inline]
pub fn put_head(out: &mut Vec<u8>, kind: u8, channel: u16, size: usize) {
    let channel = channel.to_be_bytes();
    let size = (size as u32).to_be_bytes();
    out.extend_from_slice(&[
        kind, channel[0], channel[1], size[0], size[1], size[2], size[3],
    ]);
}

/// A message as it lies in the read buffer or in a queue.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// Exchange and routing key, both as short strings.
    pub envelope: &'a [u8],
    /// Payload of the content header frame.
    pub header: &'a [u8],
    pub body: &'a [u8],
}

/// Appends `basic.deliver` with its content.
#[inline]
pub fn put_delivery(
    out: &mut Vec<u8>,
    channel: u16,
    consumer_tag: &[u8],
    delivery_tag: u64,
    message: Message<'_>,
) {
    out.reserve(
        64 + consumer_tag.len()
            + message.envelope.len()
            + message.header.len()
            + message.body.len(),
    );
    put_head(
        out,
        1,
        channel,
        4 + consumer_tag.len() + 9 + message.envelope.len(),
    );
    out.extend_from_slice(&[0, 60, 0, 60]);
    out.extend_from_slice(consumer_tag);
    out.extend_from_slice(&delivery_tag.to_be_bytes());
    out.push(0);
    out.extend_from_slice(message.envelope);
    out.push(0xCE);
    put_head(out, 2, channel, message.header.len());
    out.extend_from_slice(message.header);
    out.push(0xCE);
    if !message.body.is_empty() {
        put_head(out, 3, channel, message.body.len());
        out.extend_from_slice(message.body);
        out.push(0xCE);
    }
}
