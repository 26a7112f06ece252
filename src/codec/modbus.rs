//! Modbus PDUs and MBAP framing over tokio-modbus's types.
