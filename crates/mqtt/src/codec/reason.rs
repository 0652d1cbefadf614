//! Reason codes (§2.4), one number for every outcome of 5.0.

use super::header::PacketType;

macro_rules! reason_codes {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What a packet of 5.0 says of an outcome. Where one number has several names (§2.4) the
        /// one here is the shortest.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum ReasonCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ReasonCode {
            /// `None` where the standard has no such code.
            #[inline]
            pub fn new(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The standard's name of it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }

        #[cfg(test)]
        const ALL: &[ReasonCode] = &[$(ReasonCode::$name,)*];
    };
}

reason_codes! {
    /// Also normal disconnection and granted QoS 0.
    Success = 0x00, "Success";
    /// In SUBACK.
    GrantedQos1 = 0x01, "Granted QoS 1";
    /// In SUBACK.
    GrantedQos2 = 0x02, "Granted QoS 2";
    /// In a client's DISCONNECT: the will is wanted.
    DisconnectWithWill = 0x04, "Disconnect with Will Message";
    /// In PUBACK and PUBREC: accepted, and nobody is there.
    NoMatchingSubscribers = 0x10, "No matching subscribers";
    /// In UNSUBACK.
    NoSubscriptionExisted = 0x11, "No subscription existed";
    /// In AUTH.
    ContinueAuthentication = 0x18, "Continue authentication";
    /// In a client's AUTH.
    Reauthenticate = 0x19, "Re-authenticate";
    /// No other code fits, or none is to be told.
    Unspecified = 0x80, "Unspecified error";
    /// It does not read.
    MalformedPacket = 0x81, "Malformed Packet";
    /// It reads, and should not have been sent.
    ProtocolError = 0x82, "Protocol Error";
    /// Valid, and not for this receiver.
    ImplementationSpecific = 0x83, "Implementation specific error";
    /// In CONNACK.
    UnsupportedVersion = 0x84, "Unsupported Protocol Version";
    /// In CONNACK.
    ClientIdNotValid = 0x85, "Client Identifier not valid";
    /// In CONNACK.
    BadCredentials = 0x86, "Bad User Name or Password";
    /// Forbidden by permissions.
    NotAuthorized = 0x87, "Not authorized";
    /// In CONNACK.
    ServerUnavailable = 0x88, "Server unavailable";
    /// Try later.
    ServerBusy = 0x89, "Server busy";
    /// In CONNACK: this client is locked out.
    Banned = 0x8A, "Banned";
    /// In DISCONNECT.
    ShuttingDown = 0x8B, "Server shutting down";
    /// Not the method of CONNECT, or one that is not known.
    BadAuthenticationMethod = 0x8C, "Bad authentication method";
    /// Nothing was heard for 1.5 times the keep alive.
    KeepAliveTimeout = 0x8D, "Keep Alive timeout";
    /// Another connection has the client identifier now.
    SessionTakenOver = 0x8E, "Session taken over";
    /// Well formed, and not allowed here.
    TopicFilterInvalid = 0x8F, "Topic Filter invalid";
    /// Well formed, and not accepted here.
    TopicNameInvalid = 0x90, "Topic Name invalid";
    /// The packet identifier waits for its end already.
    PacketIdInUse = 0x91, "Packet Identifier in use";
    /// In PUBREL and PUBCOMP: no such identifier waits.
    PacketIdNotFound = 0x92, "Packet Identifier not found";
    /// More in flight than was allowed.
    ReceiveMaximumExceeded = 0x93, "Receive Maximum exceeded";
    /// Zero, over the maximum or never set.
    TopicAliasInvalid = 0x94, "Topic Alias invalid";
    /// Over the maximum packet size.
    PacketTooLarge = 0x95, "Packet too large";
    /// Too much data in the time.
    MessageRateTooHigh = 0x96, "Message rate too high";
    /// A limit of this server was reached.
    QuotaExceeded = 0x97, "Quota exceeded";
    /// An operator's doing.
    AdministrativeAction = 0x98, "Administrative action";
    /// Not UTF-8 though the payload format indicator says so.
    PayloadFormatInvalid = 0x99, "Payload format invalid";
    /// Retained messages are off here.
    RetainNotSupported = 0x9A, "Retain not supported";
    /// Over the maximum QoS.
    QosNotSupported = 0x9B, "QoS not supported";
    /// For now.
    UseAnotherServer = 0x9C, "Use another server";
    /// For good.
    ServerMoved = 0x9D, "Server moved";
    /// Shared subscriptions are off here.
    SharedNotSupported = 0x9E, "Shared Subscriptions not supported";
    /// Too many connections in the time.
    ConnectionRateExceeded = 0x9F, "Connection rate exceeded";
    /// The connection was allowed for this long and no longer.
    MaximumConnectTime = 0xA0, "Maximum connect time";
    /// Subscription identifiers are off here.
    SubscriptionIdsNotSupported = 0xA1, "Subscription Identifiers not supported";
    /// Wildcards are off here.
    WildcardsNotSupported = 0xA2, "Wildcard Subscriptions not supported";
}

