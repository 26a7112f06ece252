//! The handler of all requests, of both eras: sessions up to 2025-11-25, self-contained requests from 2026-07-28.
//!
//! It holds nothing of its own: the SDK makes a new one for each session and for each modern request.

use std::sync::Arc;

use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, ErrorCode, Implementation,
        InitializeRequestParams, InitializeResult, ListResourceTemplatesResult, ListResourcesResult,
        ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
        ServerCapabilities, ServerConfig, ServerNotification, SubscribeRequestParams, SubscriptionFilter,
        Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};

use super::{
    Mcp,
    arrival::{Arrival, caller},
    resource,
    subscriber::{Problem, Subscriber},
    tool, uri,
};
use crate::{control::Stamp, store::Target};

const INSTRUCTIONS: &str = "\
fieldbridge connects you to a real plant: tags are measured values and setpoints of its devices, named device/path.
1. Find tags with list_tags (by device, text or glob); list_devices shows which devices are online.
2. Read values with read_tags. It answers at once from the last known values and disturbs nothing.
3. Look at quality before you use a value: good can be trusted; uncertain and bad say why in reason and detail. \
age_ms is how old the value is. Never present a bad or stale value as the present state.
4. Write only what you were asked to, with write_tag: read first, try dry_run, give expect (the value you read) and a \
reason; what must change together goes into one write_tags. Values are in the tag's own unit; min and max of list_tags are hard limits.
5. Look at outcome: confirmed and written are done, and value is what the device now holds. rejected names the rule; do \
not try to get round it. Never repeat a write that ended as unknown or differs before you have read the tag.
6. To watch a value subscribe to fieldbridge://tags/{path} where you can; otherwise read again after a few seconds. \
A setpoint takes effect at the speed of the process: read the measured tag to see it.
7. Lists are paged: repeat the call with next_cursor.";

/// Resources of one `subscriptions/listen`; with more none is accepted, as the SDK compares each with each.
const LISTENED: usize = 10_000;

/// Requests that the SDK knows. One of these comes as a custom request where its parameters cannot be read.
const METHODS: [&str; 10] = [
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "prompts/get",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

pub(super) fn config() -> ServerConfig {
    let capabilities = ServerCapabilities::builder()
        .enable_tools()
        .enable_resources()
        .enable_resources_subscribe()
        .enable_resources_list_changed()
        .build();
    let implementation =
        Implementation::new("fieldbridge", env!("CARGO_PKG_VERSION")).with_title("fieldbridge");
    ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
}

impl ServerHandler for Mcp {
    fn get_info(&self) -> ServerConfig {
        self.0.config.clone()
    }

    async fn initialize(
        &self,
        request: InitializeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<InitializeResult, ErrorData> {
        let result = self.negotiate_initialize(&request)?;
        // A second initialize must not leave the session with a version that was asked for and not granted.
        let mut peer = request;
        peer.protocol_version = result.protocol_version.clone();
        context.peer.set_peer_info(peer);
        Ok(result)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request.as_ref())?;
        Ok(ListToolsResult::with_all_items(self.0.tools.all().to_vec()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.tools.get(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let stamp = self.stamp(&context);
        let call = tool::Call { caller: caller(&context), stamp, cancel: context.ct.clone() };
        let result = tool::call(self, &request.name, request.arguments, call).await;
        let result = result.ok_or_else(|| {
            let names = self.0.tools.all().iter().map(|tool| tool.name.as_ref()).collect::<Vec<_>>();
            let name = request.name.chars().take(80).collect::<String>();
            ErrorData::invalid_params(format!("no tool `{name}`: there are {}", names.join(", ")), None)
        })?;
        Ok(CallToolResponse::Complete(result))
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let cursor = request.and_then(|request| request.cursor);
        resource::list(&self.store().catalogue(), cursor.as_deref())
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request.as_ref())?;
        Ok(resource::templates())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resource::read(self.store(), &request.uri).map(ReadResourceResponse::Complete)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let subscriber = session_subscriber(&context)?;
        subscriber.subscribe(&request.uri, self.stamp(&context).number).map_err(|problem| match problem {
            Problem::Unknown => resource::not_found(&self.store().catalogue(), &request.uri),
            Problem::Spellings => ErrorData::invalid_params(problem.to_string(), None),
        })
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        session_subscriber(&context)?.unsubscribe(&request.uri, self.stamp(&context).number);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let catalogue = self.store().catalogue();
        let is_known = |uri: &&String| match uri::parse(uri) {
            Some(Target::Tag(path)) => catalogue.tag(&path).is_some(),
            Some(Target::Device(name)) => catalogue.device(&name).is_some(),
            None => false,
        };
        let mut accepted = SubscriptionFilter::new();
        accepted.resources_list_changed = requested.resources_list_changed;
        accepted.resource_subscriptions = requested
            .resource_subscriptions
            .as_ref()
            .filter(|uris| uris.len() <= LISTENED)
            .map(|uris| uris.iter().filter(is_known).cloned().collect());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let Ok(_permit) = Arc::clone(&self.0.listeners).try_acquire_owned() else {
            return Err(ErrorData::internal_error("too many subscriptions/listen requests at once", None));
        };
        let stop = Arrival::of(&context.request_context().extensions).map(|arrival| arrival.stop.clone());
        let stop = stop.unwrap_or_default();
        tokio::select! {
            () = self.forward(&context) => {}
            () = context.cancelled() => {}
            () = stop.cancelled() => {}
        }
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let CustomRequest { method, .. } = request;
        Err(if METHODS.contains(&method.as_str()) {
            ErrorData::invalid_params(format!("the params of {method} cannot be read"), None)
        } else {
            ErrorData::new(ErrorCode::METHOD_NOT_FOUND, method, None)
        })
    }
}

impl Mcp {
    /// When a request came in.
    fn stamp(&self, context: &RequestContext<RoleServer>) -> Stamp {
        Arrival::of(&context.extensions).map_or_else(|| self.control().stamp(), |arrival| arrival.stamp)
    }

    /// Sends what the listener accepted, until it cannot be sent any more.
    async fn forward(&self, context: &SubscriptionContext) {
        let subscriber = self.subscriber();
        let accepted = context.accepted();
        for uri in accepted.resource_subscriptions.iter().flatten() {
            // Gone since it was accepted: then a change of the catalogue tells so.
            if let Err(problem) = subscriber.subscribe(uri, 0) {
                tracing::debug!(%uri, %problem, "not subscribed");
            }
        }
        // The client was told that it listens before the store was: a change between the two must not be lost.
        subscriber.mark_all();
        let lists = accepted.resources_list_changed == Some(true);
        loop {
            for notification in subscriber.next().await {
                let is_list = matches!(notification, ServerNotification::ResourceListChangedNotification(_));
                if (lists || !is_list) && context.sink().send(notification).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn session_subscriber(context: &RequestContext<RoleServer>) -> Result<&Arc<Subscriber>, ErrorData> {
    context.extensions.get::<Arc<Subscriber>>().ok_or_else(|| {
        ErrorData::invalid_request(
            "subscribing needs a session: initialize one, or use subscriptions/listen",
            None,
        )
    })
}

/// Refuses cursors where there is only one page.
fn only_page(request: Option<&PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor.as_ref()) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("this list has one page and no cursors", None)),
    }
}
