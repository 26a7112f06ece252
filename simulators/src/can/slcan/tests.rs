//! Adapters on a bus, over streams in process, TCP and a pseudo-terminal.

use std::time::Duration;

use proptest::prelude::*;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::TcpStream,
};

use super::*;
use crate::can::{Frame, class};

/// Serves a host in process.
fn plug(bus: &Bus, buffer: usize) -> DuplexStream {
    let (host, adapter) = tokio::io::duplex(buffer);
    let bus = bus.clone();
    tokio::spawn(async move { session::serve(adapter, &bus).await });
    host
}

/// Reads until the text is there.
async fn expect(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), text);
}

#[tokio::test(start_paused = true)]
async fn a_host_sends_and_receives() {
    let bus = Bus::new("can0");
    let mut host = plug(&bus, 4096);
    let mut port = bus.attach();
    assert_eq!(bus.ports(), 1, "a closed channel is not on the bus");
    host.write_all(b"S6\rO\r").await.unwrap();
    expect(&mut host, "\r\r").await;
    assert_eq!(bus.ports(), 2);
    port.send(Frame::standard(0x181, [1, 2, 0xAB])).await.unwrap();
    expect(&mut host, "t18130102AB\r").await;
    host.write_all(b"t20120100\rT18EAFFF93EBFE00\r").await.unwrap();
    expect(&mut host, "z\rZ\r").await;
    assert!(port.recv().await.own);
    assert_eq!(port.recv().await.frame, Frame::standard(0x201, [1, 0]));
    assert_eq!(port.recv().await.frame, Frame::extended(0x18EA_FFF9, [0xEB, 0xFE, 0]));
    host.write_all(b"C\r").await.unwrap();
    expect(&mut host, "\r").await;
    assert_eq!(bus.ports(), 1);
    host.write_all(b"t2010\r").await.unwrap();
    expect(&mut host, "\x07").await;
}

#[tokio::test(start_paused = true)]
async fn listening_neither_sends_nor_acknowledges() {
    let bus = Bus::new("can0");
    let mut host = plug(&bus, 4096);
    let mut port = bus.attach();
    host.write_all(b"L\rt2010\r").await.unwrap();
    expect(&mut host, "\r\x07").await;
    port.try_send(Frame::standard(0x181, [])).unwrap();
    assert_eq!(port.recv().await.frame.class(), Some(class::NO_ACK));
    let _other = bus.attach();
    expect(&mut host, "t1810\r").await;
}

#[tokio::test(start_paused = true)]
async fn what_the_bus_cannot_take_is_refused() {
    let bus = Bus::new("can0");
    let mut host = plug(&bus, 4096);
    host.write_all(b"O\r").await.unwrap();
    expect(&mut host, "\r").await;
    // Nobody acknowledges.
    for _ in 0..128 {
        host.write_all(b"t2010\r").await.unwrap();
        expect(&mut host, "z\r").await;
    }
    host.write_all(b"t2010\rF\r").await.unwrap();
    expect(&mut host, "\x07FA2\r").await;
}

#[tokio::test(start_paused = true)]
async fn a_host_that_does_not_read_loses_frames_and_is_told() {
    let bus = Bus::new("can0");
    let mut host = plug(&bus, 64);
    let port = bus.attach();
    host.write_all(b"O\r").await.unwrap();
    expect(&mut host, "\r").await;
    for _ in 0..10_000 {
        port.send(Frame::standard(0x181, [0; 8])).await.unwrap();
        tokio::task::yield_now().await;
    }
    let line = "t18180000000000000000\r";
    let mut received = 0;
    host.write_all(b"F\r").await.unwrap();
    loop {
        let mut text = vec![0; 4];
        host.read_exact(&mut text).await.unwrap();
        if text == b"F01\r" {
            break;
        }
        expect(&mut host, line.split_at(4).1).await;
        received += 1;
    }
    assert!((700..800).contains(&received), "{received} of 10000 frames, by 16 KiB");
    port.send(Frame::standard(0x182, [])).await.unwrap();
    expect(&mut host, "t1820\r").await;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn cuts_and_garbage_lose_nothing_that_is_good(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("the end of a line", |byte| {
            !b"\r".contains(byte)
        }), 0..20), 1..10),
        cut in 1..7_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bus = Bus::new("can0");
            let mut host = plug(&bus, 8192);
            let mut port = bus.attach();
            let mut bytes = b"C\rO\r".to_vec();
            for part in &parts {
                // An `X` in front, and garbage is no command.
                bytes.extend([&b"X"[..], part, b"\rt1232BEEF\r"].concat());
            }
            for chunk in bytes.chunks(cut) {
                host.write_all(chunk).await.unwrap();
                tokio::task::yield_now().await;
            }
            for _ in &parts {
                assert_eq!(port.recv().await.frame, Frame::standard(0x123, [0xBE, 0xEF]));
            }
            expect(&mut host, &format!("\x07\r{}", "\x07z\r".repeat(parts.len()))).await;
        });
    }
}

