//! CONNECT (§3.1), up to the answer to it.

use std::sync::Arc;

use bytes::Bytes;

use menzil_core::{Body, SessionOpen, SessionRequest, TopicPublish};
use menzil_model::Name;
use menzil_model::fact;

use super::auth::Authentication;
use super::publish::may_publish;
use super::{Inbound, Phase};
use crate::codec::{
    Connect, Decoded, Property, PropertyId, PropertyList, Qos, REMAINING_BYTES_MAX, ReasonCode,
    Rule, Version, Will, decode_connect,
};
use crate::session::action::{Accepted, Action, Admission, Login, Outgoing, Secret, Sink};
use crate::session::fault::Fault;

/// What CONNECT wants, until the client is let in.
#[derive(Debug)]
pub(super) struct Draft {
    open: SessionOpen,
    /// CONNACK's properties so far.
    properties: PropertyList,
    topic_alias_max: u16,
    explains: bool,
    keep_alive_s: u16,
    /// For the rounds of an authentication.
    user: Option<Bytes>,
    password: Option<Secret>,
}

impl Inbound {
    /// The first packet. Returns its length; 0 where it has not all come.
    pub(super) fn first_packet(
        &mut self,
        input: &[u8],
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) -> Result<usize, Fault> {
        match decode_connect(input, &self.rules) {
            Ok(Decoded::Packet(connect, length)) => {
                self.connect(&connect, entropy, out);
                Ok(length)
            }
            Ok(Decoded::Incomplete(needed)) => {
                self.needed = needed;
                Ok(0)
            }
            Err(violation) => {
                if let Rule::ProtocolLevel(_) = violation.rule {
                    // Of a version that is not known nothing is known but what all have had.
                    self.refuse(ReasonCode::UnsupportedVersion, "", out);
                    return Ok(input.len());
                }
                Err(violation.into())
            }
        }
    }

    fn connect(
        &mut self,
        connect: &Connect<'_>,
        entropy: &mut dyn FnMut() -> u128,
        out: &mut dyn Sink,
    ) {
        self.version = connect.version;
        let largest = connect.properties.number(PropertyId::MaximumPacketSize);
        self.peer_packet_bytes_max = largest.unwrap_or(u32::MAX);
        if !self.config.versions.contains(&connect.version) {
            self.refuse(ReasonCode::UnsupportedVersion, "", out);
            return;
        }
        let Some(client_id) = self.client_id_of(connect, entropy) else {
            let text = "CONNECT: a client identifier is needed [MQTT-3.1.3-8]";
            self.refuse(ReasonCode::ClientIdNotValid, text, out);
            return;
        };
        self.client_id = client_id;
        if let Some(will) = &connect.will
            && let Err(fault) = self.check_will(will)
        {
            self.refuse(fault.reason, &fault.text, out);
            return;
        }
        self.draft = Some(Box::new(self.draft_of(connect)));
        let method = connect.properties.bytes(PropertyId::AuthenticationMethod);
        self.rules.has_auth = method.is_some();
        let data = connect.properties.bytes(PropertyId::AuthenticationData);
        self.authentication = method.map(|method| Box::new(Authentication::new(method)));
        self.ask(data.unwrap_or_default(), out);
    }

    /// Asks the driver to look at the login, or at the next round of it.
    pub(super) fn ask(&mut self, data: &[u8], out: &mut dyn Sink) {
        let authentication = self.authentication.as_deref_mut();
        let step = authentication.map(|authentication| authentication.step(data));
        let draft = self.draft.as_deref();
        let is_renewal = draft.is_none();
        self.phase = match draft {
            Some(_) => Phase::Authenticating,
            None => Phase::Renewing,
        };
        out.action(Action::Authenticate(Box::new(Login {
            version: self.version,
            client_id: self.client_id.clone(),
            user: draft.and_then(|draft| draft.user.clone()),
            password: draft.and_then(|draft| draft.password.clone()),
            step,
            is_renewal,
        })));
    }

