//! Password checks under way and those that wait: a bounded number of each.
//!
//! ```text
//!   ask ──> the same login waits or is checked ──> shares its answer
//!      └──> a place is free ──> waits ──> checked ──> answered
//!      └──> all are taken ──> the newest login of whoever has most of them is refused
//! ```
//!
//! Peers take turns, and so do the users of each peer: a flood of wrong passwords costs whoever
//! sends it, and others wait for one check per flooding peer. A worker is one blocking task with
//! one block of memory, which the next worker takes over: however many threads the runtime
//! has, no more blocks exist than checks may run at once.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Proof;
use super::hash::Memory;
use crate::Secret;

/// Logins that may wait for a check, where no two are the same: a few seconds of work for two
/// at once.
const WAITING_MAX: usize = 128;

/// What checks a password: user, password, and the memory to do it in.
type Work = dyn Fn(&[u8], &Secret, &mut Memory) -> bool + Send + Sync;

/// All checks.
pub(super) struct Checks {
    work: Box<Work>,
    running_max: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    workers: usize,
    /// Of workers that found nothing more to do.
    memories: Vec<Memory>,
    running: Vec<(Proof, Listeners)>,
    waiting: Waiting,
}

type Listeners = Vec<oneshot::Sender<Answer>>;

/// What became of a login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The password is the one.
    Right,
    /// It is not.
    Wrong,
    /// It was not looked at: too many wait.
    Refused,
}

/// A login that is to be checked.
struct Check {
    proof: Proof,
    user: Vec<u8>,
    password: Secret,
    listeners: Listeners,
}

impl Check {
    fn is_wanted(&self) -> bool {
        self.listeners.iter().any(|listener| !listener.is_closed())
    }
}

impl Checks {
    pub(super) fn new(running_max: usize, work: Box<Work>) -> Self {
        Self {
            work,
            running_max,
            state: Mutex::default(),
        }
    }

    /// Checks a login, once it is its turn. Dropping the future gives the turn up.
    pub(super) async fn ask(
        self: &Arc<Self>,
        proof: Proof,
        user: &[u8],
        password: Secret,
        from: IpAddr,
    ) -> Answer {
        let (listener, answer) = oneshot::channel();
        if self.enter(proof, user, password, from, listener) {
            let checks = Arc::clone(self);
            // Not waited for: others may want the answers when this login is given up.
            drop(tokio::task::spawn_blocking(move || checks.run()));
        }
        answer.await.unwrap_or(Answer::Refused)
    }

    /// True where the caller is to start a worker.
    fn enter(
        &self,
        proof: Proof,
        user: &[u8],
        password: Secret,
        from: IpAddr,
        listener: oneshot::Sender<Answer>,
    ) -> bool {
        let mut state = self.state.lock();
        if let Some(listeners) = state.listeners(&proof) {
            if listeners.len() == listeners.capacity() {
                listeners.retain(|other| !other.is_closed());
            }
            listeners.push(listener);
            return false;
        }
        let check = Check {
            proof,
            user: user.to_vec(),
            password,
            listeners: vec![listener],
        };
        let refused = state.waiting.push(lane_of(from), check);
        let starts = state.workers < self.running_max;
        state.workers += usize::from(starts);
        drop(state);
        if let Some(refused) = refused {
            tell(refused.listeners, Answer::Refused);
        }
        starts
    }

    /// A worker's life: check after check, until none waits.
    fn run(&self) {
        let mut memory = self.state.lock().memories.pop().unwrap_or_default();
        while let Some((proof, user, password)) = self.next(&mut memory) {
            let answer = if (self.work)(&user, &password, &mut memory) {
                Answer::Right
            } else {
                Answer::Wrong
            };
            tell(self.state.lock().finish(&proof), answer);
        }
    }

