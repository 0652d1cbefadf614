//! The log: records, segments, group commit, checkpoints and recovery.
