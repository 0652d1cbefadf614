//! Headers of a message that are changed, and everything else byte for byte.

use menzil_model::Properties;
use menzil_model::table::Fields;
use menzil_model::wire::{Reader, Writer};

/// The properties with their headers written anew by `write`, which is given each field: its name
/// and all its bytes. `None` where there are no headers. A table that is empty then stays.
pub(crate) fn rewrite_headers(
    properties: &[u8],
    mut write: impl FnMut(&[u8], &[u8], &mut Vec<u8>),
) -> Option<Vec<u8>> {
    let headers = Properties::parse(properties).ok()?.headers?;
    let start = headers_start(properties)?;
    let mut out = Vec::with_capacity(properties.len());
    out.put(properties.get(..start)?);
    out.put_u32(0);
    let mut fields = Fields::of(headers);
    let mut rest = headers;
    while let Some((name, _)) = fields.next() {
        let length = rest.len() - fields.rest().len();
        let (field, behind) = rest.split_at_checked(length).unwrap_or_default();
        rest = behind;
        write(name, field, &mut out);
    }
    let content_start = start + LENGTH_BYTES;
    let length = u32::try_from(out.len() - content_start).ok()?;
    out.get_mut(start..content_start)?
        .copy_from_slice(&length.to_be_bytes());
    out.put(properties.get(content_start + headers.len()..)?);
    Some(out)
}

/// Where the length of the headers table stands: after the flags and the two properties that
/// come first (AMQP 0-9-1 §4.2.6.1).
fn headers_start(properties: &[u8]) -> Option<usize> {
    let mut reader = Reader::new(properties);
    let flags = reader.u16().ok()?;
    for flag in [CONTENT_TYPE, CONTENT_ENCODING] {
        if flags & flag != 0 {
            reader.short_string().ok()?;
        }
    }
    Some(properties.len() - reader.rest().len())
}

const CONTENT_TYPE: u16 = 1 << 15;
const CONTENT_ENCODING: u16 = 1 << 14;
const LENGTH_BYTES: usize = 4;
