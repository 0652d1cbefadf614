//! Reading and writing of plain big-endian values in byte slices, shared by field tables,
//! properties, facts and the protocol codecs. A reader never panics and never allocates by a
//! length that it has not checked against what is there.

/// Input ended before the value did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// A cursor over bytes.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

macro_rules! read_number {
    ($($(#[$doc:meta])* $name:ident: $type:ty),* $(,)?) => {
        $($(#[$doc])*
        #[inline]
        pub fn $name(&mut self) -> Result<$type, Truncated> {
            self.array().map(<$type>::from_be_bytes)
        })*
    };
}

impl<'a> Reader<'a> {
    /// A cursor at the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// What has not been read.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// True at the end.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8], Truncated> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or(Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    read_number! {
        /// One octet.
        u8: u8,
        /// A signed octet.
        i8: i8,
        /// Two octets.
        u16: u16,
        /// Two octets, signed.
        i16: i16,
        /// Four octets.
        u32: u32,
        /// Four octets, signed.
        i32: i32,
        /// Eight octets.
        u64: u64,
        /// Eight octets, signed.
        i64: i64,
        /// IEEE 754 single.
        f32: f32,
        /// IEEE 754 double.
        f64: f64,
    }

    /// A short string: one length octet, then bytes (AMQP 0-9-1 §4.2.5.3).
    #[inline]
    pub fn short_string(&mut self) -> Result<&'a [u8], Truncated> {
        let length = self.u8()?;
        self.bytes(usize::from(length))
    }

    /// A long string: four length octets, then bytes.
    #[inline]
    pub fn long_string(&mut self) -> Result<&'a [u8], Truncated> {
        let length = self.u32()?;
        self.bytes(usize::try_from(length).map_err(|_| Truncated)?)
    }

    /// An unsigned number in 7-bit groups, lowest first; at most ten octets.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Truncated> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.u8()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(Truncated)
    }
}

/// Appending of plain values to a buffer.
pub trait Writer {
    /// Appends bytes as they are.
    fn put(&mut self, bytes: &[u8]);

    /// One octet.
    #[inline]
    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    /// Two octets.
    #[inline]
    fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Four octets.
    #[inline]
    fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Eight octets.
    #[inline]
    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    /// A short string; what is past 255 bytes is cut.
    #[inline]
    fn put_short_string(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..255).unwrap_or(bytes);
        self.put_u8(u8::try_from(bytes.len()).unwrap_or(u8::MAX));
        self.put(bytes);
    }

    /// A long string; what is past 4 GiB is cut.
    #[inline]
    fn put_long_string(&mut self, bytes: &[u8]) {
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        self.put_u32(length);
        self.put(bytes.get(..length as usize).unwrap_or(bytes));
    }

    /// See [`Reader::varint`].
    #[inline]
    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.put_u8((value & 0x7f) as u8);
    }
}

impl Writer for Vec<u8> {
    #[inline]
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_varint_comes_back(value: u64) {
            let mut bytes = Vec::new();
            bytes.put_varint(value);
            let mut reader = Reader::new(&bytes);
            prop_assert_eq!(reader.varint(), Ok(value));
            prop_assert!(reader.is_empty());
        }
    }

    #[test]
    fn a_length_past_the_end_is_an_error() {
        assert_eq!(Reader::new(&[5, 1, 2]).short_string(), Err(Truncated));
        assert_eq!(
            Reader::new(&[0xff, 0xff, 0xff, 0xff, 0]).long_string(),
            Err(Truncated)
        );
        assert_eq!(Reader::new(&[0x80; 12]).varint(), Err(Truncated));
    }
}
