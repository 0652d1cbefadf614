//! All methods of AMQP 0-9-1. Generated from `methods.txt`; do not edit:
//! `cargo run -q -p menzil-amqp --example methods > methods.new && mv methods.new src/methods.rs`

use menzil_model::wire::{Reader, Writer};

use crate::method::{Description, MethodError, MethodId, Sender, table, text};

/// Any method, borrowed from its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method<'a> {
    /// `connection.start`
    ConnectionStart(ConnectionStart<'a>),
    /// `connection.start-ok`
    ConnectionStartOk(ConnectionStartOk<'a>),
    /// `connection.secure`
    ConnectionSecure(ConnectionSecure<'a>),
    /// `connection.secure-ok`
    ConnectionSecureOk(ConnectionSecureOk<'a>),
    /// `connection.tune`
    ConnectionTune(ConnectionTune),
    /// `connection.tune-ok`
    ConnectionTuneOk(ConnectionTuneOk),
    /// `connection.open`
    ConnectionOpen(ConnectionOpen<'a>),
    /// `connection.open-ok`
    ConnectionOpenOk(ConnectionOpenOk<'a>),
    /// `connection.close`
    ConnectionClose(ConnectionClose<'a>),
    /// `connection.close-ok`
    ConnectionCloseOk(ConnectionCloseOk),
    /// `connection.blocked`
    ConnectionBlocked(ConnectionBlocked<'a>),
    /// `connection.unblocked`
    ConnectionUnblocked(ConnectionUnblocked),
    /// `connection.update-secret`
    ConnectionUpdateSecret(ConnectionUpdateSecret<'a>),
    /// `connection.update-secret-ok`
    ConnectionUpdateSecretOk(ConnectionUpdateSecretOk),
    /// `channel.open`
    ChannelOpen(ChannelOpen<'a>),
    /// `channel.open-ok`
    ChannelOpenOk(ChannelOpenOk<'a>),
    /// `channel.flow`
    ChannelFlow(ChannelFlow),
    /// `channel.flow-ok`
    ChannelFlowOk(ChannelFlowOk),
    /// `channel.close`
    ChannelClose(ChannelClose<'a>),
    /// `channel.close-ok`
    ChannelCloseOk(ChannelCloseOk),
    /// `access.request`
    AccessRequest(AccessRequest<'a>),
    /// `access.request-ok`
    AccessRequestOk(AccessRequestOk),
    /// `exchange.declare`
    ExchangeDeclare(ExchangeDeclare<'a>),
    /// `exchange.declare-ok`
    ExchangeDeclareOk(ExchangeDeclareOk),
    /// `exchange.delete`
    ExchangeDelete(ExchangeDelete<'a>),
    /// `exchange.delete-ok`
    ExchangeDeleteOk(ExchangeDeleteOk),
    /// `exchange.bind`
    ExchangeBind(ExchangeBind<'a>),
    /// `exchange.bind-ok`
    ExchangeBindOk(ExchangeBindOk),
    /// `exchange.unbind`
    ExchangeUnbind(ExchangeUnbind<'a>),
    /// `exchange.unbind-ok`
    ExchangeUnbindOk(ExchangeUnbindOk),
    /// `queue.declare`
    QueueDeclare(QueueDeclare<'a>),
    /// `queue.declare-ok`
    QueueDeclareOk(QueueDeclareOk<'a>),
    /// `queue.bind`
    QueueBind(QueueBind<'a>),
    /// `queue.bind-ok`
    QueueBindOk(QueueBindOk),
    /// `queue.purge`
    QueuePurge(QueuePurge<'a>),
    /// `queue.purge-ok`
    QueuePurgeOk(QueuePurgeOk),
    /// `queue.delete`
    QueueDelete(QueueDelete<'a>),
    /// `queue.delete-ok`
    QueueDeleteOk(QueueDeleteOk),
    /// `queue.unbind`
    QueueUnbind(QueueUnbind<'a>),
    /// `queue.unbind-ok`
    QueueUnbindOk(QueueUnbindOk),
    /// `basic.qos`
    BasicQos(BasicQos),
    /// `basic.qos-ok`
    BasicQosOk(BasicQosOk),
    /// `basic.consume`
    BasicConsume(BasicConsume<'a>),
    /// `basic.consume-ok`
    BasicConsumeOk(BasicConsumeOk<'a>),
    /// `basic.cancel`
    BasicCancel(BasicCancel<'a>),
    /// `basic.cancel-ok`
    BasicCancelOk(BasicCancelOk<'a>),
    /// `basic.publish`
    BasicPublish(BasicPublish<'a>),
    /// `basic.return`
    BasicReturn(BasicReturn<'a>),
    /// `basic.deliver`
    BasicDeliver(BasicDeliver<'a>),
    /// `basic.get`
    BasicGet(BasicGet<'a>),
    /// `basic.get-ok`
    BasicGetOk(BasicGetOk<'a>),
    /// `basic.get-empty`
    BasicGetEmpty(BasicGetEmpty<'a>),
    /// `basic.ack`
    BasicAck(BasicAck),
    /// `basic.reject`
    BasicReject(BasicReject),
    /// `basic.recover-async`
    BasicRecoverAsync(BasicRecoverAsync),
    /// `basic.recover`
    BasicRecover(BasicRecover),
    /// `basic.recover-ok`
    BasicRecoverOk(BasicRecoverOk),
    /// `basic.nack`
    BasicNack(BasicNack),
    /// `confirm.select`
    ConfirmSelect(ConfirmSelect),
    /// `confirm.select-ok`
    ConfirmSelectOk(ConfirmSelectOk),
    /// `tx.select`
    TxSelect(TxSelect),
    /// `tx.select-ok`
    TxSelectOk(TxSelectOk),
    /// `tx.commit`
    TxCommit(TxCommit),
    /// `tx.commit-ok`
    TxCommitOk(TxCommitOk),
    /// `tx.rollback`
    TxRollback(TxRollback),
    /// `tx.rollback-ok`
    TxRollbackOk(TxRollbackOk),
}

impl<'a> Method<'a> {
    /// Reads the fields of a method; nothing may be left over.
    pub fn decode(id: MethodId, fields: &'a [u8]) -> Result<Self, MethodError> {
        let mut reader = Reader::new(fields);
        let method = match (id.class, id.method) {
            (10, 10) => Self::ConnectionStart(ConnectionStart::read(&mut reader)?),
            (10, 11) => Self::ConnectionStartOk(ConnectionStartOk::read(&mut reader)?),
            (10, 20) => Self::ConnectionSecure(ConnectionSecure::read(&mut reader)?),
            (10, 21) => Self::ConnectionSecureOk(ConnectionSecureOk::read(&mut reader)?),
            (10, 30) => Self::ConnectionTune(ConnectionTune::read(&mut reader)?),
            (10, 31) => Self::ConnectionTuneOk(ConnectionTuneOk::read(&mut reader)?),
            (10, 40) => Self::ConnectionOpen(ConnectionOpen::read(&mut reader)?),
            (10, 41) => Self::ConnectionOpenOk(ConnectionOpenOk::read(&mut reader)?),
            (10, 50) => Self::ConnectionClose(ConnectionClose::read(&mut reader)?),
            (10, 51) => Self::ConnectionCloseOk(ConnectionCloseOk {}),
            (10, 60) => Self::ConnectionBlocked(ConnectionBlocked::read(&mut reader)?),
            (10, 61) => Self::ConnectionUnblocked(ConnectionUnblocked {}),
            (10, 70) => Self::ConnectionUpdateSecret(ConnectionUpdateSecret::read(&mut reader)?),
            (10, 71) => Self::ConnectionUpdateSecretOk(ConnectionUpdateSecretOk {}),
            (20, 10) => Self::ChannelOpen(ChannelOpen::read(&mut reader)?),
            (20, 11) => Self::ChannelOpenOk(ChannelOpenOk::read(&mut reader)?),
            (20, 20) => Self::ChannelFlow(ChannelFlow::read(&mut reader)?),
            (20, 21) => Self::ChannelFlowOk(ChannelFlowOk::read(&mut reader)?),
            (20, 40) => Self::ChannelClose(ChannelClose::read(&mut reader)?),
            (20, 41) => Self::ChannelCloseOk(ChannelCloseOk {}),
            (30, 10) => Self::AccessRequest(AccessRequest::read(&mut reader)?),
            (30, 11) => Self::AccessRequestOk(AccessRequestOk::read(&mut reader)?),
            (40, 10) => Self::ExchangeDeclare(ExchangeDeclare::read(&mut reader)?),
            (40, 11) => Self::ExchangeDeclareOk(ExchangeDeclareOk {}),
            (40, 20) => Self::ExchangeDelete(ExchangeDelete::read(&mut reader)?),
            (40, 21) => Self::ExchangeDeleteOk(ExchangeDeleteOk {}),
            (40, 30) => Self::ExchangeBind(ExchangeBind::read(&mut reader)?),
            (40, 31) => Self::ExchangeBindOk(ExchangeBindOk {}),
            (40, 40) => Self::ExchangeUnbind(ExchangeUnbind::read(&mut reader)?),
            (40, 51) => Self::ExchangeUnbindOk(ExchangeUnbindOk {}),
            (50, 10) => Self::QueueDeclare(QueueDeclare::read(&mut reader)?),
            (50, 11) => Self::QueueDeclareOk(QueueDeclareOk::read(&mut reader)?),
            (50, 20) => Self::QueueBind(QueueBind::read(&mut reader)?),
            (50, 21) => Self::QueueBindOk(QueueBindOk {}),
            (50, 30) => Self::QueuePurge(QueuePurge::read(&mut reader)?),
            (50, 31) => Self::QueuePurgeOk(QueuePurgeOk::read(&mut reader)?),
            (50, 40) => Self::QueueDelete(QueueDelete::read(&mut reader)?),
            (50, 41) => Self::QueueDeleteOk(QueueDeleteOk::read(&mut reader)?),
            (50, 50) => Self::QueueUnbind(QueueUnbind::read(&mut reader)?),
            (50, 51) => Self::QueueUnbindOk(QueueUnbindOk {}),
            (60, 10) => Self::BasicQos(BasicQos::read(&mut reader)?),
            (60, 11) => Self::BasicQosOk(BasicQosOk {}),
            (60, 20) => Self::BasicConsume(BasicConsume::read(&mut reader)?),
            (60, 21) => Self::BasicConsumeOk(BasicConsumeOk::read(&mut reader)?),
            (60, 30) => Self::BasicCancel(BasicCancel::read(&mut reader)?),
            (60, 31) => Self::BasicCancelOk(BasicCancelOk::read(&mut reader)?),
            (60, 40) => Self::BasicPublish(BasicPublish::read(&mut reader)?),
            (60, 50) => Self::BasicReturn(BasicReturn::read(&mut reader)?),
            (60, 60) => Self::BasicDeliver(BasicDeliver::read(&mut reader)?),
            (60, 70) => Self::BasicGet(BasicGet::read(&mut reader)?),
            (60, 71) => Self::BasicGetOk(BasicGetOk::read(&mut reader)?),
            (60, 72) => Self::BasicGetEmpty(BasicGetEmpty::read(&mut reader)?),
            (60, 80) => Self::BasicAck(BasicAck::read(&mut reader)?),
            (60, 90) => Self::BasicReject(BasicReject::read(&mut reader)?),
            (60, 100) => Self::BasicRecoverAsync(BasicRecoverAsync::read(&mut reader)?),
            (60, 110) => Self::BasicRecover(BasicRecover::read(&mut reader)?),
            (60, 111) => Self::BasicRecoverOk(BasicRecoverOk {}),
            (60, 120) => Self::BasicNack(BasicNack::read(&mut reader)?),
            (85, 10) => Self::ConfirmSelect(ConfirmSelect::read(&mut reader)?),
            (85, 11) => Self::ConfirmSelectOk(ConfirmSelectOk {}),
            (90, 10) => Self::TxSelect(TxSelect {}),
            (90, 11) => Self::TxSelectOk(TxSelectOk {}),
            (90, 20) => Self::TxCommit(TxCommit {}),
            (90, 21) => Self::TxCommitOk(TxCommitOk {}),
            (90, 30) => Self::TxRollback(TxRollback {}),
            (90, 31) => Self::TxRollbackOk(TxRollbackOk {}),
            _ => return Err(MethodError::Unknown),
        };
        if reader.is_empty() { Ok(method) } else { Err(MethodError::Trailing) }
    }

    /// Class and method number.
    pub fn id(&self) -> MethodId {
        match self {
            Self::ConnectionStart(_) => ConnectionStart::ID,
            Self::ConnectionStartOk(_) => ConnectionStartOk::ID,
            Self::ConnectionSecure(_) => ConnectionSecure::ID,
            Self::ConnectionSecureOk(_) => ConnectionSecureOk::ID,
            Self::ConnectionTune(_) => ConnectionTune::ID,
            Self::ConnectionTuneOk(_) => ConnectionTuneOk::ID,
            Self::ConnectionOpen(_) => ConnectionOpen::ID,
            Self::ConnectionOpenOk(_) => ConnectionOpenOk::ID,
            Self::ConnectionClose(_) => ConnectionClose::ID,
            Self::ConnectionCloseOk(_) => ConnectionCloseOk::ID,
            Self::ConnectionBlocked(_) => ConnectionBlocked::ID,
            Self::ConnectionUnblocked(_) => ConnectionUnblocked::ID,
            Self::ConnectionUpdateSecret(_) => ConnectionUpdateSecret::ID,
            Self::ConnectionUpdateSecretOk(_) => ConnectionUpdateSecretOk::ID,
            Self::ChannelOpen(_) => ChannelOpen::ID,
            Self::ChannelOpenOk(_) => ChannelOpenOk::ID,
            Self::ChannelFlow(_) => ChannelFlow::ID,
            Self::ChannelFlowOk(_) => ChannelFlowOk::ID,
            Self::ChannelClose(_) => ChannelClose::ID,
            Self::ChannelCloseOk(_) => ChannelCloseOk::ID,
            Self::AccessRequest(_) => AccessRequest::ID,
            Self::AccessRequestOk(_) => AccessRequestOk::ID,
            Self::ExchangeDeclare(_) => ExchangeDeclare::ID,
            Self::ExchangeDeclareOk(_) => ExchangeDeclareOk::ID,
            Self::ExchangeDelete(_) => ExchangeDelete::ID,
            Self::ExchangeDeleteOk(_) => ExchangeDeleteOk::ID,
            Self::ExchangeBind(_) => ExchangeBind::ID,
            Self::ExchangeBindOk(_) => ExchangeBindOk::ID,
            Self::ExchangeUnbind(_) => ExchangeUnbind::ID,
            Self::ExchangeUnbindOk(_) => ExchangeUnbindOk::ID,
            Self::QueueDeclare(_) => QueueDeclare::ID,
            Self::QueueDeclareOk(_) => QueueDeclareOk::ID,
            Self::QueueBind(_) => QueueBind::ID,
            Self::QueueBindOk(_) => QueueBindOk::ID,
            Self::QueuePurge(_) => QueuePurge::ID,
            Self::QueuePurgeOk(_) => QueuePurgeOk::ID,
            Self::QueueDelete(_) => QueueDelete::ID,
            Self::QueueDeleteOk(_) => QueueDeleteOk::ID,
            Self::QueueUnbind(_) => QueueUnbind::ID,
            Self::QueueUnbindOk(_) => QueueUnbindOk::ID,
            Self::BasicQos(_) => BasicQos::ID,
            Self::BasicQosOk(_) => BasicQosOk::ID,
            Self::BasicConsume(_) => BasicConsume::ID,
            Self::BasicConsumeOk(_) => BasicConsumeOk::ID,
            Self::BasicCancel(_) => BasicCancel::ID,
            Self::BasicCancelOk(_) => BasicCancelOk::ID,
            Self::BasicPublish(_) => BasicPublish::ID,
            Self::BasicReturn(_) => BasicReturn::ID,
            Self::BasicDeliver(_) => BasicDeliver::ID,
            Self::BasicGet(_) => BasicGet::ID,
            Self::BasicGetOk(_) => BasicGetOk::ID,
            Self::BasicGetEmpty(_) => BasicGetEmpty::ID,
            Self::BasicAck(_) => BasicAck::ID,
            Self::BasicReject(_) => BasicReject::ID,
            Self::BasicRecoverAsync(_) => BasicRecoverAsync::ID,
            Self::BasicRecover(_) => BasicRecover::ID,
            Self::BasicRecoverOk(_) => BasicRecoverOk::ID,
            Self::BasicNack(_) => BasicNack::ID,
            Self::ConfirmSelect(_) => ConfirmSelect::ID,
            Self::ConfirmSelectOk(_) => ConfirmSelectOk::ID,
            Self::TxSelect(_) => TxSelect::ID,
            Self::TxSelectOk(_) => TxSelectOk::ID,
            Self::TxCommit(_) => TxCommit::ID,
            Self::TxCommitOk(_) => TxCommitOk::ID,
            Self::TxRollback(_) => TxRollback::ID,
            Self::TxRollbackOk(_) => TxRollbackOk::ID,
        }
    }

    /// Appends class, method and fields: the payload of a method frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::ConnectionStart(method) => method.write(out),
            Self::ConnectionStartOk(method) => method.write(out),
            Self::ConnectionSecure(method) => method.write(out),
            Self::ConnectionSecureOk(method) => method.write(out),
            Self::ConnectionTune(method) => method.write(out),
            Self::ConnectionTuneOk(method) => method.write(out),
            Self::ConnectionOpen(method) => method.write(out),
            Self::ConnectionOpenOk(method) => method.write(out),
            Self::ConnectionClose(method) => method.write(out),
            Self::ConnectionCloseOk(method) => method.write(out),
            Self::ConnectionBlocked(method) => method.write(out),
            Self::ConnectionUnblocked(method) => method.write(out),
            Self::ConnectionUpdateSecret(method) => method.write(out),
            Self::ConnectionUpdateSecretOk(method) => method.write(out),
            Self::ChannelOpen(method) => method.write(out),
            Self::ChannelOpenOk(method) => method.write(out),
            Self::ChannelFlow(method) => method.write(out),
            Self::ChannelFlowOk(method) => method.write(out),
            Self::ChannelClose(method) => method.write(out),
            Self::ChannelCloseOk(method) => method.write(out),
            Self::AccessRequest(method) => method.write(out),
            Self::AccessRequestOk(method) => method.write(out),
            Self::ExchangeDeclare(method) => method.write(out),
            Self::ExchangeDeclareOk(method) => method.write(out),
            Self::ExchangeDelete(method) => method.write(out),
            Self::ExchangeDeleteOk(method) => method.write(out),
            Self::ExchangeBind(method) => method.write(out),
            Self::ExchangeBindOk(method) => method.write(out),
            Self::ExchangeUnbind(method) => method.write(out),
            Self::ExchangeUnbindOk(method) => method.write(out),
            Self::QueueDeclare(method) => method.write(out),
            Self::QueueDeclareOk(method) => method.write(out),
            Self::QueueBind(method) => method.write(out),
            Self::QueueBindOk(method) => method.write(out),
            Self::QueuePurge(method) => method.write(out),
            Self::QueuePurgeOk(method) => method.write(out),
            Self::QueueDelete(method) => method.write(out),
            Self::QueueDeleteOk(method) => method.write(out),
            Self::QueueUnbind(method) => method.write(out),
            Self::QueueUnbindOk(method) => method.write(out),
            Self::BasicQos(method) => method.write(out),
            Self::BasicQosOk(method) => method.write(out),
            Self::BasicConsume(method) => method.write(out),
            Self::BasicConsumeOk(method) => method.write(out),
            Self::BasicCancel(method) => method.write(out),
            Self::BasicCancelOk(method) => method.write(out),
            Self::BasicPublish(method) => method.write(out),
            Self::BasicReturn(method) => method.write(out),
            Self::BasicDeliver(method) => method.write(out),
            Self::BasicGet(method) => method.write(out),
            Self::BasicGetOk(method) => method.write(out),
            Self::BasicGetEmpty(method) => method.write(out),
            Self::BasicAck(method) => method.write(out),
            Self::BasicReject(method) => method.write(out),
            Self::BasicRecoverAsync(method) => method.write(out),
            Self::BasicRecover(method) => method.write(out),
            Self::BasicRecoverOk(method) => method.write(out),
            Self::BasicNack(method) => method.write(out),
            Self::ConfirmSelect(method) => method.write(out),
            Self::ConfirmSelectOk(method) => method.write(out),
            Self::TxSelect(method) => method.write(out),
            Self::TxSelectOk(method) => method.write(out),
            Self::TxCommit(method) => method.write(out),
            Self::TxCommitOk(method) => method.write(out),
            Self::TxRollback(method) => method.write(out),
            Self::TxRollbackOk(method) => method.write(out),
        }
    }
}

/// What is known of each method, by class and number.
pub const METHODS: [Description; 66] = [
    Description { id: ConnectionStart::ID, name: "connection.start", sender: Sender::Server, synchronous: true, content: false },
    Description { id: ConnectionStartOk::ID, name: "connection.start-ok", sender: Sender::Client, synchronous: false, content: false },
    Description { id: ConnectionSecure::ID, name: "connection.secure", sender: Sender::Server, synchronous: true, content: false },
    Description { id: ConnectionSecureOk::ID, name: "connection.secure-ok", sender: Sender::Client, synchronous: false, content: false },
    Description { id: ConnectionTune::ID, name: "connection.tune", sender: Sender::Server, synchronous: true, content: false },
    Description { id: ConnectionTuneOk::ID, name: "connection.tune-ok", sender: Sender::Client, synchronous: false, content: false },
    Description { id: ConnectionOpen::ID, name: "connection.open", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ConnectionOpenOk::ID, name: "connection.open-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ConnectionClose::ID, name: "connection.close", sender: Sender::Both, synchronous: true, content: false },
    Description { id: ConnectionCloseOk::ID, name: "connection.close-ok", sender: Sender::Both, synchronous: false, content: false },
    Description { id: ConnectionBlocked::ID, name: "connection.blocked", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ConnectionUnblocked::ID, name: "connection.unblocked", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ConnectionUpdateSecret::ID, name: "connection.update-secret", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ConnectionUpdateSecretOk::ID, name: "connection.update-secret-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ChannelOpen::ID, name: "channel.open", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ChannelOpenOk::ID, name: "channel.open-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ChannelFlow::ID, name: "channel.flow", sender: Sender::Both, synchronous: true, content: false },
    Description { id: ChannelFlowOk::ID, name: "channel.flow-ok", sender: Sender::Both, synchronous: false, content: false },
    Description { id: ChannelClose::ID, name: "channel.close", sender: Sender::Both, synchronous: true, content: false },
    Description { id: ChannelCloseOk::ID, name: "channel.close-ok", sender: Sender::Both, synchronous: false, content: false },
    Description { id: AccessRequest::ID, name: "access.request", sender: Sender::Client, synchronous: true, content: false },
    Description { id: AccessRequestOk::ID, name: "access.request-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ExchangeDeclare::ID, name: "exchange.declare", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ExchangeDeclareOk::ID, name: "exchange.declare-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ExchangeDelete::ID, name: "exchange.delete", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ExchangeDeleteOk::ID, name: "exchange.delete-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ExchangeBind::ID, name: "exchange.bind", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ExchangeBindOk::ID, name: "exchange.bind-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: ExchangeUnbind::ID, name: "exchange.unbind", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ExchangeUnbindOk::ID, name: "exchange.unbind-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: QueueDeclare::ID, name: "queue.declare", sender: Sender::Client, synchronous: true, content: false },
    Description { id: QueueDeclareOk::ID, name: "queue.declare-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: QueueBind::ID, name: "queue.bind", sender: Sender::Client, synchronous: true, content: false },
    Description { id: QueueBindOk::ID, name: "queue.bind-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: QueuePurge::ID, name: "queue.purge", sender: Sender::Client, synchronous: true, content: false },
    Description { id: QueuePurgeOk::ID, name: "queue.purge-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: QueueDelete::ID, name: "queue.delete", sender: Sender::Client, synchronous: true, content: false },
    Description { id: QueueDeleteOk::ID, name: "queue.delete-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: QueueUnbind::ID, name: "queue.unbind", sender: Sender::Client, synchronous: true, content: false },
    Description { id: QueueUnbindOk::ID, name: "queue.unbind-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: BasicQos::ID, name: "basic.qos", sender: Sender::Client, synchronous: true, content: false },
    Description { id: BasicQosOk::ID, name: "basic.qos-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: BasicConsume::ID, name: "basic.consume", sender: Sender::Client, synchronous: true, content: false },
    Description { id: BasicConsumeOk::ID, name: "basic.consume-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: BasicCancel::ID, name: "basic.cancel", sender: Sender::Both, synchronous: true, content: false },
    Description { id: BasicCancelOk::ID, name: "basic.cancel-ok", sender: Sender::Both, synchronous: false, content: false },
    Description { id: BasicPublish::ID, name: "basic.publish", sender: Sender::Client, synchronous: false, content: true },
    Description { id: BasicReturn::ID, name: "basic.return", sender: Sender::Server, synchronous: false, content: true },
    Description { id: BasicDeliver::ID, name: "basic.deliver", sender: Sender::Server, synchronous: false, content: true },
    Description { id: BasicGet::ID, name: "basic.get", sender: Sender::Client, synchronous: true, content: false },
    Description { id: BasicGetOk::ID, name: "basic.get-ok", sender: Sender::Server, synchronous: false, content: true },
    Description { id: BasicGetEmpty::ID, name: "basic.get-empty", sender: Sender::Server, synchronous: false, content: false },
    Description { id: BasicAck::ID, name: "basic.ack", sender: Sender::Both, synchronous: false, content: false },
    Description { id: BasicReject::ID, name: "basic.reject", sender: Sender::Client, synchronous: false, content: false },
    Description { id: BasicRecoverAsync::ID, name: "basic.recover-async", sender: Sender::Client, synchronous: false, content: false },
    Description { id: BasicRecover::ID, name: "basic.recover", sender: Sender::Client, synchronous: true, content: false },
    Description { id: BasicRecoverOk::ID, name: "basic.recover-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: BasicNack::ID, name: "basic.nack", sender: Sender::Both, synchronous: false, content: false },
    Description { id: ConfirmSelect::ID, name: "confirm.select", sender: Sender::Client, synchronous: true, content: false },
    Description { id: ConfirmSelectOk::ID, name: "confirm.select-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: TxSelect::ID, name: "tx.select", sender: Sender::Client, synchronous: true, content: false },
    Description { id: TxSelectOk::ID, name: "tx.select-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: TxCommit::ID, name: "tx.commit", sender: Sender::Client, synchronous: true, content: false },
    Description { id: TxCommitOk::ID, name: "tx.commit-ok", sender: Sender::Server, synchronous: false, content: false },
    Description { id: TxRollback::ID, name: "tx.rollback", sender: Sender::Client, synchronous: true, content: false },
    Description { id: TxRollbackOk::ID, name: "tx.rollback-ok", sender: Sender::Server, synchronous: false, content: false },
];

/// `connection.start`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStart<'a> {
    /// `version-major`
    pub version_major: u8,
    /// `version-minor`
    pub version_minor: u8,
    /// `server-properties`: content of a field table, checked
    pub server_properties: &'a [u8],
    /// `mechanisms`
    pub mechanisms: &'a [u8],
    /// `locales`
    pub locales: &'a [u8],
}

impl<'a> ConnectionStart<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 10 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let version_major = reader.u8()?;
        let version_minor = reader.u8()?;
        let server_properties = table(reader)?;
        let mechanisms = reader.long_string()?;
        let locales = reader.long_string()?;
        Ok(Self { version_major, version_minor, server_properties, mechanisms, locales })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(self.version_major);
        out.put_u8(self.version_minor);
        out.put_long_string(self.server_properties);
        out.put_long_string(self.mechanisms);
        out.put_long_string(self.locales);
    }
}

/// `connection.start-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionStartOk<'a> {
    /// `client-properties`: content of a field table, checked
    pub client_properties: &'a [u8],
    /// `mechanism`
    pub mechanism: &'a [u8],
    /// `response`
    pub response: &'a [u8],
    /// `locale`
    pub locale: &'a [u8],
}

impl<'a> ConnectionStartOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 11 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let client_properties = table(reader)?;
        let mechanism = text(reader)?;
        let response = reader.long_string()?;
        let locale = text(reader)?;
        Ok(Self { client_properties, mechanism, response, locale })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_long_string(self.client_properties);
        out.put_short_string(self.mechanism);
        out.put_long_string(self.response);
        out.put_short_string(self.locale);
    }
}

/// `connection.secure`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSecure<'a> {
    /// `challenge`
    pub challenge: &'a [u8],
}

impl<'a> ConnectionSecure<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 20 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let challenge = reader.long_string()?;
        Ok(Self { challenge })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_long_string(self.challenge);
    }
}

/// `connection.secure-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionSecureOk<'a> {
    /// `response`
    pub response: &'a [u8],
}

impl<'a> ConnectionSecureOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 21 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let response = reader.long_string()?;
        Ok(Self { response })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_long_string(self.response);
    }
}

/// `connection.tune`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTune {
    /// `channel-max`
    pub channel_max: u16,
    /// `frame-max`
    pub frame_max: u32,
    /// `heartbeat`
    pub heartbeat: u16,
}

impl ConnectionTune {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 30 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let channel_max = reader.u16()?;
        let frame_max = reader.u32()?;
        let heartbeat = reader.u16()?;
        Ok(Self { channel_max, frame_max, heartbeat })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.channel_max);
        out.put_u32(self.frame_max);
        out.put_u16(self.heartbeat);
    }
}

/// `connection.tune-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionTuneOk {
    /// `channel-max`
    pub channel_max: u16,
    /// `frame-max`
    pub frame_max: u32,
    /// `heartbeat`
    pub heartbeat: u16,
}

impl ConnectionTuneOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 31 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let channel_max = reader.u16()?;
        let frame_max = reader.u32()?;
        let heartbeat = reader.u16()?;
        Ok(Self { channel_max, frame_max, heartbeat })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.channel_max);
        out.put_u32(self.frame_max);
        out.put_u16(self.heartbeat);
    }
}

/// `connection.open`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOpen<'a> {
    /// `virtual-host`
    pub virtual_host: &'a [u8],
    /// `capabilities`
    pub capabilities: &'a [u8],
    /// `insist`
    pub insist: bool,
}

impl<'a> ConnectionOpen<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 40 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let virtual_host = text(reader)?;
        let capabilities = text(reader)?;
        let bits = reader.u8()?;
        let insist = bits & 1 != 0;
        Ok(Self { virtual_host, capabilities, insist })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.virtual_host);
        out.put_short_string(self.capabilities);
        out.put_u8(u8::from(self.insist));
    }
}

/// `connection.open-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionOpenOk<'a> {
    /// `known-hosts`
    pub known_hosts: &'a [u8],
}

impl<'a> ConnectionOpenOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 41 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let known_hosts = text(reader)?;
        Ok(Self { known_hosts })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.known_hosts);
    }
}

/// `connection.close`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionClose<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a [u8],
    /// `class-id`
    pub class_id: u16,
    /// `method-id`
    pub method_id: u16,
}

impl<'a> ConnectionClose<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 50 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let reply_code = reader.u16()?;
        let reply_text = text(reader)?;
        let class_id = reader.u16()?;
        let method_id = reader.u16()?;
        Ok(Self { reply_code, reply_text, class_id, method_id })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.reply_code);
        out.put_short_string(self.reply_text);
        out.put_u16(self.class_id);
        out.put_u16(self.method_id);
    }
}

/// `connection.close-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionCloseOk {
}

impl ConnectionCloseOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 51 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `connection.blocked`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionBlocked<'a> {
    /// `reason`
    pub reason: &'a [u8],
}

impl<'a> ConnectionBlocked<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 60 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let reason = text(reader)?;
        Ok(Self { reason })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.reason);
    }
}

/// `connection.unblocked`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionUnblocked {
}

impl ConnectionUnblocked {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 61 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `connection.update-secret`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionUpdateSecret<'a> {
    /// `new-secret`
    pub new_secret: &'a [u8],
    /// `reason`
    pub reason: &'a [u8],
}

impl<'a> ConnectionUpdateSecret<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 70 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let new_secret = reader.long_string()?;
        let reason = text(reader)?;
        Ok(Self { new_secret, reason })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_long_string(self.new_secret);
        out.put_short_string(self.reason);
    }
}

/// `connection.update-secret-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionUpdateSecretOk {
}

impl ConnectionUpdateSecretOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 10, method: 71 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `channel.open`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOpen<'a> {
    /// `out-of-band`
    pub out_of_band: &'a [u8],
}

impl<'a> ChannelOpen<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 10 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let out_of_band = text(reader)?;
        Ok(Self { out_of_band })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.out_of_band);
    }
}

