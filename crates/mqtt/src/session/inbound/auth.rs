//! Authentication by a method (§4.12), at CONNECT and later.

use bytes::Bytes;

use super::{Inbound, Phase};
use crate::codec::{Auth, Packet, Property, PropertyId, PropertyList, ReasonCode, Version};
use crate::session::action::{Action, Admission, AuthStep, Outgoing, Sink};
use crate::session::fault::Fault;

/// The method of a connection, and how far it is.
#[derive(Debug)]
pub(super) struct Authentication {
    method: Bytes,
    /// The next step's.
    round: u32,
    /// The client has a challenge to answer.
    is_challenged: bool,
}

impl Authentication {
    pub(super) fn new(method: &[u8]) -> Self {
        Self {
            method: Bytes::copy_from_slice(method),
            round: 0,
            is_challenged: false,
        }
    }

    pub(super) fn step(&mut self, data: &[u8]) -> AuthStep {
        self.is_challenged = false;
        let round = self.round;
        self.round += 1;
        AuthStep {
            method: self.method.clone(),
            data: Bytes::copy_from_slice(data),
            round,
        }
    }

    /// It worked: what CONNACK or AUTH says of it (MQTT-4.12.0-5).
    pub(super) fn is_over(&mut self, properties: &mut PropertyList, data: Option<&[u8]>) {
        self.round = 0;
        self.is_challenged = false;
        self.push(properties, data);
    }

    fn push(&self, properties: &mut PropertyList, data: Option<&[u8]>) {
        properties.push(Property::Text(
            PropertyId::AuthenticationMethod,
            &self.method,
        ));
        if let Some(data) = data {
            properties.push(Property::Binary(PropertyId::AuthenticationData, data));
        }
    }
}

impl Inbound {
    /// AUTH came.
    pub(super) fn auth(&mut self, auth: &Auth<'_>, out: &mut dyn Sink) -> Result<(), Fault> {
        let Some(authentication) = &mut self.authentication else {
            let text = "AUTH: CONNECT named no authentication method [MQTT-4.12.0-6]";
            return Err(Fault::protocol(text));
        };
        let method = auth.properties.bytes(PropertyId::AuthenticationMethod);
        if method != Some(&*authentication.method) {
            let text = "AUTH: not the authentication method of CONNECT [MQTT-4.12.0-5]";
            return Err(Fault::protocol(text));
        }
        let is_challenged = authentication.is_challenged;
        let is_due = if auth.reason == ReasonCode::ContinueAuthentication {
            is_challenged
        } else {
            // While one is under way another is not begun.
            auth.reason == ReasonCode::Reauthenticate
                && self.phase == Phase::Running
                && !is_challenged
        };
        if !is_due {
            return Err(Fault::protocol("AUTH: out of turn [§4.12]"));
        }
        let data = auth.properties.bytes(PropertyId::AuthenticationData);
        self.ask(data.unwrap_or_default(), out);
        Ok(())
    }

    /// AUTH goes out.
    pub(super) fn challenge(&mut self, data: &[u8], out: &mut dyn Sink) {
        if let Some(authentication) = &mut self.authentication {
            authentication.is_challenged = true;
            let mut properties = PropertyList::default();
            authentication.push(&mut properties, Some(data));
            self.send_auth(ReasonCode::ContinueAuthentication, &properties, out);
        }
    }

    /// The driver's word on a client that was let in before.
    pub(super) fn renewed(&mut self, admission: Admission, out: &mut dyn Sink) {
        self.phase = Phase::Running;
        match admission {
            Admission::Granted { user, data } if user == self.user => {
                if let Some(authentication) = &mut self.authentication {
                    let mut properties = PropertyList::default();
                    authentication.is_over(&mut properties, data.as_deref());
                    self.send_auth(ReasonCode::Success, &properties, out);
                }
            }
            Admission::Challenge { data } => self.challenge(&data, out),
            Admission::Granted { .. } | Admission::Refused { .. } => {
                // MQTT-4.12.1-2.
                let text = "AUTH: the client did not prove to be who it was";
                self.violated(Fault::new(ReasonCode::NotAuthorized, text), out);
            }
        }
    }

    fn send_auth(&self, reason: ReasonCode, properties: &PropertyList, out: &mut dyn Sink) {
        let auth = Packet::Auth(Auth {
            reason,
            properties: properties.as_properties(),
        });
        let mut packet = Vec::new();
        let most = self.peer_packet_bytes_max;
        // What is too large for the client is not sent; it then runs out of time.
        if auth.encode_within(Version::V5, most, &mut packet).is_ok() {
            out.action(Action::Send(Outgoing::Packet(packet)));
        }
    }
}
