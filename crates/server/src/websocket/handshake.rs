//! The opening handshake (RFC 6455 §4.2), of clients that speak MQTT.

use std::net::IpAddr;

use sha1::{Digest as _, Sha1};

use super::PATH;

/// What has come of a request.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    request: Vec<u8>,
}

/// A request that is granted.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Accepted {
    pub(super) response: Vec<u8>,
    /// It came from a page of another machine.
    pub(super) is_foreign: bool,
}

/// One that is not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) why: &'static str,
    pub(super) response: Vec<u8>,
}

impl Handshake {
    /// Takes input until the request is whole; what follows it stays.
    pub(super) fn take(&mut self, input: &mut &mut [u8]) -> Option<Result<Accepted, Refused>> {
        let before = self.request.len();
        let room = REQUEST_BYTES_MAX - before.min(REQUEST_BYTES_MAX);
        let count = input.len().min(room);
        self.request.extend_from_slice(input.get(..count)?);
        let from = before.saturating_sub(END.len() - 1);
        let tail = self.request.get(from..).unwrap_or_default();
        let end = tail.windows(END.len()).position(|window| window == END);
        let Some(end) = end.map(|end| from + end + END.len()) else {
            *input = std::mem::take(input).get_mut(count..)?;
            let is_full = self.request.len() >= REQUEST_BYTES_MAX;
            return is_full.then(|| Err(refuse("431 Request Header Fields Too Large", TOO_LONG)));
        };
        *input = std::mem::take(input).get_mut(end - before..)?;
        let request = std::mem::take(&mut self.request);
        Some(answer(request.get(..end).unwrap_or_default()))
    }
}

/// What to say to a whole request.
fn answer(request: &[u8]) -> Result<Accepted, Refused> {
    let bad = |why| refuse("400 Bad Request", why);
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut parsed = httparse::Request::new(&mut headers);
    match parsed.parse(request) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Err(bad("a request that ends too early")),
        Err(_) => return Err(bad("no HTTP request")),
    }
    if parsed.method != Some("GET") || parsed.version != Some(1) {
        return Err(bad("not GET of HTTP/1.1"));
    }
    let target = parsed.path.unwrap_or_default();
    if target.split('?').next() != Some(PATH) {
        return Err(refuse("404 Not Found", "another path than /mqtt"));
    }
    let has = |name, token| has_token(parsed.headers, name, token);
    if !has("upgrade", "websocket") || !has("connection", "upgrade") {
        return Err(refuse("426 Upgrade Required", "no upgrade to WebSocket"));
    }
    if value(parsed.headers, "sec-websocket-version") != Some(b"13") {
        return Err(refuse(
            "426 Upgrade Required",
            "another version of WebSocket than 13",
        ));
    }
    let key = value(parsed.headers, "sec-websocket-key");
    let Some(key) = key.filter(|key| is_key(key)) else {
        return Err(bad("no Sec-WebSocket-Key of 16 bytes"));
    };
    // The first that the client would like (MQTT-6.0.0-3, -4).
    let offered = tokens(parsed.headers, "sec-websocket-protocol");
    let Some(protocol) = offered
        .into_iter()
        .find_map(|token| PROTOCOLS.iter().find(|known| known.as_bytes() == token))
    else {
        return Err(bad("Sec-WebSocket-Protocol has neither mqtt nor mqttv3.1"));
    };
    let accept = accept_of(key);
    let response = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    let origin = value(parsed.headers, "origin");
    Ok(Accepted {
        response: response.into_bytes(),
        is_foreign: origin.is_some_and(|origin| !is_local(origin)),
    })
}

fn refuse(status: &str, why: &'static str) -> Refused {
    let version = if status.starts_with("426") {
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    } else {
        ""
    };
    let length = why.len() + 1;
    let response = format!(
        "HTTP/1.1 {status}\r\n{version}Connection: close\r\nContent-Type: text/plain\r\n\
         Content-Length: {length}\r\n\r\n{why}\n"
    );
    Refused {
        why,
        response: response.into_bytes(),
    }
}

/// The one value of that name, trimmed.
fn value<'h>(headers: &[httparse::Header<'h>], name: &str) -> Option<&'h [u8]> {
    let mut of_name = headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
    let value = of_name.next()?.value.trim_ascii();
    of_name.next().is_none().then_some(value)
}

/// What stands between commas in all headers of that name.
fn tokens<'h>(headers: &[httparse::Header<'h>], name: &str) -> Vec<&'h [u8]> {
    let of_name = headers.iter().filter(|h| h.name.eq_ignore_ascii_case(name));
    of_name
        .flat_map(|header| header.value.split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .collect()
}

fn has_token(headers: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    let tokens = tokens(headers, name);
    (tokens.iter()).any(|found| found.eq_ignore_ascii_case(token.as_bytes()))
}

/// Sixteen bytes in base64.
fn is_key(key: &[u8]) -> bool {
    let is_digit = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    match key.strip_suffix(b"==") {
        Some(digits) => digits.len() == 22 && digits.iter().all(is_digit),
        None => false,
    }
}

