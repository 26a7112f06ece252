"""The peers among themselves: what the tests of the bridge rest on, with nothing of ours between them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from pymodbus.client import ModbusSerialClient, ModbusTcpClient, ModbusTlsClient
from pymodbus.client.base import ModbusBaseSyncClient
from pymodbus.framer import FramerType

import libmodbus
import mbpoll
from conftest import Play
from devices import KINDS, Kind
from encoding import CASES, NUMBERS, ORDERS, SHORT, plain, registers
from plc import COIL, DISCRETE, HOLDING, INPUT, Plc, Request
from registers import Device
from waiting import until

ENCODER = ModbusTcpClient
LINES = [kind for kind in KINDS if kind.transport == "rtu"]


def master(device: Device) -> ModbusBaseSyncClient:
    """pymodbus's client at the place of a PLC."""
    place = device.place
    if place["driver"] == "modbus-rtu":
        return ModbusSerialClient(place["port"], baudrate=place["baud"], parity="N", retries=0)
    port = int(place["address"].rsplit(":", 1)[1])
    if place["driver"] == "modbus-tls":
        assert isinstance(device, Plc) and device.authority is not None
        return ModbusTlsClient("127.0.0.1", port=port, sslctx=device.authority.calling())
    framer = FramerType.RTU if place["driver"] == "modbus-rtu-tcp" else FramerType.SOCKET
    return ModbusTcpClient("127.0.0.1", port=port, framer=framer)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_pymodbus_client_reads_and_writes(play: Play, kind: Kind) -> None:
    device = play(kind)
    device.set(HOLDING, 3, [7, 8, 0xFFFE])
    device.set(INPUT, 3, [9])
    device.set(DISCRETE, 2, [True, False, True])
    with master(device) as client:
        assert client.read_holding_registers(3, count=3).registers == [7, 8, 0xFFFE]
        assert client.read_input_registers(3, count=1).registers == [9]
        assert client.read_discrete_inputs(2, count=3).bits[:3] == [True, False, True]
        client.write_register(10, 5)
        client.write_registers(11, [1, 2])
        client.mask_write_register(address=3, and_mask=0xFFF0, or_mask=0x0009)
        client.write_coil(4, True)
        client.write_coils(5, [False, True])
        assert client.read_coils(4, count=3).bits[:3] == [True, False, True]
    assert device.get(HOLDING, 10, 3) == [5, 1, 2]
    assert device.get(HOLDING, 3, 3) == [9, 8, 0xFFFE]
    assert device.get(COIL, 4, 3) == [True, False, True]
    assert device.writes == [
        Request(6, 1, 10, (5,)),
        Request(16, 1, 11, (1, 2)),
        Request(22, 1, 3, (0xFFF0, 0x0009)),
        Request(5, 1, 4, (1,)),
        Request(15, 1, 5, (0, 1)),
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.transport in ("tcp", "rtu")], ids=str)
def test_mbpoll_reads_and_writes(play: Play, kind: Kind) -> None:
    device = play(kind)
    device.set(HOLDING, 3, [7, 8, 0xFFFE])
    device.set(INPUT, 3, [9])
    device.set(DISCRETE, 2, [True, False, True])
    poll = mbpoll.Master(device.place)
    assert poll.read(HOLDING, 3, 3) == [7, 8, 0xFFFE]
    assert poll.read(INPUT, 3) == [9]
    assert poll.read(DISCRETE, 2, 3) == [1, 0, 1]
    poll.write(HOLDING, 10, 5)
    poll.write(HOLDING, 11, -1234567, kind="int")
    poll.write(COIL, 4, 1)
    assert device.get(HOLDING, 10, 3) == [5, *registers(plain("int32", -1234567), "CDAB")]
    assert poll.read(HOLDING, 11, kind="int") == [-1234567]
    assert poll.read(COIL, 4) == [1]
    assert [request.function for request in device.writes] == [6, 16, 5]
    with pytest.raises(mbpoll.Failed, match="Illegal data address"):
        poll.read(HOLDING, 5000)


