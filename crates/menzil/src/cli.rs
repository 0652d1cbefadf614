//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A durable message broker that speaks AMQP 0-9-1 and MQTT.
#[derive(Debug, Parser)]
#[command(name = "menzil", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the broker
    Server(ServerArguments),
    /// Load any AMQP 0-9-1 broker and tell what it costs
    #[command(disable_help_flag = true, override_help = menzil_bench::USAGE)]
    Bench(BenchArguments),
    /// Show the counters of a running server
    Stats(StatsArguments),
    /// Set, clear and list the policies of a running server
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// List and cancel messages that wait until they are due
    #[command(subcommand)]
    Delays(DelaysCommand),
    /// Import exchanges, queues, bindings and policies
    #[command(subcommand)]
    Definitions(DefinitionsCommand),
    /// Tell where messages would go, and why
    #[command(subcommand)]
    Explain(ExplainCommand),
    /// Look at a data folder that no server runs on, and mend it
    #[command(subcommand)]
    Journal(JournalCommand),
    /// Make an entry for the users table of the settings file
    ///
    /// The password is asked for, or read from standard input.
    HashPassword(HashPasswordArguments),
}

/// Settings come from the file, then MENZIL_* variables, then flags; the last one wins.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// Settings file (TOML)
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Folder that holds everything the server keeps
    #[arg(long, value_name = "DIR")]
    pub(crate) data_dir: Option<String>,
    /// AMQP 0-9-1 at HOST:PORT (port 0 picks one), or off
    #[arg(long, value_name = "ADDR")]
    pub(crate) amqp: Option<String>,
    /// MQTT 3.1, 3.1.1 and 5.0 at HOST:PORT, or off
    #[arg(long, value_name = "ADDR")]
    pub(crate) mqtt: Option<String>,
    /// The same over WebSocket; off by default
    #[arg(long, value_name = "ADDR")]
    pub(crate) mqtt_ws: Option<String>,
    /// RabbitMQ's JSON, imported before the first client
    #[arg(long, value_name = "FILE")]
    pub(crate) definitions: Option<String>,
    /// error, warn, info or debug
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
    /// text or json
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// Any other setting; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Print the settings that would be used, and stop
    #[arg(long)]
    pub(crate) print_config: bool,
}

