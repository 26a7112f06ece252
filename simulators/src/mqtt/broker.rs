//! The broker: where it listens, what it keeps on disk, and its end.
//!
//! Knows no devices.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use mqtt5::broker::{
    BrokerConfig, MqttBroker,
    config::{StorageBackend, StorageConfig, TlsConfig},
    router::MessageRouter,
};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::watch::Handle;

/// Messages that may wait for one client; beyond it the broker drops those of `QoS` 0, as brokers do.
const BACKLOG: usize = 65_536;

/// Where a broker listens, and what else it does. Port 0 takes a free port.
#[derive(Debug, Clone, Default)]
pub struct Listen {
    /// For plain TCP.
    pub tcp: Option<SocketAddr>,
    /// For TLS, with the files of [`Authority::write`](crate::modbus::tls::Authority::write) in [`Listen::folder`].
    pub tls: Option<SocketAddr>,
    /// Certificates and key: `server.pem`, `server.key` and `ca.pem`.
    pub folder: PathBuf,
    /// Clients over TLS need a certificate of `ca.pem` as well.
    pub client_certificates: bool,
    /// Where sessions and retained messages outlive the broker; without it they end with it.
    pub storage: Option<PathBuf>,
}

/// A running broker. Dropping it stops it as well, only without waiting.
#[derive(Debug)]
pub struct Broker {
    tcp: Option<SocketAddr>,
    tls: Option<SocketAddr>,
    handle: Handle,
    router: Router,
    stop: DropGuard,
    task: JoinHandle<()>,
}

/// Knows the connections.
struct Router(Arc<MessageRouter>);

impl fmt::Debug for Router {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Router")
    }
}

impl Broker {
    /// Takes MQTT 3.1.1 and 5 over TCP from everybody. To be called within a tokio runtime.
    pub async fn start(addr: SocketAddr) -> io::Result<Self> {
        Self::listen(Listen { tcp: Some(addr), ..Listen::default() }).await
    }

    /// Takes connections where `listen` says.
    pub async fn listen(listen: Listen) -> io::Result<Self> {
        let handle = Handle::default();
        let broker = match MqttBroker::with_config(config(&listen, &handle)).await {
            Ok(broker) => broker,
            Err(error) => return Err(cause(&listen, error).await),
        };
        let mut broker = broker.with_auth_provider(handle.rules.clone());
        let (tcp, tls) = (broker.local_addr(), broker.tls_local_addr());
        let router = Router(broker.router());
        let mut ready = broker.ready_receiver();
        let shutdown = broker.shutdown_handle();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            let run = broker.run();
            tokio::pin!(run);
            let result = if let Some(result) = stopped.run_until_cancelled(&mut run).await {
                result
            } else {
                shutdown.shutdown();
                run.await
            };
            if let Err(error) = result {
                tracing::warn!(%error, "mqtt broker ended");
            }
        });
        // Before it is ready a shutdown would be missed.
        if ready.wait_for(|ready| *ready).await.is_err() {
            return Err(io::Error::other("the broker did not start"));
        }
        Ok(Self { tcp, tls, handle, router, stop: stop.drop_guard(), task })
    }

    /// The address for plain TCP, or for TLS where there is none.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.tcp.or(self.tls).unwrap_or_else(|| SocketAddr::from(([0, 0, 0, 0], 0)))
    }

    /// The address for TLS.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls
    }

    /// Where devices on this machine reach it.
    #[must_use]
    pub fn url(&self) -> String {
        let mut addr = self.local_addr();
        if addr.ip().is_unspecified() {
            addr.set_ip(if addr.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() });
        }
        format!("mqtt://{addr}")
    }

    /// What reached it, and whom it refuses.
    #[must_use]
    pub fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Closes a client's connection without a word. Its session stays if it asked for that.
    pub async fn cut(&self, client: &str) {
        self.router.0.disconnect_client(client).await;
    }

    /// Says goodbye to every client (MQTT 5: server shutting down) and closes; the port is free when this returns.
    pub async fn stop(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::warn!(%error, "mqtt broker task failed");
        }
    }
}

fn config(listen: &Listen, handle: &Handle) -> BrokerConfig {
    let storage = match &listen.storage {
        Some(folder) => StorageConfig::new().with_backend(StorageBackend::File).with_base_dir(folder.clone()),
        None => StorageConfig::new().with_backend(StorageBackend::Memory),
    };
    let config = BrokerConfig::default()
        .with_bind_addresses(listen.tcp.into_iter().collect())
        .with_storage(storage.with_cleanup_interval(Duration::from_secs(60)))
        .with_client_channel_capacity(BACKLOG)
        .with_sys_topics_enabled(false)
        .with_event_handler(Arc::new(handle.clone()));
    let Some(tls) = listen.tls else { return config };
    let file = |name: &str| listen.folder.join(name);
    config.with_tls(
        TlsConfig::new(file("server.pem"), file("server.key"))
            .with_ca_file(file("ca.pem"))
            .with_require_client_cert(listen.client_certificates)
            .with_bind_address(tls),
    )
}

/// Why a broker cannot listen, as the system says it: the library only has a text.
async fn cause(listen: &Listen, error: mqtt5::MqttError) -> io::Error {
    for addr in [listen.tcp, listen.tls].into_iter().flatten() {
        if let Err(error) = TcpListener::bind(addr).await {
            return error;
        }
    }
    io::Error::other(error)
}
