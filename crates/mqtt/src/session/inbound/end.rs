//! How a connection ends.

use menzil_core::SessionRequest;

use super::{Inbound, Phase};
use crate::codec::{
    ConnAck, Disconnect, Packet, Property, PropertyId, PropertyList, ReasonCode, Version,
};
use crate::session::action::{Action, CloseReason, Outgoing, Sink};
use crate::session::fault::Fault;

impl Inbound {
    /// The transmitting half cannot go on: see [`crate::Outbound::failure`].
    pub fn fail(&mut self, now_ms: u64, fault: Fault, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        self.violated(fault, out);
    }

    /// The server, or an operator, ends the connection: server shutting down, administrative
    /// action, use another server and server moved (these two with the server reference of the
    /// settings), maximum connect time. The will is published.
    pub fn close(&mut self, now_ms: u64, reason: ReasonCode, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        let last = match self.phase {
            Phase::Connect => None,
            Phase::Authenticating | Phase::Challenged => {
                let in_conn_ack = if MOVED.contains(&reason) {
                    reason
                } else {
                    ReasonCode::ServerUnavailable
                };
                self.conn_ack(in_conn_ack, None)
            }
            Phase::Running | Phase::Renewing => self.disconnect(reason, None),
            Phase::Ended => return,
        };
        self.end(CloseReason::Stopped(reason), last, out);
    }

    /// The client has been silent for too long: the network is taken for broken
    /// (MQTT-3.1.2-22).
    pub(super) fn keep_alive_is_over(&mut self, out: &mut dyn Sink) {
        let last = self.disconnect(ReasonCode::KeepAliveTimeout, None);
        self.end(CloseReason::KeepAliveTimeout, last, out);
    }

    /// Ends the connection by error. A CONNECT that does not read is answered by nothing.
    pub(super) fn violated(&mut self, fault: Fault, out: &mut dyn Sink) {
        let text = Some(fault.text.as_str());
        let last = match self.phase {
            Phase::Ended => return,
            _ if !fault.is_told => None,
            Phase::Connect => None,
            Phase::Authenticating | Phase::Challenged => self.conn_ack(fault.reason, text),
            Phase::Running | Phase::Renewing => self.disconnect(fault.reason, text),
        };
        self.end(CloseReason::Violated(fault), last, out);
    }

    /// Refuses a CONNECT.
    pub(super) fn refuse(&mut self, reason: ReasonCode, text: &str, out: &mut dyn Sink) {
        let last = self.conn_ack(reason, Some(text).filter(|text| !text.is_empty()));
        self.end(CloseReason::Refused(reason), last, out);
    }

    /// A publish that is not permitted, of a client whose protocol has no word for it.
    pub(super) fn close_denied(&mut self, out: &mut dyn Sink) {
        self.end(CloseReason::Denied, None, out);
    }

    /// DISCONNECT came.
    pub(super) fn goodbye(&mut self, reason: ReasonCode, expiry: Option<u32>, out: &mut dyn Sink) {
        if std::mem::take(&mut self.is_in_core) {
            // MQTT-3.1.2-10: only a normal disconnection takes the will back.
            let with_will = reason != ReasonCode::Success;
            out.request(SessionRequest::Leave { with_will, expiry });
        }
        self.end(CloseReason::Goodbye(reason), None, out);
    }

    /// The driver is to close the socket, behind the last word.
    pub(super) fn end(&mut self, reason: CloseReason, last: Option<Vec<u8>>, out: &mut dyn Sink) {
        if std::mem::take(&mut self.is_in_core) {
            out.request(SessionRequest::Leave {
                with_will: true,
                expiry: None,
            });
        }
        self.forget();
        let last = last.unwrap_or_default();
        out.action(Action::Send(Outgoing::Last(last)));
        out.action(Action::Close { reason });
    }

    /// Nothing more is read.
    pub(super) fn forget(&mut self) {
        self.phase = Phase::Ended;
        self.patience_until_ms = None;
        self.kept = Vec::new();
        self.scratch = Vec::new();
        self.assembly = None;
        self.draft = None;
        self.authentication = None;
    }

    /// CONNACK with an error (§3.2.2.2; MQTT 3.1.1 §3.2.2.3).
    fn conn_ack(&self, reason: ReasonCode, text: Option<&str>) -> Option<Vec<u8>> {
        let code = if self.version.is_5() {
            reason.number()
        } else {
            ConnAck::return_code(reason)
        };
        let properties = self.last_properties(reason, text);
        self.last(&Packet::ConnAck(ConnAck {
            is_session_present: false,
            code,
            properties: properties.as_properties(),
        }))
    }

    /// DISCONNECT, which only a server of 5.0 has.
    fn disconnect(&self, reason: ReasonCode, text: Option<&str>) -> Option<Vec<u8>> {
        if self.version != Version::V5 {
            return None;
        }
        let properties = self.last_properties(reason, text);
        self.last(&Packet::Disconnect(Disconnect {
            reason,
            properties: properties.as_properties(),
        }))
    }

    /// Reason string and server reference of a last word.
    fn last_properties(&self, reason: ReasonCode, text: Option<&str>) -> PropertyList {
        let mut properties = PropertyList::default();
        if !self.version.is_5() {
            return properties;
        }
        if let Some(text) = text.filter(|_| self.config.reason_strings) {
            properties.push(Property::Text(PropertyId::ReasonString, text.as_bytes()));
        }
        if let Some(server) = &self.config.server_reference
            && MOVED.contains(&reason)
        {
            properties.push(Property::Text(
                PropertyId::ServerReference,
                server.as_bytes(),
            ));
        }
        properties
    }

    fn last(&self, packet: &Packet<'_>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let encoded = packet.encode_within(self.version, self.peer_packet_bytes_max, &mut out);
        encoded.is_ok().then_some(out)
    }
}

/// The client is to go elsewhere.
const MOVED: [ReasonCode; 2] = [ReasonCode::UseAnotherServer, ReasonCode::ServerMoved];
