//! Consumers that leave deliveries unsettled for too long.

use super::{Checked, Host};

/// The number of no queue.
const NONE: u64 = 0;

impl Host {
    /// They are cancelled, and what they hold goes back; settling it later has no effect.
    pub(super) fn time_out(&mut self) -> Checked {
        let late = self.late();
        for (number, channel, tag) in &late {
            self.said(*channel, &format!("Cancelled {tag}"))?;
            self.remove_consumers(|one| one.number == *number);
        }
        for (number, channel, _) in late {
            let mut back = Vec::new();
            for out in self.channel(channel).out.values_mut() {
                if out.consumer == Some(number) {
                    back.push((out.queue, out.number, out.place));
                    (out.consumer, out.number) = (None, NONE);
                }
            }
            for (queue, queue_number, place) in back {
                let is_it = |queue: &&mut super::Queue| queue.number == queue_number;
                if let Some(of) = self.queues.get_mut(&queue).filter(is_it) {
                    let entry = of.out.remove(&place).unwrap();
                    self.give_back(queue, place, entry, false);
                }
            }
        }
        self.trim();
        Ok(())
    }

    /// Number, channel and tag of each.
    pub(super) fn late(&self) -> Vec<(u64, u16, String)> {
        let consumers = self.queues.values().flat_map(|queue| &queue.consumers);
        let is_late = |one: &&super::Consumer| {
            let Some(timeout) = one.timeout else {
                return false;
            };
            let mut out = self.channels[&one.channel].out.values();
            out.any(|out| out.consumer == Some(one.number) && out.since + timeout <= self.now)
        };
        let late = consumers.filter(is_late);
        late.map(|one| (one.number, one.channel, one.tag.clone()))
            .collect()
    }
}
