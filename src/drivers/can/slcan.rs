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
    /// Until when, and for how many more answers, what it refuses is taken to be the opening of the channel.
    opening: Option<(Instant, usize)>,
}

/// How long an adapter has to answer that the channel is closed, beside the time of the way to it.
const QUIET: Duration = Duration::from_millis(100);
/// How long it has to answer to the opening.
const OPENING: Duration = Duration::from_secs(1);

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
    let commands = slcan::open(bitrate, data, endpoint.listen_only);
    let opening = async {
        let begin = Instant::now();
        stream.write_all(&slcan::reset()).await?;
        // Not every system tells whether it has left.
        while !has_left(&stream) && begin.elapsed() < endpoint.timeout / 2 {
            sleep(Duration::from_millis(1)).await;
        }
        // What comes now is of before.
        let mut bytes = [0; 1024];
        let until = Instant::now() + begin.elapsed() + QUIET;
        while let Ok(got) = timeout_at(until, stream.read(&mut bytes)).await {
            if got? == 0 {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the adapter closed the connection",
                ));
            }
        }
        stream.write_all(&commands).await
    };
    match timeout(2 * endpoint.timeout + QUIET, opening).await {
        Ok(opened) => opened.map_err(|error| fail(error.to_string()))?,
        Err(_elapsed) => {
            let within = endpoint.timeout.as_millis();
            return Err(fail(format!("the adapter takes nothing within {within} ms")));
        }
    }
    let answers = commands.split_inclusive(|byte| *byte == b'\r').count();
    let opening = Some((Instant::now() + OPENING, answers));
    let dialect = Slcan { reader: slcan::Reader::new(), fd: endpoint.fd, opening };
    Ok(Box::new(Streamed::new(stream, dialect)))
}

impl Dialect for Slcan {
    fn read(&mut self, bytes: &[u8], inflow: &mut Inflow) -> Result<(), Failure> {
        self.reader.push(bytes);
        for told in self.reader.by_ref() {
            let is_answer = matches!(told, Told::Accepted | Told::Refused);
            if let Some((until, left)) = self.opening.take_if(|(until, _)| Instant::now() <= *until) {
                if told == Told::Refused {
                    return Err(Failure::adapter(
                        "the adapter refuses to open the channel: it may not have the bit rate, or others use it",
                    ));
                }
                let left = left - usize::from(is_answer);
                self.opening = (left > 0).then_some((until, left));
            }
            match told {
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
