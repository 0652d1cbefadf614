//! Writes `src/methods.rs` from `methods.txt`: one struct for each method, one enum over them,
//! a decoder and an encoder. Shared by the example that prints the file and the test that
//! compares it.

use std::fmt::Write as _;

struct Method {
    class: u16,
    number: u16,
    /// `basic.get-ok`
    full_name: String,
    /// `BasicGetOk`
    type_name: String,
    sender: &'static str,
    synchronous: bool,
    content: bool,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    kind: String,
}

/// The whole source file for a table of methods.
pub(crate) fn generate(table: &str) -> String {
    let methods = parse(table);
    let mut out = String::from(HEADER);
    enumeration(&mut out, &methods);
    decoder(&mut out, &methods);
    encoder(&mut out, &methods);
    descriptions(&mut out, &methods);
    for method in &methods {
        structure(&mut out, method);
    }
    out
}

fn parse(table: &str) -> Vec<Method> {
    let (mut class, mut class_name) = (0, "");
    let mut methods = Vec::new();
    for line in table.lines() {
        let mut words = line.split_whitespace();
        match words.next() {
            None | Some("#") => {}
            Some("class") => {
                class = words.next().unwrap().parse().unwrap();
                class_name = words.next().unwrap();
            }
            Some(number) => methods.push(method(class, class_name, number, words)),
        }
    }
    methods
}

fn method<'a>(
    class: u16,
    class_name: &str,
    number: &str,
    mut words: impl Iterator<Item = &'a str>,
) -> Method {
    let name = words.next().unwrap();
    let sender = match words.next().unwrap() {
        "c" => "Client",
        "s" => "Server",
        "b" => "Both",
        other => panic!("who sends {class_name}.{name}: {other}"),
    };
    let (mut synchronous, mut content, mut fields) = (false, false, Vec::new());
    for word in words {
        match word.split_once(':') {
            None if word == "sync" => synchronous = true,
            None if word == "content" => content = true,
            None => panic!("word of {class_name}.{name}: {word}"),
            Some((field, kind)) => fields.push(Field {
                name: field.replace('-', "_"),
                kind: kind.to_owned(),
            }),
        }
    }
    Method {
        class,
        number: number.parse().unwrap(),
        full_name: format!("{class_name}.{name}"),
        type_name: camel(class_name) + &camel(name),
        sender,
        synchronous,
        content,
        fields,
    }
}

fn camel(name: &str) -> String {
    name.split('-')
        .map(|word| word[..1].to_uppercase() + &word[1..])
        .collect()
}

impl Field {
    fn rust_type(&self) -> &'static str {
        match self.kind.as_str() {
            "octet" => "u8",
            "short" => "u16",
            "long" => "u32",
            "longlong" => "u64",
            "bit" => "bool",
            "shortstr" | "text" | "longstr" | "table" => "&'a [u8]",
            other => panic!("type of {}: {other}", self.name),
        }
    }

    fn is_bit(&self) -> bool {
        self.kind == "bit"
    }

    fn doc(&self) -> String {
        let name = self.name.replace('_', "-");
        match self.kind.as_str() {
            "table" => format!("`{name}`: content of a field table, checked"),
            _ => format!("`{name}`"),
        }
    }
}

impl Method {
    fn lifetime(&self) -> &'static str {
        let borrows = |field: &Field| field.rust_type().starts_with('&');
        if self.fields.iter().any(borrows) {
            "<'a>"
        } else {
            ""
        }
    }
}

fn enumeration(out: &mut String, methods: &[Method]) {
    out.push_str("/// Any method, borrowed from its frame.\n");
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq)]\npub enum Method<'a> {\n");
    for method in methods {
        let (name, lifetime) = (&method.type_name, method.lifetime());
        writeln!(
            out,
            "    /// `{}`\n    {name}({name}{lifetime}),",
            method.full_name
        )
        .unwrap();
    }
    out.push_str("}\n\n");
}

fn decoder(out: &mut String, methods: &[Method]) {
    out.push_str("impl<'a> Method<'a> {\n");
    out.push_str("    /// Reads the fields of a method; nothing may be left over.\n");
    out.push_str(
        "    pub fn decode(id: MethodId, fields: &'a [u8]) -> Result<Self, MethodError> {\n",
    );
    out.push_str("        let mut reader = Reader::new(fields);\n        let method = match (id.class, id.method) {\n");
    for method in methods {
        let name = &method.type_name;
        let read = if method.fields.is_empty() {
            format!("{name} {{}}")
        } else {
            format!("{name}::read(&mut reader)?")
        };
        let (class, number) = (method.class, method.number);
        writeln!(
            out,
            "            ({class}, {number}) => Self::{name}({read}),"
        )
        .unwrap();
    }
    out.push_str("            _ => return Err(MethodError::Unknown),\n        };\n");
    out.push_str("        if reader.is_empty() { Ok(method) } else { Err(MethodError::Trailing) }\n    }\n\n");
}

