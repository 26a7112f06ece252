//! The drive, step by step and on a bus.

use proptest::prelude::*;

use super::*;
use crate::can::{Bus, Device, Fault, crc::j1850};

const BEAT: Duration = Duration::from_millis(10);

fn command(counter: u8) -> Command {
    Command { enable: true, reset: false, counter, setpoint: 900.0 }
}

/// What it says in so many milliseconds.
fn pass(drive: &mut Drive, millis: u32) -> Vec<Frame> {
    let frames = (0..millis / 10).flat_map(|_| drive.advance(BEAT, &[])).map(|said| match said {
        Said::State(frame) | Said::Event(frame) => frame,
    });
    frames.collect()
}

/// Commands every 100 ms.
fn drive_for(drive: &mut Drive, seconds: u8, like: Command) {
    let first = drive.command.map_or(0, |(command, _)| command.counter);
    for counter in 1..=seconds * 10 {
        drive.receive(&Command { counter: (first + counter) % 16, ..like }.encode());
        pass(drive, 100);
    }
}

#[test]
fn messages_have_the_bytes_of_their_description() {
    let status = Status {
        state: 2,
        alive: 0xA,
        speed: -1500.5,
        torque: -70.0,
        reference: 1200.0,
        enabled: true,
        warm: true,
    };
    // -3001 is 0xF447, 2400 is 0x0960.
    let body = [0xA2, 0x47, 0xF4, 0xBA, 0x60, 0x09, 0x03];
    assert_eq!(status.encode().bytes[..7], body);
    assert_eq!(status.encode().bytes[7], j1850(&body));
    assert_eq!(status.encode().id, 0x181);
    // 65.3 °C are 1053 steps of 0.1 °C from -40 °C, 0x041D in Motorola order.
    assert_eq!(message::temperatures(25.1, 65.3, -3.0).bytes[..], [0xFB, 0x00, 0x04, 0x1D, 0xFD]);
    assert_eq!(message::faults(2, 1, 0x0304, 0x0506_0708).bytes[..], [2, 1, 4, 3, 8, 7, 6, 5]);
    let command = Command { enable: true, reset: true, counter: 5, setpoint: 900.0 };
    let body = [0x53, 0x08, 0x07, 0, 0, 0, 0];
    assert_eq!(command.encode().bytes[..7], body);
    assert_eq!(Command::decode(&command.encode()), Some(command));
}

#[test]
fn speaks_in_its_cycles_and_counts_itself() {
    let mut drive = Drive::new();
    let frames = pass(&mut drive, 1000);
    let count = |id: u32| frames.iter().filter(|frame| frame.id == id).count();
    assert_eq!([0x181, 0x281, 0x381].map(count), [20, 2, 1]);
    let counters: Vec<_> =
        frames.iter().filter(|frame| frame.id == 0x181).map(|frame| frame.bytes[0] >> 4).collect();
    assert_eq!(counters, (0..20).map(|count| count % 16).collect::<Vec<_>>());
}

#[test]
fn runs_up_and_answers_with_the_setpoint_in_its_next_status() {
    let mut drive = Drive::new();
    drive.receive(&command(0).encode());
    assert_eq!(drive.state(), State::Running);
    let status = pass(&mut drive, 50).into_iter().find(|frame| frame.id == 0x181).unwrap();
    assert_eq!(status.bytes[4..6], 1800_i16.to_le_bytes());
    drive_for(&mut drive, 2, command(0));
    assert!((drive.motor().speed() - 900.0).abs() < 0.01, "{}", drive.motor().speed());
    assert!(drive.motor().torque() > 1.0);
    drive_for(&mut drive, 1, Command { enable: false, ..command(0) });
    assert_eq!(drive.state(), State::Ready);
    assert!(drive.motor().speed().abs() < 0.01);
}

#[test]
fn stopping_takes_its_time_and_can_be_called_off() {
    let mut drive = Drive::new();
    drive_for(&mut drive, 2, command(0));
    drive.receive(&Command { enable: false, ..command(15) }.encode());
    assert_eq!(drive.state(), State::Stopping);
    pass(&mut drive, 200);
    assert!((600.0..800.0).contains(&drive.motor().speed()), "{}", drive.motor().speed());
    drive.receive(&command(0).encode());
    assert_eq!(drive.state(), State::Running);
}

#[test]
fn ignores_commands_that_are_not_good() {
    let mut drive = Drive::new();
    let good = command(3).encode();
    let mut wrong = good.bytes.to_vec();
    wrong[7] ^= 1;
    let mut changed = good.bytes.to_vec();
    changed[1] ^= 1;
    let short = &good.bytes[..7];
    for bytes in [&wrong[..], &changed, short, &[]] {
        let id = Id { value: 0x201, extended: false };
        drive.receive(&Frame::data(id, bytes).unwrap());
    }
    assert_eq!((drive.accepted(), drive.rejected(), drive.state()), (0, 4, State::Ready));
    drive.receive(&good);
    drive.receive(&Command { setpoint: 100.0, ..command(3) }.encode());
    assert_eq!((drive.accepted(), drive.rejected()), (1, 5));
    assert!((drive.reference() - 900.0).abs() < 0.01);
    // Some may be lost on the way.
    drive.receive(&Command { setpoint: 100.0, ..command(7) }.encode());
    assert_eq!(drive.accepted(), 2);
    assert!((drive.reference() - 100.0).abs() < 0.01);
}

