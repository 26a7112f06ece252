//! The boiler house over the wire, and its registers stepped by hand.

use std::time::Duration;

use simulators::{
    boiler::{Boiler, House, tables, tick},
    modbus::Server,
};

use crate::raw::{ANY, Client, soon};

#[tokio::test]
async fn serves_its_layout_and_its_steady_state() {
    let house = House::start();
    let server = Server::serve(ANY.into(), house.handle()).unwrap();
    let mut client = Client::connect(server.local_addr()).await;
    assert_eq!(client.ask(1, &[3, 0, 10, 0, 2]).await, [3, 4, 0x02, 0x8A, 0, 80]);
    assert_eq!(client.ask(1, &[1, 0, 0, 0, 2]).await, [1, 1, 0b11]);
    assert_eq!(client.ask(1, &[2, 0, 0, 0, 2]).await, [2, 1, 0b01]);
    let inputs = client.ask(1, &[4, 0, 0, 0, 6]).await;
    let outlet = i16::from_be_bytes(inputs[2..4].try_into().unwrap());
    let flow = f32::from_be_bytes(inputs[6..10].try_into().unwrap());
    assert!((640..=660).contains(&outlet), "{outlet}");
    assert!((9.0..10.0).contains(&flow), "{flow}");
    for beyond in [[4, 0, 6, 0, 1], [3, 0, 12, 0, 1], [1, 0, 2, 0, 1], [2, 0, 2, 0, 1]] {
        assert_eq!(client.ask(1, &beyond).await, [0x80 | beyond[0], 2]);
    }
    soon(house.stop()).await;
    soon(server.stop()).await;
    client.closed().await;
}

#[tokio::test]
async fn physics_run_while_it_is_served() {
    let house = House::start();
    let server = Server::serve(ANY.into(), house.handle()).unwrap();
    let unit = house.handle().unit(1).unwrap();
    soon(unit.wait_for(|unit| unit.input(5) > Some(0))).await;
    let mut client = Client::connect(server.local_addr()).await;
    client.ask(1, &[5, 0, 1, 0, 0]).await;
    soon(unit.wait_for(|unit| unit.discrete(0) == Some(false))).await;
    soon(house.stop()).await;
}

#[test]
fn a_written_setpoint_moves_the_outlet_register() {
    let (mut boiler, mut tables) = (Boiler::new(1), tables());
    tables.set_holdings(10, &[750]);
    for _ in 0..600 {
        tick(&mut boiler, &mut tables, Duration::from_millis(100));
    }
    let outlet = tables.input(0).unwrap();
    assert!((745..=755).contains(&outlet), "{outlet}");
    assert_eq!(tables.holding(10), Some(750));

    tables.set_holdings(10, &[u16::MAX]);
    tables.set_coils(0, &[false]);
    for _ in 0..200 {
        tick(&mut boiler, &mut tables, Duration::from_millis(100));
    }
    assert_eq!((tables.discrete(0), tables.discrete(1)), (Some(false), Some(true)));
    assert_eq!((tables.input(2), tables.input(3)), (Some(0), Some(0)), "the water stands");
    assert_eq!(tables.holding(10), Some(u16::MAX), "accepted as it is");
}