fn encoder(out: &mut String, methods: &[Method]) {
    out.push_str("    /// Class and method number.\n    pub fn id(&self) -> MethodId {\n        match self {\n");
    for method in methods {
        writeln!(
            out,
            "            Self::{name}(_) => {name}::ID,",
            name = method.type_name
        )
        .unwrap();
    }
    out.push_str("        }\n    }\n\n    /// Appends class, method and fields: the payload of a method frame.\n");
    out.push_str("    pub fn write(&self, out: &mut Vec<u8>) {\n        match self {\n");
    for method in methods {
        writeln!(
            out,
            "            Self::{}(method) => method.write(out),",
            method.type_name
        )
        .unwrap();
    }
    out.push_str("        }\n    }\n}\n\n");
}

fn descriptions(out: &mut String, methods: &[Method]) {
    out.push_str("/// What is known of each method, by class and number.\n");
    writeln!(
        out,
        "pub const METHODS: [Description; {}] = [",
        methods.len()
    )
    .unwrap();
    for method in methods {
        writeln!(
            out,
            "    Description {{ id: {}::ID, name: \"{}\", sender: Sender::{}, synchronous: {}, content: {} }},",
            method.type_name, method.full_name, method.sender, method.synchronous, method.content
        )
        .unwrap();
    }
    out.push_str("];\n");
}

fn structure(out: &mut String, method: &Method) {
    let (name, lifetime) = (&method.type_name, method.lifetime());
    writeln!(out, "\n/// `{}`", method.full_name).unwrap();
    out.push_str("#[derive(Clone, Copy, Debug, PartialEq, Eq)]\n");
    writeln!(out, "pub struct {name}{lifetime} {{").unwrap();
    for field in &method.fields {
        writeln!(
            out,
            "    /// {}\n    pub {}: {},",
            field.doc(),
            field.name,
            field.rust_type()
        )
        .unwrap();
    }
    out.push_str("}\n\n");
    writeln!(out, "impl{lifetime} {name}{lifetime} {{").unwrap();
    out.push_str("    /// Class and method number.\n");
    writeln!(
        out,
        "    pub const ID: MethodId = MethodId {{ class: {}, method: {} }};\n",
        method.class, method.number
    )
    .unwrap();
    if !method.fields.is_empty() {
        reader(out, method);
    }
    writer(out, method);
    out.push_str("}\n");
}

fn reader(out: &mut String, method: &Method) {
    let lifetime = method.lifetime().replace(['<', '>'], "");
    let lifetime = if lifetime.is_empty() { "'_" } else { &lifetime };
    writeln!(
        out,
        "    fn read(reader: &mut Reader<{lifetime}>) -> Result<Self, MethodError> {{"
    )
    .unwrap();
    let mut bit = 0;
    for field in &method.fields {
        if !field.is_bit() {
            bit = 0;
            writeln!(
                out,
                "        let {} = {};",
                field.name,
                read_expression(&field.kind)
            )
            .unwrap();
            continue;
        }
        if bit == 0 {
            out.push_str("        let bits = reader.u8()?;\n");
        }
        writeln!(
            out,
            "        let {} = bits & {} != 0;",
            field.name,
            1 << bit
        )
        .unwrap();
        bit = (bit + 1) % 8;
    }
    let names: Vec<&str> = method
        .fields
        .iter()
        .map(|field| field.name.as_str())
        .collect();
    writeln!(out, "        Ok(Self {{ {} }})\n    }}\n", names.join(", ")).unwrap();
}

fn read_expression(kind: &str) -> &'static str {
    match kind {
        "octet" => "reader.u8()?",
        "short" => "reader.u16()?",
        "long" => "reader.u32()?",
        "longlong" => "reader.u64()?",
        "shortstr" => "reader.short_string()?",
        "text" => "text(reader)?",
        "longstr" => "reader.long_string()?",
        "table" => "table(reader)?",
        other => panic!("type {other}"),
    }
}

fn writer(out: &mut String, method: &Method) {
    out.push_str("    /// Appends class, method and fields.\n");
    out.push_str("    pub fn write(&self, out: &mut Vec<u8>) {\n        Self::ID.write(out);\n");
    let mut fields = method.fields.iter().peekable();
    while let Some(field) = fields.next() {
        if !field.is_bit() {
            writeln!(out, "        {};", write_expression(field)).unwrap();
            continue;
        }
        let mut bits = format!("u8::from(self.{})", field.name);
        let mut bit = 1;
        while let Some(next) = fields.next_if(|next| next.is_bit() && bit < 8) {
            write!(bits, " | u8::from(self.{}) << {bit}", next.name).unwrap();
            bit += 1;
        }
        writeln!(out, "        out.put_u8({bits});").unwrap();
    }
    out.push_str("    }\n");
}

fn write_expression(field: &Field) -> String {
    let put = match field.kind.as_str() {
        "octet" => "put_u8",
        "short" => "put_u16",
        "long" => "put_u32",
        "longlong" => "put_u64",
        "shortstr" | "text" => "put_short_string",
        "longstr" | "table" => "put_long_string",
        other => panic!("type {other}"),
    };
    format!("out.{put}(self.{})", field.name)
}

const HEADER: &str = "\
//! All methods of AMQP 0-9-1. Generated from `methods.txt`; do not edit:
//! `cargo run -q -p menzil-amqp --example methods > methods.new && mv methods.new src/methods.rs`

use menzil_model::wire::{Reader, Writer};

use crate::method::{Description, MethodError, MethodId, Sender, table, text};

";
