//! From `mosquitto_pub` to a notification at an assistant, beside the way to `mosquitto_sub` of the same messages.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader},
    time::{sleep, timeout},
};

use crate::{
    Arguments,
    broker::Broker,
    common::{assistant::Assistant, figures::at, process::Process},
};

/// Beyond the least interval of notifications of one tag: each message is one.
const PAUSE: Duration = Duration::from_millis(120);
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let broker = Broker::start().await?;
    let site = format!(
        "site = {{ name = 'bench' }}\n[[connections]]\nname = 'b'\ndriver = 'mqtt'\naddress = '127.0.0.1:{}'\n\
         [[devices]]\nname = 'd'\nconnection = 'b'\n[[devices.tags]]\nname = 'v'\ntype = 'uint32'\ntopic = 'bench'\n",
        broker.port
    );
    let mut assistant = Assistant::start(&site).await?;
    assistant.subscribe("d/v").await?;
    let mut listener = Process::spawn(broker.client("mosquitto_sub", "bench"), true)?;
    let mut publisher = broker.client("mosquitto_pub", "bench");
    publisher.arg("-l");
    let mut publisher = Process::spawn(publisher, true)?;
    let (_, heard) = listener.streams()?;
    let (mut input, _) = publisher.streams()?;
    let mut heard = BufReader::new(heard).lines();
    // Until both are subscribed.
    let mut number = 0_u32;
    loop {
        number += 1;
        ensure!(number < 100, "the first messages do not arrive");
        input.write_all(format!("{number}\n").as_bytes()).await?;
        sleep(PAUSE).await;
        if timeout(PAUSE, heard.next_line()).await.is_ok() && assistant.drain() > 0 {
            break;
        }
    }
    while timeout(PAUSE, heard.next_line()).await.is_ok() {}
    assistant.drain();
    let (mut direct, mut bridged) = (Vec::new(), Vec::new());
    for message in number + 1..=number + arguments.messages {
        let line = format!("{message}\n");
        let sent = Instant::now();
        input.write_all(line.as_bytes()).await?;
        let listener = async {
            let line = timeout(PATIENCE, heard.next_line()).await??.context("mosquitto_sub has ended")?;
            ensure!(line == message.to_string(), "mosquitto_sub heard {line}, not {message}");
            Ok(Instant::now())
        };
        let (told, update) = tokio::try_join!(listener, assistant.update())?;
        direct.push(told.duration_since(sent).as_secs_f64() * 1000.0);
        bridged.push(update.0.duration_since(sent).as_secs_f64() * 1000.0);
        sleep(PAUSE).await;
    }
    let rows = assistant.read(&["d/v".to_owned()]).await?;
    let last = number + arguments.messages;
    ensure!(
        rows.first().is_some_and(|row| row.get("value").is_some_and(|value| *value == last)),
        "the last value is wrong: {rows:?}"
    );
    println!("\nlatency: {} messages, one each {} ms, QoS 1", arguments.messages, PAUSE.as_millis());
    println!("  {:<52} {:>8} {:>8}", "from mosquitto_pub to", "p50", "p99");
    for (name, times) in [("mosquitto_sub", &direct), ("resources/updated at an assistant", &bridged)] {
        println!("  {name:<52} {:>5.2} ms {:>5.2} ms", at(times, 0.5), at(times, 0.99));
    }
    let added = |share| at(&bridged, share) - at(&direct, share);
    println!("  {:<52} {:>5.2} ms {:>5.2} ms (aim: at most 1 ms and 5 ms)", "added", added(0.5), added(0.99));
    Ok(())
}
