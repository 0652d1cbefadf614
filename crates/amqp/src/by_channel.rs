//! Items of a connection by channel number.
//!
//! Clients take numbers from 1 up, so that channel `n` mostly is the one at place `n - 1`, and
//! is found there at once.

use menzil_model::ChannelId;

/// See the module.
#[derive(Debug)]
pub(crate) struct ByChannel<T> {
    /// Ascending.
    items: Vec<(ChannelId, T)>,
}

impl<T> Default for ByChannel<T> {
    fn default() -> Self {
        Self { items: Vec::new() }
    }
}

impl<T> ByChannel<T> {
    #[inline]
    fn find(&self, channel: ChannelId) -> Result<usize, usize> {
        let likely = usize::from(channel.number()) - 1;
        match self.items.get(likely) {
            Some((found, _)) if *found == channel => Ok(likely),
            _ => self
                .items
                .binary_search_by_key(&channel, |(other, _)| *other),
        }
    }

    #[inline]
    pub(crate) fn get(&self, channel: ChannelId) -> Option<&T> {
        self.items
            .get(self.find(channel).ok()?)
            .map(|(_, item)| item)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, channel: ChannelId) -> Option<&mut T> {
        let at = self.find(channel).ok()?;
        self.items.get_mut(at).map(|(_, item)| item)
    }

    /// Puts an item in the place of the one that was there.
    pub(crate) fn insert(&mut self, channel: ChannelId, item: T) -> Option<T> {
        match self.find(channel) {
            Ok(at) => {
                let place = self.items.get_mut(at)?;
                Some(std::mem::replace(&mut place.1, item))
            }
            Err(at) => {
                self.items.insert(at, (channel, item));
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, channel: ChannelId) -> Option<T> {
        let at = self.find(channel).ok()?;
        Some(self.items.remove(at).1)
    }

    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.items.iter().map(|(_, item)| item)
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.items.iter_mut().map(|(_, item)| item)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (ChannelId, &T)> {
        self.items.iter().map(|(channel, item)| (*channel, item))
    }

    /// Takes all out.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> {
        std::mem::take(&mut self.items)
            .into_iter()
            .map(|(_, item)| item)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.items = Vec::new();
    }
}

impl<T: Default> ByChannel<T> {
    /// The channel's item, made if there is none: always there.
    #[inline]
    pub(crate) fn or_default(&mut self, channel: ChannelId) -> Option<&mut T> {
        let at = match self.find(channel) {
            Ok(at) => at,
            Err(at) => {
                self.items.insert(at, (channel, T::default()));
                at
            }
        };
        self.items.get_mut(at).map(|(_, item)| item)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(steps in prop::collection::vec((0..3_u8, 1..9_u16, 0..99), 0..60)) {
            let (mut items, mut map) = (ByChannel::default(), BTreeMap::new());
            for (step, number, item) in steps {
                let channel = ChannelId::new(number).unwrap();
                if step == 0 {
                    prop_assert_eq!(items.remove(channel), map.remove(&channel));
                } else {
                    prop_assert_eq!(items.insert(channel, item), map.insert(channel, item));
                }
                prop_assert_eq!(items.get(channel), map.get(&channel));
                prop_assert_eq!(items.get_mut(channel), map.get_mut(&channel));
                prop_assert!(items.iter().eq(map.iter().map(|(channel, item)| (*channel, item))));
                prop_assert_eq!(items.is_empty(), map.is_empty());
            }
        }
    }
}
