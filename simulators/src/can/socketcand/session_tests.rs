//! Clients of a server, over streams in process and TCP.

use proptest::prelude::*;
use tokio::{io::DuplexStream, net::TcpStream};

use super::*;
use crate::can::{class, socketcand::Server};

fn connect(buses: &[Bus]) -> DuplexStream {
    let (client, server) = tokio::io::duplex(256 * 1024);
    let buses = buses.to_vec();
    tokio::spawn(async move { serve(server, &buses).await });
    client
}

async fn expect(stream: &mut (impl AsyncRead + Unpin), text: &str) {
    let mut read = vec![0; text.len()];
    stream.read_exact(&mut read).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&read), text);
}

/// What is said until the end of an element, and an element with its time left out.
async fn element(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut text = String::new();
    while !text.ends_with('>') {
        text.push(stream.read_u8().await.unwrap().into());
    }
    let mut words: Vec<_> = text.split(' ').collect();
    if let Some((seconds, micros)) = words.get(3).and_then(|word| word.split_once('.')) {
        assert!(
            seconds.parse::<u64>().is_ok() && micros.len() == 6 && micros.parse::<u32>().is_ok(),
            "{text}"
        );
        words.remove(3);
    }
    words.join(" ")
}

async fn raw(bus: &Bus) -> DuplexStream {
    let mut client = connect(std::slice::from_ref(bus));
    expect(&mut client, "< hi >").await;
    client.write_all(format!("< open {} >", bus.name()).as_bytes()).await.unwrap();
    expect(&mut client, "< ok >").await;
    client.write_all(b"< rawmode >").await.unwrap();
    expect(&mut client, "< ok >").await;
    client
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_and_receives() {
    let bus = Bus::new("vcan0");
    let mut port = bus.attach();
    let mut client = raw(&bus).await;
    let id = |text: &str| text.parse::<Id>().unwrap();
    for frame in [
        Frame::standard(0x123, [1, 0xAB, 0xFF]),
        Frame::extended(0x123, []),
        Frame::remote(id("7FF"), 4).unwrap(),
        Frame { fd: Some(crate::can::Fd::default()), ..Frame::standard(1, []) },
        Frame::standard(0, [0]),
    ] {
        port.send(frame).await.unwrap();
    }
    assert_eq!(element(&mut client).await, "< frame 123 01ABFF >");
    assert_eq!(element(&mut client).await, "< frame 00000123  >");
    assert_eq!(element(&mut client).await, "< rtr 7FF 4 >");
    assert_eq!(element(&mut client).await, "< frame 000 00 >");
    client.write_all(b"< send 123 3 1 ab ff >< send 00000123 0  >< sendrtr 100 2 >").await.unwrap();
    let mut next = async || loop {
        let received = port.recv().await;
        if !received.own {
            return received.frame;
        }
    };
    assert_eq!(next().await, Frame::standard(0x123, [1, 0xAB, 0xFF]));
    assert_eq!(next().await, Frame::extended(0x123, []));
    assert_eq!(next().await, Frame::remote(id("100"), 2).unwrap());
    bus.faults(&["error-frames=10".parse().unwrap()]);
    let error = element(&mut client).await;
    let expected = class::PROTOCOL | class::BUS_ERROR;
    assert!(error.starts_with(&format!("< error {expected:03X} ")), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_first_frame_comes_a_moment_after_the_mode() {
    let bus = Bus::new("vcan0");
    let port = bus.attach();
    let mut client = raw(&bus).await;
    let start = Instant::now();
    port.send(Frame::standard(0x123, [])).await.unwrap();
    assert_eq!(element(&mut client).await, "< frame 123  >");
    assert_eq!(start.elapsed().as_millis(), 100);
}

#[tokio::test(start_paused = true)]
async fn wrong_commands_are_errors_and_change_nothing() {
    let bus = Bus::new("vcan0");
    let mut client = connect(std::slice::from_ref(&bus));
    expect(&mut client, "< hi >").await;
    let mut ask = async |text: &str| {
        client.write_all(text.as_bytes()).await.unwrap();
        element(&mut client).await
    };
    assert_eq!(ask("< open can7 >").await, "< error could not open bus >");
    assert_eq!(ask("< rawmode >").await, "< error command not allowed now >");
    assert_eq!(ask("< send 123 0 >").await, "< error command not allowed now >");
    assert_eq!(ask("< jump >").await, "< error unknown command >");
    assert_eq!(ask("<>").await, "< error unknown command >");
    assert_eq!(ask("< open vcan0 >").await, "< ok >");
    assert_eq!(ask("< echo >").await, "< echo >");
    assert_eq!(ask("< open vcan0 >").await, "< error command not allowed now >");
    for text in [
        "send 123 2 1",
        "send 123 1 1 2",
        "send 123 9 1 2 3 4 5 6 7 8 9",
        "send 800 0",
        "send 123",
        "send xyz 0",
        "send 123 1 100",
        "send 123 1 -1",
        "send 20000000 0",
        "sendrtr 123 9",
    ] {
        let error = ask(&format!("< {text} >")).await;
        assert!(error.starts_with("< error "), "{text}: {error}");
    }
    assert_eq!(ask("< rawmode >").await, "< ok >");
    assert_eq!(ask("< bcmmode >").await, "< ok >");
    assert_eq!(bus.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_element_without_an_end_is_given_up() {
    let bus = Bus::new("vcan0");
    let mut client = connect(std::slice::from_ref(&bus));
    expect(&mut client, "< hi >").await;
    client.write_all(&[&[b'<'][..], &[b'x'; 256]].concat()).await.unwrap();
    expect(&mut client, "< error element too long >").await;
    client.write_all(b"< open vcan0 >").await.unwrap();
    expect(&mut client, "< ok >").await;
}

#[tokio::test]
async fn replies_are_segments_of_their_own() {
    let buses = ["can0", "can1"].map(Bus::new);
    let server = Server::start(&buses, ([127, 0, 0, 1], 0).into()).unwrap();
    let port = buses[1].attach();
    let mut client = TcpStream::connect(server.local_addr()).await.unwrap();
    let mut segment = [0; 256];
    for (say, reply) in [("", "< hi >"), ("< open can1 >", "< ok >"), ("< rawmode >", "< ok >")] {
        client.write_all(say.as_bytes()).await.unwrap();
        let count = client.read(&mut segment).await.unwrap();
        assert_eq!(String::from_utf8_lossy(segment.get(..count).unwrap()), reply);
        // Were they not held back, these would be in the next segment.
        for _ in 0..10 {
            port.try_send(Frame::standard(0x123, [])).ok();
        }
    }
    assert_eq!(element(&mut client).await, "< frame 123  >");
    server.stop().await;
    assert_eq!(buses[1].ports(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn cuts_and_garbage_lose_nothing_that_is_good(
        parts in prop::collection::vec(prop::collection::vec(any::<u8>().prop_filter("the end of an element", |byte| {
            *byte != b'>'
        }), 0..20), 1..10),
        cut in 1..7_usize,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bus = Bus::new("vcan0");
            let mut client = raw(&bus).await;
            let mut port = bus.attach();
            let frame = b"< send 123 2 BE ef >";
            let bytes: Vec<_> = parts.iter().flat_map(|part| [&part[..], frame].concat()).collect();
            for chunk in bytes.chunks(cut) {
                client.write_all(chunk).await.unwrap();
                tokio::task::yield_now().await;
            }
            for _ in &parts {
                assert_eq!(port.recv().await.frame, Frame::standard(0x123, [0xBE, 0xEF]));
            }
        });
    }

    #[test]
    fn any_bytes_leave_it_able_to_work(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let bus = Bus::new("vcan0");
            let mut client = raw(&bus).await;
            client.write_all(&bytes).await.unwrap();
            client.write_all(b">< send 123 0 >").await.unwrap();
            let mut port = bus.attach();
            assert_eq!(port.recv().await.frame, Frame::standard(0x123, []));
        });
    }
}
