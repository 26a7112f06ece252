//! The battery, step by step.

use super::*;

const BEAT: Duration = Duration::from_millis(10);

fn pass(battery: &mut Battery, millis: u32) -> Vec<Frame> {
    let frames = (0..millis / 10).flat_map(|_| battery.advance(BEAT, &[])).map(|said| match said {
        Said::State(frame) | Said::Event(frame) => frame,
    });
    frames.collect()
}

#[test]
fn messages_have_the_bytes_of_their_description() {
    let status = Status {
        voltage: 88.8,
        current: -12.5,
        charge: 70.0,
        contactor: 2,
        accepted: 2,
        alive: 9,
        health: 97.5,
    };
    assert_eq!(status.encode().bytes[..], [0x78, 0x03, 0x83, 0xFF, 140, 0x9A, 195]);
    let mut cells = [3.7; CELLS];
    (cells[3], cells[5]) = (3.701, 4.3);
    // Page 1 holds cells 4 to 6 in Motorola order.
    let frame = message::cells(1, &cells, -5.0);
    assert_eq!(frame.bytes[..], [1, 0x0E, 0x75, 0x0E, 0x74, 0x10, 0xCC, 0xFB]);
    let frame = message::temperatures(1, &[0.0, 0.0, 0.0, 25.3, -0.1, 100.0]);
    assert_eq!(frame.bytes[..], [4, 1, 0x00, 0xFD, 0xFF, 0xFF, 0x03, 0xE8]);
    assert_eq!(
        message::limits([150.0, 0.1, 100.8, 67.2]).bytes[..],
        [0xDC, 0x05, 1, 0, 0xF0, 0x03, 0xA0, 0x02]
    );
    let all = message::all(&cells, 0x0102_0304);
    assert_eq!(all.bytes.len(), 64);
    assert_eq!(all.fd.map(|fd| (fd.brs, fd.esi)), Some((true, false)));
    assert_eq!(all.bytes[..8], [0x74, 0x0E, 0x74, 0x0E, 0x74, 0x0E, 0x75, 0x0E]);
    assert_eq!(all.bytes[48..58], [0x74, 0x0E, 0xCC, 0x10, 0x8D, 0x0E, 4, 3, 2, 1]);
    assert_eq!(all.bytes[58..], [0; 6]);
}

#[test]
fn all_pages_come_in_turn() {
    let mut battery = Battery::new(false);
    let pages: Vec<_> = pass(&mut battery, 1000)
        .into_iter()
        .filter(|frame| frame.id == 0x2A0)
        .map(|frame| (frame.bytes[0], (frame.bytes[0] == 4).then(|| frame.bytes[1])))
        .collect();
    let cells = [0, 1, 2, 3].map(|page| (page, None));
    let expected = [&cells[..], &[(4, Some(0))], &cells, &[(4, Some(1))]].concat();
    assert_eq!(pages, expected);
}

#[test]
fn flexible_frames_are_sent_only_where_they_may() {
    let mut battery = Battery::new(false);
    assert!(pass(&mut battery, 1000).iter().all(|frame| frame.fd.is_none()));
    battery.set_flexible(true);
    assert_eq!(pass(&mut battery, 1000).iter().filter(|frame| frame.fd.is_some()).count(), 5);
}

#[test]
fn the_contactor_closes_after_precharging_and_opens_at_once() {
    let mut battery = Battery::new(false);
    pass(&mut battery, 500);
    assert!(battery.pack().current().abs() < f64::EPSILON);
    battery.receive(&Command::Close.encode());
    assert_eq!(battery.contactor(), Contactor::Precharging);
    let said = pass(&mut battery, 990);
    assert_eq!(battery.contactor(), Contactor::Precharging);
    let status = said.iter().find(|frame| frame.id == 0x1A0).unwrap();
    assert_eq!(status.bytes[5] & 0x0F, 0b10_01, "precharging, close accepted");
    pass(&mut battery, 10);
    assert_eq!(battery.contactor(), Contactor::Closed);
    pass(&mut battery, 1000);
    assert!(battery.pack().current() > 5.0);
    let charge = battery.pack().charge();
    pass(&mut battery, 5000);
    assert!(battery.pack().charge() < charge);
    battery.receive(&Command::Open.encode());
    pass(&mut battery, 10);
    assert_eq!(battery.contactor(), Contactor::Open);
    assert!(battery.pack().current().abs() < f64::EPSILON);
}

#[test]
fn a_broken_contactor_refuses() {
    let mut battery = Battery::new(false);
    battery.fail();
    battery.receive(&Command::Close.encode());
    let said = pass(&mut battery, 100);
    let status = said.iter().find(|frame| frame.id == 0x1A0).unwrap();
    assert_eq!(status.bytes[5] & 0x0F, 0b11_11);
    battery.repair();
    battery.receive(&Command::Close.encode());
    assert_eq!(battery.contactor(), Contactor::Precharging);
}

#[test]
fn nonsense_changes_nothing() {
    let mut battery = Battery::new(false);
    for bytes in [&[][..], &[0], &[3], &[0xFC, 1, 2, 3, 4, 5, 6, 7]] {
        let id = Id { value: COMMAND.into(), extended: false };
        battery.receive(&Frame::data(id, bytes).unwrap());
    }
    assert_eq!(battery.contactor(), Contactor::Open);
}

#[test]
fn limits_narrow_where_the_charge_ends() {
    let mut battery = Battery::new(false);
    let mut limits = |charge| {
        battery.pack_mut().set_charge(charge);
        let frame = battery.limits();
        [0, 2].map(|at| u16::from_le_bytes([frame.bytes[at], frame.bytes[at + 1]]))
    };
    assert_eq!(limits(50.0), [1500, 1500]);
    assert_eq!(limits(100.0), [0, 1500]);
    assert_eq!(limits(5.0), [1500, 750]);
}

#[test]
fn an_empty_battery_gives_nothing_and_a_full_one_takes_nothing() {
    let mut battery = Battery::new(false);
    battery.receive(&Command::Close.encode());
    for charge in [0.0, 100.0] {
        for _ in 0..6000 {
            battery.pack_mut().set_charge(charge);
            pass(&mut battery, 10);
            let current = battery.pack().current();
            assert!(if charge > 50.0 { current >= 0.0 } else { current <= 0.0 }, "{current} at {charge}");
            let cells = battery.pack().cells();
            assert!(cells.iter().all(|cell| (CELL_VOLTAGES.0..=CELL_VOLTAGES.1).contains(cell)));
        }
    }
}
