//! The meter on its line.

use simulators::{
    meter::{Feed, Load},
    modbus::{Line, Pace},
};
use tokio_modbus::{client, prelude::*};
use tokio_serial::SerialPortBuilderExt;

use crate::raw::soon;

#[tokio::test]
async fn serves_its_registers_on_a_line() {
    let meter = Feed::start(|| Load { pump: 1.0, burner: true });
    let line = Line::start(meter.handle(), Pace::baud(115_200)).unwrap();
    let unit = meter.handle().unit(1).unwrap();
    // High word of a float32: above 3 A.
    soon(unit.wait_for(|unit| unit.input(7) > Some(0x4040))).await;
    let port = tokio_serial::new(line.path().to_str().unwrap(), 115_200).open_native_async().unwrap();
    let mut context = client::rtu::attach_slave(port, Slave(1));
    let inputs = soon(context.read_input_registers(0, 29)).await.unwrap().unwrap();
    let voltage = f32::from_bits(u32::from(inputs[1]) << 16 | u32::from(inputs[0]));
    assert!((225.0..235.0).contains(&voltage), "{voltage}");
    assert_eq!(inputs[28], 0x0142);
    let outside = soon(context.read_input_registers(28, 2)).await.unwrap();
    assert_eq!(outside, Err(ExceptionCode::IllegalDataAddress));

    assert_eq!(soon(context.read_holding_registers(0, 7)).await.unwrap().unwrap(), [15, 0, 0, 6, 9, 17, 22]);
    for (address, value) in [(0, 0), (0, 61), (1, 3), (3, 25), (6, 25)] {
        let refused = soon(context.write_single_register(address, value)).await.unwrap();
        assert_eq!(refused, Err(ExceptionCode::IllegalDataValue), "{value} at {address}");
    }
    soon(context.write_multiple_registers(3, &[0, 24, 8, 20])).await.unwrap().unwrap();
    soon(context.write_single_register(2, 1)).await.unwrap().unwrap();
    soon(unit.wait_for(|unit| unit.holding(2) == Some(0))).await;

    drop(context);
    line.stop();
    soon(meter.stop()).await;
}