    /// Gives the memory back where nothing is left to do.
    fn next(&self, memory: &mut Memory) -> Option<(Proof, Vec<u8>, Secret)> {
        let mut state = self.state.lock();
        while let Some(check) = state.waiting.pop() {
            if check.is_wanted() {
                state.running.push((check.proof, check.listeners));
                return Some((check.proof, check.user, check.password));
            }
        }
        state.workers -= 1;
        state.memories.push(std::mem::take(memory));
        None
    }
}

impl State {
    /// Who listens to the check of this login, if there is one.
    fn listeners(&mut self, proof: &Proof) -> Option<&mut Listeners> {
        let running = self.running.iter_mut();
        let mut running = running.filter(|(other, _)| other == proof);
        match running.next() {
            Some((_, listeners)) => Some(listeners),
            None => self.waiting.listeners(proof),
        }
    }

    fn finish(&mut self, proof: &Proof) -> Listeners {
        let place = self.running.iter().position(|(other, _)| other == proof);
        place.map_or_else(Vec::new, |place| self.running.swap_remove(place).1)
    }
}

fn tell(listeners: Listeners, answer: Answer) {
    for listener in listeners {
        // One that hung up does not want it.
        let _ = listener.send(answer);
    }
}

/// Who waits: peers in turn, of each the users in turn, of each the logins as they came.
#[derive(Default)]
struct Waiting {
    peers: VecDeque<Peer>,
}

struct Peer {
    lane: IpAddr,
    users: VecDeque<VecDeque<Check>>,
}

impl Peer {
    fn count(&self) -> usize {
        self.users.iter().map(VecDeque::len).sum()
    }
}

impl Waiting {
    fn count(&self) -> usize {
        self.peers.iter().map(Peer::count).sum()
    }

    fn listeners(&mut self, proof: &Proof) -> Option<&mut Listeners> {
        let users = self.peers.iter_mut().flat_map(|peer| &mut peer.users);
        users
            .flatten()
            .find(|check| check.proof == *proof)
            .map(|check| &mut check.listeners)
    }

    /// Returns the check that has to go where too many wait.
    fn push(&mut self, lane: IpAddr, check: Check) -> Option<Check> {
        if self.count() >= WAITING_MAX {
            self.forget_unwanted();
        }
        let name = check.user.clone();
        self.add(lane, check);
        if self.count() <= WAITING_MAX {
            return None;
        }
        // Among equals the newcomer goes.
        let most = |peer: &&mut Peer| (peer.count(), peer.lane == lane);
        let peer = self.peers.iter_mut().max_by_key(most)?;
        let is_newcomer = |user: &VecDeque<Check>| user.iter().any(|check| check.user == name);
        let most = |user: &&mut VecDeque<Check>| (user.len(), is_newcomer(user));
        let refused = peer.users.iter_mut().max_by_key(most)?.pop_back();
        self.forget_empty();
        refused
    }

    fn add(&mut self, lane: IpAddr, check: Check) {
        let place = self.peers.iter().position(|peer| peer.lane == lane);
        let place = place.unwrap_or_else(|| {
            let users = VecDeque::new();
            self.peers.push_back(Peer { lane, users });
            self.peers.len() - 1
        });
        let Some(peer) = self.peers.get_mut(place) else {
            return;
        };
        let is_same = |user: &&mut VecDeque<Check>| {
            user.front().is_some_and(|other| other.user == check.user)
        };
        match peer.users.iter_mut().find(is_same) {
            Some(user) => user.push_back(check),
            None => peer.users.push_back(VecDeque::from([check])),
        }
    }

    /// The next in turn; its peer and its user go to the end of theirs.
    fn pop(&mut self) -> Option<Check> {
        let mut peer = self.peers.pop_front()?;
        let mut user = peer.users.pop_front()?;
        let check = user.pop_front();
        if !user.is_empty() {
            peer.users.push_back(user);
        }
        if !peer.users.is_empty() {
            self.peers.push_back(peer);
        }
        check
    }

