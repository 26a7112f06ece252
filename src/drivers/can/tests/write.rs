//! Frames that are sent.

use super::*;
use crate::model::{Outcome, Party, Rule};

const SEND: &str = "send_ids = ['201', '202']";

/// A command of a speed and a mode, which a status reports.
fn tags(feedback: &str) -> String {
    let write = if feedback.is_empty() { String::new() } else { format!("write = {{ {feedback} }}\n") };
    format!(
        "profile = 'x/x'\n[[devices.tags]]\nname = 'speed'\nframe = '201'\nbits = {{ start = 8 }}\ntype = 'int16'\nscale = 0.5\n\
         access = 'read-write'\n{write}[[devices.tags]]\nname = 'mode'\nframe = '201'\nbits = {{ start = 0, length = 4 }}\n\
         type = 'uint8'\naccess = 'read-write'\n[[devices.tags]]\nname = 'actual'\nframe = '181'\nbits = {{ start = 0 }}\n\
         type = 'int16'\n[[devices.tags]]\nname = 'other'\nframe = '202'\nbits = {{ start = 0 }}\ntype = 'uint8'\n\
         access = 'read-write'\n"
    )
}

async fn rig(messages: &str, connection: &str, tags: &str, room: usize) -> Rig {
    let messages = format!(
        "[[messages]]\nframe = '201'\nlength = 4\n{messages}\n[[messages]]\nframe = '202'\nlength = 1\nsend = {{}}\n"
    );
    Rig::start(site_of(&messages, connection, tags), room).await
}

fn site_of(messages: &str, connection: &str, tags: &str) -> Site {
    let profile = format!("protocol = 'can'\nvendor = 'x'\nmodel = 'x'\n{messages}");
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("devices/x")).unwrap();
    std::fs::create_dir_all(folder.path().join("config")).unwrap();
    std::fs::write(folder.path().join("devices/x/x.toml"), profile).unwrap();
    let text = format!(
        "[site]\nname = 'x'\n[[connections]]\nname = 'bus'\ndriver = 'can-virtual'\ninterface = 'a'\n{connection}\n[[devices]]\n\
         name = 'd'\nconnection = 'bus'\n{tags}"
    );
    let site = load_text(&folder.path().join("config/x.toml"), text, [("", ""); 0]);
    site.unwrap_or_else(|problems| panic!("{problems}"))
}

async fn plain() -> Rig {
    rig("send = {}", SEND, &tags(""), 100).await
}

