//! Simulated CAN buses as the driver takes them: the only place that knows both.

use futures_util::{FutureExt, future::BoxFuture};
use simulators::can::{self, Bus, SendError};

use crate::{
    codec::can::{BusError, Data, Fd, Frame, Id},
    drivers::can::{Buses, Port, Refused},
};

/// Simulated buses under their names, for connections with `driver = "can-virtual"`.
#[must_use]
pub fn simulated(buses: &[Bus]) -> Buses {
    let attach = |bus: &Bus| {
        let (name, bus) = (bus.name().to_owned(), bus.clone());
        (name, Box::new(move || Box::new(Attached(bus.attach())) as Box<dyn Port>) as _)
    };
    Buses::new(buses.iter().map(attach))
}

/// An end of a simulated bus.
struct Attached(can::Port);

impl Port for Attached {
    fn send(&mut self, data: &Data) -> Result<(), Refused> {
        let id = can::Id { value: data.id.number(), extended: data.id.is_extended() };
        let bytes = data.payload.bytes();
        let frame = match data.fd {
            None => can::Frame::data(id, bytes),
            Some(Fd { brs, esi }) => can::Frame::flexible(id, bytes, can::Fd { brs, esi }),
        };
        let frame = frame.map_err(|_unfit| Refused::Unfit)?;
        self.0.try_send(frame).map_err(|error| match error {
            SendError::Full => Refused::Full,
            SendError::ListenOnly | SendError::Frame(_) => Refused::Unfit,
        })
    }

    fn receive(&mut self) -> BoxFuture<'_, Option<(Frame, bool)>> {
        async {
            loop {
                let received = self.0.recv().await;
                if let Some(frame) = frame(&received.frame) {
                    return Some((frame, received.own));
                }
            }
        }
        .boxed()
    }

    fn ready(&mut self) -> Option<(Frame, bool)> {
        loop {
            let received = self.0.try_recv()?;
            if let Some(frame) = frame(&received.frame) {
                return Some((frame, received.own));
            }
        }
    }

    fn lost(&self) -> u64 {
        self.0.lost()
    }
}

fn frame(frame: &can::Frame) -> Option<Frame> {
    let id = || if frame.extended { Id::extended(frame.id) } else { Id::standard(frame.id) };
    match frame.kind {
        can::Kind::Data => {
            let fd = frame.fd.map(|can::Fd { brs, esi }| Fd { brs, esi });
            Data::new(id()?, &frame.bytes, fd).map(Frame::Data)
        }
        can::Kind::Remote(len) => Some(Frame::Remote { id: id()?, len }),
        can::Kind::Error { class, data } => Some(Frame::Error(BusError { class, data })),
    }
}
