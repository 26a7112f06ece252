//! Adapters that speak slcan, at a serial port or behind TCP.
//!
//! Nothing that they answer is waited for: some answer nothing. So a write is `sent`. What they refuse, where they do, is told.

use std::io;

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{Duration, Instant, sleep, timeout, timeout_at},
};

use super::{
    bus::{Bus, Failure, Inflow},
    stream::{Dialect, Stream, Streamed, has_left},
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
    /// Whether what it refuses can only be to open the channel.
    is_opening: bool,
    /// Answers that may still come to what was said before that.
    owed: usize,
}

/// Answers to the two lines of a reset.
const RESET_ANSWERS: usize = 2;
/// How long an adapter has to answer that the channel is closed.
const QUIET: Duration = Duration::from_millis(100);

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
    let (mut reader, mut owed) = (slcan::Reader::new(), RESET_ANSWERS);
    let opening = async {
        stream.write_all(&slcan::reset()).await?;
        while !has_left(&stream) {
            sleep(Duration::from_millis(1)).await;
        }
        // What comes now is of before; but who is far away answers later.
        let mut bytes = [0; 1024];
        let until = Instant::now() + QUIET;
        while let Ok(got) = timeout_at(until, stream.read(&mut bytes)).await {
            let got = bytes.get(..got?).unwrap_or_default();
            if got.is_empty() {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the adapter closed the connection",
                ));
            }
            reader.push(got);
            let answers = reader.by_ref().filter(|told| matches!(told, Told::Accepted | Told::Refused));
            owed = owed.saturating_sub(answers.count());
        }
        stream.write_all(&slcan::open(bitrate, data, endpoint.listen_only)).await
    };
    match timeout(endpoint.timeout + QUIET, opening).await {
        Ok(opened) => opened.map_err(|error| fail(error.to_string()))?,
        Err(_elapsed) => {
            let within = endpoint.timeout.as_millis();
            return Err(fail(format!("the adapter takes nothing within {within} ms")));
        }
    }
    let dialect = Slcan { reader, fd: endpoint.fd, is_opening: true, owed };
    Ok(Box::new(Streamed::new(stream, dialect)))
}

impl Dialect for Slcan {
    fn read(&mut self, bytes: &[u8], inflow: &mut Inflow) -> Result<(), Failure> {
        self.reader.push(bytes);
        for told in self.reader.by_ref() {
            match told {
                Told::Accepted | Told::Refused if self.is_opening && self.owed > 0 => self.owed -= 1,
                Told::Refused if self.is_opening => {
                    return Err(Failure::adapter(
                        "the adapter refuses to open the channel: it may not have the bit rate, or others use it",
                    ));
                }
                // An adapter that was told nothing of CAN FD sends none.
                Told::Frame(Frame::Data(data), _) if data.fd.is_some() && !self.fd => inflow.garbled += 1,
                Told::Frame(frame, _) => {
                    self.is_opening = false;
                    inflow.push(frame);
                }
                Told::Refused => inflow.refused += 1,
                Told::Garbled(_) => inflow.garbled += 1,
                Told::Accepted | Told::Version(_) | Told::Serial(_) | Told::Flags(_) => {}
            }
        }
        Ok(())
    }

    fn write(&mut self, frame: &Frame, out: &mut Vec<u8>) -> bool {
        self.is_opening = false;
        slcan::put(out, frame)
    }

    fn farewell(&self) -> &[u8] {
        slcan::CLOSE
    }
}
