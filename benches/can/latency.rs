//! From a frame on the wire to a notification at an assistant, beside the way of the same frame to another client.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};

use crate::{
    Arguments,
    common::{assistant::Assistant, figures::at},
};

/// Beyond the least interval of notifications of one tag: each frame is one.
const PAUSE: Duration = Duration::from_millis(120);
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn run(arguments: &Arguments) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let site = format!(
        "site = {{ name = 'bench' }}\n[[connections]]\nname = 'b'\ndriver = 'slcan-tcp'\naddress = '{address}'\n[[devices]]\n\
         name = 'd'\nconnection = 'b'\n[[devices.tags]]\nname = 'v'\nframe = '123'\nbits = {{ start = 0 }}\ntype = 'uint32'\n"
    );
    let mut assistant = Assistant::start(&site).await?;
    assistant.subscribe("d/v").await?;
    let (mut bridge, _) = timeout(PATIENCE, listener.accept()).await??;
    let mut plain = TcpStream::connect(address).await?;
    let (mut other, _) = listener.accept().await?;
    bridge.set_nodelay(true)?;
    other.set_nodelay(true)?;
    let (mut direct, mut bridged) = (Vec::new(), Vec::new());
    for number in 1..=arguments.messages {
        let line = format!("t1234{:08X}\r", number.swap_bytes());
        let sent = Instant::now();
        bridge.write_all(line.as_bytes()).await?;
        other.write_all(line.as_bytes()).await?;
        let listener = async {
            let mut bytes = vec![0; line.len()];
            timeout(PATIENCE, plain.read_exact(&mut bytes)).await?.context("the other client")?;
            Ok::<_, anyhow::Error>(Instant::now())
        };
        let (told, update) = tokio::try_join!(listener, assistant.update())?;
        direct.push(told.duration_since(sent).as_secs_f64() * 1000.0);
        bridged.push(update.0.duration_since(sent).as_secs_f64() * 1000.0);
        sleep(PAUSE).await;
    }
    let rows = assistant.read(&["d/v".to_owned()]).await?;
    let is_last =
        |row: &serde_json::Value| row.get("value").is_some_and(|value| *value == arguments.messages);
    ensure!(rows.first().is_some_and(is_last), "the last value is wrong: {rows:?}");
    println!("\nlatency: {} frames over slcan on TCP, one each {} ms", arguments.messages, PAUSE.as_millis());
    println!("  {:<52} {:>8} {:>8}", "from the adapter to", "p50", "p99");
    for (name, times) in [("a plain TCP client", &direct), ("resources/updated at an assistant", &bridged)] {
        println!("  {name:<52} {:>5.2} ms {:>5.2} ms", at(times, 0.5), at(times, 0.99));
    }
    Ok(())
}
