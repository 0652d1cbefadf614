//! Taking bindings and points away.
//!
//! A point may have any number of bindings, and who deletes it holds everybody else up. So its
//! name goes at once and with it every way through it: it counts as undeclared, and bindings from
//! and to it are *dead*: no message takes them and nobody sees them. Their memory is given back in
//! slices between other work.

use std::collections::VecDeque;

use menzil_model::fact::{Binding, Destination};

use super::Topology;
use super::index::Living;
use super::point::{Point, Role};

/// What clearing away may cost at once, as [`cost_of`] counts it; little in tests, so that much
/// is seen half done.
const COST_AT_ONCE: usize = if cfg!(test) { 3 } else { 500 };

/// What it takes to clear a binding away, in about a microsecond and a half: bindings with long
/// patterns or many arguments stand in an index at many places, one for each word or argument.
fn cost_of(binding: &Binding) -> usize {
    let (key, arguments) = (binding.key.as_bytes(), binding.arguments.as_bytes());
    1 + (key.len() + arguments.len()) / BYTES_FOR_ONE
}

/// What is cleared away when a point is deleted.
const COST_OF_ONE: usize = if cfg!(test) { 2 } else { 16 };

/// Bytes of words or arguments that cost about as much as a binding without any.
const BYTES_FOR_ONE: usize = 16;

/// What is deleted and still takes memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Removal {
    /// Numbers of the points.
    pub(super) gone: VecDeque<usize>,
    /// Bindings with an end that is gone.
    pub(super) dead: usize,
}

impl Topology {
    /// Whether there is something for [`Topology::clear_away`].
    pub fn is_behind(&self) -> bool {
        !self.removal.gone.is_empty()
    }

    /// Gives back the memory of some of what was deleted.
    pub fn clear_away(&mut self) {
        self.clear_some(COST_AT_ONCE);
    }

    fn clear_some(&mut self, cost: usize) {
        let mut left = cost;
        while left > 0
            && let Some(number) = self.removal.gone.front().copied()
        {
            if let Some(binding) = self.points.get(number).and_then(Point::last_binding) {
                let record = self.bindings.get(binding);
                let cost = record.map_or(1, |record| cost_of(&record.binding));
                left = left.saturating_sub(cost);
                self.remove_binding(binding);
            } else {
                left -= 1;
                self.points.remove(number);
                self.removal.gone.pop_front();
            }
        }
        if self.removal.gone.is_empty() {
            self.removal.gone = VecDeque::new();
        }
    }

    /// Where bindings may lead.
    pub(super) fn living(&self) -> Living<'_> {
        if self.is_behind() {
            Living::declared(&self.points)
        } else {
            Living::EVERYTHING
        }
    }

    /// Whether an end of the binding is gone.
    pub(super) fn is_dead(&self, number: usize) -> bool {
        let is_gone = |point| self.points.get(point).is_some_and(|point| point.is_gone);
        self.removal.dead > 0
            && (self.bindings.get(number))
                .is_some_and(|record| is_gone(record.source) || is_gone(record.target))
    }

    pub(super) fn delete(&mut self, destination: Destination) {
        let Some(number) = self.numbers.remove(&destination) else {
            return;
        };
        let Some(point) = self.points.get_mut(number) else {
            return;
        };
        self.generation += 1;
        point.is_gone = true;
        self.removal.dead += point.outgoing_count();
        let (names, name) = match &point.role {
            Role::Undeclared => (None, None),
            Role::Queue(name) => (Some(&mut self.queue_names), Some(name)),
            Role::Exchange(exchange) => {
                let name = &exchange.definition.name;
                (Some(&mut self.exchange_names), Some(name))
            }
        };
        // A younger one may have taken the name.
        if let (Some(names), Some(name)) = (names, name)
            && names.get(name) == Some(&number)
        {
            names.remove(name);
        }
        self.let_die(number);
        self.removal.gone.push_back(number);
        // One command may delete any number of points. What has few bindings goes at once.
        self.clear_some(COST_OF_ONE);
    }

    /// Counts the bindings that end at a point which is gone.
    fn let_die(&mut self, number: usize) {
        let Some(point) = self.points.get(number) else {
            return;
        };
        let sources: Vec<usize> = (point.incoming.iter())
            .filter_map(|binding| self.bindings.get(binding).map(|record| record.source))
            .collect();
        for source in sources {
            if let Some(source) = self.points.get_mut(source).filter(|point| !point.is_gone) {
                source.dead_outgoing += 1;
                self.removal.dead += 1;
            }
        }
    }

    pub(super) fn remove_binding(&mut self, number: usize) {
        let is_dead = self.is_dead(number);
        let Some(record) = self.bindings.remove(number) else {
            return;
        };
        self.binding_numbers.remove(&record.binding, number);
        self.arguments_bytes -= record.binding.arguments.as_bytes().len() as u64;
        let target_is_gone = (self.points.get(record.target)).is_some_and(|point| point.is_gone);
        if is_dead {
            self.removal.dead -= 1;
        } else {
            self.generation += 1;
        }
        if let Some(point) = self.points.get_mut(record.source) {
            let moved = point.outgoing.remove(record.outgoing);
            if let Some(moved) = moved.and_then(|moved| self.bindings.get_mut(moved)) {
                moved.outgoing = record.outgoing;
            }
            if target_is_gone && !point.is_gone {
                point.dead_outgoing -= 1;
            }
            if let Some(place) = record.index
                && let Role::Exchange(exchange) = &mut point.role
                && let Some(moved) =
                    exchange
                        .index
                        .remove(&record.binding, record.end(number), place)
                && let Some(moved) = self.bindings.get_mut(moved.binding)
            {
                moved.index = Some(place);
            }
        }
        if let Some(point) = self.points.get_mut(record.target) {
            let moved = point.incoming.remove(record.incoming);
            if let Some(moved) = moved.and_then(|moved| self.bindings.get_mut(moved)) {
                moved.incoming = record.incoming;
            }
        }
        self.forget_if_vacant(record.source);
        self.forget_if_vacant(record.target);
    }

    /// Forgets a point that nobody declared and no binding names any more.
    fn forget_if_vacant(&mut self, number: usize) {
        if let Some(point) = self.points.get(number)
            && point.is_vacant()
        {
            self.numbers.remove(&point.destination);
            self.points.remove(number);
        }
    }
}