/// `channel.open-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelOpenOk<'a> {
    /// `channel-id`
    pub channel_id: &'a [u8],
}

impl<'a> ChannelOpenOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 11 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let channel_id = reader.long_string()?;
        Ok(Self { channel_id })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_long_string(self.channel_id);
    }
}

/// `channel.flow`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFlow {
    /// `active`
    pub active: bool,
}

impl ChannelFlow {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 20 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let bits = reader.u8()?;
        let active = bits & 1 != 0;
        Ok(Self { active })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(u8::from(self.active));
    }
}

/// `channel.flow-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelFlowOk {
    /// `active`
    pub active: bool,
}

impl ChannelFlowOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 21 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let bits = reader.u8()?;
        let active = bits & 1 != 0;
        Ok(Self { active })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(u8::from(self.active));
    }
}

/// `channel.close`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelClose<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a [u8],
    /// `class-id`
    pub class_id: u16,
    /// `method-id`
    pub method_id: u16,
}

impl<'a> ChannelClose<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 40 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let reply_code = reader.u16()?;
        let reply_text = text(reader)?;
        let class_id = reader.u16()?;
        let method_id = reader.u16()?;
        Ok(Self { reply_code, reply_text, class_id, method_id })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.reply_code);
        out.put_short_string(self.reply_text);
        out.put_u16(self.class_id);
        out.put_u16(self.method_id);
    }
}

