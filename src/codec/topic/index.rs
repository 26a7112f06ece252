//! Who wants a message, found by its topic.

use std::{
    collections::{HashMap, HashSet},
    hash::Hash,
};

use super::pattern::{Level, Pattern};

/// Subscribers by the patterns that they want.
///
/// What a message costs depends on the levels of its topic and on how many wildcards stand beside one another, not on
/// how many topics there are.
#[derive(Debug, Clone)]
pub struct Index<T> {
    /// Patterns that are one topic.
    topics: HashMap<Box<str>, Vec<usize>>,
    /// All others.
    wild: Node,
    entries: Vec<(Pattern, T)>,
}

#[derive(Debug, Clone, Default)]
struct Node {
    texts: HashMap<Box<str>, Node>,
    /// Below `+` and named levels.
    one: Option<Box<Node>>,
    /// Patterns that end here.
    ends: Vec<usize>,
    /// Patterns that go on with `#`.
    rests: Vec<usize>,
}

impl<T: Eq + Hash> Index<T> {
    #[must_use]
    pub fn new() -> Self {
        Self { topics: HashMap::new(), wild: Node::default(), entries: Vec::new() }
    }

    /// Adds one pattern of a subscriber, which may have several.
    pub fn insert(&mut self, pattern: Pattern, subscriber: T) {
        let number = self.entries.len();
        if let Some(topic) = pattern.topic() {
            self.topics.entry(topic.into()).or_default().push(number);
        } else {
            self.wild.insert(pattern.levels(), number);
        }
        self.entries.push((pattern, subscriber));
    }

    /// All subscribers of `topic` once, each with the first of its patterns that matches, in the order of insertion;
    /// what its names stand for tells [`Pattern::matches`].
    #[must_use]
    pub fn find(&self, topic: &str) -> Vec<(&Pattern, &T)> {
        let mut numbers = self.numbers(topic).0;
        numbers.sort_unstable();
        let mut known = HashSet::with_capacity(numbers.len());
        let entries = numbers.iter().filter_map(|number| self.entries.get(*number));
        let first = entries.filter(|(_, subscriber)| known.insert(subscriber));
        first.map(|(pattern, subscriber)| (pattern, subscriber)).collect()
    }

    /// How many patterns there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The entries that match, and how many tables were looked into.
    pub(super) fn numbers(&self, topic: &str) -> (Vec<usize>, usize) {
        let mut numbers = self.topics.get(topic).cloned().unwrap_or_default();
        let mut visited = 1;
        let wild = self.walk(topic, &mut visited);
        numbers.extend(wild.into_iter().filter(|number| {
            // The tree takes a named level for any text.
            self.entries.get(*number).is_some_and(|(pattern, _)| pattern.matches(topic).is_some())
        }));
        (numbers, visited)
    }

    /// The entries with wildcards whose filters match all that `filter` matches.
    pub(super) fn covers(&self, filter: &str) -> Vec<usize> {
        self.walk(filter, &mut 0)
    }

    /// Goes down all ways that lead along a topic, or along a filter: what matches a wildcard must be one as well, and
    /// no text in the tree is one.
    fn walk(&self, topic: &str, visited: &mut usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut here = vec![&self.wild];
        // Wildcards in front do not match what begins with `$`.
        let mut is_hidden = topic.starts_with('$');
        for level in topic.split('/') {
            let mut next = Vec::new();
            for node in here {
                *visited += 1;
                next.extend(node.texts.get(level));
                if !is_hidden {
                    found.extend(&node.rests);
                    next.extend(node.one.as_deref().filter(|_| level != "#"));
                }
            }
            if next.is_empty() {
                return found;
            }
            here = next;
            is_hidden = false;
        }
        for node in here {
            found.extend(node.ends.iter().chain(&node.rests));
        }
        found
    }
}

impl<T: Eq + Hash> Default for Index<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl Node {
    fn insert(&mut self, levels: &[Level], number: usize) {
        let mut node = self;
        for level in levels {
            node = match level {
                Level::Rest => {
                    node.rests.push(number);
                    return;
                }
                Level::Text(text) => node.texts.entry(text.clone()).or_default(),
                Level::One | Level::Named { .. } => node.one.get_or_insert_default(),
            };
        }
        node.ends.push(number);
    }
}
