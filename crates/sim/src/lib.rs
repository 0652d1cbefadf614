//! Seeded simulation of disk, network and crashes.
