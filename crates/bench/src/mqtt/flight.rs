//! Publishes that are on their way with QoS 1 or 2, by packet identifier.

use crate::BenchError;
use crate::numbers::count;
use std::collections::VecDeque;

/// How far the exchange of one identifier is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Free,
    /// Sent; PUBACK or PUBREC is to come.
    Published,
    /// PUBREC came and PUBREL went; PUBCOMP is to come.
    Released,
}

/// As many identifiers as the window has, from 1, each taken again in turn.
#[derive(Debug)]
pub(crate) struct Flight {
    steps: Vec<(Step, u64)>,
    free: VecDeque<u16>,
}

impl Flight {
    pub(crate) fn new(window: u16) -> Self {
        Self {
            steps: vec![(Step::Free, 0); usize::from(window)],
            free: (1..=window).collect(),
        }
    }

    /// How many more may be sent.
    pub(crate) fn free(&self) -> u64 {
        count(self.free.len())
    }

    pub(crate) fn outstanding(&self) -> u64 {
        count(self.steps.len() - self.free.len())
    }

    /// Takes an identifier for a message that is sent `now`; 0 where there is none.
    pub(crate) fn begin(&mut self, now: u64) -> u16 {
        let Some(id) = self.free.pop_front() else {
            return 0;
        };
        if let Some(step) = self.steps.get_mut(usize::from(id) - 1) {
            *step = (Step::Published, now);
        }
        id
    }

    /// PUBREC came: the PUBREL is to go.
    pub(crate) fn release(&mut self, id: u16) -> Result<(), BenchError> {
        let (step, _) = self.step(id)?;
        match step {
            Step::Published => *step = Step::Released,
            Step::Released | Step::Free => return Err(NOT_SENT),
        }
        Ok(())
    }

    /// Its last acknowledgement came, or one that refuses it. Returns when it was sent.
    pub(crate) fn end(&mut self, id: u16) -> Result<u64, BenchError> {
        let (step, sent) = self.step(id)?;
        if *step == Step::Free {
            return Err(NOT_SENT);
        }
        *step = Step::Free;
        let sent = *sent;
        self.free.push_back(id);
        Ok(sent)
    }

    fn step(&mut self, id: u16) -> Result<&mut (Step, u64), BenchError> {
        let index = usize::from(id).checked_sub(1).ok_or(NOT_SENT)?;
        self.steps.get_mut(index).ok_or(NOT_SENT)
    }
}

const NOT_SENT: BenchError = BenchError::Malformed("an acknowledgement of nothing that was sent");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identifier_is_free_again_after_its_last_acknowledgement() {
        let mut flight = Flight::new(2);
        assert_eq!(
            (flight.begin(5), flight.begin(6), flight.begin(7)),
            (1, 2, 0)
        );
        assert_eq!((flight.free(), flight.outstanding()), (0, 2));
        flight.release(2).unwrap();
        assert!(flight.release(2).is_err());
        assert_eq!(flight.end(2).unwrap(), 6);
        assert_eq!(flight.begin(8), 2);
        assert_eq!(flight.end(1).unwrap(), 5);
        for id in [0, 1, 3] {
            assert!(flight.end(id).is_err(), "{id}");
        }
    }
}
