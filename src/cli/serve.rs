//! `serve`: a site's devices over stdio, HTTP or both, until a signal or the end of stdin.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use tokio::{task::JoinHandle, time::timeout};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::{
    ServeArgs, check,
    signals::{Signal, Signals},
};
use crate::{
    app::App,
    config::{self, ServerSettings, Site},
    drivers::can::Buses,
    mcp::{self, Http, Mcp},
};

/// How long calls that are under way may take to end.
const CLOSE: Duration = Duration::from_secs(8);

pub(super) async fn run(args: ServeArgs) -> anyhow::Result<ExitCode> {
    let site = match config::load(&args.config, std::env::vars_os()) {
        Ok(site) => site,
        Err(problems) => return Ok(check::refuse(&problems)),
    };
    let http = match args.http.or(site.server.http) {
        Some(address) => Some(mcp::bind(address).await?),
        None => None,
    };
    let stdio = args.stdio || http.is_none();
    let reload = Reload { config: args.config, server: site.server.clone() };
    until_stopped(site, http, stdio, Some(reload), Buses::default()).await?;
    Ok(ExitCode::SUCCESS)
}

/// Where a reload reads, and what it cannot change.
#[derive(Debug)]
pub(super) struct Reload {
    config: PathBuf,
    server: ServerSettings,
}

/// Runs a plant and serves it until it is told to stop, or until the end of stdin where stdio is served.
pub(super) async fn until_stopped(
    site: Site,
    http: Option<Http>,
    stdio: bool,
    reload: Option<Reload>,
    buses: Buses,
) -> anyhow::Result<()> {
    let mut signals = Signals::listen().context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let notify_min = site.server.notify_min;
    let mut app = App::start_beside(site, buses);
    let mcp = Mcp::new(app.store().clone(), app.control().clone(), notify_min);
    let mut servers = Vec::new();
    if let Some(http) = http {
        info!("serving MCP at http://{}/mcp", http.local_addr());
        servers.push(spawn(&stop, http.serve(mcp.clone(), stop.child_token())));
    }
    if stdio {
        info!("serving MCP on stdio");
        let (reader, writer) = mcp::stdio();
        servers.push(spawn(&stop, mcp::serve_stdio(mcp, reader, writer, stop.child_token())));
    }
    loop {
        let signal = tokio::select! {
            signal = signals.next() => signal,
            () = stop.cancelled() => Signal::Stop,
        };
        match (signal, &reload) {
            (Signal::Stop, _) => break,
            (Signal::Reload, Some(reload)) => reload.run(&mut app).await,
            (Signal::Reload, None) => warn!("there is no configuration file to reload"),
        }
    }
    info!("stopping");
    stop.cancel();
    let mut result = Ok(());
    for server in servers {
        let Ok(ended) = timeout(CLOSE, server).await else {
            warn!("a client's call did not end in time and was cut");
            continue;
        };
        result = result.and(ended.unwrap_or_else(|panic| Err(panic.into())));
    }
    app.stop().await;
    result
}

/// Runs a server; its end, good or bad, is everybody's.
fn spawn<E>(
    stop: &CancellationToken,
    server: impl Future<Output = Result<(), E>> + Send + 'static,
) -> JoinHandle<anyhow::Result<()>>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let guard = stop.clone().drop_guard();
    tokio::spawn(async move {
        let _guard = guard;
        Ok(server.await?)
    })
}

impl Reload {
    async fn run(&self, app: &mut App) {
        info!(file = %self.config.display(), "reloading the configuration");
        match config::load(&self.config, std::env::vars_os()) {
            Ok(site) => {
                if site.server != self.server {
                    warn!("a changed [server] takes effect at the next start");
                }
                app.reload(site).await;
            }
            Err(problems) => {
                for problem in &problems {
                    error!("{problem}");
                }
                error!("the configuration stays as it was: the new one has {} problem(s)", problems.len());
            }
        }
    }
}
