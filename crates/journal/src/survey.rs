//! A look at the folder before anything is read in earnest: which files are there, in which
//! order the segments were used, what their sidecars say.
//!
//! Lacks judgement and changes nothing. Invariant: segments are ordered by the number of their
//! first batch, since their file names only tell them apart.

use std::io;
use std::sync::Arc;

use menzil_model::{Map, ShardId};

use crate::batch::BatchHeader;
use crate::checkpoint;
use crate::contents::Contents;
use crate::disk::{Disk, DiskFile, read_all};
use crate::error::OpenError;
use crate::folder::{FORMAT, LOCK, Name, write_whole};
use crate::layout::{SECTOR, range, sectors, to_usize};
use crate::scan::Source;
use crate::segment::{self, Segment, SegmentHeader};
use crate::sidecar;

/// What the folder holds.
#[derive(Debug)]
pub(crate) struct Survey<F> {
    /// Segments with batches, in the order of their use.
    pub(crate) used: Vec<Surveyed<F>>,
    /// Segments without, by number.
    pub(crate) unused: Vec<Surveyed<F>>,
    /// Files of evacuated records, by number.
    pub(crate) cold: Vec<Surveyed<F>>,
    pub(crate) spares: Vec<u64>,
    pub(crate) sidecars: Vec<u64>,
    pub(crate) temporaries: Vec<String>,
    pub(crate) checkpoints: Checkpoints,
    /// No file has that number or a higher one.
    pub(crate) next_id: u64,
}

/// One segment.
#[derive(Debug)]
pub(crate) struct Surveyed<F> {
    pub(crate) segment: Segment<F>,
    pub(crate) fresh: bool,
    /// The header is damaged; what is known was taken from a batch.
    pub(crate) headless: bool,
    pub(crate) first: Option<BatchHeader>,
    /// Number of the first batch.
    pub(crate) number: u64,
    /// From the sidecar.
    pub(crate) contents: Option<Contents>,
}

/// The checkpoints of the folder.
#[derive(Debug, Default)]
pub(crate) struct Checkpoints {
    /// The newest sound one of each shard, with its payload, by shard.
    pub(crate) newest: Vec<(ShardId, u64, Vec<u8>)>,
    /// Those that a sound one replaces.
    pub(crate) older: Vec<(ShardId, u64)>,
    /// Damaged ones that are newer than the newest sound one of their shard.
    pub(crate) damaged: Vec<(ShardId, u64)>,
}

impl Checkpoints {
    pub(crate) fn indexes(&self) -> Map<ShardId, u64> {
        self.newest
            .iter()
            .map(|(shard, index, _)| (*shard, *index))
            .collect()
    }
}

impl<F: DiskFile> Surveyed<F> {
    pub(crate) fn read(&self) -> io::Result<Vec<u8>> {
        read_all(&*self.segment.file)
    }

    /// As [`read`](Self::read), into memory that was used before: fresh memory is the larger part
    /// of what reading costs.
    pub(crate) fn read_into(&self, bytes: &mut Vec<u8>) -> io::Result<()> {
        bytes.resize(to_usize(self.segment.file.len()?), 0);
        self.segment.file.read_at(bytes, 0)
    }

    pub(crate) fn source<'a>(&self, bytes: &'a [u8]) -> Source<'a> {
        let Segment {
            id: segment, salt, ..
        } = self.segment;
        Source {
            bytes,
            segment,
            salt,
            fresh: self.fresh,
            known_end: self
                .contents
                .as_ref()
                .map(|known| (known.end, known.last_number)),
        }
    }
}

/// As [`enter`], for a folder that must be a journal's already.
pub(crate) fn enter_known<D: Disk>(disk: &D) -> Result<D::Lock, OpenError> {
    if check_format(disk)? {
        return enter(disk);
    }
    Err(OpenError::Format {
        what: "there is no format file".to_owned(),
    })
}

/// Takes the lock and checks the format, creating a folder's format file if it has nothing yet.
pub(crate) fn enter<D: Disk>(disk: &D) -> Result<D::Lock, OpenError> {
    // Before the lock, which creates a file: nothing of a newer version is touched.
    let known = check_format(disk)?;
    let lock = disk.lock(LOCK).map_err(|error| {
        if error.kind() == io::ErrorKind::WouldBlock {
            OpenError::Locked
        } else {
            OpenError::io("locking the data folder")(error)
        }
    })?;
    if !known && !check_format(disk)? {
        let text = format!("{FORMAT_NAME}{FORMAT_VERSION}\n");
        write_whole(disk, FORMAT, &[text.as_bytes()])
            .map_err(OpenError::io("writing the format file"))?;
    }
    Ok(lock)
}

/// Whether the folder has a format that is understood; `false` if it is new.
fn check_format<D: Disk>(disk: &D) -> Result<bool, OpenError> {
    let names = disk
        .list()
        .map_err(OpenError::io("listing the data folder"))?;
    if !names.iter().any(|name| name == FORMAT) {
        let ours = names.iter().find(|name| {
            matches!(
                Name::parse(name),
                Name::Segment(_)
                    | Name::Cold(_)
                    | Name::Checkpoint(..)
                    | Name::Spare(_)
                    | Name::Directory(_)
            )
        });
        return match ours {
            Some(name) => Err(OpenError::Format {
                what: format!("{name} but no format file"),
            }),
            None => Ok(false),
        };
    }
    let bytes = disk
        .open(FORMAT)
        .and_then(|file| read_all(&file))
        .map_err(OpenError::io("reading the format file"))?;
    let text = String::from_utf8_lossy(&bytes);
    let version = text
        .strip_prefix(FORMAT_NAME)
        .and_then(|rest| rest.trim_end().parse().ok());
    match version {
        Some(FORMAT_VERSION) => Ok(true),
        Some(found) if found > FORMAT_VERSION => Err(OpenError::NewerFormat {
            found,
            known: FORMAT_VERSION,
        }),
        Some(found) => Err(OpenError::Format {
            what: format!("version {found}, which no release wrote"),
        }),
        None => Err(OpenError::Format {
            what: "the format file is damaged".to_owned(),
        }),
    }
}

