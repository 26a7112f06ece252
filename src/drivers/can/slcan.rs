//! Adapters that speak slcan, at a serial port or behind TCP.
//!
//! Nothing that they answer is waited for: some answer nothing. So a write is `sent`.

use tokio::io::AsyncWriteExt;

use super::{
    bus::{Bus, Failure, Inflow},
    stream::{Dialect, Stream, Streamed},
};
use crate::{
    codec::can::{
        Frame,
        slcan::{self, Bitrate, DataBitrate, Told},
    },
    config,
    link::{
        LinkError,
        transport::{serial, tcp},
    },
};

struct Slcan {
    reader: slcan::Reader,
    fd: bool,
    /// Whether the adapter has said nothing yet.
    is_new: bool,
}

/// Opens the stream and the adapter's bus.
pub(super) async fn open(
    endpoint: &config::CanEndpoint,
    stream: &config::Stream,
    bitrate: u32,
    data_bitrate: Option<u32>,
) -> Result<Box<dyn Bus>, LinkError> {
    let address = endpoint.address();
    let fail = |problem: String| LinkError { address: address.clone(), problem, lasting: false };
    let mut stream = match stream {
        config::Stream::Port { path, baud } => {
            let settings = serial::Settings {
                path: path.clone(),
                baud: *baud,
                parity: serial::Parity::None,
                stop_bits: serial::StopBits::One,
            };
            Stream::Left(serial::open(&settings)?)
        }
        config::Stream::Tcp { address } => Stream::Right(tcp::connect(address, endpoint.timeout).await?),
    };
    let bitrate =
        Bitrate::from_bits(bitrate).ok_or_else(|| fail(format!("slcan has no bit rate of {bitrate}")))?;
    let data = data_bitrate.and_then(DataBitrate::from_bits);
    let opening = slcan::open(bitrate, data, endpoint.listen_only);
    stream.write_all(&opening).await.map_err(|error| fail(error.to_string()))?;
    let dialect = Slcan { reader: slcan::Reader::new(), fd: endpoint.fd, is_new: true };
    Ok(Box::new(Streamed::new(stream, dialect)))
}

impl Dialect for Slcan {
    fn read(&mut self, bytes: &[u8], inflow: &mut Inflow) -> Result<(), Failure> {
        self.reader.push(bytes);
        for told in self.reader.by_ref() {
            let is_first = std::mem::take(&mut self.is_new);
            match told {
                // What is closed cannot be closed.
                Told::Refused if is_first => {}
                // An adapter that was told nothing of CAN FD sends none.
                Told::Frame(Frame::Data(data), _) if data.fd.is_some() && !self.fd => inflow.garbled += 1,
                Told::Frame(frame, _) => inflow.push(frame),
                Told::Refused => inflow.refused += 1,
                Told::Garbled(_) => inflow.garbled += 1,
                Told::Accepted | Told::Version(_) | Told::Serial(_) | Told::Flags(_) => {}
            }
        }
        Ok(())
    }

    fn write(&self, frame: &Frame, out: &mut Vec<u8>) -> bool {
        slcan::put(out, frame)
    }

    fn farewell(&self) -> &[u8] {
        slcan::CLOSE
    }
}
