//! What one connection leaves to the next, in the terms of each version of the library.

/// Declares `Kept`: protocol state in memory, of which PUBLISH and SUBSCRIBE are never handed on.
macro_rules! kept {
    ($library:ident) => {
        /// What one connection leaves to the next.
        #[derive(Debug, Clone, Default)]
        struct Kept(Arc<parking_lot::Mutex<Option<$library::PersistedSession>>>);

        impl Kept {
            /// Whether the broker may hold a message of ours that is not released.
            fn has_unreleased(&self) -> bool {
                let is_open = |request: &$library::PersistedRequest| {
                    matches!(
                        request,
                        $library::PersistedRequest::Publish(message)
                            if message.qos == $library::PersistedQoS::ExactlyOnce
                    )
                };
                self.0.lock().as_ref().is_some_and(|session| session.replay.iter().any(is_open))
            }

            fn forget(&self) {
                *self.0.lock() = None;
            }
        }

        impl $library::SessionStore for Kept {
            fn load<'a>(
                &'a self,
                _key: &'a $library::SessionStoreKey,
            ) -> BoxFuture<'a, Result<Option<$library::PersistedSession>, $library::SessionStoreError>> {
                let session = self.0.lock().clone().map(|mut session| {
                    let is_release =
                        |request: &_| matches!(request, $library::PersistedRequest::PubRel(_));
                    session.replay.retain(is_release);
                    session
                });
                async move { Ok(session) }.boxed()
            }

            fn save<'a>(
                &'a self,
                _key: &'a $library::SessionStoreKey,
                session: &'a $library::PersistedSession,
            ) -> BoxFuture<'a, Result<(), $library::SessionStoreError>> {
                *self.0.lock() = Some(session.clone());
                async { Ok(()) }.boxed()
            }

            fn clear<'a>(
                &'a self,
                _key: &'a $library::SessionStoreKey,
            ) -> BoxFuture<'a, Result<(), $library::SessionStoreError>> {
                self.forget();
                async { Ok(()) }.boxed()
            }
        }
    };
}
pub(super) use kept;
