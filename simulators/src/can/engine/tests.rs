//! The engine, step by step and on a bus.

use proptest::prelude::*;

use super::*;
use crate::can::{Bus, Device};

const BEAT: Duration = Duration::from_millis(10);

fn frame(said: Said) -> Frame {
    let (Said::State(frame) | Said::Event(frame)) = said;
    frame
}

/// What it says in so many milliseconds, and when.
fn pass(engine: &mut Engine, millis: u32) -> Vec<(u32, Frame)> {
    let beats = (1..=millis / 10).flat_map(|beat| {
        let said = engine.advance(BEAT, &[]);
        said.into_iter().map(move |said| (beat * 10, frame(said)))
    });
    beats.collect()
}

fn of(frames: &[(u32, Frame)], id: u32) -> Vec<[u8; 8]> {
    let frames = frames.iter().filter(|(_, frame)| frame.id == id && frame.extended);
    frames.map(|(_, frame)| frame.bytes[..].try_into().unwrap()).collect()
}

fn request(pgn: u32, to: u8) -> Frame {
    let [low, mid, high, _] = pgn.to_le_bytes();
    Frame::extended(identifier(6, REQUEST | u32::from(to), 0xF9), [low, mid, high])
}

/// The announced size and group, the packets' numbers, and the bytes.
fn reassemble(frames: &[(u32, Frame)], source: u32) -> Vec<(u32, Vec<u8>)> {
    let mut messages: Vec<(u32, usize, Vec<u8>, u8)> = Vec::new();
    for (_, frame) in frames {
        if frame.id == 0x1CEC_FF00 | source {
            let [32, low, high, count, 0xFF, a, b, c] = frame.bytes[..] else { panic!("{frame}") };
            let size = usize::from(u16::from_le_bytes([low, high]));
            assert_eq!(usize::from(count), size.div_ceil(7));
            messages.push((u32::from_le_bytes([a, b, c, 0]), size, Vec::new(), 1));
        } else if frame.id == 0x1CEB_FF00 | source {
            let (_, _, bytes, next) = messages.last_mut().unwrap();
            assert_eq!(frame.bytes[0], *next);
            *next = next.wrapping_add(1);
            bytes.extend(&frame.bytes[1..]);
        }
    }
    let whole = messages.into_iter().filter(|(_, size, bytes, _)| bytes.len() >= *size);
    whole
        .map(|(pgn, size, mut bytes, _)| {
            assert!(bytes[size..].iter().all(|byte| *byte == 0xFF));
            bytes.truncate(size);
            (pgn, bytes)
        })
        .collect()
}

#[test]
fn speaks_in_its_cycles_with_the_bytes_of_the_standard() {
    let mut engine = Engine::new(0);
    let frames = pass(&mut engine, 1000);
    let eec1 = of(&frames, 0x0CF0_0400);
    assert_eq!(eec1.len(), 20);
    // Idle: 12 % torque, 650 rpm are 5200 steps, governed by itself.
    assert_eq!(eec1[0], [0xF0, 137, 137, 0x50, 0x14, 0x00, 0xF0, 0xFF]);
    let [et1] = of(&frames, 0x18FE_EE00)[..] else { panic!() };
    // 21 °C; no sensor for the fuel; oil at 20 °C is 9376 steps from -273 °C.
    assert_eq!([et1[0], et1[1]], [61, 0xFF]);
    assert_eq!(et1[4..], [0xFF; 4]);
    assert_eq!(of(&frames, 0x18FE_EF00)[0], [95, 0xFF, 205, 30, 0xFF, 0xFF, 0xFF, 240]);
    let [hours] = of(&frames, 0x18FE_E500)[..] else { panic!() };
    assert_eq!(hours[..4], 24690_u32.to_le_bytes());
    assert_eq!(hours[4..], 103_698_u32.to_le_bytes());
    assert_eq!(of(&frames, 0x18FE_F200).len(), 10);
    assert_eq!(of(&frames, 0x18FE_CA00), [[0, 0xFF, 0, 0, 0, 0, 0xFF, 0xFF]]);
}