    fn forget_unwanted(&mut self) {
        for user in self.peers.iter_mut().flat_map(|peer| &mut peer.users) {
            user.retain(Check::is_wanted);
        }
        self.forget_empty();
    }

    fn forget_empty(&mut self) {
        for peer in &mut self.peers {
            peer.users.retain(|user| !user.is_empty());
        }
        self.peers.retain(|peer| !peer.users.is_empty());
    }
}

/// Whoever has one IPv6 address has the 2^64 of its network.
fn lane_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let network = u128::from(address) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
        address @ IpAddr::V4(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    /// Checks that take as long as nobody calls `let_go`; the password `right` is right.
    struct Stage {
        checks: Arc<Checks>,
        gate: mpsc::Sender<()>,
        done: Arc<Mutex<Vec<String>>>,
        memories: Arc<AtomicUsize>,
    }

    impl Stage {
        fn new(running_max: usize) -> Self {
            let (gate, opened) = mpsc::channel();
            let opened = Mutex::new(opened);
            let done = Arc::new(Mutex::new(Vec::new()));
            let memories = Arc::new(AtomicUsize::new(0));
            let (log, fresh) = (Arc::clone(&done), Arc::clone(&memories));
            let work = move |user: &[u8], password: &Secret, memory: &mut Memory| {
                let _ = opened.lock().recv();
                if memory.is_empty() {
                    fresh.fetch_add(1, Ordering::Relaxed);
                }
                memory.blocks(1);
                log.lock().push(String::from_utf8_lossy(user).into_owned());
                password.reveal() == b"right"
            };
            Self {
                checks: Arc::new(Checks::new(running_max, Box::new(work))),
                gate,
                done,
                memories,
            }
        }

        fn ask(
            &self,
            number: u8,
            user: &str,
            password: &str,
            from: IpAddr,
        ) -> tokio::task::JoinHandle<Answer> {
            let (checks, user) = (Arc::clone(&self.checks), user.to_owned());
            let password = Secret::new(password);
            tokio::spawn(async move {
                let proof = [number; 64];
                checks.ask(proof, user.as_bytes(), password, from).await
            })
        }

        fn let_go(&self, count: usize) {
            for _ in 0..count {
                self.gate.send(()).unwrap();
            }
        }

        fn waiting(&self) -> usize {
            self.checks.state.lock().waiting.count()
        }

        /// Waits until so many run and so many wait.
        async fn settle(&self, running: usize, waiting: usize) {
            self.until(|state| (state.running.len(), state.waiting.count()) == (running, waiting))
                .await;
        }

        async fn until(&self, is_so: impl Fn(&mut State) -> bool) {
            for _ in 0..3000 {
                if is_so(&mut self.checks.state.lock()) {
                    return;
                }
                tokio::time::sleep(std::time::Duration::from_millis(10)).await;
            }
            panic!("it never came to that");
        }
    }

    #[tokio::test]
    async fn the_memory_is_that_of_the_checks_that_may_run_at_once() {
        let stage = Stage::new(2);
        for round in 0..3 {
            let asked: Vec<_> = (0..40)
                .map(|number| stage.ask(number, "ada", "wrong", A))
                .collect();
            stage.settle(2, 38).await;
            stage.let_go(40);
            for answer in asked {
                assert_eq!(answer.await.unwrap(), Answer::Wrong);
            }
            stage.settle(0, 0).await;
            assert_eq!(stage.done.lock().len(), 40 * (round + 1));
        }
        assert!((1..=2).contains(&stage.memories.load(Ordering::Relaxed)));
        assert!(stage.checks.state.lock().memories.len() <= 2);
    }

    #[tokio::test]
    async fn past_the_limit_logins_are_refused_unseen_and_another_user_still_comes_in() {
        let stage = Stage::new(1);
        let running = stage.ask(255, "ada", "wrong", A);
        stage.settle(1, 0).await;
        let flood: Vec<_> = (0..200)
            .map(|number| stage.ask(number, "ada", "wrong", A))
            .collect();
        let mut refused = 0;
        for (number, answer) in flood.into_iter().enumerate() {
            if number < WAITING_MAX {
                drop(answer);
            } else {
                refused += usize::from(answer.await.unwrap() == Answer::Refused);
            }
        }
        assert_eq!(refused, 200 - WAITING_MAX);
        let bob = stage.ask(201, "bob", "right", A);
        let eve = stage.ask(202, "ada", "right", B);
        stage
            .until(|state| {
                let mut is_in = |number| state.listeners(&[number; 64]).is_some();
                is_in(201) && is_in(202)
            })
            .await;
        assert_eq!(stage.waiting(), WAITING_MAX);
        // Once what runs is done, they are among the next few, whatever the flood.
        stage.let_go(5);
        assert_eq!(bob.await.unwrap(), Answer::Right);
        assert_eq!(eve.await.unwrap(), Answer::Right);
        assert_eq!(running.await.unwrap(), Answer::Wrong);
        stage.let_go(WAITING_MAX);
        stage.settle(0, 0).await;
        assert_eq!(stage.waiting(), 0);
    }

    #[tokio::test]
    async fn the_same_login_is_checked_once_however_often_it_comes() {
        let stage = Stage::new(2);
        let asked: Vec<_> = (0..1000).map(|_| stage.ask(1, "ada", "right", A)).collect();
        stage.settle(1, 0).await;
        while stage.checks.state.lock().running[0].1.len() < 1000 {
            tokio::task::yield_now().await;
        }
        stage.let_go(1);
        for answer in asked {
            assert_eq!(answer.await.unwrap(), Answer::Right);
        }
        assert_eq!(*stage.done.lock(), ["ada"]);
    }

    #[tokio::test]
    async fn who_hung_up_is_not_checked_and_takes_no_place() {
        let stage = Stage::new(1);
        let running = stage.ask(255, "ada", "wrong", A);
        stage.settle(1, 0).await;
        for number in 0..100 {
            let asked = stage.ask(number, "gone", "wrong", A);
            stage.settle(1, usize::from(number) + 1).await;
            asked.abort();
            let _ = asked.await;
        }
        for number in 100..128 {
            drop(stage.ask(number, "ada", "wrong", A));
        }
        stage.settle(1, WAITING_MAX).await;
        let last = stage.ask(128, "gone", "right", A);
        stage.settle(1, 29).await;
        stage.let_go(3);
        assert_eq!(last.await.unwrap(), Answer::Right);
        assert_eq!(running.await.unwrap(), Answer::Wrong);
        assert_eq!(
            stage
                .done
                .lock()
                .iter()
                .filter(|user| *user == "gone")
                .count(),
            1
        );
        stage.let_go(WAITING_MAX);
        stage.settle(0, 0).await;
    }

    #[test]
    fn peers_take_turns_and_so_do_their_users() {
        let mut waiting = Waiting::default();
        let mut listening = Vec::new();
        for (number, (from, user)) in [(A, "x"), (A, "x"), (A, "x"), (A, "y"), (B, "x"), (B, "z")]
            .into_iter()
            .enumerate()
        {
            let (listener, answer) = oneshot::channel();
            listening.push(answer);
            let check = Check {
                proof: [u8::try_from(number).unwrap(); 64],
                user: user.into(),
                password: Secret::new("p"),
                listeners: vec![listener],
            };
            assert!(waiting.push(from, check).is_none());
        }
        let turns: Vec<u8> =
            std::iter::from_fn(|| waiting.pop().map(|check| check.proof[0])).collect();
        assert_eq!(turns, [0, 4, 3, 5, 1, 2]);
    }

    #[test]
    fn a_lane_is_an_address_or_a_network_of_them() {
        let of = |text: &str| lane_of(text.parse().unwrap()).to_string();
        assert_eq!(of("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(of("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }
}
