//! Requests against the state, no sockets.

use super::*;

fn state() -> State {
    let mut tables = Tables::new();
    tables.set_coils(0, &[true, false]);
    tables.set_holdings(4, &[0x12, 2, 3]);
    State { units: [(1, Arc::new(Mutex::new(UnitState::new(tables))))].into(), ..State::default() }
}

fn disturb(state: &State, change: impl FnOnce(&mut UnitState)) {
    change(&mut lock(state.units.get(&1).unwrap()));
}

fn result(state: &mut State, request: &Request<'_>) -> Result<Option<Response>, ExceptionCode> {
    state.answer(Medium::Network, 1, request).result
}

#[test]
fn masks_as_the_example_of_the_specification() {
    let mut state = state();
    let request = Request::MaskWriteRegister(4, 0xF2, 0x25);
    assert_eq!(result(&mut state, &request), Ok(Some(Response::MaskWriteRegister(4, 0xF2, 0x25))));
    let read = result(&mut state, &Request::ReadHoldingRegisters(4, 1));
    assert_eq!(read, Ok(Some(Response::ReadHoldingRegisters(vec![0x17]))));
    let hole = Request::MaskWriteRegister(9, 0xF2, 0x25);
    assert_eq!(result(&mut state, &hole), Err(ExceptionCode::IllegalDataAddress));
}

#[test]
fn logs_writes_in_order_whatever_came_of_them() {
    let mut state = state();
    state.answer(Medium::Network, 1, &Request::WriteMultipleCoils(0, vec![false, true].into()));
    state.answer(Medium::Network, 1, &Request::ReadCoils(0, 2));
    state.answer(Medium::Network, 1, &Request::WriteSingleRegister(9, 5));
    state.answer(Medium::Network, 7, &Request::WriteSingleCoil(0, true));
    disturb(&state, |unit| unit.silent = true);
    state.answer(Medium::Network, 1, &Request::WriteMultipleRegisters(4, vec![8, 9].into()));

    let write = |unit, function, address, values, reply| Write { unit, function, address, values, reply };
    let expected = [
        write(1, 15, 0, Values::Bits(vec![false, true]), Reply::Done),
        write(1, 6, 9, Values::Words(vec![5]), Reply::Exception(ExceptionCode::IllegalDataAddress)),
        write(7, 5, 0, Values::Bits(vec![true]), Reply::Exception(ExceptionCode::GatewayTargetDevice)),
        write(1, 16, 4, Values::Words(vec![8, 9]), Reply::Swallowed),
    ];
    assert_eq!(state.writes, expected);
    disturb(&state, |unit| {
        assert_eq!(unit.tables.coil(0), Some(false));
        assert_eq!(unit.tables.holding(4), Some(0x12), "a silent unit does nothing");
    });
}

#[test]
fn refuses_by_function_and_by_address() {
    let mut state = state();
    let busy = ExceptionCode::ServerDeviceBusy;
    let failure = ExceptionCode::ServerDeviceFailure;
    disturb(&state, |unit| {
        unit.refusals.push(Refusal::all(busy).function(3).addresses(6..=20));
        unit.refusals.push(Refusal::all(failure).function(6));
    });
    assert_eq!(result(&mut state, &Request::ReadHoldingRegisters(4, 3)), Err(busy));
    assert!(result(&mut state, &Request::ReadHoldingRegisters(4, 2)).is_ok());
    assert_eq!(result(&mut state, &Request::WriteSingleRegister(4, 1)), Err(failure));
    assert!(result(&mut state, &Request::WriteMultipleRegisters(4, vec![1, 2, 3].into())).is_ok());
}

#[test]
fn forgets_the_oldest_writes_only() {
    let mut state = state();
    for _ in 0..LOG_LENGTH {
        state.answer(Medium::Network, 1, &Request::WriteSingleRegister(4, 1));
    }
    state.answer(Medium::Network, 1, &Request::WriteSingleRegister(4, 2));
    assert_eq!(state.writes.len(), LOG_LENGTH);
    assert_eq!(state.writes.back().map(|write| &write.values), Some(&Values::Words(vec![2])));
}

#[test]
fn rejects_what_is_malformed_with_the_word_of_the_unit() {
    let mut state = state();
    let value = ExceptionCode::IllegalDataValue;
    assert_eq!(state.reject(Medium::Network, 1, 16, value), Some(value));
    assert_eq!(state.reject(Medium::Network, 9, 16, value), Some(ExceptionCode::GatewayTargetDevice));
    disturb(&state, |unit| unit.refusals.push(Refusal::all(ExceptionCode::ServerDeviceBusy)));
    assert_eq!(state.reject(Medium::Network, 1, 16, value), Some(ExceptionCode::ServerDeviceBusy));
    disturb(&state, |unit| unit.silent = true);
    assert_eq!(state.reject(Medium::Network, 1, 16, value), None);
    assert_eq!(state.reject(Medium::Network, 1, 99, ExceptionCode::IllegalFunction), None);
    assert_eq!(state.malformed, 4);
    assert_eq!(state.requests.get(&(1, 16)), Some(&3));
}
