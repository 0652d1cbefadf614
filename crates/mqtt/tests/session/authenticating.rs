//! AUTH, at CONNECT and later.

use base64ct::{Base64, Encoding as _};
use hmac::{Hmac, KeyInit as _, Mac as _};
use menzil_mqtt::codec::{Packet, Property, PropertyId, ReasonCode};
use menzil_mqtt::{
    Admission, Login, MqttConfig, SCRAM_SHA_256, ScramCredentials, ScramExchange, ScramFirst,
};
use sha2::{Digest as _, Sha256};

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
    talk.world.admit = Box::new(asks_twice);
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

/// As a driver does it: who has said who it is, until it has proved that.
fn scram(exchange: &mut Option<ScramExchange>, login: &Login) -> Admission {
    let reason = ReasonCode::BadCredentials;
    let Some(step) = login
        .step
        .as_ref()
        .filter(|step| step.method == SCRAM_SHA_256)
    else {
        return anonymous(login);
    };
    if step.round == 0 {
        let Ok(first) = ScramFirst::read(&step.data) else {
            return Admission::Refused { reason };
        };
        let credentials = ScramCredentials::derive(b"pencil", b"salt", 64);
        let (next, data) = first.answer(credentials, 5);
        *exchange = Some(next);
        return Admission::Challenge { data };
    }
    let exchange = exchange.take().unwrap();
    let user = name(str::from_utf8(exchange.user()).unwrap());
    match exchange.finish(&step.data) {
        Ok(data) => Admission::Granted {
            user,
            data: Some(data),
        },
        Err(_) => Admission::Refused { reason },
    }
}

/// A client's last message for a challenge.
fn proof(password: &str, first: &str, challenge: &str) -> String {
    let hmac = |key: &[u8], bytes: &[u8]| -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(bytes);
        mac.finalize().into_bytes().into()
    };
    let nonce = challenge.split(',').next().unwrap();
    let unproved = format!("c=biws,{nonce}");
    let mut block = hmac(password.as_bytes(), b"salt\0\0\0\x01");
    let mut salted = block;
    for _ in 1..64 {
        block = hmac(password.as_bytes(), &block);
        salted.iter_mut().zip(block).for_each(|(a, b)| *a ^= b);
    }
    let mut key = hmac(&salted, b"Client Key");
    let said = format!("{first},{challenge},{unproved}");
    let signature = hmac(&Sha256::digest(key), said.as_bytes());
    key.iter_mut().zip(signature).for_each(|(a, b)| *a ^= b);
    format!("{unproved},p={}", Base64::encode_string(&key))
}

#[test]
fn scram_lets_in_who_knows_the_password() {
    let mut talk = talk();
    let mut exchange = None;
    talk.world.admit = Box::new(move |login| scram(&mut exchange, login));
    let first = "n=ann,r=nonce";
    let hello = v5("c")
        .with(Property::Text(
            PropertyId::AuthenticationMethod,
            SCRAM_SHA_256,
        ))
        .with(Property::Binary(
            PropertyId::AuthenticationData,
            b"n,,n=ann,r=nonce",
        ));
    let challenge = |got: &[String]| {
        let (_, data) = got[0].split_once("Authentication Data ").unwrap();
        data.to_owned()
    };
    let (peer, got) = talk.hello(&hello);
    let last = proof("pencil", first, &challenge(&got));
    let got = talk.auth(peer, CONTINUE, "SCRAM-SHA-256", &last);
    assert!(got[0].starts_with("CONNACK 00"), "{got:?}");
    assert!(got[0].contains("Authentication Data v="), "{got:?}");
    assert_eq!(talk.world.inbound(peer).user(), &name("ann"));
    let got = talk.auth(peer, ANEW, "SCRAM-SHA-256", "n,,n=ann,r=other");
    let last = proof("pencil", "n=ann,r=other", &challenge(&got));
    let got = talk.auth(peer, CONTINUE, "SCRAM-SHA-256", &last);
    assert!(got[0].starts_with("AUTH 00"), "{got:?}");

    let (peer, got) = talk.hello(&hello);
    let last = proof("pencils", first, &challenge(&got));
    let got = talk.auth(peer, CONTINUE, "SCRAM-SHA-256", &last);
    assert_eq!(got, ["CONNACK 86", "closed"]);
}
