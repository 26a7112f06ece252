//! Writes of one call: permits for all before anything leaves, and one frame for what lies side by side.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio_modbus::ExceptionCode;

use super::{
    form::{Form, cells},
    session::{End, Session},
    verdict::{Said, refusal, verdict},
    write::{Order, Sent},
};
use crate::{
    codec::{
        modbus::{WRITE_COILS, WRITE_REGISTERS},
        value::Raw,
    },
    link::Command,
    model::{Outcome, Report},
};

/// Writes that one frame carries, in the order of their addresses.
type Group = Vec<(Command, Order)>;

impl<S: AsyncRead + AsyncWrite + Unpin> Session<'_, S> {
    /// Carries out the writes of one call; an error ends the session, each of them is answered in any case.
    pub(super) async fn write_joint(&mut self, command: Command) -> Result<(), End> {
        let commands = command.split();
        let mut orders = Vec::new();
        for (place, command) in commands.iter().enumerate() {
            match self.order(command) {
                Ok(order) => orders.push(order),
                Err(report) => {
                    Command::answer_all(commands, place, report);
                    return Ok(());
                }
            }
        }
        let units = orders.iter().filter_map(|order| Some(self.plant.entries.get(order.at)?.unit));
        let late = units.into_iter().find(|unit| {
            !self.plant.is_broadcast(*unit) && !self.plant.is_in_step(*unit) && self.plant.has_probe(*unit)
        });
        if let Some(unit) = late {
            let mut commands = commands.into_iter();
            if let Some(first) = commands.next() {
                self.defer(unit, first.with(commands.collect()));
            }
            return Ok(());
        }
        let Some(commands) = Command::grant_all(commands) else { return Ok(()) };
        let mut groups = self.groups(commands.into_iter().zip(orders).collect()).into_iter();
        while let Some(group) = groups.next() {
            if let Err(end) = self.write_group(group).await {
                // Their permits were granted, and nothing of them left.
                for (command, _) in groups.flatten() {
                    command.answer(Report::new(Outcome::NotSent, "the connection ended before its turn"));
                }
                return Err(end);
            }
        }
        Ok(())
    }

    /// Puts together what one frame can carry: whole registers, or coils, one behind the other.
    fn groups(&self, mut writes: Group) -> Vec<Group> {
        let place = |order: &Order| {
            let entry = self.plant.entries.get(order.at)?;
            Some((entry.unit, entry.table, entry.address))
        };
        writes.sort_by_key(|(_, order)| place(order).map(|(unit, _, address)| (unit, address)));
        let mut groups: Vec<Group> = Vec::new();
        for (command, order) in writes {
            let fits = groups.last().and_then(|group| {
                let (unit, table, _) = place(&group.first()?.1)?;
                let (_, last) = group.last()?;
                let (_, _, address) = place(last)?;
                let end = usize::from(address) + cells(&last.raw);
                let taken =
                    group.iter().map(|(_, order)| cells(&order.raw)).sum::<usize>() + cells(&order.raw);
                let most = match (&last.raw, &order.raw) {
                    (Raw::Words(_), Raw::Words(_)) => WRITE_REGISTERS,
                    (Raw::Bits(_), Raw::Bits(_)) => WRITE_COILS,
                    _ => return None,
                };
                let is_next = place(&order)? == (unit, table, u16::try_from(end).ok()?);
                (is_next && taken <= usize::from(most) && !self.plant.is_broadcast(unit)).then_some(())
            });
            match (fits, groups.last_mut()) {
                (Some(()), Some(group)) => group.push((command, order)),
                _ => groups.push(vec![(command, order)]),
            }
        }
        groups
    }

    async fn write_group(&mut self, mut group: Group) -> Result<(), End> {
        if group.len() < 2 {
            return match group.pop() {
                Some((command, _)) => self.write_one(command).await,
                None => Ok(()),
            };
        }
        let (mut words, mut bits) = (Vec::new(), Vec::new());
        for (_, order) in &group {
            match &order.raw {
                Raw::Words(own) => words.extend(own),
                Raw::Bits(own) => bits.extend(own),
                Raw::Masked { .. } => {}
            }
        }
        let raw = if bits.is_empty() { Raw::Words(words) } else { Raw::Bits(bits) };
        let Some((first, order)) = group.first_mut() else { return Ok(()) };
        let together = Order { at: order.at, raw, current: None, word: None };
        let (report, end) = match self.send(first, &together, Form::Multiple, true).await {
            Sent::Said(said) => return self.look_back(group, &said).await,
            // The device has no function for several: each is written by another one.
            Sent::Refused(ExceptionCode::IllegalFunction) => return self.write_each(group).await,
            Sent::Refused(exception) => (refusal(exception, 1), Ok(())),
            Sent::Over(report) => (report, Ok(())),
            Sent::Ended(report, end) => (report, Err(end)),
        };
        for (command, order) in group {
            self.close(order.at, command, report.clone());
        }
        end
    }

    async fn look_back(&mut self, group: Group, said: &Said) -> Result<(), End> {
        let mut writes = group.into_iter();
        while let Some((command, order)) = writes.next() {
            if let Err(end) = self.read_back(command, order, said.clone()).await {
                for (command, order) in writes {
                    let report = verdict(said, Err("the connection ended before it could be read back"), "");
                    self.close(order.at, command, report);
                }
                return Err(end);
            }
        }
        Ok(())
    }

    async fn write_each(&mut self, group: Group) -> Result<(), End> {
        let mut writes = group.into_iter();
        while let Some((command, _)) = writes.next() {
            if let Err(end) = self.write_one(command).await {
                for (command, _) in writes {
                    command.answer(Report::new(Outcome::NotSent, "the connection ended before its turn"));
                }
                return Err(end);
            }
        }
        Ok(())
    }
}
