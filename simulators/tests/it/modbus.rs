//! Functions, exceptions and disturbances, by the bytes on the wire.

use simulators::modbus::{ExceptionCode, Refusal, Reply, Table, Values, Write};

use crate::raw::{Client, adu, server};

#[tokio::test]
async fn answers_the_examples_of_the_specification() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let examples: [(&[u8], &[u8]); 9] = [
        (&[0x01, 0x00, 0x13, 0x00, 0x13], &[0x01, 0x03, 0xCD, 0x6B, 0x05]),
        (&[0x02, 0x00, 0xC4, 0x00, 0x16], &[0x02, 0x03, 0xAC, 0xDB, 0x35]),
        (&[0x03, 0x00, 0x6B, 0x00, 0x03], &[0x03, 0x06, 0x02, 0x2B, 0x00, 0x00, 0x00, 0x64]),
        (&[0x04, 0x00, 0x08, 0x00, 0x01], &[0x04, 0x02, 0x00, 0x0A]),
        (&[0x05, 0x00, 0x14, 0xFF, 0x00], &[0x05, 0x00, 0x14, 0xFF, 0x00]),
        (&[0x06, 0x00, 0x01, 0x00, 0x03], &[0x06, 0x00, 0x01, 0x00, 0x03]),
        (&[0x0F, 0x00, 0x13, 0x00, 0x0A, 0x02, 0xCD, 0x01], &[0x0F, 0x00, 0x13, 0x00, 0x0A]),
        (&[0x10, 0x00, 0x01, 0x00, 0x02, 0x04, 0x00, 0x0A, 0x01, 0x02], &[0x10, 0x00, 0x01, 0x00, 0x02]),
        (&[0x16, 0x00, 0x04, 0x00, 0xF2, 0x00, 0x25], &[0x16, 0x00, 0x04, 0x00, 0xF2, 0x00, 0x25]),
    ];
    for (request, response) in examples {
        assert_eq!(client.ask(1, request).await, response, "{request:02X?}");
    }

    let handle = server.handle();
    let unit = handle.unit(1).unwrap();
    assert_eq!([1, 2, 4].map(|address| unit.holding(address)), [Some(0x0A), Some(0x0102), Some(0x17)]);
    let coils: Vec<_> = (0x13..0x1D).filter_map(|address| unit.coil(address)).collect();
    assert_eq!(coils, [true, false, true, true, false, false, true, true, true, false]);
    let write = |function, address, values| Write { unit: 1, function, address, values, reply: Reply::Done };
    let expected = [
        write(5, 0x14, Values::Bits(vec![true])),
        write(6, 1, Values::Words(vec![3])),
        write(15, 0x13, Values::Bits(coils)),
        write(16, 1, Values::Words(vec![0x0A, 0x0102])),
        write(22, 4, Values::Words(vec![0xF2, 0x25])),
    ];
    assert_eq!(handle.writes(), expected);
    assert_eq!((handle.requests(), handle.reads(), handle.malformed()), (9, 4, 0));
    assert_eq!((unit.requests(), unit.count(16), handle.count(2, 16)), (9, 1, 0));
}

#[tokio::test]
async fn answers_exceptions_where_something_does_not_exist() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    for function in 1..=4 {
        assert_eq!(client.ask(1, &[function, 0x7F, 0, 0, 1]).await, [0x80 | function, 2]);
        assert_eq!(client.ask(9, &[function, 0, 0, 0, 1]).await, [0x80 | function, 0x0B]);
    }
    assert_eq!(client.ask(1, &[3, 0, 0x6B, 0, 4]).await, [0x83, 2], "one register too many");
    assert_eq!(client.ask(1, &[16, 0, 2, 0, 2, 4, 0, 7, 0, 7]).await, [0x90, 2]);
    assert_eq!(unit.holding(2), Some(0), "nothing is written in part");
    assert_eq!(client.ask(1, &[3, 0xFF, 0xFF, 0, 2]).await, [0x83, 2], "beyond the last address");
    unit.set_holdings(0xFFFF, &[5]);
    assert_eq!(client.ask(1, &[3, 0xFF, 0xFF, 0, 1]).await, [3, 2, 0, 5]);
    unit.with(|tables| tables.remove(Table::Holdings, 0x6C..=0x6C));
    assert_eq!(client.ask(1, &[3, 0, 0x6B, 0, 3]).await, [0x83, 2], "a hole");
}