#[test]
fn without_commands_it_fails_and_waits_for_a_reset() {
    let mut drive = Drive::new();
    drive.receive(&command(0).encode());
    pass(&mut drive, 490);
    assert_eq!(drive.state(), State::Running);
    let said = pass(&mut drive, 10);
    assert_eq!((drive.state(), drive.trouble()), (State::Fault, Trouble::CommandLost));
    assert!(said.iter().any(|frame| frame.id == 0x381 && frame.bytes[0] == 2), "it says so at once");
    // After the pause any counter is good, even the same.
    drive.receive(&command(0).encode());
    assert_eq!((drive.state(), drive.accepted()), (State::Fault, 2));
    drive.receive(&Command { reset: true, enable: false, ..command(1) }.encode());
    assert_eq!((drive.state(), drive.trouble()), (State::Ready, Trouble::None));
    let said = pass(&mut drive, 10);
    assert!(said.iter().any(|frame| frame.id == 0x381 && frame.bytes[..4] == [0, 2, 1, 0]));
}

#[test]
fn a_reset_counts_when_it_changes_to_true() {
    let mut drive = Drive::new();
    drive.receive(&Command { reset: true, ..command(0) }.encode());
    drive.fail(Trouble::Encoder);
    drive.receive(&Command { reset: true, ..command(1) }.encode());
    assert_eq!(drive.state(), State::Fault);
    drive.receive(&command(2).encode());
    drive.receive(&Command { reset: true, ..command(3) }.encode());
    assert_eq!(drive.state(), State::Running);
}

#[test]
fn load_warms_and_heat_stops_it() {
    let mut drive = Drive::new();
    let cold = drive.motor().temperature();
    drive_for(&mut drive, 10, Command { setpoint: 3000.0, ..command(0) });
    let warm = drive.motor().temperature();
    assert!(warm > cold + 2.0, "{warm}");
    drive.motor_mut().heat(150.0);
    pass(&mut drive, 10);
    assert_eq!((drive.state(), drive.trouble()), (State::Fault, Trouble::OverTemperature));
    let reset = |counter, reset| Command { reset, enable: false, ..command(counter) }.encode();
    drive.receive(&reset(12, true));
    assert_eq!(drive.state(), State::Fault, "still too hot");
    drive.motor_mut().heat(60.0);
    drive.receive(&reset(13, false));
    drive.receive(&reset(14, true));
    assert_eq!((drive.state(), drive.count()), (State::Ready, 1));
}

#[test]
fn without_power_it_coasts() {
    let mut drive = Drive::new();
    drive_for(&mut drive, 2, command(0));
    drive.set_power(false);
    drive.receive(&command(15).encode());
    assert_eq!(drive.state(), State::Off);
    pass(&mut drive, 3000);
    assert!(drive.motor().speed().abs() < 0.01);
    drive.set_power(true);
    assert_eq!(drive.state(), State::Ready);
}

#[tokio::test(start_paused = true)]
async fn on_a_bus_faults_silence_it_and_freeze_its_counter() {
    let bus = Bus::new("can0");
    let drive = Device::start(&bus, Drive::new());
    let mut port = bus.attach();
    let mut alive = async |count: usize| {
        let mut counters = Vec::new();
        while counters.len() < count {
            let frame = port.recv().await.frame;
            counters.extend((frame.id == 0x181).then(|| frame.bytes[0] >> 4));
        }
        counters
    };
    assert_eq!(alive(4).await, [0, 1, 2, 3]);
    bus.faults(&["stuck-counter=181".parse::<Fault>().unwrap()]);
    assert_eq!(alive(3).await, [4, 4, 4]);
    bus.faults(&["silence=pump-drive".parse::<Fault>().unwrap()]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = bus.carried();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(bus.carried(), before);
    bus.faults(&[]);
    assert_eq!(alive(1).await.len(), 1);
    let sender = bus.attach();
    sender.send(command(0).encode()).await.unwrap();
    drive.wait_for(|drive| drive.motor().speed() > 40.0).await;
    drive.stop().await;
    assert_eq!(bus.ports(), 2);
}

proptest! {
    #[test]
    fn any_bytes_and_any_time_do_it_no_harm(
        frames in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..=8), 0..300_u64), 0..40),
    ) {
        let mut drive = Drive::new();
        for (bytes, millis) in frames {
            let id = Id { value: COMMAND.into(), extended: false };
            drive.receive(&Frame::data(id, &bytes).unwrap());
            for said in drive.advance(Duration::from_millis(millis), &[]) {
                let (Said::State(frame) | Said::Event(frame)) = said;
                prop_assert_eq!(frame.check(), Ok(()));
            }
        }
        prop_assert!(drive.motor().speed().abs() <= FASTEST);
    }
}