@pytest.mark.parametrize("kind", LINES, ids=str)
def test_a_broadcast_on_a_line_gets_no_answer(play: Play, kind: Kind) -> None:
    units = (1, 2) if kind.player == "pymodbus" else (1,)
    device = play(kind, units)
    with master(device) as client:
        client.write_register(10, 7, device_id=0, no_response_expected=True)
        until("all units took it", lambda: [device.get(HOLDING, 10, unit=unit) for unit in units] == [[7]] * len(units))
        assert client.read_holding_registers(10, count=1).registers == [7]
    assert device.writes == [Request(6, 0, 10, (7,))]


@pytest.mark.parametrize("kind", LINES, ids=str)
def test_a_line_is_pulled_out_and_plugged_in_again(play: Play, kind: Kind) -> None:
    device: Any = play(kind)
    device.set(HOLDING, 0, [7])
    with master(device) as client:
        assert client.read_holding_registers(0, count=1).registers == [7]
        device.line.unplug()
        assert not device.line.near.exists()
    device.line.plug()
    with master(device) as client:
        assert client.read_holding_registers(0, count=1).registers == [7]
    assert device.line.heard == bytes.fromhex("010300000001840A") * 2


def test_muted_units_alone_are_silent(play: Play) -> None:
    device = play(Kind("pymodbus", "rtu"), (1, 2))
    assert isinstance(device, Plc)
    device.silent.add(2)
    with master(device) as client:
        client.comm_params.timeout_connect = 0.2
        assert client.write_register(0, 5, device_id=1).isError() is False
        with pytest.raises(Exception, match="No response"):
            client.write_register(0, 5, device_id=2)
        assert client.read_holding_registers(0, count=1, device_id=1).registers == [5]
    assert device.get(HOLDING, 0, unit=2) == [5]


def test_pymodbus_encodes_as_we_do() -> None:
    kinds = [kind for kind in NUMBERS if kind.upper() in ENCODER.DATATYPE.__members__]
    assert kinds == ["int16", "uint16", "int32", "uint32", "float32", "int64", "uint64", "float64"]
    for kind in kinds:
        data_type = ENCODER.DATATYPE[kind.upper()]
        for value in NUMBERS[kind]:
            for order, words in (("ABCD", "big"), ("CDAB", "little")):
                theirs = ENCODER.convert_to_registers(value, data_type, word_order=words)  # type: ignore[arg-type]
                assert registers(plain(kind, value), order) == theirs, (kind, value, order)
                # It knows the order of words; to exchange the bytes of each is another step.
                turned = [struct.unpack("<H", struct.pack(">H", word))[0] for word in theirs]
                other = {"ABCD": "BADC", "CDAB": "DCBA"}[order]
                assert registers(plain(kind, value), other) == turned, (kind, value, other)
    for case in CASES:
        if case.kind == "text" and case.keys.get("padding") != "space" and case.name != "text-utf-16":
            encoding = case.keys.get("encoding", "ascii")
            for value, ours in case.pairs:
                text = ENCODER.convert_from_registers(ours, ENCODER.DATATYPE.STRING, string_encoding=encoding)
                assert text == value


def test_libmodbus_decodes_what_we_encode() -> None:
    for order in SHORT:
        for value in NUMBERS["float32"]:
            theirs = libmodbus.floating(registers(plain("float32", value), order), order)
            assert plain("float32", theirs) == plain("float32", value), (order, value)


def test_long_names_of_orders_say_what_short_ones_do() -> None:
    for width, long in ((2, ("AB", "AB", "BA", "BA")), (6, ORDERS[6][4:]), (8, ORDERS[8][4:8])):
        data = bytes(range(1, width + 1))
        for order, name in zip(SHORT, long):
            assert registers(data, order) == registers(data, name), (order, name)


def test_no_value_looks_the_same_in_two_orders() -> None:
    for kind, (value, *_) in NUMBERS.items():
        data = plain(kind, value)
        seen = {tuple(registers(data, order)) for order in ORDERS[len(data)]}
        assert len(seen) == {2: 2, 4: 4, 6: 4, 8: 8}[len(data)], kind