fn accept_of(key: &[u8]) -> String {
    let mut hash = Sha1::new();
    hash.update(key);
    hash.update(GUID);
    base64(&hash.finalize())
}

fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let at = |at: usize| u32::from(chunk.get(at).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            let digit = usize::try_from(bits >> (18 - 6 * place) & 0x3F).unwrap_or(0);
            let is_there = place <= chunk.len();
            let digit = DIGITS.get(digit).filter(|_| is_there);
            text.push(digit.map_or('=', |digit| char::from(*digit)));
        }
    }
    text
}

/// Whether a page of that origin was loaded from this machine (RFC 6454 §6.1).
fn is_local(origin: &[u8]) -> bool {
    let Ok(origin) = std::str::from_utf8(origin) else {
        return false;
    };
    let Some((_, host)) = origin.split_once("://") else {
        return false;
    };
    let host = match host.strip_prefix('[') {
        Some(address) => address.split(']').next(),
        None => host.split(':').next(),
    };
    let host = host.unwrap_or_default();
    host.eq_ignore_ascii_case("localhost")
        || (host.parse::<IpAddr>()).is_ok_and(|address| address.to_canonical().is_loopback())
}

const END: &[u8] = b"\r\n\r\n";
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const PROTOCOLS: [&str; 2] = ["mqtt", "mqttv3.1"];
const TOO_LONG: &str = "a request of more than 8 KiB";
const REQUEST_BYTES_MAX: usize = 8 << 10;
const HEADERS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of RFC 6455 §1.2, asking for MQTT.
    const REQUEST: &str = "GET /mqtt HTTP/1.1\r\nHost: server.example.com\r\n\
        Upgrade: websocket\r\nConnection: keep-alive, Upgrade\r\n\
        Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
        Sec-WebSocket-Protocol: chat, mqtt\r\nSec-WebSocket-Version: 13\r\n\r\n";

    fn take(bytes: &[u8], piece: usize) -> (Option<Result<Accepted, Refused>>, usize) {
        let mut handshake = Handshake::default();
        let mut left = bytes.len();
        for piece in bytes.chunks(piece) {
            let mut copy = piece.to_vec();
            let mut rest = copy.as_mut_slice();
            let taken = handshake.take(&mut rest);
            left -= piece.len() - rest.len();
            if taken.is_some() {
                return (taken, left);
            }
        }
        (None, left)
    }

    #[test]
    fn the_example_of_the_standard_is_granted_however_it_comes() {
        let bytes = format!("{REQUEST}after");
        for piece in [1, 5, 100, bytes.len()] {
            let (taken, left) = take(bytes.as_bytes(), piece);
            let accepted = taken.unwrap().unwrap();
            let response = String::from_utf8(accepted.response).unwrap();
            assert!(response.starts_with("HTTP/1.1 101 "), "{response}");
            for header in [
                "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n",
                "Sec-WebSocket-Protocol: mqtt\r\n",
            ] {
                assert!(response.contains(header), "{response}");
            }
            assert!(!accepted.is_foreign);
            assert_eq!(left, 5, "what follows is not the request's");
        }
    }

    #[test]
    fn what_is_no_such_request_is_refused_with_a_reason() {
        for (from, to, status) in [
            ("GET", "POST", "400"),
            ("HTTP/1.1", "HTTP/1.0", "400"),
            ("GET /mqtt", "GET /", "404"),
            ("Upgrade: websocket", "Upgrade: h2c", "426"),
            ("keep-alive, Upgrade", "keep-alive", "426"),
            ("Version: 13", "Version: 8", "426"),
            ("dGhlIHNhbXBsZSBub25jZQ==", "short", "400"),
            ("chat, mqtt", "chat", "400"),
            ("Host:", "Ho st:", "400"),
        ] {
            let request = REQUEST.replace(from, to);
            let (taken, _) = take(request.as_bytes(), request.len());
            let response = String::from_utf8(taken.unwrap().unwrap_err().response).unwrap();
            let expected = format!("HTTP/1.1 {status} ");
            assert!(response.starts_with(&expected), "{from}: {response}");
        }
        let (taken, _) = take(&[b'x'; 2 * REQUEST_BYTES_MAX], 100);
        assert_eq!(taken.unwrap().unwrap_err().why, TOO_LONG);
    }

    #[test]
    fn a_page_of_another_machine_is_known_by_its_origin() {
        for (origin, is_foreign) in [
            ("http://localhost:3000", false),
            ("https://127.0.0.1", false),
            ("http://[::1]:80", false),
            ("https://example.com", true),
            ("http://localhost.example.com", true),
            ("null", true),
        ] {
            let request = REQUEST.replace("Host:", &format!("Origin: {origin}\r\nHost:"));
            let (taken, _) = take(request.as_bytes(), request.len());
            assert_eq!(taken.unwrap().unwrap().is_foreign, is_foreign, "{origin}");
        }
    }
}
