//! Every file of `corpus/` is survived, however it is split, and so is what comes of changing them
//! at random. Fuzzing starts from these files and leaves its finds there.
#![cfg(test)]

mod walk;

use walk::walk;

#[expect(clippy::disallowed_methods, reason = "a test may read its own data")]
fn files() -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.display().to_string(), std::fs::read(&path).unwrap()))
        .collect();
    files.sort();
    assert!(files.len() >= 20, "{} files in {folder}", files.len());
    files
}

#[test]
fn every_file_is_survived_however_it_is_split() {
    for (name, input) in files() {
        let whole = walk(&input, input.len());
        assert!(!whole.is_empty(), "{name} does nothing");
        for size in 1..=9 {
            assert_eq!(whole, walk(&input, size), "{name} by {size}");
        }
    }
}

/// Numbers that are the same everywhere (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % end.max(1)
    }

    /// One change to a file: bytes set, flipped, put in, taken out, or a piece of another file.
    fn change(&mut self, input: &mut Vec<u8>, files: &[(String, Vec<u8>)]) {
        let at = self.below(input.len());
        match self.below(6) {
            0 => input[at] = u8::try_from(self.below(256)).unwrap(),
            1 => input[at] ^= 1 << self.below(8),
            2 => input.insert(at, [0, 1, 0x7F, 0x80, 0xFF][self.below(5)]),
            3 => drop(input.remove(at)),
            4 => input.truncate(at + 1),
            _ => {
                let (_, other) = &files[self.below(files.len())];
                let from = self.below(other.len());
                let to = from + self.below(other.len() - from);
                input.splice(at.max(1)..at.max(1), other[from..to].iter().copied());
            }
        }
        if input.is_empty() {
            input.push(0);
        }
    }
}

/// `MENZIL_MQTT_MUTATIONS` makes it longer, `MENZIL_MQTT_SEED` different.
#[test]
fn what_comes_of_random_changes_is_survived_too() {
    let number = |name, or| std::env::var(name).map_or(or, |text| text.parse().unwrap());
    let count = number("MENZIL_MQTT_MUTATIONS", 30_000);
    let mut dice = Dice(number("MENZIL_MQTT_SEED", 0x6D65_6E7A_696C) | 1);
    let files = files();
    for round in 0..count {
        let mut input = files[dice.below(files.len())].1.clone();
        for _ in 0..=dice.below(4) {
            dice.change(&mut input, &files);
        }
        let result = std::panic::catch_unwind(|| {
            assert_eq!(walk(&input, input.len()), walk(&input, 1 + input.len() % 5));
        });
        assert!(result.is_ok(), "round {round}: {input:02x?}");
    }
}
