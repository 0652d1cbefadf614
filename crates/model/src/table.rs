//! AMQP field tables (§4.2.5.5, in RabbitMQ's dialect), kept as the bytes they came in.
//!
//! A [`Table`] is checked once and then read in place: nothing is decoded ahead, every field
//! type survives, and what goes out is byte for byte what came in.

use bytes::Bytes;

use crate::Escaped;
use crate::wire::{Reader, Truncated, Writer};

/// Tables and arrays may nest this deep. RabbitMQ has no bound of its own; a frame would
/// otherwise hold some twenty thousand levels.
pub const NESTING_MAX: usize = 64;

/// Why bytes are not a field table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableError {
    /// A value runs past the end.
    Truncated,
    /// A type octet that nobody defines.
    UnknownType(u8),
    /// More than [`NESTING_MAX`] levels.
    TooDeep,
}

impl From<Truncated> for TableError {
    fn from(_: Truncated) -> Self {
        Self::Truncated
    }
}

/// A checked field table without its length prefix.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Table(Bytes);

impl Table {
    /// The empty table.
    pub fn empty() -> Self {
        Self(Bytes::new())
    }

    /// Checks the content of a table (without its length prefix) and keeps it.
    pub fn new(content: Bytes) -> Result<Self, TableError> {
        check_table(&content, 0)?;
        Ok(Self(content))
    }

    /// A copy of what was read; see [`Table::new`].
    pub fn copy_from(content: &[u8]) -> Result<Self, TableError> {
        check_table(content, 0)?;
        Ok(Self(Bytes::copy_from_slice(content)))
    }

    /// The fields in the order they came.
    pub fn fields(&self) -> Fields<'_> {
        Fields {
            reader: Reader::new(&self.0),
        }
    }

    /// The first field of that name.
    pub fn find(&self, name: &[u8]) -> Option<Value<'_>> {
        self.fields()
            .find(|(field, _)| *field == name)
            .map(|(_, value)| value)
    }

    /// The table without the fields of that name.
    #[must_use]
    pub fn without(&self, name: &[u8]) -> Self {
        let mut content = Vec::with_capacity(self.0.len());
        for (field, value) in self.fields().filter(|(field, _)| *field != name) {
            content.put_short_string(field);
            write_value(&mut content, value);
        }
        Self(Bytes::from(content))
    }

    /// The content without its length prefix.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// True without fields.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields = self
            .fields()
            .map(|(name, value)| (Escaped(name).to_string(), value));
        f.debug_map().entries(fields).finish()
    }
}

/// Checks table content where it lies, for a header table that is not kept apart.
pub fn check_table(content: &[u8], depth: usize) -> Result<(), TableError> {
    let mut reader = Reader::new(content);
    while !reader.is_empty() {
        reader.short_string()?;
        check_value(&mut reader, depth)?;
    }
    Ok(())
}

fn check_value(reader: &mut Reader<'_>, depth: usize) -> Result<(), TableError> {
    match read_value(reader)? {
        Value::Table(_) | Value::Array(_) if depth + 1 >= NESTING_MAX => Err(TableError::TooDeep),
        Value::Table(fields) => check_table(fields.reader.rest(), depth + 1),
        Value::Array(items) => {
            let mut reader = items.reader;
            while !reader.is_empty() {
                check_value(&mut reader, depth + 1)?;
            }
            Ok(())
        }
        Value::Bool(_)
        | Value::I8(_)
        | Value::U8(_)
        | Value::I16(_)
        | Value::U16(_)
        | Value::I32(_)
        | Value::U32(_)
        | Value::I64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Decimal(..)
        | Value::LongString(_)
        | Value::Timestamp(_)
        | Value::Void
        | Value::Binary(_) => Ok(()),
    }
}

/// The fields of a checked table. Ends early at a byte that does not read, which a checked
/// table has nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    reader: Reader<'a>,
}

impl<'a> Fields<'a> {
    /// Reads table content in place; fields after a malformed one do not come.
    pub fn of(content: &'a [u8]) -> Self {
        Self {
            reader: Reader::new(content),
        }
    }