#[test]
fn sensors_report_errors_and_absence() {
    let mut engine = Engine::new(0);
    for (sensor, health) in [
        (Sensor::Speed, Health::Error),
        (Sensor::Coolant, Health::Error),
        (Sensor::OilTemperature, Health::Absent),
        (Sensor::FuelTemperature, Health::Good),
        (Sensor::Hours, Health::Error),
        (Sensor::Revolutions, Health::Absent),
    ] {
        engine.set_sensor(sensor, health);
    }
    let frames = pass(&mut engine, 1000);
    assert_eq!(of(&frames, 0x0CF0_0400)[0][3..5], [0x00, 0xFE]);
    assert_eq!(of(&frames, 0x18FE_EE00)[0][..4], [0xFE, 70, 0xFF, 0xFF]);
    assert_eq!(of(&frames, 0x18FE_E500)[0], [0, 0, 0, 0xFE, 0xFF, 0xFF, 0xFF, 0xFF]);
}

#[test]
fn a_requested_speed_is_ramped_to_and_released() {
    let mut engine = Engine::new(3);
    engine.receive(&Control::Speed(1000.0).encode(3, 0xF9));
    let frames = pass(&mut engine, 1000);
    let speeds: Vec<_> =
        of(&frames, 0x0CF0_0403).iter().map(|bytes| u16::from_le_bytes([bytes[3], bytes[4]])).collect();
    assert!(speeds.is_sorted() && speeds[0] < 6000, "{speeds:?}");
    let last = *of(&frames, 0x0CF0_0403).last().unwrap();
    assert_eq!(
        [last[0], last[3], last[4], last[5]],
        [0xF2, 0x40, 0x1F, 0xF9],
        "8000 steps, speed control by 0xF9"
    );
    engine.receive(&Control::Off.encode(3, 0xF9));
    let frames = pass(&mut engine, 2000);
    let last = *of(&frames, 0x0CF0_0403).last().unwrap();
    assert_eq!([last[0], last[3], last[4], last[5]], [0xF0, 0x50, 0x14, 0x03]);
}

#[test]
fn one_code_fits_a_frame() {
    let mut engine = Engine::new(0);
    engine
        .set_trouble(&[Lamp::Malfunction, Lamp::Warning], vec![Code { spn: 0x7_1234, fmi: 31, count: 126 }]);
    let frames = pass(&mut engine, 1000);
    assert_eq!(of(&frames, 0x18FE_CA00), [[0x44, 0xFF, 0x34, 0x12, 0xFF, 126, 0xFF, 0xFF]]);
    assert_eq!(reassemble(&frames, 0), []);
}

#[test]
fn more_codes_are_announced_and_sent_in_packets() {
    let mut engine = Engine::new(3);
    let code = |spn, fmi| Code { spn, fmi, count: 1 };
    engine.set_trouble(&[Lamp::Stop], vec![code(110, 0), code(100, 1), code(520_192, 31)]);
    let frames = pass(&mut engine, 2000);
    let expected = [0x10, 0xFF, 110, 0, 0, 1, 100, 0, 1, 1, 0x00, 0xF0, 0xFF, 1];
    assert_eq!(reassemble(&frames, 3), [(0xFECA, expected.to_vec())], "the second one is on its way");
    let transport = |(_, frame): &&(u32, Frame)| matches!(frame.id >> 16, 0x1CEB | 0x1CEC);
    let times: Vec<_> = frames.iter().filter(transport).map(|(time, _)| *time).collect();
    assert_eq!(times, [1000, 1050, 1100, 2000]);
    assert_eq!(of(&frames, 0x1CEC_FF03)[0], [32, 14, 0, 2, 0xFF, 0xCA, 0xFE, 0x00]);
    assert!(of(&frames, 0x18FE_CA03).is_empty());
}