/// `channel.close-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelCloseOk {
}

impl ChannelCloseOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 20, method: 41 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `access.request`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequest<'a> {
    /// `realm`
    pub realm: &'a [u8],
    /// `exclusive`
    pub exclusive: bool,
    /// `passive`
    pub passive: bool,
    /// `active`
    pub active: bool,
    /// `write`
    pub write: bool,
    /// `read`
    pub read: bool,
}

impl<'a> AccessRequest<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 30, method: 10 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let realm = text(reader)?;
        let bits = reader.u8()?;
        let exclusive = bits & 1 != 0;
        let passive = bits & 2 != 0;
        let active = bits & 4 != 0;
        let write = bits & 8 != 0;
        let read = bits & 16 != 0;
        Ok(Self { realm, exclusive, passive, active, write, read })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.realm);
        out.put_u8(u8::from(self.exclusive) | u8::from(self.passive) << 1 | u8::from(self.active) << 2 | u8::from(self.write) << 3 | u8::from(self.read) << 4);
    }
}

/// `access.request-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessRequestOk {
    /// `ticket`
    pub ticket: u16,
}

impl AccessRequestOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 30, method: 11 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        Ok(Self { ticket })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
    }
}

/// `exchange.declare`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeDeclare<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `exchange`
    pub exchange: &'a [u8],
    /// `kind`
    pub kind: &'a [u8],
    /// `passive`
    pub passive: bool,
    /// `durable`
    pub durable: bool,
    /// `auto-delete`
    pub auto_delete: bool,
    /// `internal`
    pub internal: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> ExchangeDeclare<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 10 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let exchange = text(reader)?;
        let kind = text(reader)?;
        let bits = reader.u8()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let auto_delete = bits & 4 != 0;
        let internal = bits & 8 != 0;
        let nowait = bits & 16 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, exchange, kind, passive, durable, auto_delete, internal, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.exchange);
        out.put_short_string(self.kind);
        out.put_u8(u8::from(self.passive) | u8::from(self.durable) << 1 | u8::from(self.auto_delete) << 2 | u8::from(self.internal) << 3 | u8::from(self.nowait) << 4);
        out.put_long_string(self.arguments);
    }
}

