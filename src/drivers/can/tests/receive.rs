//! Frames that come.

use super::*;

const SPEED: &str = "[[devices.tags]]\nname = 'speed'\nframe = '181'\nbits = { start = 8 }\ntype = 'int16'\nscale = 0.5\n\
                     range = [-1000, 1000]\n";
const STATE: &str = "[[devices.tags]]\nname = 'state'\nframe = '181'\nbits = { start = 0, length = 4 }\ntype = 'uint8'\nlabels = { 2 = 'running' }\n";

async fn rig(tags: &str) -> Rig {
    Rig::start(site("", tags), 100).await
}

#[tokio::test(start_paused = true)]
async fn a_frame_tells_the_values_of_its_signals() {
    let rig = rig(&[SPEED, STATE].concat()).await;
    assert_eq!(rig.quality("speed", Quality::Bad(Reason::NeverRead)).await.value, None);
    rig.hear("181#02E8030000000000").await;
    rig.good("speed", Value::F64(500.0)).await;
    let state = rig.quality("state", Quality::Good).await;
    assert_eq!((state.value, state.detail.as_deref()), (Some(Value::U64(2)), Some("running")));
    rig.device(DeviceState::Online).await;
    // Another identifier, also the same number with 29 bits, says nothing of it.
    rig.hear("00000181#0000000000000000").await;
    rig.hear("182#0000000000000000").await;
    rig.hear("181#02FEFF").await;
    rig.good("speed", Value::F64(-1.0)).await;
    assert_eq!(rig.counters.dropped.load(Ordering::Relaxed), 2);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_short_frame_gives_what_is_there_and_marks_the_rest_bad() {
    let rig = rig(&[SPEED, STATE].concat()).await;
    rig.hear("181#02E803").await;
    rig.good("speed", Value::F64(500.0)).await;
    rig.hear("181#03E8").await;
    let speed = rig.quality("speed", Quality::Bad(Reason::DecodeError)).await;
    assert_eq!((speed.value, speed.detail.as_deref()), (None, Some("a frame of 2 bytes ends before it")));
    rig.good("state", Value::U64(3)).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_value_outside_its_range_is_kept_and_bad() {
    let rig = rig(SPEED).await;
    rig.hear("181#00FF7F").await;
    let speed = rig.quality("speed", Quality::Bad(Reason::OutOfRange)).await;
    assert_eq!(
        (speed.value, speed.detail.as_deref()),
        (Some(Value::F64(16383.5)), Some("outside -1000 to 1000"))
    );
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_is_off_makes_all_bad_until_frames_come_again() {
    let rig = rig(&[SPEED, STATE].concat()).await;
    rig.hear("181#02E803").await;
    rig.good("speed", Value::F64(500.0)).await;
    rig.wires.heard.send((BUS_OFF, false)).await.unwrap();
    let speed = rig.quality("speed", Quality::Bad(Reason::NotConnected)).await;
    assert_eq!((speed.value, speed.detail.as_deref()), (None, Some("bus-off")));
    rig.trouble(|trouble| trouble == Some("bus-off")).await;
    rig.device(DeviceState::NotConnected).await;
    let refused = rig.write("speed", Value::F64(1.0)).await.unwrap();
    assert!(!refused.outcome.is_success());
    rig.wires.heard.send((RESTARTED, false)).await.unwrap();
    rig.quality("speed", stale()).await;
    rig.trouble(|trouble| trouble.is_none()).await;
    rig.hear("181#02E703").await;
    rig.good("speed", Value::F64(499.5)).await;
    rig.device(DeviceState::Online).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_good_after_a_new_connection_before_its_frame_came() {
    let mut rig = rig(&[SPEED, STATE].concat()).await;
    rig.hear("181#02E803").await;
    rig.good("speed", Value::F64(500.0)).await;
    let updates = rig.told.updates.lock().unwrap().len();
    let (sender, _) = channel(1);
    rig.wires.heard = sender;
    rig.again().await;
    rig.wait("speed", |update| update.quality == stale()).await;
    let later = rig.told.updates.lock().unwrap().split_off(updates);
    assert!(later.iter().all(|update| update.quality != Quality::Good), "{later:?}");
    assert!(rig.told.links.lock().unwrap().iter().any(|(state, _)| *state == LinkState::BackingOff));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wrong_checksum_and_a_counter_that_stands_still_are_noticed() {
    let profile = "protocol = 'can'\nvendor = 'x'\nmodel = 'x'\n[[messages]]\nframe = '181'\n\
                   counter = { bits = { start = 0, length = 4 } }\nchecksum = { byte = 3, method = 'crc-8-sae-j1850' }\n";
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("devices/x")).unwrap();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("devices/x/x.toml"), profile).unwrap();
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = 'a'\n[[devices]]\nname = 'd'\n\
         connection = 'bus'\nprofile = 'x/x'\n{SPEED}"
    );
    let site = load_text(&folder.path().join("config/x.toml"), text, [("", ""); 0]).unwrap();
    let rig = Rig::start(site, 100).await;
    let sealed = |count: u8, low: u8, high: u8| {
        let crc = crc::Crc::<u8>::new(&crc::CRC_8_SAE_J1850).checksum(&[count, low, high]);
        format!("181#{count:02X}{low:02X}{high:02X}{crc:02X}")
    };
    rig.hear(&sealed(1, 10, 0)).await;
    rig.good("speed", Value::F64(5.0)).await;
    rig.hear("181#02140000").await;
    let speed = rig.quality("speed", Quality::Bad(Reason::DecodeError)).await;
    assert_eq!((speed.value, speed.detail.as_deref()), (None, Some("the checksum of the frame is wrong")));
    rig.hear(&sealed(2, 20, 0)).await;
    rig.good("speed", Value::F64(10.0)).await;
    rig.hear(&sealed(2, 30, 0)).await;
    let speed = rig.quality("speed", stale()).await;
    assert_eq!(speed.detail.as_deref(), Some("the counter of its message stands still"));
    rig.hear(&sealed(3, 40, 0)).await;
    rig.good("speed", Value::F64(20.0)).await;
    rig.hear("181#041400").await;
    rig.quality("speed", Quality::Bad(Reason::DecodeError)).await;
    assert_eq!(rig.counters.garbled.load(Ordering::Relaxed), 2);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_device_of_which_nothing_comes_any_more_is_silent() {
    let rig = rig(&format!("stale_after_ms = 500\n{SPEED}")).await;
    rig.hear("181#02E803").await;
    rig.device(DeviceState::Online).await;
    rig.device(DeviceState::Silent).await;
    rig.hear("181#02E803").await;
    rig.device(DeviceState::Online).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_good_that_a_lost_frame_may_have_changed() {
    let rig = rig(&[SPEED, STATE].concat()).await;
    rig.hear("181#02E803").await;
    rig.good("speed", Value::F64(500.0)).await;
    rig.lost.store(7, Ordering::Relaxed);
    rig.hear("555#00").await;
    let speed = rig.quality("speed", stale()).await;
    assert_eq!(speed.detail.as_deref(), Some("frames were lost: it may have been among them"));
    rig.trouble(|told| told == Some("7 frames were lost before they could be read, 7 in all")).await;
    assert_eq!(rig.counters.lost.load(Ordering::Relaxed), 7);
    rig.hear("181#02E903").await;
    rig.good("speed", Value::F64(500.5)).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_incident_is_told_for_a_while_and_a_state_until_it_is_over() {
    let rig = rig(SPEED).await;
    let error = |class, state| (Frame::Error(BusError { class, data: [0, state, 0, 0, 0, 0, 0, 0] }), false);
    let begin = Instant::now();
    rig.wires.heard.send(error(BusError::PROTOCOL, 0)).await.unwrap();
    rig.trouble(|told| told == Some("protocol violation")).await;
    rig.trouble(|told| told.is_none()).await;
    assert_eq!(begin.elapsed().as_secs(), 10);
    rig.wires.heard.send(error(BusError::CONTROLLER, 0x20)).await.unwrap();
    rig.trouble(|told| told == Some("transmit error-passive")).await;
    rig.wires.heard.send(error(BusError::NO_ACK, 0)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(60)).await;
    rig.trouble(|told| told == Some("transmit error-passive")).await;
    rig.wires.heard.send(error(BusError::CONTROLLER, 0x40)).await.unwrap();
    rig.trouble(|told| told.is_none()).await;
    assert_eq!(rig.counters.errors.load(Ordering::Relaxed), 4);
    rig.stop().await;
}