#[test]
fn the_longest_message_has_255_packets_and_the_others_their_turn() {
    let mut engine = Engine::new(0);
    let codes = (0..1000).map(|spn| Code { spn, fmi: 1, count: 1 }).collect();
    engine.set_trouble(&[], codes);
    assert_eq!(engine.codes().len(), 445);
    let frames = pass(&mut engine, 30_000);
    let messages = reassemble(&frames, 0);
    let groups: Vec<_> = messages.iter().map(|(pgn, bytes)| (*pgn, bytes.len())).collect();
    assert_eq!(groups[..2], [(0xFECA, 1782), (0xFEEB, engine.component().len())]);
    assert!(groups.iter().filter(|(pgn, _)| *pgn == 0xFECA).count() >= 2, "{groups:?}");
}

#[test]
fn identifies_itself_every_ten_seconds_and_when_asked() {
    let mut engine = Engine::new(0);
    let expected = (0xFEEB, engine.component().as_bytes().to_vec());
    assert_eq!(engine.component().matches('*').count(), 4);
    assert!(engine.component().ends_with('*'));
    assert_eq!(reassemble(&pass(&mut engine, 10_900), 0), std::slice::from_ref(&expected));
    assert!(engine.receive(&request(COMPONENT, GLOBAL)).is_empty());
    assert_eq!(reassemble(&pass(&mut engine, 1000), 0), [expected]);
}

#[test]
fn requests_are_answered_or_refused() {
    let mut engine = Engine::new(3);
    let said: Vec<_> = engine.receive(&request(HOURS, 3)).into_iter().map(frame).collect();
    assert_eq!(said.iter().map(|frame| frame.id).collect::<Vec<_>>(), [0x18FE_E503]);
    let said: Vec<_> = engine.receive(&request(0x1_FE00, 3)).into_iter().map(frame).collect();
    let expected = Frame::extended(0x18E8_FF03, [1, 0xFF, 0xFF, 0xFF, 0xF9, 0x00, 0xFE, 0x01]);
    assert_eq!(said, [expected]);
    assert!(engine.receive(&request(0xFE00, GLOBAL)).is_empty(), "nobody refuses what all are asked for");
}

#[tokio::test(start_paused = true)]
async fn two_engines_are_told_apart_by_their_addresses() {
    let bus = Bus::new("can0");
    let engines = [0, 3].map(|address| Device::start(&bus, Engine::new(address)));
    let mut port = bus.attach();
    port.send(Control::Speed(1200.0).encode(3, 0xF9)).await.unwrap();
    engines[1].wait_for(|engine| engine.diesel().speed() > 1199.0).await;
    assert_eq!(engines[0].with(|engine| engine.control()), Control::Off);
    assert!(engines[0].with(|engine| engine.diesel().speed()) < 651.0);
    let sources: std::collections::BTreeSet<_> = std::iter::from_fn(|| port.try_recv())
        .filter(|got| !got.own)
        .map(|got| got.frame.id & 0xFF)
        .collect();
    assert_eq!(sources, [0, 3].into());
    // Asked together, both answer.
    port.send(request(COMPONENT, GLOBAL)).await.unwrap();
    let mut frames = Vec::new();
    for _ in 0..100 {
        frames.push((0, port.recv().await.frame));
    }
    for (engine, source) in engines.iter().zip([0, 3]) {
        let component = engine.with(|engine| engine.component().as_bytes().to_vec());
        assert_eq!(reassemble(&frames, source), [(0xFEEB, component)]);
    }
}

proptest! {
    #[test]
    fn any_bytes_do_it_no_harm(
        frames in prop::collection::vec(
            (0..8_u8, prop::sample::select(vec![TSC1, REQUEST, 0xEB00]), prop::collection::vec(any::<u8>(), 0..=8)), 0..40,
        ),
    ) {
        let mut engine = Engine::new(0);
        for (priority, pgn, bytes) in frames {
            let id = Id { value: identifier(priority, pgn, 0xF9), extended: true };
            for said in engine.receive(&Frame::data(id, &bytes).unwrap()) {
                prop_assert_eq!(frame(said).check(), Ok(()));
            }
            for (_, frame) in pass(&mut engine, 100) {
                prop_assert_eq!(frame.check(), Ok(()));
            }
        }
        prop_assert!((IDLE..=FASTEST).contains(&engine.diesel().speed()));
    }
}