/// `exchange.declare-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeDeclareOk {
}

impl ExchangeDeclareOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 11 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `exchange.delete`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeDelete<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `exchange`
    pub exchange: &'a [u8],
    /// `if-unused`
    pub if_unused: bool,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> ExchangeDelete<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 20 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let exchange = text(reader)?;
        let bits = reader.u8()?;
        let if_unused = bits & 1 != 0;
        let nowait = bits & 2 != 0;
        Ok(Self { ticket, exchange, if_unused, nowait })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.exchange);
        out.put_u8(u8::from(self.if_unused) | u8::from(self.nowait) << 1);
    }
}

/// `exchange.delete-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeDeleteOk {
}

impl ExchangeDeleteOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 21 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `exchange.bind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeBind<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `destination`
    pub destination: &'a [u8],
    /// `source`
    pub source: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> ExchangeBind<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 30 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let destination = text(reader)?;
        let source = text(reader)?;
        let routing_key = text(reader)?;
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, destination, source, routing_key, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.destination);
        out.put_short_string(self.source);
        out.put_short_string(self.routing_key);
        out.put_u8(u8::from(self.nowait));
        out.put_long_string(self.arguments);
    }
}

/// `exchange.bind-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeBindOk {
}

impl ExchangeBindOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 31 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `exchange.unbind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeUnbind<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `destination`
    pub destination: &'a [u8],
    /// `source`
    pub source: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> ExchangeUnbind<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 40 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let destination = text(reader)?;
        let source = text(reader)?;
        let routing_key = text(reader)?;
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, destination, source, routing_key, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.destination);
        out.put_short_string(self.source);
        out.put_short_string(self.routing_key);
        out.put_u8(u8::from(self.nowait));
        out.put_long_string(self.arguments);
    }
}

/// `exchange.unbind-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeUnbindOk {
}

