//! Calls over HTTP: each client has a connection of its own.

use std::{net::SocketAddr, time::Instant};

use anyhow::{Result, ensure};

use crate::{
    calls::{Calls, Era},
    common::http::Client,
    load::{Samples, Window},
    plant::tag,
};

/// Connects, and in the legacy era opens a session.
pub(crate) async fn open(address: SocketAddr, calls: Calls) -> Result<Client> {
    let mut client = Client::connect(address).await?;
    match calls.era {
        Era::Legacy => client.open_session().await?,
        Era::Modern => client.add_headers(&[
            ("MCP-Protocol-Version", calls.era.version()),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", calls.tool()),
        ]),
    }
    Ok(client)
}

/// Calls again and again until the window ends.
pub(crate) async fn load(client: &mut Client, calls: Calls, first: usize, window: Window) -> Result<Samples> {
    let mut samples = Samples::default();
    let mut next = 0_u64;
    while window.goes_on(samples.all()) {
        next += 1;
        let request = calls.request(next, &tag(first + usize::try_from(next)?));
        let since = Instant::now();
        let answer = client.exchange(&request).await?;
        let length = answer.len();
        ensure!(calls.check(answer)? == next, "an answer to another call: {answer}");
        samples.add(window, since, length);
    }
    Ok(samples)
}
