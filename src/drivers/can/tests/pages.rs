//! What is beside a write where a multiplexer says what the bits are.

use super::{dbc::site_of, *};
use crate::model::{Outcome, Rule};

/// Bytes 4 to 7 are no signal's; byte 2 of page 3 is one of two.
const PAGES: &str = "BO_ 256 Pages: 8 A\n SG_ Page M : 0|8@1+ (1,0) [0|255] \"\" B\n\
                     \x20SG_ Deep m5 : 16|8@1+ (1,0) [0|255] \"\" B\n SG_ Deeper m6 : 16|8@1+ (1,0) [0|255] \"\" B\n\
                     \x20SG_ Inner m3M : 8|8@1+ (1,0) [0|255] \"\" B\n SG_ One m1 : 8|16@1+ (1,0) [0|65535] \"\" B\n\
                     \x20SG_ Two m2 : 8|8@1+ (1,0) [0|255] \"\" B\n SG_ Also m2 : 16|8@1+ (1,0) [0|255] \"\" B\n\
                     \x20SG_ Always : 24|8@1+ (1,0) [0|255] \"\" B\n\
                     SG_MUL_VAL_ 256 Deep Inner 5-5;\nSG_MUL_VAL_ 256 Deeper Inner 6-6;\n\
                     SG_MUL_VAL_ 256 Inner Page 3-3;\nSG_MUL_VAL_ 256 One Page 1-1;\nSG_MUL_VAL_ 256 Two Page 2-2;\n\
                     SG_MUL_VAL_ 256 Also Page 2-2;\n\
                     BA_DEF_ SG_ \"GenSigStartValue\" FLOAT 0 255;\nBA_DEF_DEF_ \"GenSigStartValue\" 0;\n\
                     BA_ \"GenSigStartValue\" SG_ 256 Also 51;\n";

fn site(send: &str) -> Site {
    site_with(send, "Page", "")
}

/// One of the tags has more to say.
fn site_with(send: &str, one: &str, more: &str) -> Site {
    let tags = ["Page", "Deep", "Deeper", "Inner", "One", "Two", "Also", "Always"].map(|name| {
        let more = if name == one { more } else { "" };
        format!("[[tags]]\nname = '{name}'\nsignal = 'Pages.{name}'\naccess = 'read-write'\n{more}\n")
    });
    let profile = format!("[[messages]]\nmessage = 'Pages'\nsend = {{ {send} }}\n{}", tags.concat());
    site_of(PAGES, &profile, "send_ids = ['100']", "")
}

impl Rig {
    /// What leaves for one write.
    async fn frame_of(&mut self, name: &str, value: u64) -> String {
        let report = self.write(name, Value::U64(value));
        let frame = self.carry().await;
        assert_eq!(report.await.unwrap().outcome, Outcome::Written);
        frame
    }

    async fn is_refused(&mut self, name: &str) {
        let report = self.write(name, Value::U64(1)).await.unwrap();
        assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions), "{name}");
        assert!(report.message.contains("beside it"), "{}", report.message);
        assert!(self.is_quiet());
    }
}