    /// The bytes not yet read.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

#[expect(
    clippy::copy_iterator,
    reason = "a value holds one and is itself `Copy`"
)]
impl<'a> Iterator for Fields<'a> {
    type Item = (&'a [u8], Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.reader.is_empty() {
            return None;
        }
        let name = self.reader.short_string().ok()?;
        let value = read_value(&mut self.reader).ok()?;
        Some((name, value))
    }
}

/// The items of a field array.
#[derive(Clone, Copy, Debug)]
pub struct Items<'a> {
    reader: Reader<'a>,
}

impl<'a> Items<'a> {
    /// The array's content as it stands.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

#[expect(
    clippy::copy_iterator,
    reason = "a value holds one and is itself `Copy`"
)]
impl<'a> Iterator for Items<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.reader.is_empty() {
            return None;
        }
        read_value(&mut self.reader).ok()
    }
}

/// One field value, by RabbitMQ's type octets.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// `t`
    Bool(bool),
    /// `b`
    I8(i8),
    /// `B`
    U8(u8),
    /// `s`
    I16(i16),
    /// `u`
    U16(u16),
    /// `I`
    I32(i32),
    /// `i`
    U32(u32),
    /// `l`, and `L` which RabbitMQ reads alike
    I64(i64),
    /// `f`
    F32(f32),
    /// `d`
    F64(f64),
    /// `D`: decimal places and the unscaled number
    Decimal(u8, u32),
    /// `S`
    LongString(&'a [u8]),
    /// `A`
    Array(Items<'a>),
    /// `T`, seconds since 1970
    Timestamp(u64),
    /// `F`
    Table(Fields<'a>),
    /// `V`
    Void,
    /// `x`
    Binary(&'a [u8]),
}

impl Value<'_> {
    /// The number where the value is an integer of any width.
    pub fn as_integer(&self) -> Option<i128> {
        match *self {
            Self::I8(n) => Some(n.into()),
            Self::U8(n) => Some(n.into()),
            Self::I16(n) => Some(n.into()),
            Self::U16(n) => Some(n.into()),
            Self::I32(n) => Some(n.into()),
            Self::U32(n) => Some(n.into()),
            Self::I64(n) => Some(n.into()),
            Self::Bool(_)
            | Self::F32(_)
            | Self::F64(_)
            | Self::Decimal(..)
            | Self::LongString(_)
            | Self::Array(_)
            | Self::Timestamp(_)
            | Self::Table(_)
            | Self::Void
            | Self::Binary(_) => None,
        }
    }

    /// RabbitMQ's word for the type, as its error texts have it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::I8(_) => "byte",
            Self::U8(_) => "unsignedbyte",
            Self::I16(_) => "short",
            Self::U16(_) => "unsignedshort",
            Self::I32(_) => "signedint",
            Self::U32(_) => "unsignedint",
            Self::I64(_) => "long",
            Self::F32(_) => "float",
            Self::F64(_) => "double",
            Self::Decimal(..) => "decimal",
            Self::LongString(_) => "longstr",
            Self::Array(_) => "array",
            Self::Timestamp(_) => "timestamp",
            Self::Table(_) => "table",
            Self::Void => "void",
            Self::Binary(_) => "binary",
        }
    }
}

/// Reads one value with its type octet. Nested content is sliced, not looked into.
pub fn read_value<'a>(reader: &mut Reader<'a>) -> Result<Value<'a>, TableError> {
    Ok(match reader.u8()? {
        b't' => Value::Bool(reader.u8()? != 0),
        b'b' => Value::I8(reader.i8()?),
        b'B' => Value::U8(reader.u8()?),
        b's' => Value::I16(reader.i16()?),
        b'u' => Value::U16(reader.u16()?),
        b'I' => Value::I32(reader.i32()?),
        b'i' => Value::U32(reader.u32()?),
        b'l' | b'L' => Value::I64(reader.i64()?),
        b'f' => Value::F32(reader.f32()?),
        b'd' => Value::F64(reader.f64()?),
        b'D' => Value::Decimal(reader.u8()?, reader.u32()?),
        b'S' => Value::LongString(reader.long_string()?),
        b'A' => Value::Array(Items {
            reader: Reader::new(reader.long_string()?),
        }),
        b'T' => Value::Timestamp(reader.u64()?),
        b'F' => Value::Table(Fields {
            reader: Reader::new(reader.long_string()?),
        }),
        b'V' => Value::Void,
        b'x' => Value::Binary(reader.long_string()?),
        other => return Err(TableError::UnknownType(other)),
    })
}