impl ExchangeUnbindOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 40, method: 51 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `queue.declare`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeclare<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `passive`
    pub passive: bool,
    /// `durable`
    pub durable: bool,
    /// `exclusive`
    pub exclusive: bool,
    /// `auto-delete`
    pub auto_delete: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> QueueDeclare<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 10 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let bits = reader.u8()?;
        let passive = bits & 1 != 0;
        let durable = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let auto_delete = bits & 8 != 0;
        let nowait = bits & 16 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, queue, passive, durable, exclusive, auto_delete, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_u8(u8::from(self.passive) | u8::from(self.durable) << 1 | u8::from(self.exclusive) << 2 | u8::from(self.auto_delete) << 3 | u8::from(self.nowait) << 4);
        out.put_long_string(self.arguments);
    }
}

/// `queue.declare-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeclareOk<'a> {
    /// `queue`
    pub queue: &'a [u8],
    /// `message-count`
    pub message_count: u32,
    /// `consumer-count`
    pub consumer_count: u32,
}

impl<'a> QueueDeclareOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 11 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let queue = text(reader)?;
        let message_count = reader.u32()?;
        let consumer_count = reader.u32()?;
        Ok(Self { queue, message_count, consumer_count })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.queue);
        out.put_u32(self.message_count);
        out.put_u32(self.consumer_count);
    }
}