impl ReasonCode {
    /// The number on the wire.
    #[inline]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// True where something failed (§2.4: 0x80 and above).
    #[inline]
    pub fn is_error(self) -> bool {
        self.number() >= 0x80
    }

    /// True where a packet of that type may say it (the tables of §3).
    pub fn is_for(self, packet: PacketType, is_from_client: bool) -> bool {
        let code = self.number();
        match packet {
            PacketType::ConnAck => matches!(code,
                0 | 0x80..=0x8A | 0x8C | 0x90 | 0x95 | 0x97 | 0x99..=0x9D | 0x9F),
            PacketType::PubAck | PacketType::PubRec => matches!(
                code,
                0 | 0x10 | 0x80 | 0x83 | 0x87 | 0x90 | 0x91 | 0x97 | 0x99
            ),
            PacketType::PubRel | PacketType::PubComp => matches!(code, 0 | 0x92),
            PacketType::SubAck => matches!(
                code,
                0..=2 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91 | 0x97 | 0x9E | 0xA1 | 0xA2
            ),
            PacketType::UnsubAck => {
                matches!(code, 0 | 0x11 | 0x80 | 0x83 | 0x87 | 0x8F | 0x91)
            }
            PacketType::Disconnect if is_from_client => matches!(code,
                0 | 4 | 0x80..=0x83 | 0x90 | 0x93..=0x99),
            PacketType::Disconnect => matches!(code,
                0 | 0x80..=0x83 | 0x87 | 0x89 | 0x8B | 0x8D..=0x90 | 0x93..=0xA2),
            PacketType::Auth => matches!(code, 0 | 0x18) || (is_from_client && code == 0x19),
            PacketType::Connect
            | PacketType::Publish
            | PacketType::Subscribe
            | PacketType::Unsubscribe
            | PacketType::PingReq
            | PacketType::PingResp => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_standard_comes_back_and_no_other() {
        assert_eq!(ALL.len(), 43);
        for code in 0..=u8::MAX {
            let reason = ReasonCode::new(code);
            assert_eq!(
                reason.map(ReasonCode::number),
                ALL.iter()
                    .copied()
                    .find(|of| of.number() == code)
                    .map(ReasonCode::number)
            );
        }
    }

    #[test]
    fn only_a_client_asks_for_its_will_or_a_second_authentication() {
        let will = ReasonCode::DisconnectWithWill;
        assert!(will.is_for(PacketType::Disconnect, true));
        assert!(!will.is_for(PacketType::Disconnect, false));
        assert!(ReasonCode::Reauthenticate.is_for(PacketType::Auth, true));
        assert!(!ReasonCode::Reauthenticate.is_for(PacketType::Auth, false));
        assert!(!ReasonCode::ShuttingDown.is_for(PacketType::Disconnect, true));
    }
}