    /// The client's identifier, or one that is made up; `None` where it has to have one
    /// (§3.1.3.1; MQTT-3.1.3-7 of 3.1.1; 3.1 §3.1).
    fn client_id_of(
        &self,
        connect: &Connect<'_>,
        entropy: &mut dyn FnMut() -> u128,
    ) -> Option<Bytes> {
        if !connect.client_id.is_empty() {
            return Some(Bytes::copy_from_slice(connect.client_id));
        }
        let may_lack = match connect.version {
            Version::V3_1 => false,
            Version::V3_1_1 => connect.clean_start,
            Version::V5 => true,
        };
        let is_made_up = may_lack && self.config.assigns_client_ids;
        is_made_up.then(|| Bytes::from(format!("auto-{:032x}", entropy())))
    }

    fn check_will(&self, will: &Will<'_>) -> Result<(), Fault> {
        if will.qos > self.config.qos_max {
            let text = "CONNECT: the will's quality of service is over the maximum \
                        [MQTT-3.2.2-12]";
            return Err(Fault::new(ReasonCode::QosNotSupported, text));
        }
        if will.retain && !self.config.retain_available {
            let text = "CONNECT: the will is to be retained, which is off here [MQTT-3.2.2-13]";
            return Err(Fault::new(ReasonCode::RetainNotSupported, text));
        }
        Ok(())
    }

    fn draft_of(&self, connect: &Connect<'_>) -> Draft {
        let (config, asked) = (&self.config, &connect.properties);
        let number = |id| asked.number(id);
        let short = |id| match asked.find(id) {
            Some(Property::Short(_, value)) => Some(value),
            _ => None,
        };
        let expiry_asked = match connect.version {
            Version::V5 => number(PropertyId::SessionExpiryInterval).unwrap_or(0),
            Version::V3_1 | Version::V3_1_1 if connect.clean_start => 0,
            Version::V3_1 | Version::V3_1_1 => u32::MAX,
        };
        let expiry = expiry_asked.min(config.session_expiry_max_s);
        let keep_alive_s = self.keep_alive_of(connect);
        let explains = number(PropertyId::RequestProblemInformation) != Some(0);
        let mut properties = PropertyList::default();
        if connect.version.is_5() {
            if expiry != expiry_asked {
                properties.push(Property::Long(PropertyId::SessionExpiryInterval, expiry));
            }
            if connect.client_id.is_empty() {
                let id = PropertyId::AssignedClientIdentifier;
                properties.push(Property::Text(id, &self.client_id));
            }
            if keep_alive_s != connect.keep_alive_s {
                properties.push(Property::Short(PropertyId::ServerKeepAlive, keep_alive_s));
            }
            if number(PropertyId::RequestResponseInformation) == Some(1)
                && let Some(text) = &config.response_information
            {
                let id = PropertyId::ResponseInformation;
                properties.push(Property::Text(id, text.as_bytes()));
            }
            self.push_limits(&mut properties);
        }
        let receive_max = short(PropertyId::ReceiveMaximum).unwrap_or(u16::MAX);
        let copy = |bytes: Option<&[u8]>| bytes.map(Bytes::copy_from_slice);
        Draft {
            open: SessionOpen {
                client_id: self.client_id.clone(),
                user: Name::empty(),
                clean_start: connect.clean_start,
                expiry,
                receive_max: receive_max.min(config.in_flight_max.max(1)),
                will: connect
                    .will
                    .as_ref()
                    .map(|will| Box::new(self.will_of(will))),
            },
            properties,
            topic_alias_max: short(PropertyId::TopicAliasMaximum)
                .unwrap_or(0)
                .min(config.topic_alias_out_max),
            explains: explains && config.reason_strings,
            keep_alive_s,
            user: copy(connect.user_name),
            password: connect.password.map(Secret::new),
        }
    }

    /// What CONNACK says of the server where that is not the default (§3.2.2.3).
    fn push_limits(&self, properties: &mut PropertyList) {
        let config = &self.config;
        if config.receive_max != u16::MAX {
            properties.push(Property::Short(
                PropertyId::ReceiveMaximum,
                config.receive_max.max(1),
            ));
        }
        if config.qos_max != Qos::ExactlyOnce {
            let has_1 = config.qos_max == Qos::AtLeastOnce;
            properties.push(Property::Flag(PropertyId::MaximumQos, has_1));
        }
        if config.packet_bytes_max <= REMAINING_BYTES_MAX {
            let most = config.packet_bytes_max;
            properties.push(Property::Long(PropertyId::MaximumPacketSize, most));
        }
        if config.topic_alias_max > 0 {
            let most = config.topic_alias_max;
            properties.push(Property::Short(PropertyId::TopicAliasMaximum, most));
        }
        let features = [
            (PropertyId::RetainAvailable, config.retain_available),
            (
                PropertyId::WildcardSubscriptionAvailable,
                config.wildcard_available,
            ),
            (
                PropertyId::SubscriptionIdentifierAvailable,
                config.subscription_ids_available,
            ),
            (
                PropertyId::SharedSubscriptionAvailable,
                config.shared_available,
            ),
        ];
        for (id, _) in features.iter().filter(|(_, is_available)| !is_available) {
            properties.push(Property::Flag(*id, false));
        }
    }