#[tokio::test]
async fn every_connection_is_an_adapter_of_its_own() {
    let bus = Bus::new("can0");
    let server = Server::start(&bus, ([127, 0, 0, 1], 0).into()).unwrap();
    let mut hosts = Vec::new();
    for _ in 0..2 {
        let mut host = TcpStream::connect(server.local_addr()).await.unwrap();
        host.write_all(b"O\r").await.unwrap();
        expect(&mut host, "\r").await;
        hosts.push(host);
    }
    assert_eq!(bus.ports(), 2);
    hosts[0].write_all(b"t1231FF\r").await.unwrap();
    expect(&mut hosts[0], "z\r").await;
    expect(&mut hosts[1], "t1231FF\r").await;
    let addr = server.local_addr();
    server.stop().await;
    assert_eq!(hosts[1].read(&mut [0; 8]).await.unwrap_or(0), 0);
    assert_eq!(bus.ports(), 0);
    Server::start(&bus, addr).unwrap().stop().await;
}

#[cfg(unix)]
mod terminal {
    use std::{fs, io};

    use super::*;

    /// As a host opens it.
    fn open(path: &std::path::Path) -> tokio::fs::File {
        fs::OpenOptions::new().read(true).write(true).open(path).unwrap().into()
    }

    #[tokio::test]
    async fn a_host_opens_it_by_its_path_again_and_again() {
        let bus = Bus::new("can0");
        let port = Port::start(&bus).unwrap();
        let other = bus.attach();
        for round in 0..2 {
            let mut host = open(port.path());
            host.write_all(b"O\r").await.unwrap();
            host.flush().await.unwrap();
            expect(&mut host, "\r").await;
            other.send(Frame::standard(0x123, [round])).await.unwrap();
            expect(&mut host, &format!("t12310{round}\r")).await;
            host.write_all(b"C\r").await.unwrap();
            host.flush().await.unwrap();
            expect(&mut host, "\r").await;
        }
        let path = port.path().to_owned();
        port.stop().await;
        assert!(fs::symlink_metadata(path).is_err());
    }

    #[tokio::test]
    async fn pulling_it_hangs_up_and_it_comes_back_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("can-adapter");
        let bus = Bus::new("can0");
        let mut port = Port::start_at(&bus, &path).unwrap();
        assert_eq!(Port::start_at(&bus, &path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        let mut host = open(&path);
        host.write_all(b"O\r").await.unwrap();
        host.flush().await.unwrap();
        expect(&mut host, "\r").await;
        port.unplug().await;
        assert!(fs::symlink_metadata(&path).is_err());
        assert_eq!(bus.ports(), 0);
        let mut end = [0; 8];
        assert!(matches!(host.read(&mut end).await, Ok(0) | Err(_)));
        port.replug().unwrap();
        let mut host = open(&path);
        host.write_all(b"t1230\rO\r").await.unwrap();
        host.flush().await.unwrap();
        expect(&mut host, "\x07\r").await;
        port.stop().await;
    }

    #[tokio::test]
    async fn nobody_reading_holds_nothing_up() {
        let bus = Bus::new("can0");
        let port = Port::start(&bus).unwrap();
        let other = bus.attach();
        let mut host = open(port.path());
        host.write_all(b"O\r").await.unwrap();
        host.flush().await.unwrap();
        expect(&mut host, "\r").await;
        for count in 0..20_000_u32 {
            other.send(Frame::standard(0x123, count.to_be_bytes())).await.unwrap();
            if count % 100 == 0 {
                tokio::time::sleep(Duration::from_micros(1)).await;
            }
        }
        assert_eq!(bus.carried(), 20_000);
        port.stop().await;
    }
}
