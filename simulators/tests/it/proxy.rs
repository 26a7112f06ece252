//! The proxy between raw clients and a server.

use std::time::Duration;

use simulators::modbus::{Fault, Framing, Proxy, Server, Tables};
use tokio::io::AsyncReadExt;

use crate::raw::{ANY, Client, adu, rtu, server, soon};

const READ: [u8; 5] = [3, 0, 0x6B, 0, 1];
const ANSWER: [u8; 4] = [3, 2, 0x02, 0x2B];

fn proxy(server: &Server) -> Proxy {
    Proxy::start(ANY.into(), server.local_addr(), Framing::Tcp).unwrap()
}

#[tokio::test]
async fn passes_everything_on_and_records_it() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    client.send(&[adu(1, 1, &READ), adu(2, 1, &[6, 0, 1, 0, 9])].concat()).await;
    assert_eq!(client.receive().await, adu(1, 1, &ANSWER));
    assert_eq!(client.receive().await, adu(2, 1, &[6, 0, 1, 0, 9]));
    assert_eq!(proxy.requests(), [adu(1, 1, &READ), adu(2, 1, &[6, 0, 1, 0, 9])]);
    assert_eq!(proxy.sent(), [adu(1, 1, &ANSWER), adu(2, 1, &[6, 0, 1, 0, 9])]);
    drop(client);
    soon(server.handle().wait_for(|handle| handle.open() == 0)).await;
}

#[tokio::test]
async fn disturbs_the_next_answer_or_all() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    proxy.always(Some(Fault::Exception(0x0B)));
    proxy.next(Fault::Drop);
    proxy.next(Fault::Duplicate);
    client.send(&adu(1, 1, &READ)).await;
    client.send(&adu(2, 1, &READ)).await;
    client.send(&adu(3, 1, &READ)).await;
    client.send(&adu(4, 1, &READ)).await;
    for _ in 0..2 {
        assert_eq!(client.receive().await, adu(2, 1, &ANSWER));
    }
    assert_eq!(client.receive().await, adu(3, 1, &[0x83, 0x0B]));
    assert_eq!(client.receive().await, adu(4, 1, &[0x83, 0x0B]));
    proxy.always(None);
    client.send(&adu(5, 1, &READ)).await;
    assert_eq!(client.receive().await, adu(5, 1, &ANSWER));
    assert_eq!(server.handle().requests(), 5, "what is asked is done all the same");
}

#[tokio::test]
async fn pairs_answers_with_requests_that_got_none() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    server.handle().unit(1).unwrap().silence(true);
    proxy.always(Some(Fault::Exception(4)));
    client.send(&adu(1, 1, &READ)).await;
    client.send(&adu(2, 2, &[3, 0, 0, 0, 1])).await;
    assert_eq!(client.receive().await, adu(2, 2, &[0x83, 4]));
}

#[tokio::test]
async fn a_late_answer_is_late_and_the_next_waits_behind_it() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    proxy.next(Fault::Delay(Duration::from_millis(50)));
    client.send(&adu(1, 1, &READ)).await;
    client.send(&adu(2, 1, &READ)).await;
    soon(server.handle().wait_for(|handle| handle.requests() == 2)).await;
    assert_eq!(client.receive().await, adu(1, 1, &ANSWER));
    assert_eq!(client.receive().await, adu(2, 1, &ANSWER));
}

#[tokio::test]
async fn answers_overtake() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    proxy.next(Fault::AfterNext);
    client.send(&adu(1, 1, &READ)).await;
    client.send(&adu(2, 1, &READ)).await;
    assert_eq!(client.receive().await, adu(2, 1, &ANSWER));
    assert_eq!(client.receive().await, adu(1, 1, &ANSWER));
}

#[tokio::test]
async fn bytes_come_alone() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    proxy.next("single-bytes=1ms".parse().unwrap());
    client.send(&adu(1, 1, &READ)).await;
    assert_eq!(client.receive().await, adu(1, 1, &ANSWER));
    let single: Vec<_> = adu(1, 1, &ANSWER).iter().map(|byte| vec![*byte]).collect();
    assert_eq!(proxy.sent(), single);
}