/// Looks at all files.
pub(crate) fn survey<D: Disk>(disk: &D) -> Result<Survey<D::File>, OpenError> {
    let mut names = disk
        .list()
        .map_err(OpenError::io("listing the data folder"))?;
    names.sort();
    let mut survey = Survey {
        used: Vec::new(),
        unused: Vec::new(),
        cold: Vec::new(),
        spares: Vec::new(),
        sidecars: Vec::new(),
        temporaries: Vec::new(),
        checkpoints: Checkpoints::default(),
        next_id: 1,
    };
    let mut checkpoints = Vec::new();
    for name in names {
        let parsed = Name::parse(&name);
        match parsed {
            Name::Segment(id) => {
                let surveyed = survey_segment(disk, parsed, id).map_err(OpenError::io(name))?;
                let batches = surveyed.number > 0;
                if batches {
                    &mut survey.used
                } else {
                    &mut survey.unused
                }
                .push(surveyed);
            }
            Name::Cold(id) => {
                let surveyed = survey_segment(disk, parsed, id).map_err(OpenError::io(name))?;
                survey.cold.push(surveyed);
            }
            Name::Spare(id) => survey.spares.push(id),
            Name::Directory(id) => survey.sidecars.push(id),
            Name::Checkpoint(shard, index) => checkpoints.push((shard, index)),
            Name::Temporary => survey.temporaries.push(name),
            Name::Other => {}
        }
        if let Name::Segment(id) | Name::Cold(id) | Name::Spare(id) | Name::Directory(id) = parsed {
            survey.next_id = survey.next_id.max(id.saturating_add(1));
        }
    }
    survey.used.sort_by_key(|surveyed| surveyed.number);
    survey.checkpoints = survey_checkpoints(disk, checkpoints)?;
    Ok(survey)
}

fn survey_checkpoints<D: Disk>(
    disk: &D,
    mut found: Vec<(ShardId, u64)>,
) -> Result<Checkpoints, OpenError> {
    found.sort_by_key(|(shard, index)| (*shard, std::cmp::Reverse(*index)));
    let mut checkpoints = Checkpoints::default();
    for (shard, index) in found {
        if checkpoints
            .newest
            .last()
            .is_some_and(|(newest, ..)| *newest == shard)
        {
            checkpoints.older.push((shard, index));
            continue;
        }
        let name = Name::Checkpoint(shard, index).to_string();
        match checkpoint::read(disk, shard, index).map_err(OpenError::io(name))? {
            Some(payload) => checkpoints.newest.push((shard, index, payload)),
            None => checkpoints.damaged.push((shard, index)),
        }
    }
    Ok(checkpoints)
}

fn survey_segment<D: Disk>(disk: &D, name: Name, id: u64) -> io::Result<Surveyed<D::File>> {
    let file = Arc::new(disk.open(&name.to_string())?);
    let length = file.len()?;
    let mut head = vec![0; to_usize(length.min(segment::HEADER_BYTES + SECTOR))];
    file.read_at(&mut head, 0)?;
    let is_cold = matches!(name, Name::Cold(_));
    let header = SegmentHeader::decode(&head, id).filter(|header| header.cold == is_cold);
    // A batch says where it lies, so without a header the first sound one still knows the salt.
    let salt = header.map(|header| header.salt);
    let mut first = first_batch(&head, length, id, salt);
    if first.is_none() && !is_untouched(&head, header) {
        let bytes = read_all(&*file)?;
        first = (1..bytes.len() as u64 / SECTOR)
            .find_map(|sector| BatchHeader::decode(&bytes, sector * SECTOR, id, salt));
    }
    let salt = salt.or_else(|| first.map(|first| first.salt)).unwrap_or(0);
    let contents = disk
        .open(&Name::Directory(id).to_string())
        .and_then(|file| read_all(&file))
        .ok()
        .and_then(|bytes| sidecar::decode(&bytes, id, salt, length));
    let number = contents.as_ref().map(|contents| contents.first_number);
    Ok(Surveyed {
        segment: Segment {
            id,
            salt,
            length,
            file,
        },
        fresh: header.is_some_and(|header| header.fresh),
        headless: header.is_none(),
        first: first.filter(|first| first.offset == segment::HEADER_BYTES),
        number: number
            .or_else(|| first.map(|first| first.number))
            .unwrap_or(0),
        contents,
    })
}

/// The batch that starts behind the segment's header; of its bytes only the first are at hand.
fn first_batch(head: &[u8], length: u64, id: u64, salt: Option<u64>) -> Option<BatchHeader> {
    let first = BatchHeader::decode_prefix(head, segment::HEADER_BYTES, id, salt)?;
    (first.offset + sectors(u64::from(first.length)) <= length).then_some(first)
}

/// Whether the segment was prepared and not written to: zeros where its first batch would be.
fn is_untouched(head: &[u8], header: Option<SegmentHeader>) -> bool {
    header.is_some_and(|header| header.fresh)
        && range(head, segment::HEADER_BYTES, head.len() as u64)
            .is_some_and(|sector| sector.iter().all(|byte| *byte == 0))
}

const FORMAT_NAME: &str = "menzil journal ";
const FORMAT_VERSION: u64 = 2;