#[tokio::test(start_paused = true)]
async fn every_signal_is_as_it_was_last_sent_whatever_its_bits_were_since() {
    let mut rig = Rig::start(site(""), 100).await;
    assert_eq!(rig.frame_of("One", 0x1234).await, "100#0134120000000000");
    assert_eq!(rig.frame_of("Two", 7).await, "100#0207330000000000", "beside the initial value");
    assert_eq!(rig.frame_of("Also", 9).await, "100#0207090000000000");
    assert_eq!(rig.frame_of("Deep", 0x44).await, "100#0305440000000000");
    assert_eq!(rig.frame_of("Deeper", 0x55).await, "100#0306550000000000");
    assert_eq!(rig.frame_of("Always", 0x77).await, "100#0306557700000000");
    assert_eq!(rig.frame_of("Inner", 5).await, "100#0305447700000000");
    assert_eq!(rig.frame_of("Page", 1).await, "100#0134127700000000");
    assert_eq!(rig.frame_of("Two", 8).await, "100#0208097700000000");
    assert_eq!(rig.frame_of("Page", 3).await, "100#0305447700000000");
    assert_eq!(rig.frame_of("Page", 9).await, "100#0900007700000000", "a page of which nothing is known");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_signal_is_as_it_was_last_received_and_must_have_been() {
    let mut rig = Rig::start(site("others = 'last-received'"), 100).await;
    rig.is_refused("Always").await;
    rig.hear("100#0134127700000081").await;
    rig.good("One", Value::U64(0x1234)).await;
    rig.is_refused("Two").await;
    assert_eq!(rig.frame_of("One", 0x5678).await, "100#0178567700000081");
    rig.hear("100#0207097800000082").await;
    rig.good("Two", Value::U64(7)).await;
    assert_eq!(rig.frame_of("Also", 3).await, "100#0207037800000082");
    assert_eq!(rig.frame_of("One", 1).await, "100#0101007800000082");
    rig.hear("100#0306667900000083").await;
    rig.good("Deeper", Value::U64(0x66)).await;
    assert_eq!(rig.frame_of("Deep", 3).await, "100#0305037900000083", "Always is all that is beside it");
    assert_eq!(rig.frame_of("Two", 1).await, "100#0201097900000083", "what we sent is not what we heard");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bits_of_no_signal_stay_within_their_page() {
    let mut rig = Rig::start(site("others = 'last-received'"), 100).await;
    rig.hear("100#09AABB7700000081").await;
    rig.good("Always", Value::U64(0x77)).await;
    assert_eq!(rig.frame_of("Always", 1).await, "100#09AABB0100000081");
    rig.is_refused("Two").await;
    assert_eq!(rig.frame_of("One", 2).await, "100#0102007700000081");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn initial_values_are_those_of_their_page() {
    let mut rig = Rig::start(
        site("others = 'initial', initial = { One = 0x1234, Two = 0x56, Page = 3, Inner = 6, Deep = 0x66 }"),
        100,
    )
    .await;
    assert_eq!(rig.frame_of("Also", 1).await, "100#0256010000000000");
    assert_eq!(rig.frame_of("Always", 1).await, "100#0306000100000000");
    assert_eq!(rig.frame_of("Page", 1).await, "100#0134120000000000");
    assert_eq!(rig.frame_of("Inner", 5).await, "100#0305660000000000");
    assert_eq!(rig.frame_of("Two", 2).await, "100#0202330000000000");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_frame_is_of_the_page_that_it_is_of() {
    let mut rig = Rig::start(site("period_ms = 100, limit_ms = 150, stop = { Two = 0 }"), 100).await;
    assert_eq!(rig.frame_of("One", 0x1234).await, "100#0134120000000000");
    assert_eq!(rig.carry().await, "100#0134120000000000");
    assert_eq!(rig.carry().await, "100#0200330000000000");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn every_signal_has_its_own_age() {
    let site = site_with("others = 'last-received'", "Always", "stale_after_ms = 300");
    let mut rig = Rig::start(site, 100).await;
    rig.hear("100#0134127700000081").await;
    rig.good("One", Value::U64(0x1234)).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    let report = rig.write("One", Value::U64(1)).await.unwrap();
    assert_eq!(report.outcome, Outcome::Rejected(Rule::Companions));
    assert_eq!(rig.frame_of("Always", 1).await, "100#0134120100000081");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_reload_changes_in_a_message_leaves_the_rest_of_it() {
    let memory = Memory::default();
    let mut rig = Rig::resume(site(""), 100, memory.clone()).await;
    assert_eq!(rig.frame_of("Two", 7).await, "100#0207330000000000");
    rig.stop().await;
    let mut rig =
        Rig::resume(site("period_ms = 100, initial = { Two = 1, Always = 9 }"), 100, memory.clone()).await;
    assert_eq!(rig.frame_of("Also", 8).await, "100#0207080000000000");
    rig.stop().await;
    let fewer = PAGES.replace(" SG_ Two m2 : 8|8@1+", " SG_ Two m2 : 40|8@1+");
    let profile = "[[messages]]\nmessage = 'Pages'\nsend = {}\n[[tags]]\nname = 'Always'\nsignal = 'Pages.Always'\n\
                   access = 'read-write'\n";
    let mut rig = Rig::resume(site_of(&fewer, profile, "send_ids = ['100']", ""), 100, memory).await;
    assert_eq!(rig.frame_of("Always", 5).await, "100#0207080500000000");
    rig.stop().await;
}