#[tokio::test]
async fn ends_connections_in_every_way() {
    let server = server();
    let proxy = proxy(&server);

    proxy.next(Fault::Half);
    let mut client = Client::connect(proxy.local_addr()).await;
    client.send(&adu(1, 1, &READ)).await;
    assert_eq!(client.bytes(5).await, adu(1, 1, &ANSWER)[..5]);
    client.closed().await;

    proxy.always(Some(Fault::CloseAfter(2)));
    let mut client = Client::connect(proxy.local_addr()).await;
    for _ in 0..2 {
        assert_eq!(client.ask(1, &READ).await, ANSWER);
    }
    client.closed().await;
    proxy.always(None);

    proxy.next(Fault::Reset);
    let mut client = Client::connect(proxy.local_addr()).await;
    client.send(&adu(1, 1, &READ)).await;
    let error = soon(client.0.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn hangs_without_reading_until_it_is_stopped() {
    let server = server();
    let proxy = proxy(&server);
    proxy.next(Fault::Hang);
    let mut client = Client::connect(proxy.local_addr()).await;
    client.send(&adu(1, 1, &READ)).await;
    soon(server.handle().wait_for(|handle| handle.requests() == 1)).await;
    // Another connection is served: only this one hangs.
    let mut other = Client::connect(proxy.local_addr()).await;
    assert_eq!(other.ask(1, &READ).await, ANSWER);
    for transaction in 2..50 {
        client.send(&adu(transaction, 1, &READ)).await;
    }
    assert_eq!(other.ask(1, &READ).await, ANSWER);
    let seen = server.handle().requests();
    assert!(seen <= 4, "one read before it hung, at the most: {seen}");
    soon(proxy.stop()).await;
    let ended = soon(client.0.read(&mut [0; 16])).await;
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

#[tokio::test]
async fn leaves_it_to_the_server_to_judge_what_is_not_modbus() {
    let server = server();
    let proxy = proxy(&server);
    let mut client = Client::connect(proxy.local_addr()).await;
    client.send(b"GET / HTTP/1.1\r\n\r\n").await;
    client.closed().await;
    assert_eq!(proxy.requests().concat(), b"GET / HTTP/1.1\r\n\r\n");
}

#[tokio::test]
async fn knows_rtu_frames_too() {
    let units = server();
    let server = Server::rtu_over_tcp(ANY.into(), units.handle()).unwrap();
    let proxy = Proxy::start(ANY.into(), server.local_addr(), Framing::Rtu).unwrap();
    let mut client = Client::connect(proxy.local_addr()).await;
    proxy.next("swapped-crc+echo".parse().unwrap());
    let request = rtu(1, &READ);
    let mut answer = rtu(1, &ANSWER);
    answer[5..].reverse();
    client.send(&request).await;
    let expected = [&request[..], &answer].concat();
    assert_eq!(client.bytes(expected.len()).await, expected);
    // Noise is passed on as well, and recorded on its own.
    client.send(&[&[0xFF, 0xFE][..], &request].concat()).await;
    assert_eq!(client.bytes(7).await, rtu(1, &ANSWER));
    assert_eq!(proxy.requests(), [request.clone(), vec![0xFF, 0xFE], request]);
}

/// Case A11: registers hold their addresses; some answers come after the client has given up.
#[tokio::test]
async fn a_thousand_answers_of_random_lateness_are_each_right_and_in_order() {
    let mut tables = Tables::new();
    tables.set_holdings(0, &(0..1000).collect::<Vec<u16>>());
    let server = Server::start(ANY.into(), [(1, tables)]).unwrap();
    let proxy = proxy(&server);
    proxy.always(Some("delay-randomly=0ms..3ms:7".parse().unwrap()));
    let mut client = Client::connect(proxy.local_addr()).await;
    for address in 0..1000_u16 {
        let [high, low] = address.to_be_bytes();
        client.send(&adu(address, 1, &[3, high, low, 0, 1])).await;
    }
    for address in 0..1000_u16 {
        let [high, low] = address.to_be_bytes();
        assert_eq!(client.receive().await, adu(address, 1, &[3, 2, high, low]));
    }
}
