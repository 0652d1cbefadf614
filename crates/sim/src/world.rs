//! Everything together: clients, connections, a node, its disk, a clock, and what goes wrong.

use std::collections::BTreeMap;

use menzil_core::{Command, Effect, Shard};
use menzil_journal::testing::MemoryDisk;
use menzil_journal::{Space, StorageError};
use menzil_model::ConnectionId;

use crate::audit::audit;
use crate::brief;
use crate::channel::{Role, State};
use crate::client::Client;
use crate::fault::Fault;
use crate::link::Link;
use crate::node::Node;
use crate::oracle::{Oracle, Tally};
use crate::prng::Prng;
use crate::sabotage::Sabotage;
use crate::scenario::{Scenario, Settings};
use crate::speech::Say;
use crate::trace::Trace;
use crate::wire::{Task, Wire};
use crate::workload::Workload;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// One number for everything that happened.
    pub trace: u64,
    /// Commands that the node executed.
    pub commands: u64,
    /// Power failures, kills, failed disks, lost leaderships.
    pub crashes: u64,
    /// Checkpoints that became current.
    pub checkpoints: u64,
    /// Records that were evacuated.
    pub evacuated: u64,
    /// Messages read back from the journal.
    pub fetches: u64,
    /// What clients and audits counted.
    pub tally: Tally,
}

/// Something that must not be has happened.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The seed that shows it.
    pub seed: u64,
    /// The step at which it showed.
    pub step: u64,
    /// What.
    pub what: String,
    /// The last lines of the trace.
    pub tail: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}seed {} step {}: {}",
            self.tail, self.seed, self.step, self.what
        )
    }
}

pub(crate) struct World {
    settings: Settings,
    pub(crate) scenario: Scenario,
    pub(crate) prng: Prng,
    pub(crate) oracle: Oracle,
    pub(crate) trace: Trace,
    pub(crate) disk: MemoryDisk,
    pub(crate) node: Option<Node>,
    links: BTreeMap<ConnectionId, Link>,
    clients: Vec<Client>,
    connections_made: u64,
    pub(crate) now: u64,
    step: u64,
    commands: u64,
    pub(crate) crashes: u64,
    pub(crate) checkpoints: u64,
    pub(crate) evacuated: u64,
    fetches: u64,
    /// A write or sync is going to fail.
    pub(crate) is_doomed: bool,
    /// The step at which a full disk has room again.
    pub(crate) full_until: Option<u64>,
}

impl World {
    pub(crate) fn new(settings: &Settings) -> Self {
        let mut prng = Prng::new(settings.seed);
        let scenario = Scenario::new(settings, &mut prng);
        let clients = (0..scenario.clients)
            .map(|number| client(number, &mut prng))
            .collect();
        let disk = MemoryDisk::new(prng.next());
        if settings.seed.is_multiple_of(2) {
            disk.pad_to_sectors();
        }
        Self {
            settings: settings.clone(),
            oracle: Oracle::new(settings.later),
            trace: Trace::new(settings.trace_lines),
            disk,
            node: None,
            links: BTreeMap::new(),
            clients,
            connections_made: 0,
            now: 1_700_000_000_000,
            step: 0,
            commands: 0,
            crashes: 0,
            checkpoints: 0,
            evacuated: 0,
            fetches: 0,
            is_doomed: false,
            full_until: None,
            scenario,
            prng,
        }
    }

    /// Runs to the end, or to the first thing that must not be.
    pub(crate) fn run(mut self) -> Result<Report, Failure> {
        let run = std::panic::AssertUnwindSafe(|| self.run_through());
        if let Err(panic) = std::panic::catch_unwind(run) {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            self.oracle
                .fail(format!("panic: {}", text.unwrap_or_default()));
        }
        match self.oracle.failure() {
            None => Ok(Report {
                trace: self.trace.hash(),
                commands: self.commands,
                crashes: self.crashes,
                checkpoints: self.checkpoints,
                evacuated: self.evacuated,
                fetches: self.fetches,
                tally: self.oracle.tally,
            }),
            Some(what) => Err(Failure {
                seed: self.settings.seed,
                step: self.step,
                what: what.to_owned(),
                tail: self.trace.tail(),
            }),
        }
    }

