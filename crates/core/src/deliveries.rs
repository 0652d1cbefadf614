//! The unsettled deliveries of one channel, by delivery tag.
//!
//! Tags ascend, so the list is sorted; one settled out of turn leaves a gap that is swept
//! when gaps outnumber deliveries. Invariant: the first slot, if any, is a live one.

use std::collections::VecDeque;

use menzil_model::{DeliveryTag, QueueId, Sequence};

use crate::consumer::Taker;
use crate::slots::Place;

/// An entry that is out on the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) tag: DeliveryTag,
    pub(crate) queue: QueueId,
    pub(crate) queue_place: Place,
    pub(crate) sequence: Sequence,
    /// Who got it; `None` for `basic.get`.
    pub(crate) consumer: Option<Taker>,
}

impl Delivery {
    /// Makes it one that is settled without effect, and gives what it was.
    pub(crate) fn make_void(&mut self) -> Self {
        let void = Self {
            tag: self.tag,
            queue: NO_QUEUE,
            queue_place: Place::default(),
            sequence: Sequence(0),
            consumer: None,
        };
        std::mem::replace(self, void)
    }

    /// Whether it is settled without effect.
    pub(crate) fn is_void(&self) -> bool {
        self.queue == NO_QUEUE
    }

    /// Whether it is of the same queue and consumer.
    #[inline]
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        self.queue == other.queue && self.consumer == other.consumer
    }
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deliveries {
    slots: VecDeque<(DeliveryTag, Option<Delivery>)>,
    live: usize,
}

/// No queue has that number.
const NO_QUEUE: QueueId = QueueId(0);

/// Gaps that are not worth a sweep.
const GAPS_MAX: usize = 64;

impl Deliveries {
    /// Deliveries that are out.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.live
    }

    /// Notes a delivery. Tags of new ones ascend; one that a rollback puts back finds its
    /// place.
    #[inline]
    pub(crate) fn insert(&mut self, delivery: Delivery) {
        self.live += 1;
        match self.slots.back() {
            Some((last, _)) if *last >= delivery.tag => self.insert_between(delivery),
            _ => self.slots.push_back((delivery.tag, Some(delivery))),
        }
    }

    #[cold]
    fn insert_between(&mut self, delivery: Delivery) {
        let slot = (delivery.tag, Some(delivery));
        let at = self.slots.partition_point(|(tag, _)| *tag < delivery.tag);
        match self.slots.get_mut(at) {
            Some(place) if place.0 == delivery.tag => *place = slot,
            _ => self.slots.insert(at, slot),
        }
    }

    /// Takes one delivery out.
    #[inline]
    pub(crate) fn take(&mut self, tag: DeliveryTag) -> Option<Delivery> {
        if self.slots.front().is_some_and(|slot| slot.0 == tag) {
            let (_, delivery) = self.slots.pop_front()?;
            self.live -= 1;
            let is_live = matches!(self.slots.front(), Some((_, Some(_))));
            if !is_live || self.slots.len() > 2 * self.live + GAPS_MAX {
                self.sweep();
            }
            return delivery;
        }
        self.take_out_of_turn(tag)
    }

    fn take_out_of_turn(&mut self, tag: DeliveryTag) -> Option<Delivery> {
        let at = self.slots.partition_point(|(other, _)| *other < tag);
        let slot = self.slots.get_mut(at).filter(|(other, _)| *other == tag)?;
        let delivery = slot.1.take()?;
        self.live -= 1;
        self.sweep();
        Some(delivery)
    }

    /// Takes out every delivery up to and with `tag`, in order.
    pub(crate) fn take_up_to(&mut self, tag: DeliveryTag) -> Vec<Delivery> {
        let end = self.slots.partition_point(|(other, _)| *other <= tag);
        let taken: Vec<_> = self
            .slots
            .drain(..end)
            .filter_map(|(_, delivery)| delivery)
            .collect();
        self.live -= taken.len();
        self.sweep();
        taken
    }

    /// Makes some void, and gives what they were, in order.
    pub(crate) fn void(&mut self, is_wanted: impl Fn(&Delivery) -> bool) -> Vec<Delivery> {
        let live = self.slots.iter_mut().filter_map(|(_, slot)| slot.as_mut());
        let wanted = live.filter(|delivery| is_wanted(delivery));
        wanted.map(Delivery::make_void).collect()
    }

    /// Takes all out, in order.
    pub(crate) fn take_all(&mut self) -> Vec<Delivery> {
        self.live = 0;
        std::mem::take(&mut self.slots)
            .into_iter()
            .filter_map(|(_, delivery)| delivery)
            .collect()
    }

    /// True where that tag is out.
    pub(crate) fn contains(&self, tag: DeliveryTag) -> bool {
        self.slots
            .binary_search_by_key(&tag, |(other, _)| *other)
            .ok()
            .and_then(|at| self.slots.get(at))
            .is_some_and(|(_, delivery)| delivery.is_some())
    }

    /// In order of tags.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.slots
            .iter()
            .filter_map(|(_, delivery)| delivery.as_ref())
    }

    fn sweep(&mut self) {
        while matches!(self.slots.front(), Some((_, None))) {
            self.slots.pop_front();
        }
        if self.slots.len() > 2 * self.live + GAPS_MAX {
            self.slots.retain(|(_, delivery)| delivery.is_some());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn delivery(tag: u64) -> Delivery {
        Delivery {
            tag: DeliveryTag(tag),
            queue: QueueId(1),
            queue_place: Place::default(),
            sequence: Sequence(tag),
            consumer: None,
        }
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec((0..4_u8, 1..40_u64), 0..300)) {
            let mut deliveries = Deliveries::default();
            let mut naive = BTreeMap::new();
            let mut next = 1;
            for (step, tag) in steps {
                match step {
                    0 => {
                        deliveries.insert(delivery(next));
                        naive.insert(next, delivery(next));
                        next += 1;
                    }
                    1 => prop_assert_eq!(deliveries.take(DeliveryTag(tag)), naive.remove(&tag)),
                    2 => {
                        let rest = naive.split_off(&(tag + 1));
                        let taken: Vec<_> = std::mem::replace(&mut naive, rest)
                            .into_values()
                            .collect();
                        prop_assert_eq!(deliveries.take_up_to(DeliveryTag(tag)), taken);
                    }
                    _ => {
                        if tag < next && !naive.contains_key(&tag) {
                            deliveries.insert(delivery(tag));
                            naive.insert(tag, delivery(tag));
                        }
                    }
                }
                prop_assert_eq!(deliveries.len(), naive.len());
                prop_assert_eq!(deliveries.contains(DeliveryTag(tag)), naive.contains_key(&tag));
                prop_assert!(deliveries.iter().eq(naive.values()));
            }
        }
    }
}
