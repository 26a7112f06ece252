//! Many messages a second onto a thousand tags: CPU, memory, last values, and how many notifications a subscriber gets.

use std::{
    fmt::Write as _,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::AsyncWriteExt,
    net::TcpStream,
    time::{MissedTickBehavior, interval, sleep},
};

use crate::{Arguments, broker::Broker, common::assistant::Assistant};

/// Tags that the assistant is subscribed to, at most.
const WATCHED: u32 = 100;
/// How long the last values may take.
const PATIENCE: Duration = Duration::from_secs(10);
const BEAT: Duration = Duration::from_millis(2);

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let (tags, watched) = (arguments.tags, WATCHED.min(arguments.tags));
    let broker = Broker::start().await?;
    let mut site = format!(
        "site = {{ name = 'bench' }}\n[[connections]]\nname = 'b'\ndriver = 'mqtt'\naddress = '127.0.0.1:{}'\n\
         [[devices]]\nname = 'd'\nconnection = 'b'\n",
        broker.port
    );
    for tag in 0..tags {
        write!(
            site,
            "[[devices.tags]]\nname = 't{tag}'\ntype = 'uint32'\ntopic = 'flood/{tag}'\npath = 'v'\n"
        )?;
    }
    let mut assistant = Assistant::start(&site).await?;
    let paths = (0..tags).map(|tag| format!("d/t{tag}")).collect::<Vec<_>>();
    for tag in 0..watched {
        assistant.subscribe(&format!("d/t{tag}")).await?;
    }
    let mut stream = TcpStream::connect(("127.0.0.1", broker.port)).await?;
    stream.set_nodelay(true)?;
    stream.write_all(b"\x10\x11\x00\x04MQTT\x04\x02\x00\x3c\x00\x05flood").await?;
    // Until all are subscribed.
    let since = Instant::now();
    loop {
        publish(&mut stream, tags, 0, tags).await?;
        let rows = assistant.read(&paths).await?;
        if rows.iter().all(is_good) {
            break;
        }
        ensure!(since.elapsed() < PATIENCE, "the tags did not become good");
        sleep(Duration::from_millis(50)).await;
    }
    assistant.drain();
    let memory =
        |assistant: &Assistant| assistant.process.memory_kib("VmRSS").context("/proc tells no memory");
    let cpu = |assistant: &Assistant| assistant.process.cpu().context("/proc tells no CPU time");
    let (before, used) = (memory(&assistant)?, cpu(&assistant)?);
    // Whole rounds: the last number of each tag is known.
    let all = (arguments.rate * arguments.seconds).next_multiple_of(tags);
    let a_beat = arguments.rate / 500;
    let started = Instant::now();
    let mut beat = interval(BEAT);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let (mut sent, mut halfway, mut notified) = (0, 0, 0);
    while sent < all {
        beat.tick().await;
        let count = a_beat.min(all - sent);
        publish(&mut stream, tags, sent, count).await?;
        sent += count;
        if halfway == 0 && sent >= all / 2 {
            halfway = memory(&assistant)?;
        }
        notified += assistant.drain();
    }
    let (took, used) = (started.elapsed(), cpu(&assistant)?.saturating_sub(used));
    let ended = Instant::now();
    // The row of a tag that does not have its last number.
    let wrong = |rows: &[serde_json::Value]| {
        let is_right = |row: &serde_json::Value| {
            let path = row.get("tag").and_then(serde_json::Value::as_str).unwrap_or_default();
            let tag = path.trim_start_matches("d/t").parse::<u32>().unwrap_or(tags);
            is_good(row) && row.get("value").is_some_and(|value| *value == sent - tags + tag)
        };
        rows.iter().find(|row| !is_right(row)).cloned()
    };
    loop {
        let rows = assistant.read(&paths).await?;
        ensure!(rows.len() == paths.len(), "{} rows of {}", rows.len(), paths.len());
        let Some(row) = wrong(&rows) else { break };
        ensure!(ended.elapsed() < PATIENCE, "after {sent} messages there is {row}");
    }
    let lag = ended.elapsed();
    let after = memory(&assistant)?;
    notified += assistant.drain();
    let seconds = took.as_secs_f64();
    println!("\nflood: {sent} messages in {seconds:.1} s onto {tags} tags, JSON, QoS 0");
    println!(
        "  CPU of the bridge    {:.2} cores, {:.1} µs a message",
        used.as_secs_f64() / seconds,
        used.as_secs_f64() * 1e6 / f64::from(sent)
    );
    println!("  memory               {before} KiB before, {halfway} KiB halfway, {after} KiB after");
    println!("  last values          right {} ms after the last message was sent", lag.as_millis());
    println!(
        "  notifications        {notified} of {} messages on {watched} watched tags",
        u64::from(sent) * u64::from(watched) / u64::from(tags)
    );
    Ok(())
}

fn is_good(row: &serde_json::Value) -> bool {
    row.get("quality").is_some_and(|quality| quality == "good")
}

/// Publishes numbers, each on the topic that follows that of the one before.
async fn publish(stream: &mut TcpStream, tags: u32, first: u32, count: u32) -> Result<()> {
    let mut bytes = Vec::new();
    for number in first..first + count {
        let topic = format!("flood/{}", number % tags);
        let payload = format!(r#"{{"v":{number},"unit":"C","name":"a sensor of many"}}"#);
        let length = 2 + topic.len() + payload.len();
        bytes.extend([0x30, u8::try_from(length)?]);
        bytes.extend(u16::try_from(topic.len())?.to_be_bytes());
        bytes.extend(topic.as_bytes());
        bytes.extend(payload.as_bytes());
    }
    stream.write_all(&bytes).await?;
    Ok(())
}