    fn run_through(&mut self) {
        self.start();
        self.set_up();
        while self.step < self.settings.steps && self.oracle.failure().is_none() {
            self.step += 1;
            self.one_step();
        }
        if self.oracle.failure().is_none() {
            self.wind_up();
        }
    }

    /// Starts a node on the disk as it is.
    pub(crate) fn start(&mut self) {
        match Node::start(&self.disk, &self.scenario.node, self.now) {
            Ok(node) => self.node = Some(node),
            Err(why) => self.oracle.fail(format!("the node does not start: {why}")),
        }
    }

    /// The first client declares what every run has, and nobody else does anything before.
    fn set_up(&mut self) {
        self.connect(0);
        self.declare_catalogue();
        self.settle_down();
        if let Some(client) = self.clients.first_mut() {
            client.cut();
        }
        self.close_links();
        self.settle_down();
    }

    fn declare_catalogue(&mut self) {
        self.with_client(0, |client, workload| {
            let Some(channel) = client.channels.first_mut() else {
                return;
            };
            channel.state = State::Closed;
            channel.is_set_up = true;
            workload.act(channel);
            workload.declare_catalogue(channel);
        });
    }

    fn one_step(&mut self) {
        if self.full_until.is_some_and(|until| until <= self.step) {
            self.full_until = None;
            self.disk.set_capacity(None);
            self.trace
                .note(format_args!("{} the disk has room again", self.step));
        }
        if self.prng.one_in(self.scenario.fault_one_in) {
            let fault = Fault::any(&mut self.prng, self.scenario.is_short_of_space);
            self.trace.note(format_args!("{} {fault:?}", self.step));
            self.fault(fault);
            return;
        }
        if self.prng.one_in(self.scenario.cut_one_in) {
            return self.cut_one();
        }
        if self.prng.one_in(self.scenario.audit_one_in) {
            return self.imagine_crash();
        }
        if self.settings.later > 1 && self.prng.one_in(self.scenario.policy_one_in) {
            return self.change_policy();
        }
        let weights = [
            self.scenario.act_weight,
            20,
            25,
            self.scenario.commit_weight,
            12,
            4,
            1,
            2,
            4,
        ];
        match self.prng.weighted(&weights) {
            0 => self.act(),
            1 => self.arrive(),
            2 => self.hear(),
            3 => self.commit(),
            4 => self.fetch(),
            5 => self.tick(),
            6 => self.freeze(),
            7 => {
                self.install();
                if self.step.is_multiple_of(5) {
                    self.evacuate();
                }
            }
            _ => self.drain(),
        }
    }

    pub(crate) fn step_number(&self) -> u64 {
        self.step
    }

    fn connect(&mut self, client: usize) {
        self.connections_made += 1;
        let id = ConnectionId(self.connections_made);
        let hasty = self.settings.sabotage == Some(Sabotage::ConfirmEarly);
        let link = if self.scenario.speaks_amqp {
            let chunk = self.scenario.chunk_bytes;
            Link::amqp(Wire::new(id, self.now, chunk, hasty), id)
        } else {
            Link::direct(id, hasty)
        };
        self.links.insert(id, link);
        self.clients[client].connect(id);
        self.trace.note(format_args!(
            "{} client {client} connects as {id}",
            self.step
        ));
    }

