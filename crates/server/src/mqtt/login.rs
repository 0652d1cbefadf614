//! Who is let in.

use std::net::IpAddr;

use menzil_model::Name;
use menzil_mqtt::Login;
use menzil_mqtt::codec::ReasonCode;

use super::Service;
use crate::Secret;
use crate::config::Anonymous;
use crate::users::{LoginRefused, Users, is_loopback};

/// Why a client is not let in: what it is told, and what the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: ReasonCode,
    pub(super) advice: &'static str,
}

/// Which user the client is. Waits for its turn where many come at once.
pub(super) async fn admit(
    users: &Users,
    service: &Service,
    login: &Login,
    from: IpAddr,
) -> Result<Name, Refused> {
    if login.step.is_some() {
        return Err(Refused {
            reason: ReasonCode::BadAuthenticationMethod,
            advice: "the client wants an authentication method, and there is none",
        });
    }
    let Some(user) = &login.user else {
        // A password alone (5.0) says nothing of who it is.
        return anonymous(service, from);
    };
    let password = login
        .password
        .as_ref()
        .map_or(&[][..], |one| one.as_bytes());
    users
        .login(user, Secret::new(password), from)
        .await
        .map(|()| Name::cut(user))
        .map_err(Refused::from)
}

fn anonymous(service: &Service, from: IpAddr) -> Result<Name, Refused> {
    match service.anonymous {
        Anonymous::Loopback if !is_loopback(from) => Err(Refused {
            reason: ReasonCode::NotAuthorized,
            advice: "clients without a user name may come over loopback only: set user and \
                     password in the client, or mqtt_anonymous = \"always\"",
        }),
        Anonymous::Never => Err(Refused {
            reason: ReasonCode::NotAuthorized,
            advice: "mqtt_anonymous is \"never\": set user and password in the client",
        }),
        Anonymous::Loopback | Anonymous::Always => Ok(service.anonymous_user.clone()),
    }
}

impl From<LoginRefused> for Refused {
    fn from(refused: LoginRefused) -> Self {
        let reason = match refused {
            LoginRefused::Credentials => ReasonCode::BadCredentials,
            LoginRefused::NotLoopback => ReasonCode::NotAuthorized,
            LoginRefused::Busy => ReasonCode::ServerBusy,
        };
        let advice = refused.advice();
        Self { reason, advice }
    }
}
