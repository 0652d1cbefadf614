//! What goes wrong with the node and its disk.

use crate::prng::Prng;
use crate::world::World;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// The power goes between two steps.
    PowerLoss,
    /// The power goes after that many changes of the disk, in the middle of a step.
    PowerLossAfter(u64),
    /// The process dies; what it wrote stays in the system's cache.
    Kill,
    /// The operator stops the node.
    CleanStop,
    /// That sync from now on fails, and all after it.
    SyncFails(u64),
    /// That write from now on fails, and all after it.
    WriteFails(u64),
    /// The disk is full for some steps.
    DiskFull {
        /// Bytes that are left.
        left: u64,
        /// For how long.
        steps: u64,
    },
    /// Somebody else leads: what is not committed is thrown away, without a crash.
    LeadershipLost,
}

impl Fault {
    pub(crate) fn any(prng: &mut Prng, is_short_of_space: bool) -> Self {
        let full = if is_short_of_space { 60 } else { 3 };
        match prng.weighted(&[6, 6, 3, 3, 2, 2, full, 4]) {
            0 => Self::PowerLoss,
            1 => Self::PowerLossAfter(prng.below(8)),
            2 => Self::Kill,
            3 => Self::CleanStop,
            4 => Self::SyncFails(1 + prng.below(4)),
            5 => Self::WriteFails(1 + prng.below(4)),
            6 => Self::DiskFull {
                left: prng.below(20_000),
                steps: 200 + prng.below(2000),
            },
            _ => Self::LeadershipLost,
        }
    }
}

impl World {
    pub(crate) fn fault(&mut self, fault: Fault) {
        match fault {
            Fault::PowerLoss => self.stop_hard(true),
            Fault::PowerLossAfter(changes) => self.power_off_after(changes),
            Fault::Kill => self.stop_hard(false),
            Fault::CleanStop => self.stop_cleanly(),
            Fault::SyncFails(nth) => {
                self.is_doomed = true;
                self.disk.fail_sync(nth);
            }
            Fault::WriteFails(nth) => {
                self.is_doomed = true;
                self.disk.fail_write(nth);
            }
            Fault::DiskFull { left, steps } => {
                self.disk.set_capacity(Some(self.disk.used() + left));
                self.full_until = Some(self.step_number() + steps);
            }
            Fault::LeadershipLost if self.is_doomed => self.stop_hard(true),
            Fault::LeadershipLost => {
                self.crashes += 1;
                self.node = None;
                self.forget_connections();
                self.restart(false);
            }
        }
    }

    /// The node dies, with the machine or alone, and starts again.
    pub(crate) fn stop_hard(&mut self, with_power: bool) {
        self.crashes += 1;
        self.is_doomed = false;
        self.trace
            .note(format_args!("stop, with the power: {with_power}"));
        self.node = None;
        self.forget_connections();
        if with_power {
            let prng = &mut self.prng;
            self.disk.crash(&mut |bound| prng.below(bound));
        } else {
            self.disk.kill();
        }
        self.have_room();
        self.restart(false);
    }

    fn have_room(&mut self) {
        self.disk.set_capacity(None);
        self.full_until = None;
    }

    fn power_off_after(&mut self, changes: u64) {
        self.disk.power_off_after(changes);
        if let Some(node) = &mut self.node {
            if self.prng.one_in(2) {
                node.freeze();
            }
            let _ = node.step();
            let _ = node.install();
        }
        self.stop_hard(true);
    }

    fn stop_cleanly(&mut self) {
        self.close_links();
        let Some(node) = self.node.take() else { return };
        let stopped = node.stop();
        self.forget_connections();
        match stopped {
            Ok(()) => {
                self.is_doomed = false;
                if self.prng.one_in(2) {
                    let prng = &mut self.prng;
                    self.disk.crash(&mut |bound| prng.below(bound));
                } else {
                    self.disk.kill();
                }
                self.have_room();
                self.restart(true);
            }
            Err(error) => {
                self.trace
                    .note(format_args!("the clean stop fails: {error}"));
                self.stop_hard(true);
            }
        }
    }
}