/// `queue.bind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBind<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> QueueBind<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 20 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let exchange = text(reader)?;
        let routing_key = text(reader)?;
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, queue, exchange, routing_key, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
        out.put_u8(u8::from(self.nowait));
        out.put_long_string(self.arguments);
    }
}

/// `queue.bind-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBindOk {
}

impl QueueBindOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 21 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `queue.purge`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePurge<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `nowait`
    pub nowait: bool,
}

impl<'a> QueuePurge<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 30 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        Ok(Self { ticket, queue, nowait })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_u8(u8::from(self.nowait));
    }
}

/// `queue.purge-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePurgeOk {
    /// `message-count`
    pub message_count: u32,
}

impl QueuePurgeOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 31 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let message_count = reader.u32()?;
        Ok(Self { message_count })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u32(self.message_count);
    }
}

/// `queue.delete`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDelete<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `if-unused`
    pub if_unused: bool,
    /// `if-empty`
    pub if_empty: bool,
    /// `nowait`
    pub nowait: bool,
}

impl<'a> QueueDelete<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 40 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let bits = reader.u8()?;
        let if_unused = bits & 1 != 0;
        let if_empty = bits & 2 != 0;
        let nowait = bits & 4 != 0;
        Ok(Self { ticket, queue, if_unused, if_empty, nowait })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_u8(u8::from(self.if_unused) | u8::from(self.if_empty) << 1 | u8::from(self.nowait) << 2);
    }
}

