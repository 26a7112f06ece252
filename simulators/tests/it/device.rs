//! What single devices do and do not, the same over every transport.

use std::time::Duration;

use simulators::modbus::{ExceptionCode, Identity, Reply, Server, Values};

use crate::raw::{ANY, Client, adu, rtu, server, soon};

#[tokio::test]
async fn says_what_it_is() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 1, 0]).await, [0xAB, 1], "not told what it is");
    let basic = Identity {
        vendor: "Acme".into(),
        product_code: "P".into(),
        revision: "1.0".into(),
        ..Identity::default()
    };
    unit.identify(Some(Identity { model_name: Some("M".into()), ..basic.clone() }));
    let objects = [&[0, 4][..], b"Acme", &[1, 1], b"P", &[2, 3], b"1.0"].concat();
    let head = [0x2B, 0x0E, 1, 0x82, 0, 0, 3];
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 1, 0]).await, [&head[..], &objects].concat());
    let regular = [&[0x2B, 0x0E, 2, 0x82, 0, 0, 4][..], &objects, &[5, 1], b"M"].concat();
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 2, 0]).await, regular);
    let from = [&[0x2B, 0x0E, 2, 0x82, 0, 0, 2, 2, 3][..], b"1.0", &[5, 1], b"M"].concat();
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 2, 2]).await, from);
    let one = [&[0x2B, 0x0E, 4, 0x82, 0, 0, 1, 5, 1][..], b"M"].concat();
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 4, 5]).await, one);
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 4, 4]).await, [0xAB, 2], "no such object");
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 9, 0]).await, [0xAB, 3]);
    unit.identify(Some(basic));
    assert_eq!(client.ask(1, &[0x2B, 0x0E, 2, 0]).await[3], 0x81, "basic objects only");
}

#[tokio::test]
async fn reads_and_writes_in_one_request() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let request = [23, 0, 1, 0, 2, 0, 1, 0, 1, 2, 0, 9];
    assert_eq!(client.ask(1, &request).await, [23, 4, 0, 9, 0, 0]);
    let missing = [23, 0, 0x50, 0, 1, 0, 1, 0, 1, 2, 0, 7];
    assert_eq!(client.ask(1, &missing).await, [0x97, 2]);
    assert_eq!(server.handle().unit(1).unwrap().holding(1), Some(9), "nothing is written in part");
    let write = server.handle().writes().remove(0);
    assert_eq!((write.function, write.address, write.values), (23, 1, Values::Words(vec![9])));
}

#[tokio::test]
async fn lacks_functions_in_its_own_words() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    unit.without(6);
    unit.without_as(16, ExceptionCode::IllegalDataAddress);
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [0x86, 1]);
    assert_eq!(client.ask(1, &[16, 0, 1, 0, 1, 2, 0, 9]).await, [0x90, 2]);
    unit.accept();
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [0x86, 1], "a function does not grow");
    assert_eq!(unit.holding(1), Some(0));
}

#[tokio::test]
async fn is_busy_so_many_times() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    server.handle().unit(1).unwrap().busy(2);
    for expected in [[0x86, 6], [0x86, 6]] {
        assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, expected);
    }
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [6, 0, 1, 0, 9]);
}

#[tokio::test]
async fn carries_an_acknowledged_write_out_later() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    unit.acknowledge(1, Duration::from_millis(1));
    assert_eq!(client.ask(1, &[3, 0, 1, 0, 1]).await, [3, 2, 0, 0], "a read is answered");
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [0x86, 5]);
    soon(unit.wait_for(|unit| unit.holding(1) == Some(9))).await;
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 8]).await, [6, 0, 1, 0, 8]);
    let replies: Vec<_> = server.handle().writes().iter().map(|write| write.reply).collect();
    assert_eq!(replies, [Reply::Exception(ExceptionCode::Acknowledge), Reply::Done]);

    unit.acknowledge(1, Duration::from_secs(3600));
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 7]).await, [0x86, 5]);
    assert_eq!(unit.holding(1), Some(8), "not at once");
}

#[tokio::test]
async fn takes_some_values_only() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    unit.limit(1..=1, 1..=60);
    for refused in [&[6, 0, 1, 0, 61][..], &[16, 0, 1, 0, 2, 4, 0, 0, 0, 5], &[22, 0, 1, 0, 0, 0, 99]] {
        assert_eq!(client.ask(1, refused).await, [refused[0] | 0x80, 3]);
    }
    assert_eq!((unit.holding(1), unit.holding(2)), (Some(0), Some(0)));
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 60]).await, [6, 0, 1, 0, 60]);
    assert_eq!(client.ask(1, &[6, 0, 2, 0, 61]).await, [6, 0, 2, 0, 61], "another register");
}

#[tokio::test]
async fn a_broadcast_reaches_all_units_and_is_not_answered() {
    let server = server();
    let handle = server.handle();
    let (one, two) = (handle.unit(1).unwrap(), handle.unit(2).unwrap());
    one.set_holdings(0, &[0]);
    let mut tcp = Client::connect(server.local_addr()).await;
    assert_eq!(tcp.ask(0, &[6, 0, 0, 0, 9]).await, [0x86, 0x0B], "no unit 0 over TCP, usually");

    handle.broadcasts(true);
    tcp.send(&adu(1, 0, &[6, 0, 0, 0, 9])).await;
    tcp.send(&adu(2, 2, &[3, 0, 0, 0, 1])).await;
    assert_eq!(tcp.receive().await, adu(2, 2, &[3, 2, 0, 9]));
    assert_eq!((one.holding(0), two.holding(0)), (Some(9), Some(9)));

    handle.broadcasts(false);
    two.silence(true);
    let line = Server::rtu_over_tcp(ANY.into(), handle).unwrap();
    let mut serial = Client::connect(line.local_addr()).await;
    serial.send(&rtu(0, &[6, 0, 0, 0, 5])).await;
    serial.send(&rtu(1, &[3, 0, 0, 0, 1])).await;
    assert_eq!(serial.bytes(7).await, rtu(1, &[3, 2, 0, 5]), "over RTU always");
    assert_eq!(two.holding(0), Some(9), "silent units do nothing");
    assert_eq!(handle.count(0, 6), 3);
    let replies: Vec<_> = handle.writes().iter().map(|write| write.reply).collect();
    let gateway = Reply::Exception(ExceptionCode::GatewayTargetDevice);
    assert_eq!(replies, [gateway, Reply::Broadcast, Reply::Broadcast]);
}