#[tokio::test(start_paused = true)]
async fn a_write_is_written_once_its_frame_came_back() {
    let mut rig = plain().await;
    let report = rig.write("speed", Value::F64(100.0));
    assert_eq!(rig.sent().await, "201#00C80000");
    let mut report = report;
    assert!(report.try_recv().is_err(), "nothing came back yet");
    rig.wires.heard.send((frame("201#00C80000"), false)).await.unwrap();
    rig.good("speed", Value::F64(100.0)).await;
    assert!(report.try_recv().is_err(), "the same frame of another node is not it");
    rig.wires.heard.send((frame("201#00C80000"), true)).await.unwrap();
    let report = report.await.unwrap();
    assert_eq!((report.outcome, report.acknowledged_by), (Outcome::Written, Some(Party::Bus)));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_message_stays_as_last_sent() {
    let mut rig = plain().await;
    let mode = rig.write("mode", Value::U64(5));
    assert_eq!(rig.carry().await, "201#05000000");
    assert_eq!(mode.await.unwrap().outcome, Outcome::Written);
    let speed = rig.write("speed", Value::F64(-0.5));
    assert_eq!(rig.carry().await, "201#05FFFF00");
    assert_eq!(speed.await.unwrap().outcome, Outcome::Written);
    rig.good("mode", Value::U64(5)).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_message_can_be_as_last_received_or_initial() {
    let mut rig = rig("send = { others = 'last-received' }", SEND, &tags(""), 100).await;
    let report = rig.write("mode", Value::U64(5)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions));
    rig.hear("201#F10203").await;
    rig.good("mode", Value::U64(1)).await;
    let report = rig.write("mode", Value::U64(5)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions), "a short frame does not tell all of it");
    rig.hear("201#F2020300").await;
    rig.good("mode", Value::U64(2)).await;
    let report = rig.write("mode", Value::U64(5));
    assert_eq!(rig.carry().await, "201#F5020300");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    rig.stop().await;

    let mut rig = self::rig("send = { others = 'initial' }", SEND, &tags(""), 100).await;
    let first = rig.write("mode", Value::U64(5));
    assert_eq!(rig.carry().await, "201#05000000");
    first.await.unwrap();
    let second = rig.write("speed", Value::F64(1.0));
    assert_eq!(rig.carry().await, "201#00020000");
    second.await.unwrap();
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn writes_of_one_call_leave_in_one_frame_a_message() {
    let mut rig = plain().await;
    let reports = rig.write_all(&[
        ("speed", Value::F64(1.0), Ok(())),
        ("other", Value::U64(9), Ok(())),
        ("mode", Value::U64(3), Ok(())),
    ]);
    let sent = [rig.carry().await, rig.carry().await];
    assert_eq!(sent, ["201#03020000", "202#09"]);
    for report in reports {
        assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    }
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_of_a_call_is_sent_where_one_write_of_it_may_not() {
    let mut rig = plain().await;
    let late = Report::new(Outcome::Rejected(Rule::Superseded), "late");
    let reports = rig.write_all(&[
        ("speed", Value::F64(1.0), Ok(())),
        ("other", Value::U64(9), Err(late)),
        ("mode", Value::U64(3), Ok(())),
    ]);
    let mut outcomes = Vec::new();
    for report in reports {
        outcomes.push(report.await.unwrap().outcome);
    }
    assert_eq!(outcomes, [Outcome::NotSent, Outcome::Rejected(Rule::Superseded), Outcome::NotSent]);
    let reports = rig.write_all(&[("speed", Value::F64(1.0), Ok(())), ("mode", Value::U64(99), Ok(()))]);
    let mut outcomes = Vec::new();
    for report in reports {
        outcomes.push(report.await.unwrap().outcome);
    }
    assert_eq!(outcomes, [Outcome::NotSent, Outcome::Rejected(Rule::RawRange)]);
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn feedback_confirms_or_differs() {
    let mut rig = rig("send = {}", SEND, &tags("feedback = 'actual', confirm_ms = 300"), 100).await;
    rig.hear("181#0500").await;
    rig.good("actual", Value::I64(5)).await;
    let report = rig.write("speed", Value::F64(7.5));
    assert_eq!(rig.carry().await, "201#000F0000");
    rig.hear("181#0600").await;
    rig.hear("181#0800").await;
    let report = report.await.unwrap();
    assert_eq!(
        (report.outcome, report.acknowledged_by),
        (Outcome::Confirmed, Some(Party::Bus)),
        "8 is 7.5 rounded"
    );
    assert_eq!(report.value, Some(Value::I64(8)), "what is known of it");
    assert!(report.message.contains("nearest"), "{}", report.message);

    let report = rig.write("speed", Value::F64(20.0));
    rig.carry().await;
    rig.hear("181#0800").await;
    let report = report.await.unwrap();
    assert_eq!((report.outcome, report.value), (Outcome::Differs, Some(Value::I64(8))));

    let report = rig.write("speed", Value::F64(30.0));
    rig.carry().await;
    let report = report.await.unwrap();
    assert_eq!(
        (report.outcome, report.acknowledged_by),
        (Outcome::Written, Some(Party::Bus)),
        "it said nothing"
    );
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_does_not_come_back_is_unknown() {
    let mut rig = plain().await;
    let report = rig.write("speed", Value::F64(100.0));
    rig.sent().await;
    assert_eq!(report.await.unwrap().outcome, Outcome::Unknown);
    let report = rig.write("speed", Value::F64(100.0));
    rig.sent().await;
    let (sender, _) = channel(1);
    rig.wires.heard = sender;
    assert_eq!(report.await.unwrap().outcome, Outcome::Unknown);
    rig.again().await;
    assert!(rig.is_quiet(), "and is not repeated");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bus_without_room_is_waited_for_until_the_deadline() {
    let mut rig = rig("send = {}", SEND, &tags(""), 1).await;
    let first = rig.write("speed", Value::F64(1.0));
    let second = rig.write("mode", Value::U64(2));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(rig.carry().await, "201#00020000");
    assert_eq!(rig.carry().await, "201#02020000");
    assert_eq!(first.await.unwrap().outcome, Outcome::Written);
    assert_eq!(second.await.unwrap().outcome, Outcome::Written);
    let first = rig.write("speed", Value::F64(1.0));
    let second = rig.write("mode", Value::U64(3));
    let (first, second) = (first.await.unwrap(), second.await.unwrap());
    assert_eq!((first.outcome, second.outcome), (Outcome::Unknown, Outcome::NotSent));
    assert_eq!(rig.sent().await, "201#02020000");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.is_quiet(), "what was answered as not sent never leaves");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_is_sent_again_and_again_until_its_time_is_over() {
    let messages = "counter = { bits = { start = 4, length = 4 } }\nchecksum = { byte = 3, method = 'xor' }\n\
                    send = { period_ms = 100, limit_ms = 350 }";
    let mut rig = rig(messages, SEND, &tags(""), 100).await;
    let report = rig.write("mode", Value::U64(2));
    let begin = Instant::now();
    assert_eq!(rig.carry().await, "201#02000002");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    for (count, text) in [(1_u32, "201#12000012"), (2, "201#22000022"), (3, "201#32000032")] {
        assert_eq!(rig.carry().await, text);
        assert_eq!(begin.elapsed().as_millis() / 10, u128::from(count * 10));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_quiet());
    let report = rig.write("mode", Value::U64(3));
    assert_eq!(rig.carry().await, "201#43000043", "the counter goes on");
    report.await.unwrap();
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_is_sent_when_sending_again_and_again_ends() {
    // Without a DBC file no signal has a name: `stop` is tested with one.
    let mut rig = rig("send = { period_ms = 100 }", SEND, &tags(""), 100).await;
    let report = rig.write("mode", Value::U64(2));
    rig.carry().await;
    report.await.unwrap();
    rig.carry().await;
    let (sender, _) = channel(1);
    rig.wires.heard = sender;
    rig.again().await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_quiet(), "a new connection does not begin it again");
    rig.ask_to_stop();
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_later_write_to_a_tag_ends_the_wait_for_feedback_of_an_older_one() {
    let mut rig = rig("send = {}", SEND, &tags("feedback = 'actual'"), 100).await;
    let older = rig.write("speed", Value::F64(10.0));
    rig.carry().await;
    let newer = rig.write("speed", Value::F64(20.0));
    rig.carry().await;
    rig.hear("181#1400").await;
    assert_eq!(newer.await.unwrap().outcome, Outcome::Confirmed);
    assert_eq!(older.await.unwrap().outcome, Outcome::Written);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_bus_that_is_off_ends_what_is_sent_again_and_again() {
    let mut rig = rig("send = { period_ms = 100 }", SEND, &tags(""), 100).await;
    let report = rig.write("mode", Value::U64(2));
    rig.carry().await;
    report.await.unwrap();
    rig.wires.heard.send((BUS_OFF, false)).await.unwrap();
    rig.device(DeviceState::NotConnected).await;
    let refused = rig.write("mode", Value::U64(3)).await.unwrap();
    assert_eq!(refused.outcome, Outcome::NotSent);
    rig.wires.heard.send((RESTARTED, false)).await.unwrap();
    rig.device(DeviceState::Waiting).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(rig.is_quiet(), "nothing old leaves once the bus is back");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_frame_with_a_wrong_checksum_is_not_written_on_from() {
    let messages = "checksum = { byte = 3, method = 'xor' }\nsend = { others = 'last-received' }";
    let mut rig = rig(messages, SEND, &tags(""), 100).await;
    rig.hear("201#F1020300").await;
    rig.quality("mode", Quality::Bad(Reason::DecodeError)).await;
    let report = rig.write("mode", Value::U64(5)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions));
    rig.hear("201#F10203F0").await;
    rig.good("mode", Value::U64(1)).await;
    let report = rig.write("mode", Value::U64(5));
    assert_eq!(rig.carry().await, "201#F50203F4");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_would_not_be_in_the_frame_is_refused() {
    let more = "[[devices.tags]]\nname = 'over'\nframe = '201'\nbits = { start = 16, length = 8 }\ntype = 'uint8'\n\
                access = 'read-write'\n[[devices.tags]]\nname = 'guard'\nframe = '201'\nbits = { start = 24, length = 8 }\n\
                type = 'uint8'\naccess = 'read-write'\n";
    let messages = "checksum = { byte = 3, method = 'xor' }\nsend = {}";
    let mut rig = rig(messages, SEND, &(tags("") + more), 100).await;
    let writes = [("speed", Value::F64(1.5), Ok(())), ("over", Value::U64(7), Ok(()))];
    let mut outcomes = Vec::new();
    for report in rig.write_all(&writes) {
        outcomes.push(report.await.unwrap().outcome);
    }
    assert!(outcomes.contains(&Outcome::Rejected(Rule::Companions)), "{outcomes:?}");
    let report = rig.write("guard", Value::U64(7)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Access));
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_that_waits_for_room_is_asked_for_again_before_it_leaves() {
    let mut rig = rig("send = {}", SEND, &tags(""), 1).await;
    let first = rig.write("mode", Value::U64(1));
    let second = rig.write("speed", Value::F64(2.0));
    tokio::time::sleep(Duration::from_millis(100)).await;
    rig.is_revoked.store(true, Ordering::Relaxed);
    assert_eq!(rig.carry().await, "201#01000000");
    assert_eq!(first.await.unwrap().outcome, Outcome::Written);
    let report = second.await.unwrap();
    assert_eq!((report.outcome, report.message.as_str()), (Outcome::NotSent, "revoked"));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(rig.is_quiet());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_received_counts_as_long_as_it_would_be_good() {
    let messages = "interval_ms = 100\nsend = { others = 'last-received' }";
    let mut rig = rig(messages, SEND, &tags(""), 100).await;
    let is_refused = async |rig: &mut Rig, why: &str| {
        let report = rig.write("mode", Value::U64(5)).await.unwrap();
        assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions), "{why}");
        assert!(rig.is_quiet());
    };
    rig.hear("201#01020300").await;
    rig.good("mode", Value::U64(1)).await;
    tokio::time::sleep(Duration::from_millis(290)).await;
    let report = rig.write("mode", Value::U64(5));
    assert_eq!(rig.carry().await, "201#05020300");
    assert_eq!(report.await.unwrap().outcome, Outcome::Written);
    tokio::time::sleep(Duration::from_millis(20)).await;
    is_refused(&mut rig, "it is too old").await;

    rig.hear("201#02020300").await;
    rig.good("mode", Value::U64(2)).await;
    rig.lost.fetch_add(1, Ordering::Relaxed);
    rig.hear("181#0000").await;
    rig.quality("mode", stale()).await;
    is_refused(&mut rig, "frames were lost").await;

    rig.hear("201#03020300").await;
    rig.good("mode", Value::U64(3)).await;
    let (sender, _) = channel(1);
    rig.wires.heard = sender;
    rig.again().await;
    is_refused(&mut rig, "it is of the connection before").await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_sent_is_known_to_the_link_that_follows() {
    let memory = Memory::default();
    let folder = |length: u32| {
        site_of(
            &format!(
                "[[messages]]\nframe = '201'\nlength = {length}\ncounter = {{ bits = {{ start = 4, length = 4 }} }}\nsend = {{}}\n[[messages]]\nframe = '202'\nlength = 1\nsend = {{}}\n"
            ),
            SEND,
            &tags(""),
        )
    };
    let mut first = Rig::resume(folder(4), 100, memory.clone()).await;
    for (value, text) in [(1.0, "201#00020000"), (2.0, "201#10040000")] {
        let report = first.write("speed", Value::F64(value));
        assert_eq!(first.carry().await, text);
        report.await.unwrap();
    }
    first.stop().await;
    let mut second = Rig::resume(folder(4), 100, memory.clone()).await;
    let report = second.write("mode", Value::U64(5));
    assert_eq!(second.carry().await, "201#25040000", "and so is its count");
    report.await.unwrap();
    second.stop().await;
    let mut third = Rig::resume(folder(5), 100, memory).await;
    let report = third.write("mode", Value::U64(5));
    assert_eq!(third.carry().await, "201#3500000000", "a message of another length has its count alone");
    report.await.unwrap();
    third.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_write_behind_others_ends_at_its_own_deadline() {
    let mut rig = rig("send = {}", SEND, &tags(""), 1).await;
    let first = rig.write("mode", Value::U64(1));
    let second = rig.write_within("speed", Value::F64(2.0), Duration::from_secs(10));
    let begin = Instant::now();
    let report = rig.write_within("other", Value::U64(3), Duration::from_millis(100)).await.unwrap();
    assert_eq!(report.outcome, Outcome::NotSent);
    assert!(begin.elapsed() < Duration::from_millis(200), "{:?}", begin.elapsed());
    assert_eq!(rig.carry().await, "201#01000000");
    first.await.unwrap();
    assert_eq!(rig.carry().await, "201#01040000");
    assert_eq!(second.await.unwrap().outcome, Outcome::Written);
    assert!(rig.is_quiet());
    rig.stop().await;
}