    fn with_client(&mut self, at: usize, act: impl FnOnce(&mut Client, &mut Workload<'_>)) {
        let client = &mut self.clients[at];
        let mut workload = Workload {
            prng: &mut self.prng,
            oracle: &mut self.oracle,
            scenario: &self.scenario,
            client: client.number,
            said: Vec::new(),
        };
        act(client, &mut workload);
        let said = workload.said;
        let Some(link) = client.connection.and_then(|id| self.links.get_mut(&id)) else {
            return;
        };
        for say in said {
            self.trace.note(format_args!(
                "{} client {at} {}",
                self.step,
                brief::of_say(&say)
            ));
            link.say(say);
        }
    }

    /// A client does something.
    fn act(&mut self) {
        let at = self.prng.index(self.clients.len());
        if self.clients[at].connection.is_none() {
            self.connect(at);
            if at == 0 {
                self.declare_catalogue();
            }
            return;
        }
        if self.clients[at].is_leaving {
            return;
        }
        if self.prng.one_in(400) {
            self.clients[at].is_leaving = true;
            if let Some(link) = self.clients[at]
                .connection
                .and_then(|id| self.links.get_mut(&id))
            {
                link.say(Say::Bye);
            }
            self.trace
                .note(format_args!("{} client {at} leaves", self.step));
            return;
        }
        self.with_client(at, |client, workload| {
            let channel = workload.prng.index(client.channels.len());
            workload.act(&mut client.channels[channel]);
        });
    }

    fn any_link(&mut self, wanted: impl Fn(&Link) -> bool) -> Option<ConnectionId> {
        let links: Vec<_> = self
            .links
            .values()
            .filter(|link| wanted(link))
            .map(|link| link.id)
            .collect();
        (!links.is_empty()).then(|| links[self.prng.index(links.len())])
    }

    /// Something that a client said arrives.
    fn arrive(&mut self) {
        let Some(id) = self.any_link(Link::has_up) else {
            return;
        };
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        let tasks = link.arrive(self.now, &mut self.prng);
        let mut commands = Vec::new();
        for task in tasks {
            match task {
                Task::Command(command) => commands.push(command),
                Task::Send(outgoing) => {
                    self.execute(std::mem::take(&mut commands));
                    if let Some(link) = self.links.get_mut(&id) {
                        link.send(outgoing);
                    }
                }
            }
        }
        self.execute(commands);
    }

    /// A batch of commands, and who is to hear of it.
    fn execute(&mut self, commands: Vec<Command>) {
        let Some(node) = &mut self.node else { return };
        self.commands += commands.len() as u64;
        let (oracle, links, trace) = (&mut self.oracle, &mut self.links, &mut self.trace);
        let (step, now) = (self.step, self.now);
        let is_checked = self.prng.one_in(self.scenario.check_one_in);
        let is_split = node.batch(now, commands, &mut |shard: &Shard, command, effects| {
            if let Some(command) = command {
                trace.note(format_args!("{step} > {}", brief::of_command(command)));
                oracle.executed(now, command);
            } else if is_checked {
                shard.check_invariants();
            }
            hand_out(step, effects, oracle, links, trace);
        });
        if node.releases_too_much() {
            let what = "a record was released more often than it was needed";
            self.oracle.fail(what.to_owned());
        }
        self.release();
        self.relieve();
        if is_split && self.step > 0 && self.prng.one_in(4) {
            self.imagine_crash();
        }
    }

    /// The operator sets a policy, or clears it.
    fn change_policy(&mut self) {
        let limit = self.prng.pick(&[None, Some(2), Some(5)]);
        let Some(node) = &mut self.node else { return };
        let index = node.set_policy(self.now, limit);
        self.trace
            .note(format_args!("{} policy {limit:?} in {index:?}", self.step));
        if let Some(index) = index {
            self.oracle.policies.changed(index, limit);
        }
        self.expire();
    }

    /// Sends what may go out.
    fn release(&mut self) {
        let Some(node) = &self.node else { return };
        let committed = node.committed();
        self.oracle.policies.committed(committed);
        for link in self.links.values_mut() {
            link.release(self.now, committed);
        }
    }

    /// A client hears something.
    fn hear(&mut self) {
        let Some(id) = self.any_link(Link::has_down) else {
            return;
        };
        let count = 1 + self.prng.index(8);
        let Some(client) = self.clients.iter_mut().find(|c| c.connection == Some(id)) else {
            return;
        };
        let Some(link) = self.links.get_mut(&id) else {
            return;
        };
        link.flow_down(&mut self.prng);
        if let Some(why) = link.failure() {
            self.oracle.fail(why.to_owned());
        }
        for _ in 0..count {
            let Some(heard) = link.hear() else { break };
            self.trace.note(format_args!(
                "{} client {} hears on {}: {}",
                self.step,
                client.number,
                heard.channel,
                brief::of_what(&heard.what)
            ));
            if !client.hear(heard, &mut self.oracle) {
                client.cut();
                self.cut(id);
                break;
            }
        }
    }

    /// One group commit.
    fn commit(&mut self) {
        let Some(node) = &mut self.node else { return };
        let before = node.committed();
        match node.step() {
            Ok(_) => {
                let committed = node.committed();
                if committed != before {
                    self.trace
                        .note(format_args!("{} committed {committed}", self.step));
                }
                self.release();
                self.relieve();
            }
            Err(error) => self.storage_failed(&error),
        }
    }

    /// A checkpoint where the disk is full and one is due.
    fn relieve(&mut self) {
        let Some(node) = &mut self.node else { return };
        if !node.is_checkpoint_due() {
            return;
        }
        node.freeze();
        match node.step() {
            Ok(_) => {
                self.release();
                self.install();
            }
            Err(error) => self.storage_failed(&error),
        }
    }

    /// The node must stop: nothing more is acknowledged. What was released before stands.
    pub(crate) fn storage_failed(&mut self, error: &StorageError) {
        self.trace
            .note(format_args!("{} the journal fails: {error}", self.step));
        if matches!(error, StorageError::Full) {
            self.oracle.fail("a full disk stopped the node".to_owned());
        }
        let is_power_off = self.prng.one_in(2);
        self.stop_hard(is_power_off);
    }

    /// Something that was asked for has been read.
    fn fetch(&mut self) {
        let Some(node) = &mut self.node else { return };
        if node.fetches.is_empty() {
            return;
        }
        let at = self.prng.index(node.fetches.len());
        let fetch = node.fetches.remove(at);
        let mut unread = Vec::new();
        let mut messages = Vec::new();
        for wanted in &fetch.wanted {
            self.fetches += 1;
            let read = node.read(&fetch, wanted, self.fetches);
            let message = read.map_err(|why| unread.push((wanted.origin, why))).ok();
            messages.push((wanted.sequence, message));
        }
        let queue = fetch.queue;
        self.execute(vec![Command::Fetched { queue, messages }]);
        // A record that nobody needs any more may be gone by now; one that is needed may not.
        let damaged = self
            .node
            .as_ref()
            .map_or(0, |node| node.shard.counters().damaged);
        if damaged > 0 {
            self.oracle
                .fail(format!("lost: cannot be read: {unread:?}"));
        }
    }

    /// Time goes on.
    fn tick(&mut self) {
        self.now += match self.prng.below(20) {
            0 => 500,
            _ => self.prng.below(20),
        };
        self.oracle.at(self.now);
        self.expire();
    }

    fn expire(&mut self) {
        let Some(node) = &mut self.node else { return };
        if node.shard.deadline().is_none_or(|at| at > self.now) {
            return;
        }
        let effects = node.expire(self.now);
        hand_out(
            self.step,
            effects,
            &mut self.oracle,
            &mut self.links,
            &mut self.trace,
        );
        self.release();
    }

    fn freeze(&mut self) {
        if let Some(node) = &mut self.node {
            node.freeze();
        }
    }

    /// Evacuates what is worth it. What that sets free goes with the next checkpoint.
    fn evacuate(&mut self) {
        while let Some(node) = &self.node {
            match node.evacuate() {
                Ok(0) => return,
                Ok(records) => {
                    self.evacuated += records;
                    self.trace
                        .note(format_args!("{} evacuated {records}", self.step));
                }
                Err(why) => {
                    self.trace
                        .note(format_args!("{} evacuation fails: {why}", self.step));
                    self.stop_hard(false);
                }
            }
        }
    }

    fn install(&mut self) {
        let Some(node) = &mut self.node else { return };
        match node.install() {
            Ok(true) => {
                self.checkpoints += 1;
                self.trace.note(format_args!("{} checkpoint", self.step));
                self.evacuate();
            }
            Ok(false) => {}
            Err(why) => {
                self.trace
                    .note(format_args!("{} checkpoint fails: {why}", self.step));
                self.stop_hard(false);
            }
        }
    }

    /// The shard hears of the room that deliveries left.
    fn drain(&mut self) {
        let drained: Vec<Command> = self
            .links
            .values_mut()
            .filter(|link| link.drained > 0)
            .map(|link| Command::Drained {
                connection: link.id,
                bytes: std::mem::take(&mut link.drained),
            })
            .collect();
        if !drained.is_empty() {
            self.execute(drained);
        }
    }

    /// A connection breaks; both sides see it at once.
    fn cut_one(&mut self) {
        let Some(id) = self.any_link(|_| true) else {
            return;
        };
        self.trace
            .note(format_args!("{} connection {id} breaks", self.step));
        self.cut(id);
    }

    fn cut(&mut self, id: ConnectionId) {
        if let Some(client) = self.clients.iter_mut().find(|c| c.connection == Some(id)) {
            client.cut();
        }
        let Some(mut link) = self.links.remove(&id) else {
            return;
        };
        if let Some(command) = link.disconnected() {
            self.execute(vec![command]);
        }
        self.oracle.connection_over(id);
    }

    pub(crate) fn close_links(&mut self) {
        let ids: Vec<_> = self.links.keys().copied().collect();
        for id in ids {
            self.cut(id);
        }
    }

    /// The node is gone, and all connections with it.
    pub(crate) fn forget_connections(&mut self) {
        self.links.clear();
        for client in &mut self.clients {
            client.cut();
        }
    }

    /// What if the power went now? The run goes on as if nothing had been.
    fn imagine_crash(&mut self) {
        let copy = self.disk.fork();
        let prng = &mut self.prng;
        copy.crash(&mut |bound| prng.below(bound));
        let recovered = audit(&copy, &self.scenario.node, self.now);
        self.trace.note(format_args!("{} audit", self.step));
        self.oracle.audit(&recovered, false);
    }

    /// The power comes back: recovers, and compares.
    pub(crate) fn restart(&mut self, is_clean: bool) {
        self.oracle.restarted(is_clean);
        self.start();
        let recovered = audit(&self.disk.fork(), &self.scenario.node, self.now);
        self.oracle.audit(&recovered, true);
        self.tick();
    }

    /// Lets everything that is under way come to its end.
    fn settle_down(&mut self) {
        for _ in 0..1_000_000 {
            if self.oracle.failure().is_some() || self.is_quiet() {
                return;
            }
            self.arrive();
            self.fetch();
            self.expire();
            self.commit();
            self.drain();
            self.hear();
        }
        self.oracle.fail("it never comes to rest".to_owned());
    }

    fn is_quiet(&self) -> bool {
        let Some(node) = &self.node else { return true };
        node.fetches.is_empty()
            && node.shard.deadline().is_none_or(|at| at > self.now)
            && node.committed() == node.appended()
            && self
                .links
                .values()
                .all(|link| link.is_idle() && link.drained == 0)
    }

    /// The end of a run: faults cease, everything is answered, all queues are emptied.
    fn wind_up(&mut self) {
        self.disk.set_capacity(None);
        self.full_until = None;
        if self.is_doomed {
            self.stop_hard(true);
        }
        if let Some(node) = &self.node
            && node
                .journal
                .prepare()
                .is_ok_and(|space| space == Space::Full)
        {
            self.oracle
                .fail("the disk has room and the journal does not see it".to_owned());
        }
        self.settle_down();
        self.check_answers();
        self.close_links();
        self.settle_down();
        if self.oracle.failure().is_none() {
            self.empty_queues();
        }
        if self.oracle.failure().is_none() {
            self.oracle.check_drained();
        }
        if let Some(node) = &self.node
            && node.shard.counters().damaged > 0
        {
            self.oracle.fail("a message was damaged".to_owned());
        }
    }

    /// Exactly one verdict for each publish, one answer for each question.
    fn check_answers(&mut self) {
        if self.oracle.failure().is_some() {
            return;
        }
        for client in &self.clients {
            for channel in &client.channels {
                if !channel.asked.is_empty() || !channel.unconfirmed.is_empty() {
                    let what = format!("never answered to client {}: {channel:?}", client.number);
                    return self.oracle.fail(what);
                }
            }
        }
        self.oracle.check_answered();
    }

    fn empty_queues(&mut self) {
        self.clients = vec![Client::new(1000, vec![Role::Sink])];
        self.connect(0);
        self.with_client(0, |client, workload| {
            if let Some(channel) = client.channels.first_mut() {
                channel.is_set_up = true;
                workload.act(channel);
                workload.declare_catalogue(channel);
                workload.consume_all(channel);
            }
        });
        self.settle_down();
        // Dead letters that a queue or the disk refused are tried again each second; delayed
        // messages come.
        for _ in 0..RETRIES_MAX {
            if !self.has_dying() || self.oracle.failure().is_some() {
                return;
            }
            self.now += 1000;
            self.oracle.at(self.now);
            self.settle_down();
        }
        self.oracle
            .fail("letters or delays wait, and nothing is in their way".to_owned());
    }

    fn has_dying(&self) -> bool {
        self.node.as_ref().is_some_and(|node| {
            let queues = node.shard.queues();
            queues.iter().any(|queue| queue.dying > 0) || node.shard.summary().delayed > 0
        })
    }
}

/// Seconds in which everything that waits must have gone.
const RETRIES_MAX: usize = 100;

fn client(number: u64, prng: &mut Prng) -> Client {
    const ROLES: [Role; 14] = [
        Role::Publisher,
        Role::Publisher,
        Role::Publisher,
        Role::Worker,
        Role::Worker,
        Role::Consumer,
        Role::Consumer,
        Role::Sink,
        Role::Getter,
        Role::Getter,
        Role::Transactor,
        Role::Transactor,
        Role::Transactor,
        Role::Careless,
    ];
    let mut roles = vec![Role::Publisher; usize::from(number < 2)];
    if number == 1 {
        roles.push(Role::Chaos);
    }
    for _ in 0..=prng.below(3) {
        roles.push(prng.pick(&ROLES));
    }
    Client::new(number, roles)
}

fn hand_out(
    step: u64,
    effects: Vec<Effect>,
    oracle: &mut Oracle,
    links: &mut BTreeMap<ConnectionId, Link>,
    trace: &mut Trace,
) {
    for effect in effects {
        let to = match &effect {
            Effect::Channel { to, .. } => to.connection,
            Effect::Connection { to, .. } | Effect::Session { to, .. } => *to,
            Effect::Fetch { queue, wanted, .. } => {
                trace.note(format_args!("{step}   fetch for {queue:?}: {wanted:?}"));
                continue;
            }
        };
        trace.note(format_args!("{step}   {}", brief::of_effect(&effect)));
        oracle.emitted(&effect);
        if let Some(link) = links.get_mut(&to) {
            link.handle(effect);
        }
    }
}
