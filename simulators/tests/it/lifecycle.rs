//! Starting, stopping, counting connections and waiting.

use simulators::modbus::Server;
use tokio::io::AsyncWriteExt;

use crate::raw::{ANY, Client, adu, server, soon};

#[tokio::test]
async fn stops_at_once_and_starts_again_on_its_port() {
    let server = server();
    let (addr, handle) = (server.local_addr(), server.handle().clone());
    let mut clients = [Client::connect(addr).await, Client::connect(addr).await];
    for client in &mut clients {
        client.ask(1, &[6, 0, 1, 0, 9]).await;
    }
    assert_eq!((handle.open(), handle.accepted()), (2, 2));
    soon(server.stop()).await;
    assert_eq!(handle.open(), 0);
    for client in &mut clients {
        client.closed().await;
    }
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());

    let again = Server::serve(addr, &handle).unwrap();
    assert_eq!(again.local_addr(), addr);
    let mut client = Client::connect(addr).await;
    assert_eq!(client.ask(1, &[3, 0, 1, 0, 1]).await, [3, 2, 0, 9], "the registers outlive the server");
    assert_eq!((handle.open(), handle.accepted(), handle.writes().len()), (1, 3, 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn has_closed_every_connection_when_it_has_stopped() {
    let server = server();
    let handle = server.handle().clone();
    let mut clients = Vec::new();
    for _ in 0..100 {
        let mut client = Client::connect(server.local_addr()).await;
        client.ask(2, &[3, 0, 0, 0, 1]).await;
        clients.push(client);
    }
    assert_eq!(handle.open(), 100);
    soon(server.stop()).await;
    assert_eq!(handle.open(), 0);
    for client in &mut clients {
        client.closed().await;
    }
}

#[tokio::test]
async fn stops_while_an_answer_is_held_back() {
    let server = server();
    let handle = server.handle().clone();
    let mut client = Client::connect(server.local_addr()).await;
    handle.unit(1).unwrap().delay(std::time::Duration::from_secs(3600));
    client.send(&adu(1, 1, &[6, 0, 1, 0, 9])).await;
    soon(handle.wait_for(|handle| handle.count(1, 6) == 1)).await;
    soon(server.stop()).await;
    client.closed().await;
}

#[tokio::test]
async fn dropping_a_server_closes_it() {
    let server = server();
    let handle = server.handle().clone();
    let mut client = Client::connect(server.local_addr()).await;
    client.ask(2, &[3, 0, 0, 0, 1]).await;
    drop(server);
    client.closed().await;
    soon(handle.wait_for(|handle| handle.open() == 0)).await;
}

#[tokio::test]
async fn a_taken_port_is_an_error() {
    let server = server();
    let error = Server::serve(server.local_addr(), server.handle()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse);
}

#[tokio::test]
async fn counts_a_client_that_leaves() {
    let server = server();
    let handle = server.handle();
    let mut client = Client::connect(server.local_addr()).await;
    soon(handle.wait_for(|handle| handle.open() == 1)).await;
    client.0.shutdown().await.unwrap();
    soon(handle.wait_for(|handle| handle.open() == 0)).await;
    client.closed().await;
    assert_eq!(handle.accepted(), 1);
}

#[tokio::test]
async fn closes_what_is_not_modbus() {
    let server = server();
    for bytes in [
        *b"GET / HTTP/1",
        [0, 1, 0, 0, 0, 1, 1, 3, 0, 0, 0, 1],
        [0, 1, 0, 0, 1, 7, 1, 3, 0, 0, 0, 1],
        [0, 1, 0, 1, 0, 6, 1, 3, 0, 1, 0, 0],
    ] {
        let mut client = Client::connect(server.local_addr()).await;
        client.send(&bytes).await;
        client.closed().await;
    }
    assert_eq!(server.handle().requests(), 0);
}

#[tokio::test]
async fn waits_for_a_register_and_for_a_count() {
    let server = Server::start(ANY.into(), [(1, simulators::modbus::Tables::new())]).unwrap();
    let unit = server.handle().unit(1).unwrap();
    unit.set_holdings(0, &[0]);
    let waiting = tokio::spawn({
        let unit = unit.clone();
        async move {
            unit.wait_for(|unit| unit.holding(0) == Some(3)).await;
            unit.wait_for(|unit| unit.count(3) == 2).await;
            unit.holding(0)
        }
    });
    let mut client = Client::connect(server.local_addr()).await;
    for value in 1..=3 {
        client.ask(1, &[6, 0, 0, 0, value]).await;
    }
    for _ in 0..2 {
        client.ask(1, &[3, 0, 0, 0, 1]).await;
    }
    assert_eq!(soon(waiting).await.unwrap(), Some(3));
}
