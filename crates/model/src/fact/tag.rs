//! The octet that says which fact follows. A number is never used again for another.

pub(super) const VIRTUAL_HOST_CREATED: u8 = 1;
pub(super) const EXCHANGE_DECLARED: u8 = 2;
pub(super) const EXCHANGE_DELETED: u8 = 3;
pub(super) const QUEUE_DECLARED: u8 = 4;
pub(super) const QUEUE_DELETED: u8 = 5;
pub(super) const BOUND: u8 = 6;
pub(super) const UNBOUND: u8 = 7;
pub(super) const POLICY_SET: u8 = 9;
pub(super) const POLICY_CLEARED: u8 = 10;
pub(super) const CHUNK: u8 = 16;
pub(super) const PUBLISHED: u8 = 17;
pub(super) const SETTLED: u8 = 18;
pub(super) const DELIVERING: u8 = 19;
pub(super) const GROUP: u8 = 20;
pub(super) const COPIED: u8 = 22;
/// As [`PUBLISHED`], of a message with keys.
pub(super) const PUBLISHED_KEYED: u8 = 23;
/// Entries that came back, and how often.
pub(super) const RETURNED: u8 = 21;
pub(super) const NOTED: u8 = 24;
pub(super) const DYING: u8 = 25;
/// As [`RETURNED`], of entries in groups.
pub(super) const RETURNED_GROUPED: u8 = 26;
pub(super) const NUMBERING: u8 = 32;
pub(super) const QUEUE_STATE: u8 = 33;
// 34 was a message that queues still hold, in format version 1.
pub(super) const PAGE: u8 = 35;
pub(super) const SEEN: u8 = 36;
pub(super) const SESSION: u8 = 48;
pub(super) const RETAINED: u8 = 49;
