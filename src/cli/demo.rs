//! `demo`: the simulated boiler house, its energy meter and the rooms that it heats, served, with what to paste into the
//! usual assistants.

use std::{
    io::ErrorKind,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    path::Path,
    process::ExitCode,
};

use anyhow::{Context, bail};
#[cfg(unix)]
use simulators::modbus::{Line, Pace};
use simulators::{boiler::House, modbus::Server};

use super::{DemoArgs, serve, simulate};
use crate::{
    config::{self, Adapter, Endpoint, ModbusEndpoint, Site, Transport},
    mcp::{self, Http},
};

/// The site that the demo serves.
const SITE: &str = include_str!("../../config/boiler-house.toml");
/// Speed of the meter's line, as that site says.
#[cfg(unix)]
const BAUD: u32 = 19_200;
/// Where that site has its PLC.
const USUAL: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 5020);

pub(super) async fn run(args: DemoArgs) -> anyhow::Result<ExitCode> {
    let house = House::start();
    let plc = plc(&house)?;
    let meter = simulate::meter(&house);
    let rooms = simulate::Plant::rooms(true).await?;
    let text = SITE
        .replace(&USUAL.to_string(), &plc.local_addr().to_string())
        .replace(&simulate::BROKER.to_string(), &rooms.address().to_string());
    #[cfg(unix)]
    let (line, text) = {
        let line =
            Line::start(meter.handle(), Pace::baud(BAUD)).context("cannot start the simulated line")?;
        let port = line.path().display().to_string();
        (line, text.replace(simulate::PORT, &port))
    };
    let net = simulate::Net::pump();
    let nothing = std::iter::empty::<(String, String)>();
    let mut site = config::load_text(Path::new("config/boiler-house.toml"), text, nothing)?;
    inside(&mut site);
    let http = listen(&args, &site).await?;
    print(&site, plc.local_addr(), http.as_ref());
    serve::until_stopped(site, http, args.stdio, None, net.buses()).await?;
    plc.stop().await;
    #[cfg(unix)]
    line.stop();
    meter.stop().await;
    rooms.stop().await;
    net.stop().await;
    house.stop().await;
    Ok(ExitCode::SUCCESS)
}

/// Leads connections to the CAN bus straight to it: it is in this process.
fn inside(site: &mut Site) {
    for connection in &mut site.connections {
        let Endpoint::Can(endpoint) = &mut connection.endpoint else { continue };
        if let Adapter::Socketcand { interface, .. } = &endpoint.adapter {
            endpoint.adapter = Adapter::Virtual { bus: interface.clone() };
        }
    }
}

/// HTTP where it was asked for; else where the demo usually is, unless an assistant started this one for its stdio.
async fn listen(args: &DemoArgs, site: &Site) -> anyhow::Result<Option<Http>> {
    let usual = site.server.http.filter(|_| !args.stdio);
    let Some(address) = args.http.or(usual) else { return Ok(None) };
    match mcp::bind(address).await {
        Ok(http) => Ok(Some(http)),
        Err(error) => bail!("{:#}; --http gives another address", anyhow::Error::from(error)),
    }
}

/// The PLC, where `simulate` has it; where that is taken, anywhere.
fn plc(house: &House) -> anyhow::Result<Server> {
    match Server::serve(USUAL, house.handle()) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            Server::serve(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), house.handle())
        }
        started => started,
    }
    .context("cannot start the simulated PLC")
}

/// Says on stderr what runs, and what to paste where.
#[expect(clippy::print_stderr, reason = "a banner for whoever started the demo; logs are for running")]
fn print(site: &Site, plc: SocketAddr, http: Option<&Http>) {
    let devices = site.connections.iter().flat_map(|connection| &connection.devices);
    let tags: Vec<_> =
        devices.map(|spec| format!("{} of device `{}`", spec.tags().len(), spec.device.name)).collect();
    let program =
        std::env::current_exe().map_or_else(|_| "fieldbridge".into(), |path| path.display().to_string());
    let program = serde_json::Value::from(program);
    eprintln!("fieldbridge {}: demo of a simulated boiler house\n", env!("CARGO_PKG_VERSION"));
    eprintln!("  PLC       Modbus TCP at {plc}, unit 1 (simulated: nothing can break)");
    for connection in &site.connections {
        match &connection.endpoint {
            Endpoint::Modbus(ModbusEndpoint { transport: Transport::Rtu(serial), .. }) => eprintln!(
                "  meter     Modbus RTU on {}, {} baud, unit 1 (simulated as well)",
                serial.port, serial.baud
            ),
            Endpoint::Mqtt(mqtt) => eprintln!(
                "  rooms     MQTT broker at {}: two room sensors, and the valve that heats one of the rooms",
                mqtt.address
            ),
            Endpoint::Can(_) => {
                eprintln!("  pump      CAN bus in this program: the drive of the circulation pump");
            }
            Endpoint::Modbus(_) => {}
        }
    }
    eprintln!("  tags      {}; writing is allowed", tags.join(", "));
    let Some(http) = http else {
        eprintln!("  MCP       on stdio\n");
        return;
    };
    let url = format!("http://{}/mcp", http.local_addr());
    eprintln!("  MCP       {url}\n");
    eprintln!("Claude Code, in a shell:\n  claude mcp add --transport http fieldbridge {url}\n");
    eprintln!(
        "Cursor, in ~/.cursor/mcp.json:\n  {}\n",
        serde_json::json!({ "mcpServers": { "fieldbridge": { "url": url } } })
    );
    eprintln!(
        "VS Code, in .vscode/mcp.json:\n  {}\n",
        serde_json::json!({ "servers": { "fieldbridge": { "type": "http", "url": url } } })
    );
    eprintln!(
        "Claude Desktop, in claude_desktop_config.json (it starts a demo of its own):\n  \
         {{\"mcpServers\":{{\"fieldbridge\":{{\"command\":{program},\"args\":[\"demo\",\"--stdio\"]}}}}}}\n"
    );
    eprintln!(
        "Then ask: \"How warm are the boiler and the rooms? Bring the boiler to 72 degrees, open the valve of the room and run the pump at 1200 rpm.\""
    );
    eprintln!("Ctrl-C stops it.\n");
}
