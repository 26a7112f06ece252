//! CAN interfaces of another machine, served by socketcand.
//!
//! Its protocol tells nothing of frames that were sent, so a write is `sent`.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::timeout,
};

use super::{
    bus::{Bus, Failure, Inflow},
    stream::{Dialect, Stream, Streamed},
};
use crate::{
    codec::can::{
        Frame,
        socketcand::{self, RAW_MODE, Reader, Told},
    },
    config::CanEndpoint,
    link::{LinkError, transport::tcp},
};

struct Socketcand {
    reader: Reader,
}

/// Connects, and asks for all frames of an interface.
pub(super) async fn open(
    endpoint: &CanEndpoint,
    address: &str,
    interface: &str,
) -> Result<Box<dyn Bus>, LinkError> {
    let mut stream = tcp::connect(address, endpoint.timeout).await?;
    let fail = |problem: String| LinkError { address: endpoint.address(), problem, lasting: false };
    let mut reader = Reader::new();
    let greeting = async {
        let mut bytes = [0; 1024];
        let mut told = None;
        for (say, expected) in [
            (None, Told::Hi),
            (Some(socketcand::open(interface)), Told::Ok),
            (Some(RAW_MODE.to_vec()), Told::Ok),
        ] {
            if let Some(say) = say {
                stream.write_all(&say).await.map_err(|error| error.to_string())?;
            }
            while told.take_if(|told| *told == expected).is_none() {
                match reader.next() {
                    Some(Told::Error(problem)) => {
                        return Err(format!("socketcand refuses {interface}: {problem}"));
                    }
                    Some(next) => {
                        told = Some(next);
                        continue;
                    }
                    None => {}
                }
                let got = stream.read(&mut bytes).await.map_err(|error| error.to_string())?;
                if got == 0 {
                    return Err("socketcand closed the connection".to_owned());
                }
                reader.push(bytes.get(..got).unwrap_or_default());
            }
        }
        Ok(())
    };
    match timeout(endpoint.timeout, greeting).await {
        Ok(greeted) => greeted.map_err(fail)?,
        Err(_elapsed) => {
            return Err(fail(format!("no socketcand answers within {} ms", endpoint.timeout.as_millis())));
        }
    }
    Ok(Box::new(Streamed::new(Stream::Right(stream), Socketcand { reader })))
}

impl Dialect for Socketcand {
    fn read(&mut self, bytes: &[u8], inflow: &mut Inflow) -> Result<(), Failure> {
        self.reader.push(bytes);
        for told in self.reader.by_ref() {
            match told {
                Told::Frame(frame, _) => inflow.push(frame),
                Told::BusError(error) => inflow.push(Frame::Error(error)),
                Told::Error(problem) => inflow.event = Some(format!("socketcand says: {problem}")),
                Told::Garbled(_) => inflow.garbled += 1,
                Told::Hi | Told::Ok | Told::Other(_) => {}
            }
        }
        Ok(())
    }

    fn write(&self, frame: &Frame, out: &mut Vec<u8>) -> bool {
        socketcand::put(out, frame)
    }

    fn farewell(&self) -> &[u8] {
        b""
    }
}
