//! That lists, names and indexes say the same as the bindings do.

use menzil_model::Set;
use menzil_model::fact::{Binding, Destination};

use super::index::End;
use super::point::{Point, Role};
use super::{Record, Topology};

impl Topology {
    /// For tests and simulation.
    ///
    /// # Panics
    /// If lists, names, indexes and bindings disagree.
    pub fn check_invariants(&self) {
        assert_eq!(
            self.numbers.len() + self.removal.gone.len(),
            self.points.len(),
            "each point has an id or is gone"
        );
        assert_eq!(
            self.binding_numbers.len(),
            self.bindings.len(),
            "each binding is found"
        );
        let gone: Set<usize> = self.removal.gone.iter().copied().collect();
        let (mut outgoing, mut incoming) = (0, 0);
        for (number, point) in self.points.iter() {
            assert!(!point.is_vacant(), "a point serves nothing");
            assert_eq!(gone.contains(&number), point.is_gone);
            if !point.is_gone {
                assert_eq!(self.numbers.get(&point.destination), Some(&number));
                let dead = point.outgoing.iter().filter(|n| self.is_dead(*n));
                assert_eq!(dead.count(), point.dead_outgoing, "the dead are counted");
            }
            outgoing += point.outgoing.len();
            incoming += point.incoming.len();
            if let Some(exchange) = point.exchange() {
                exchange.index.check_invariants(&self.acting(point));
            }
        }
        assert_eq!(outgoing, self.bindings.len(), "each binding begins once");
        assert_eq!(incoming, self.bindings.len(), "each binding ends once");
        let dead = self.bindings.iter().filter(|(n, _)| self.is_dead(*n));
        assert_eq!(dead.count(), self.removal.dead, "the dead are counted");
        for (number, record) in self.bindings.iter() {
            self.check_record(number, record);
        }
        for (name, number) in &self.queue_names {
            let role = self.points.get(*number).map(|point| &point.role);
            assert!(matches!(role, Some(Role::Queue(its)) if its == name));
        }
        for (name, number) in &self.exchange_names {
            let exchange = self.points.get(*number).and_then(Point::exchange);
            assert!(exchange.is_some_and(|exchange| exchange.definition.name == *name));
        }
    }

    fn acting(&self, point: &Point) -> Vec<(&Binding, End, usize)> {
        let records = point.outgoing.iter().filter_map(|number| {
            let record = self.bindings.get(number)?;
            Some((&record.binding, record.end(number), record.index?))
        });
        records.collect()
    }

    fn check_record(&self, number: usize, record: &Record) {
        let found = self.binding_numbers.find(&self.bindings, &record.binding);
        assert_eq!(found, Some(number));
        let source = self.points.get(record.source);
        let target = self.points.get(record.target);
        let (Some(source), Some(target)) = (source, target) else {
            panic!("a binding has two ends");
        };
        assert_eq!(
            source.destination,
            Destination::Exchange(record.binding.source)
        );
        assert_eq!(target.destination, record.binding.destination);
        assert_eq!(source.outgoing.get(record.outgoing), Some(number));
        assert_eq!(target.incoming.get(record.incoming), Some(number));
        assert!(
            self.is_dead(number)
                || record.index.is_some() == (source.is_declared() && target.is_declared()),
            "a binding acts once both ends are declared"
        );
    }
}