/// `queue.delete-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueDeleteOk {
    /// `message-count`
    pub message_count: u32,
}

impl QueueDeleteOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 41 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let message_count = reader.u32()?;
        Ok(Self { message_count })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u32(self.message_count);
    }
}

/// `queue.unbind`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUnbind<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> QueueUnbind<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 50 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let exchange = text(reader)?;
        let routing_key = text(reader)?;
        let arguments = table(reader)?;
        Ok(Self { ticket, queue, exchange, routing_key, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
        out.put_long_string(self.arguments);
    }
}

/// `queue.unbind-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueUnbindOk {
}

impl QueueUnbindOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 50, method: 51 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `basic.qos`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicQos {
    /// `prefetch-size`
    pub prefetch_size: u32,
    /// `prefetch-count`
    pub prefetch_count: u16,
    /// `global`
    pub global: bool,
}

impl BasicQos {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 10 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let prefetch_size = reader.u32()?;
        let prefetch_count = reader.u16()?;
        let bits = reader.u8()?;
        let global = bits & 1 != 0;
        Ok(Self { prefetch_size, prefetch_count, global })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u32(self.prefetch_size);
        out.put_u16(self.prefetch_count);
        out.put_u8(u8::from(self.global));
    }
}

/// `basic.qos-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicQosOk {
}

impl BasicQosOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 11 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `basic.consume`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicConsume<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `consumer-tag`
    pub consumer_tag: &'a [u8],
    /// `no-local`
    pub no_local: bool,
    /// `no-ack`
    pub no_ack: bool,
    /// `exclusive`
    pub exclusive: bool,
    /// `nowait`
    pub nowait: bool,
    /// `arguments`: content of a field table, checked
    pub arguments: &'a [u8],
}

impl<'a> BasicConsume<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 20 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let consumer_tag = text(reader)?;
        let bits = reader.u8()?;
        let no_local = bits & 1 != 0;
        let no_ack = bits & 2 != 0;
        let exclusive = bits & 4 != 0;
        let nowait = bits & 8 != 0;
        let arguments = table(reader)?;
        Ok(Self { ticket, queue, consumer_tag, no_local, no_ack, exclusive, nowait, arguments })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_short_string(self.consumer_tag);
        out.put_u8(u8::from(self.no_local) | u8::from(self.no_ack) << 1 | u8::from(self.exclusive) << 2 | u8::from(self.nowait) << 3);
        out.put_long_string(self.arguments);
    }
}

/// `basic.consume-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicConsumeOk<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a [u8],
}

impl<'a> BasicConsumeOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 21 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let consumer_tag = text(reader)?;
        Ok(Self { consumer_tag })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.consumer_tag);
    }
}

/// `basic.cancel`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicCancel<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a [u8],
    /// `nowait`
    pub nowait: bool,
}

impl<'a> BasicCancel<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 30 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let consumer_tag = text(reader)?;
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        Ok(Self { consumer_tag, nowait })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.consumer_tag);
        out.put_u8(u8::from(self.nowait));
    }
}

/// `basic.cancel-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicCancelOk<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a [u8],
}