/// Builds table content field by field.
#[derive(Clone, Debug, Default)]
pub struct TableBuilder(Vec<u8>);

impl TableBuilder {
    /// A table without fields.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field at the end.
    #[must_use]
    pub fn field(mut self, name: &str, value: Value<'_>) -> Self {
        self.0.put_short_string(name.as_bytes());
        write_value(&mut self.0, value);
        self
    }

    /// The table.
    pub fn build(self) -> Table {
        Table(Bytes::from(self.0))
    }
}

/// Appends one value with its type octet.
pub fn write_value(out: &mut Vec<u8>, value: Value<'_>) {
    match value {
        Value::Bool(v) => out.put(&[b't', u8::from(v)]),
        Value::I8(v) => out.put(&[b'b', v.to_be_bytes()[0]]),
        Value::U8(v) => out.put(&[b'B', v]),
        Value::I16(v) => tagged(out, b's', &v.to_be_bytes()),
        Value::U16(v) => tagged(out, b'u', &v.to_be_bytes()),
        Value::I32(v) => tagged(out, b'I', &v.to_be_bytes()),
        Value::U32(v) => tagged(out, b'i', &v.to_be_bytes()),
        Value::I64(v) => tagged(out, b'l', &v.to_be_bytes()),
        Value::F32(v) => tagged(out, b'f', &v.to_be_bytes()),
        Value::F64(v) => tagged(out, b'd', &v.to_be_bytes()),
        Value::Decimal(places, number) => {
            out.put(&[b'D', places]);
            out.put_u32(number);
        }
        Value::LongString(v) => {
            out.put_u8(b'S');
            out.put_long_string(v);
        }
        Value::Array(items) => {
            out.put_u8(b'A');
            out.put_long_string(items.as_bytes());
        }
        Value::Timestamp(v) => tagged(out, b'T', &v.to_be_bytes()),
        Value::Table(fields) => {
            out.put_u8(b'F');
            out.put_long_string(fields.rest());
        }
        Value::Void => out.put_u8(b'V'),
        Value::Binary(v) => {
            out.put_u8(b'x');
            out.put_long_string(v);
        }
    }
}

fn tagged(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.put_u8(tag);
    out.put(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_field_type_reads_back_byte_for_byte() {
        let inner = TableBuilder::new().field("deep", Value::Void).build();
        let table = TableBuilder::new()
            .field("t", Value::Bool(true))
            .field("b", Value::I8(-1))
            .field("B", Value::U8(200))
            .field("s", Value::I16(-2))
            .field("u", Value::U16(60_000))
            .field("I", Value::I32(-3))
            .field("i", Value::U32(4_000_000_000))
            .field("l", Value::I64(-4))
            .field("f", Value::F32(1.5))
            .field("d", Value::F64(2.5))
            .field("D", Value::Decimal(2, 314))
            .field("S", Value::LongString(b"text"))
            .field("T", Value::Timestamp(7))
            .field("F", Value::Table(inner.fields()))
            .field("V", Value::Void)
            .field("x", Value::Binary(b"\0\x01"))
            .build();
        let checked = Table::copy_from(table.as_bytes()).unwrap();
        let mut rebuilt = TableBuilder::new();
        for (name, value) in checked.fields() {
            rebuilt = rebuilt.field(std::str::from_utf8(name).unwrap(), value);
        }
        assert_eq!(rebuilt.build(), table);
    }

    #[test]
    fn tables_nested_without_end_are_refused() {
        let mut table = Table::empty();
        for _ in 0..NESTING_MAX {
            table = TableBuilder::new()
                .field("n", Value::Table(table.fields()))
                .build();
        }
        assert_eq!(Table::copy_from(table.as_bytes()), Err(TableError::TooDeep));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_table_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(table) = Table::copy_from(&bytes) {
                let read: usize = table.fields().count();
                prop_assert!(read <= bytes.len());
            }
        }
    }
}
