//! The deterministic heart: topology, routing and queues of one virtual host.