impl<'a> BasicCancelOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 31 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let consumer_tag = text(reader)?;
        Ok(Self { consumer_tag })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.consumer_tag);
    }
}

/// `basic.publish`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicPublish<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `mandatory`
    pub mandatory: bool,
    /// `immediate`
    pub immediate: bool,
}

impl<'a> BasicPublish<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 40 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let exchange = reader.short_string()?;
        let routing_key = reader.short_string()?;
        let bits = reader.u8()?;
        let mandatory = bits & 1 != 0;
        let immediate = bits & 2 != 0;
        Ok(Self { ticket, exchange, routing_key, mandatory, immediate })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
        out.put_u8(u8::from(self.mandatory) | u8::from(self.immediate) << 1);
    }
}

/// `basic.return`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicReturn<'a> {
    /// `reply-code`
    pub reply_code: u16,
    /// `reply-text`
    pub reply_text: &'a [u8],
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
}

impl<'a> BasicReturn<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 50 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let reply_code = reader.u16()?;
        let reply_text = reader.short_string()?;
        let exchange = reader.short_string()?;
        let routing_key = reader.short_string()?;
        Ok(Self { reply_code, reply_text, exchange, routing_key })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.reply_code);
        out.put_short_string(self.reply_text);
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
    }
}

/// `basic.deliver`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicDeliver<'a> {
    /// `consumer-tag`
    pub consumer_tag: &'a [u8],
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `redelivered`
    pub redelivered: bool,
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
}

impl<'a> BasicDeliver<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 60 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let consumer_tag = reader.short_string()?;
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        let redelivered = bits & 1 != 0;
        let exchange = reader.short_string()?;
        let routing_key = reader.short_string()?;
        Ok(Self { consumer_tag, delivery_tag, redelivered, exchange, routing_key })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.consumer_tag);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.redelivered));
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
    }
}

/// `basic.get`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicGet<'a> {
    /// `ticket`
    pub ticket: u16,
    /// `queue`
    pub queue: &'a [u8],
    /// `no-ack`
    pub no_ack: bool,
}

impl<'a> BasicGet<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 70 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let ticket = reader.u16()?;
        let queue = text(reader)?;
        let bits = reader.u8()?;
        let no_ack = bits & 1 != 0;
        Ok(Self { ticket, queue, no_ack })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u16(self.ticket);
        out.put_short_string(self.queue);
        out.put_u8(u8::from(self.no_ack));
    }
}

/// `basic.get-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicGetOk<'a> {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `redelivered`
    pub redelivered: bool,
    /// `exchange`
    pub exchange: &'a [u8],
    /// `routing-key`
    pub routing_key: &'a [u8],
    /// `message-count`
    pub message_count: u32,
}

impl<'a> BasicGetOk<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 71 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        let redelivered = bits & 1 != 0;
        let exchange = reader.short_string()?;
        let routing_key = reader.short_string()?;
        let message_count = reader.u32()?;
        Ok(Self { delivery_tag, redelivered, exchange, routing_key, message_count })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.redelivered));
        out.put_short_string(self.exchange);
        out.put_short_string(self.routing_key);
        out.put_u32(self.message_count);
    }
}

/// `basic.get-empty`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicGetEmpty<'a> {
    /// `cluster-id`
    pub cluster_id: &'a [u8],
}

impl<'a> BasicGetEmpty<'a> {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 72 };

    fn read(reader: &mut Reader<'a>) -> Result<Self, MethodError> {
        let cluster_id = text(reader)?;
        Ok(Self { cluster_id })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_short_string(self.cluster_id);
    }
}

/// `basic.ack`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicAck {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `multiple`
    pub multiple: bool,
}

impl BasicAck {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 80 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        let multiple = bits & 1 != 0;
        Ok(Self { delivery_tag, multiple })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.multiple));
    }
}

/// `basic.reject`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicReject {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `requeue`
    pub requeue: bool,
}

impl BasicReject {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 90 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        let requeue = bits & 1 != 0;
        Ok(Self { delivery_tag, requeue })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.requeue));
    }
}

/// `basic.recover-async`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicRecoverAsync {
    /// `requeue`
    pub requeue: bool,
}

impl BasicRecoverAsync {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 100 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let bits = reader.u8()?;
        let requeue = bits & 1 != 0;
        Ok(Self { requeue })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(u8::from(self.requeue));
    }
}

/// `basic.recover`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicRecover {
    /// `requeue`
    pub requeue: bool,
}

impl BasicRecover {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 110 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let bits = reader.u8()?;
        let requeue = bits & 1 != 0;
        Ok(Self { requeue })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(u8::from(self.requeue));
    }
}

/// `basic.recover-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicRecoverOk {
}

impl BasicRecoverOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 111 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `basic.nack`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BasicNack {
    /// `delivery-tag`
    pub delivery_tag: u64,
    /// `multiple`
    pub multiple: bool,
    /// `requeue`
    pub requeue: bool,
}

impl BasicNack {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 60, method: 120 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let delivery_tag = reader.u64()?;
        let bits = reader.u8()?;
        let multiple = bits & 1 != 0;
        let requeue = bits & 2 != 0;
        Ok(Self { delivery_tag, multiple, requeue })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u64(self.delivery_tag);
        out.put_u8(u8::from(self.multiple) | u8::from(self.requeue) << 1);
    }
}

/// `confirm.select`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmSelect {
    /// `nowait`
    pub nowait: bool,
}

impl ConfirmSelect {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 85, method: 10 };

    fn read(reader: &mut Reader<'_>) -> Result<Self, MethodError> {
        let bits = reader.u8()?;
        let nowait = bits & 1 != 0;
        Ok(Self { nowait })
    }

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
        out.put_u8(u8::from(self.nowait));
    }
}

/// `confirm.select-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfirmSelectOk {
}

impl ConfirmSelectOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 85, method: 11 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.select`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSelect {
}

impl TxSelect {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 10 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.select-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxSelectOk {
}

impl TxSelectOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 11 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.commit`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxCommit {
}

impl TxCommit {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 20 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.commit-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxCommitOk {
}

impl TxCommitOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 21 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.rollback`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxRollback {
}

impl TxRollback {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 30 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}

/// `tx.rollback-ok`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TxRollbackOk {
}

impl TxRollbackOk {
    /// Class and method number.
    pub const ID: MethodId = MethodId { class: 90, method: 31 };

    /// Appends class, method and fields.
    pub fn write(&self, out: &mut Vec<u8>) {
        Self::ID.write(out);
    }
}