#[derive(Debug, Args)]
pub(crate) struct HashPasswordArguments {
    /// The user's name
    pub(crate) user: String,
    /// A tag, such as administrator; may be given again
    #[arg(long = "tag", value_name = "TAG")]
    pub(crate) tags: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// Words for the load generator
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArguments {
    /// Of this queue alone
    #[arg(long, value_name = "NAME")]
    pub(crate) queue: Option<String>,
    /// Virtual host of --queue
    #[arg(long, value_name = "NAME", default_value = "/", requires = "queue")]
    pub(crate) vhost: String,
    /// The server's data folder
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(crate) data_dir: PathBuf,
    /// As one JSON object, for programs
    #[arg(long)]
    pub(crate) json: bool,
}

/// Which server, and which of its virtual hosts.
#[derive(Debug, Args)]
pub(crate) struct Which {
    /// The server's data folder
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(crate) data_dir: PathBuf,
    /// Virtual host
    #[arg(long, value_name = "NAME", default_value = "/")]
    pub(crate) vhost: String,
}

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Set a policy, in the place of the one of that name
    ///
    /// It is on disk and has reached every exchange and queue when the command ends.
    Set {
        /// Its name
        name: String,
        /// Regular expression that names match
        pattern: String,
        /// Keys and values as a JSON object, such as '{"max-length": 1000}'
        definition: String,
        /// The highest one that matches applies
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        priority: i64,
        /// What it is for: all, exchanges, queues, streams,
        /// `classic_queues` or `quorum_queues`
        #[arg(long, default_value = "all", value_name = "KIND", verbatim_doc_comment)]
        apply_to: String,
        /// Set an operator policy, which bounds the others
        #[arg(long)]
        operator: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Clear a policy
    Clear {
        /// Its name
        name: String,
        /// Clear an operator policy
        #[arg(long)]
        operator: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Print all policies of all virtual hosts
    List {
        /// A line of JSON for each, for programs
        #[arg(long)]
        json: bool,
        /// The server's data folder
        #[arg(long, value_name = "DIR", default_value = "./data")]
        data_dir: PathBuf,
    },
    /// Print what an exchange or queue is set to, and who says so
    Effective {
        /// Its name
        name: String,
        /// An exchange, not a queue
        #[arg(long)]
        exchange: bool,
        /// A line of JSON for each setting, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DelaysCommand {
    /// Print what waits, in the order in which it is due
    ///
    /// What is a day or more away has its date and time (UTC); --json has them of all.
    List {
        /// Only this exchange
        #[arg(long, value_name = "NAME")]
        exchange: Option<String>,
        /// Messages to print
        #[arg(long, value_name = "N", default_value_t = 100,
              value_parser = clap::value_parser!(u64).range(1..=1000))]
        limit: u64,
        /// Begin behind the message of that number
        #[arg(long, value_name = "ID", default_value_t = 0)]
        after: u64,
        /// A line of JSON for each message, for programs
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Take messages back, which then never come
    ///
    /// That is on disk when the command ends. Ends with 1 if one of them does not
    /// wait there, because it has gone on or was cancelled before; the others are
    /// cancelled all the same.
    #[command(verbatim_doc_comment)]
    Cancel {
        /// The exchange in which they wait
        #[arg(long, value_name = "NAME")]
        exchange: String,
        /// Their numbers
        #[arg(value_name = "ID", required = true)]
        ids: Vec<u64>,
        #[command(flatten)]
        which: Which,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum DefinitionsCommand {
    /// Import a file of definitions, or nothing of it where it has a mistake
    ///
    /// What is there already stays as it is, and must be what the file says; policies
    /// are replaced. What has no use here is named and passed over.
    #[command(verbatim_doc_comment)]
    Import {
        /// The file, RabbitMQ's JSON
        file: PathBuf,
        /// Virtual host of what names none, as in
        /// an export of a single one
        #[arg(long, value_name = "NAME", verbatim_doc_comment)]
        vhost: Option<String>,
        /// The server's data folder
        #[arg(long, value_name = "DIR", default_value = "./data")]
        data_dir: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExplainCommand {
    /// Which queues a message would reach, and which bindings nearly take it
    ///
    /// Nothing is published. A running server is asked for its exchanges, queues and
    /// bindings over the socket in its data folder; --definitions answers for a file,
    /// as exported by RabbitMQ, as a server would that has imported it. Ends with 1 if
    /// the message, or one of the keys of --keys, would reach no queue.
    #[command(verbatim_doc_comment)]
    Route(RouteArguments),
}

#[derive(Debug, Args)]
pub(crate) struct RouteArguments {
    /// Virtual host
    #[arg(long, value_name = "NAME", default_value = "/")]
    pub(crate) vhost: String,
    /// Exchange to publish to; the default has no name
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) exchange: String,
    /// Routing key
    #[arg(long, value_name = "KEY", default_value = "", conflicts_with = "keys")]
    pub(crate) key: String,
    /// A routing key in each line, - for standard input:
    /// tells of each whether it reaches a queue. Before
    /// the key may stand another exchange and a tab.
    /// Empty lines, and # alone or before a space, are
    /// passed over; such a key needs its exchange
    #[arg(long, value_name = "FILE", verbatim_doc_comment)]
    pub(crate) keys: Option<PathBuf>,
    /// A header with a text, or NAME:=JSON with another
    /// value: retries:=5, seen:=null; again for more
    #[arg(long = "header", value_name = "NAME=VALUE", verbatim_doc_comment)]
    pub(crate) headers: Vec<String>,
    #[arg(
        long = "property",
        value_name = "NAME=VALUE",
        help = "message_id, correlation_id or timestamp"
    )]
    pub(crate) properties: Vec<String>,
    /// A further routing key, as CC has it
    #[arg(long, value_name = "KEY")]
    pub(crate) cc: Vec<String>,
    /// Definitions (JSON), in place of a running server
    #[arg(long, value_name = "FILE")]
    pub(crate) definitions: Option<PathBuf>,
    /// The server's data folder
    #[arg(long, value_name = "DIR", default_value = "./data")]
    pub(crate) data_dir: PathBuf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JournalCommand {
    /// Read everything and say what is damaged; changes nothing
    Verify {
        /// The data folder
        dir: PathBuf,
    },
    /// Count its files and records, and what of them is still needed
    Stats {
        /// The data folder
        dir: PathBuf,
    },
    /// Print what is in it, a line for each record; bodies are left out
    Dump {
        /// The data folder
        dir: PathBuf,
    },
    /// Set damaged parts aside, so that a server starts, and name the lost
    ///
    /// It is needed when a server refuses to start and says so: a record of an
    /// exchange, a queue or a binding is damaged, or the log does not hang together.
    /// A damaged message alone does not keep a server from starting. Stop the server
    /// and copy the folder first; what is taken out is kept in quarantine files
    /// beside the journal.
    #[command(verbatim_doc_comment)]
    Repair {
        /// The data folder
        dir: PathBuf,
    },
}