    /// Seconds. Only 5.0 can be told another keep alive than it wants.
    fn keep_alive_of(&self, connect: &Connect<'_>) -> u16 {
        let (asked, most) = (connect.keep_alive_s, self.config.keep_alive_max_s);
        let is_over = most > 0 && (asked == 0 || asked > most);
        if is_over && connect.version.is_5() {
            most
        } else {
            asked
        }
    }

    fn will_of(&self, will: &Will<'_>) -> fact::Will {
        let mut properties = Vec::new();
        will.properties.write_forwarded(&mut properties);
        let publish = TopicPublish {
            packet_id: 0,
            qos: will.qos.number(),
            retain: will.retain,
            topic: will.topic.as_bytes(),
            properties: &properties,
            expiry: will.properties.number(PropertyId::MessageExpiryInterval),
            payload: Body::Whole(will.payload),
        };
        fact::Will {
            message: Arc::new(publish.message(self.config.chunk_bytes)),
            qos: publish.qos,
            retain: publish.retain,
            delay: will
                .properties
                .number(PropertyId::WillDelayInterval)
                .unwrap_or(0),
            expiry: publish.expiry,
        }
    }

    /// The driver's answer to [`Action::Authenticate`]; then call [`Inbound::receive`].
    pub fn authenticated(&mut self, now_ms: u64, admission: Admission, out: &mut dyn Sink) {
        self.now_ms = now_ms;
        match (self.phase, admission) {
            (Phase::Authenticating, Admission::Granted { user, data }) => {
                self.let_in(user, data.as_deref(), out);
            }
            (Phase::Authenticating, Admission::Challenge { data }) => {
                self.phase = Phase::Challenged;
                self.challenge(&data, out);
            }
            (Phase::Authenticating, Admission::Refused { reason }) => {
                self.refuse(reason, "", out);
            }
            (Phase::Renewing, admission) => self.renewed(admission, out),
            (Phase::Connect | Phase::Challenged | Phase::Running | Phase::Ended, _) => {}
        }
    }

    fn let_in(&mut self, user: Name, data: Option<&[u8]>, out: &mut dyn Sink) {
        let Some(draft) = self.draft.take() else {
            return;
        };
        let Draft {
            mut open,
            mut properties,
            topic_alias_max,
            explains,
            keep_alive_s,
            ..
        } = *draft;
        if let Some(will) = &open.will
            && let Some(notes) = menzil_core::TopicNotes::read(will.message.notes())
            && !may_publish(self.config.dollar_topics, notes.topic, out)
        {
            let text = "CONNECT: the client may not publish to the will's topic";
            self.refuse(ReasonCode::NotAuthorized, text, out);
            return;
        }
        if let Some(authentication) = &mut self.authentication {
            authentication.is_over(&mut properties, data);
        }
        self.phase = Phase::Running;
        self.patience_until_ms = None;
        self.silence_ms = u64::from(keep_alive_s) * 1500;
        self.last_heard_ms = self.now_ms;
        self.rules.packet_bytes_max = self.config.packet_bytes_max;
        self.has_expiry = open.expiry > 0;
        self.user = user.clone();
        self.is_in_core = true;
        open.user = user;
        out.action(Action::Send(Outgoing::Accepted(Box::new(Accepted {
            version: self.version,
            properties,
            packet_bytes_max: self.peer_packet_bytes_max,
            topic_alias_max,
            refused_before_5: self.config.denied_before_5,
            explains,
            optional_codes: self.config.optional_codes,
        }))));
        out.request(SessionRequest::Open(Box::new(open)));
    }
}
