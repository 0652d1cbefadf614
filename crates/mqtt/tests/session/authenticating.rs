//! AUTH, at CONNECT and later.

use menzil_mqtt::codec::{Packet, Property, PropertyId, ReasonCode};
use menzil_mqtt::{Admission, Login, MqttConfig};

use crate::client::{Hello, Talk, v4, v5};
use crate::world::{anonymous, name};

/// A method of two rounds, whose second answer has to be `yes`.
fn asks_twice(login: &Login) -> Admission {
    let Some(step) = &login.step else {
        return anonymous(login);
    };
    let granted = Admission::Granted {
        user: name("ann"),
        data: Some(b"bye".to_vec()),
    };
    let reason = ReasonCode::BadCredentials;
    match (&*step.method, step.round, &*step.data) {
        (b"TWICE", 0, data) => Admission::Challenge {
            data: [b"why ", data].concat(),
        },
        (b"TWICE", 1, b"yes") => granted,
        (b"TWICE", ..) => Admission::Refused { reason },
        _ => anonymous(login),
    }
}

fn talk() -> Talk {
    let mut talk = Talk::with(MqttConfig {
        reason_strings: false,
        receive_max: u16::MAX,
        packet_bytes_max: u32::MAX,
        topic_alias_max: 0,
        ..MqttConfig::default()
    });
    talk.world.admit = asks_twice;
    talk
}

fn hello(method: &'static str) -> Hello {
    let data = PropertyId::AuthenticationData;
    v5("c")
        .with(Property::Text(
            PropertyId::AuthenticationMethod,
            method.as_bytes(),
        ))
        .with(Property::Binary(data, b"me"))
}

const CONTINUE: ReasonCode = ReasonCode::ContinueAuthentication;
const ANEW: ReasonCode = ReasonCode::Reauthenticate;

#[test]
fn a_method_may_take_rounds_before_connack() {
    let mut talk = talk();
    let (peer, got) = talk.hello(&hello("TWICE"));
    let asked = "AUTH 18, Authentication Method TWICE, Authentication Data why me";
    assert_eq!(got, [asked]);
    let got = talk.auth(peer, CONTINUE, "TWICE", "yes");
    assert_eq!(
        got,
        ["CONNACK 00, Authentication Method TWICE, Authentication Data bye"]
    );
    assert_eq!(talk.world.inbound(peer).user(), &name("ann"));
    assert_eq!(talk.packet(peer, &Packet::PingReq), ["PINGRESP"]);

    let (peer, _) = talk.hello(&hello("TWICE"));
    let got = talk.auth(peer, CONTINUE, "TWICE", "no");
    assert_eq!(got, ["CONNACK 86", "closed"]);
    assert_eq!(talk.hello(&hello("ODD")).1, ["CONNACK 8C", "closed"]);
}

#[test]
fn between_challenge_and_connack_only_auth_of_that_method_may_come() {
    let mut talk = talk();
    let (peer, _) = talk.hello(&hello("TWICE"));
    let got = talk.packet(peer, &Packet::PingReq);
    assert_eq!(got, ["CONNACK 82", "closed"]);
    let (peer, _) = talk.hello(&hello("TWICE"));
    let got = talk.auth(peer, CONTINUE, "OTHER", "yes");
    assert_eq!(got, ["CONNACK 82", "closed"]);
    let (peer, _) = talk.hello(&hello("TWICE"));
    let got = talk.auth(peer, ANEW, "TWICE", "yes");
    assert_eq!(got, ["CONNACK 82", "closed"]);
    let (peer, _) = talk.hello(&hello("TWICE"));
    let got = talk.goodbye(peer, ReasonCode::Success, &[]);
    assert_eq!(got, ["closed"]);
    // Who does not go on is cut off.
    let (peer, _) = talk.hello(&hello("TWICE"));
    talk.world.pass(10_000);
    assert_eq!(talk.got(peer), ["closed"]);
}

#[test]
fn a_client_proves_itself_anew_while_the_rest_goes_on() {
    let mut talk = talk();
    let (peer, _) = talk.hello(&hello("TWICE"));
    talk.auth(peer, CONTINUE, "TWICE", "yes");
    for _ in 0..2 {
        let got = talk.auth(peer, ANEW, "TWICE", "again");
        let asked = "AUTH 18, Authentication Method TWICE, Authentication Data why again";
        assert_eq!(got, [asked]);
        assert_eq!(talk.publish(peer, (1, 1), "t", ""), ["PUBACK 1 10"]);
        let got = talk.auth(peer, CONTINUE, "TWICE", "yes");
        let done = "AUTH 00, Authentication Method TWICE, Authentication Data bye";
        assert_eq!(got, [done]);
    }
    talk.auth(peer, ANEW, "TWICE", "again");
    let got = talk.auth(peer, CONTINUE, "TWICE", "no");
    assert_eq!(got, ["DISCONNECT 87", "closed"]);
}

#[test]
fn auth_out_of_turn_is_a_protocol_error() {
    let mut talk = talk();
    let refused = ["DISCONNECT 82", "closed"];
    let peer = talk.connect(&v5("c"));
    assert_eq!(talk.auth(peer, ANEW, "TWICE", ""), refused, "no method");
    let start = |talk: &mut Talk| {
        let (peer, _) = talk.hello(&hello("TWICE"));
        talk.auth(peer, CONTINUE, "TWICE", "yes");
        peer
    };
    let peer = start(&mut talk);
    assert_eq!(talk.auth(peer, CONTINUE, "TWICE", ""), refused);
    let peer = start(&mut talk);
    assert_eq!(talk.auth(peer, ANEW, "OTHER", ""), refused);
    let peer = start(&mut talk);
    assert_eq!(talk.auth(peer, ReasonCode::Success, "TWICE", ""), refused);
    let older = talk.connect(&v4("d"));
    assert_eq!(talk.send(older, &[0xF0, 0]), ["closed"]);
}