#[tokio::test]
async fn answers_exceptions_to_malformed_requests_and_lives_on() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let too_many = [&[16, 0, 0, 0, 124, 248][..], &[0; 248]].concat();
    let requests: [(&[u8], [u8; 2]); 9] = [
        (&[3, 0, 0x6B, 0, 0], [0x83, 3]),
        (&[1, 0, 0x13, 0x07, 0xD1], [0x81, 3]),
        (&[5, 0, 0x13, 0x12, 0x34], [0x85, 3]),
        (&[6, 0, 1, 0], [0x86, 3]),
        (&[15, 0, 0x13, 0, 10, 1, 0xFF], [0x8F, 3]),
        (&[16, 0, 1, 0x80, 1, 2, 0, 7], [0x90, 3]),
        (&too_many, [0x90, 3]),
        (&[0x2B, 0x0E, 1, 0], [0xAB, 1]),
        (&[0x41], [0xC1, 1]),
    ];
    for (request, response) in requests {
        assert_eq!(client.ask(1, request).await, response, "{request:02X?}");
    }
    assert_eq!(client.ask(1, &[4, 0, 8, 0, 1]).await, [4, 2, 0, 0x0A]);
    let handle = server.handle();
    assert_eq!((handle.requests(), handle.malformed(), handle.accepted()), (10, 7, 1));
    assert_eq!(handle.count(1, 0x41), 1);
    assert!(handle.writes().is_empty());
}

#[tokio::test]
async fn keeps_order_of_pipelined_requests_in_odd_pieces() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let bytes = [
        adu(1, 1, &[6, 0, 1, 0, 9]),
        adu(2, 1, &[15, 0, 0x13, 0, 10, 1, 0xFF]),
        adu(3, 1, &[3, 0, 1, 0, 1]),
        adu(4, 9, &[3, 0, 1, 0, 1]),
        adu(5, 2, &[3, 0, 0, 0, 1]),
    ]
    .concat();
    // A boundary within a header, one within a PDU.
    let (first, rest) = bytes.split_at(10);
    let (second, third) = rest.split_at(8);
    client.send(first).await;
    // The malformed second request is complete before the third; the answer to the first shows that it arrived.
    client.send(second).await;
    assert_eq!(client.receive().await, adu(1, 1, &[6, 0, 1, 0, 9]));
    client.send(third).await;
    assert_eq!(client.receive().await, adu(2, 1, &[0x8F, 3]));
    assert_eq!(client.receive().await, adu(3, 1, &[3, 2, 0, 9]));
    assert_eq!(client.receive().await, adu(4, 9, &[0x83, 0x0B]));
    assert_eq!(client.receive().await, adu(5, 2, &[3, 2, 2, 2]));
}

#[tokio::test]
async fn a_silent_unit_does_not_hold_up_its_neighbour() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    unit.silence(true);
    client.send(&adu(1, 1, &[6, 0, 1, 0, 9])).await;
    client.send(&adu(2, 1, &[6, 0, 1])).await;
    client.send(&adu(3, 2, &[3, 0, 0, 0, 1])).await;
    // Answers keep the order of requests, so that of transaction 3 says that 1 and 2 have none.
    assert_eq!(client.receive().await, adu(3, 2, &[3, 2, 2, 2]));
    assert_eq!(unit.count(6), 2);
    assert_eq!(unit.holding(1), Some(0));
    assert_eq!(server.handle().writes().first().map(|write| write.reply), Some(Reply::Swallowed));

    unit.silence(false);
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [6, 0, 1, 0, 9]);
}

#[tokio::test]
async fn refuses_until_told_to_accept() {
    let server = server();
    let mut client = Client::connect(server.local_addr()).await;
    let unit = server.handle().unit(1).unwrap();
    unit.refuse(Refusal::all(ExceptionCode::ServerDeviceBusy).function(6).addresses(1..=1));
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [0x86, 6]);
    assert_eq!(client.ask(1, &[6, 0, 2, 0, 9]).await, [6, 0, 2, 0, 9]);
    unit.refuse(Refusal::all(ExceptionCode::GatewayPathUnavailable));
    assert_eq!(client.ask(1, &[3, 0, 1, 0, 1]).await, [0x83, 0x0A]);
    assert_eq!(client.ask(2, &[3, 0, 0, 0, 1]).await, [3, 2, 2, 2]);
    unit.accept();
    assert_eq!(client.ask(1, &[6, 0, 1, 0, 9]).await, [6, 0, 1, 0, 9]);
    let replies: Vec<_> = server.handle().writes().into_iter().map(|write| write.reply).collect();
    assert_eq!(replies, [Reply::Exception(ExceptionCode::ServerDeviceBusy), Reply::Done, Reply::Done]);
}
