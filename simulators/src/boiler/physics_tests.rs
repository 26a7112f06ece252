//! The physics, stepped by hand.

use super::*;

const START: Controls = Controls { setpoint: 65.0, pump_speed: 80.0, pump: true, burner: true };

/// Beats of 100 ms, and what was shown after each.
fn run(boiler: &mut Boiler, controls: Controls, seconds: u32) -> Vec<Readings> {
    (0..seconds * 10)
        .map(|_| {
            boiler.step(SLICE, &controls);
            boiler.readings()
        })
        .collect()
}

#[test]
fn rests_where_it_starts() {
    let mut boiler = Boiler::new(3);
    for readings in run(&mut boiler, START, 60) {
        assert!((readings.outlet - 65.0).abs() < 0.2, "{readings:?}");
        assert!((readings.flow - 9.6).abs() < 0.1, "{readings:?}");
        assert!(readings.flame && !readings.fault);
    }
}

#[test]
fn follows_the_setpoint_by_its_time_constant() {
    for setpoint in [75.0, 55.0] {
        let mut boiler = Boiler::new(3);
        run(&mut boiler, Controls { setpoint, ..START }, 15);
        let part = (boiler.temperature - 65.0) / (setpoint - 65.0);
        // 1 - 1/e of the way after one time constant.
        assert!((part - 0.632).abs() < 0.01, "{part}");
        run(&mut boiler, Controls { setpoint, ..START }, 60);
        assert!((boiler.temperature - setpoint).abs() < 0.1, "{}", boiler.temperature);
    }
}

#[test]
fn same_seed_same_noise() {
    let shown = |seed| run(&mut Boiler::new(seed), START, 10);
    assert_eq!(shown(5), shown(5));
    assert_ne!(shown(5), shown(6));
}

#[test]
fn saturates_between_the_surroundings_and_the_limiter() {
    let mut boiler = Boiler::new(3);
    let hot = run(&mut boiler, Controls { setpoint: 6553.5, ..START }, 600);
    assert!(hot.iter().all(|readings| readings.outlet <= HIGHEST));
    assert!(hot.last().is_some_and(|readings| readings.outlet > HIGHEST - 1.0), "{:?}", hot.last());
    let before = boiler.energy;
    run(&mut boiler, Controls { setpoint: 6553.5, ..START }, 60);
    let made = boiler.energy - before;
    assert!(made < (HIGHEST - AMBIENT) * 1.68 / 60.0 + 0.01, "the limiter holds the burner back: {made}");
    let cold = run(&mut boiler, Controls { setpoint: 0.0, pump_speed: 65_535.0, ..START }, 600);
    assert!(cold.iter().all(|readings| readings.outlet >= AMBIENT));
    assert!(cold.last().is_some_and(|readings| readings.outlet < AMBIENT + 1.0 && !readings.flame));
    assert!(cold.last().is_some_and(|readings| readings.flow < FULL_FLOW + 0.1));
}

#[test]
fn burner_stops_with_a_fault_when_the_water_stands() {
    let mut boiler = Boiler::new(3);
    run(&mut boiler, Controls { pump: false, ..START }, 20);
    let readings = boiler.readings();
    assert!(readings.fault && !readings.flame, "{readings:?}");
    assert!(readings.flow.abs() < f64::EPSILON && readings.outlet < 64.0, "{readings:?}");
    run(&mut boiler, START, 60);
    let readings = boiler.readings();
    assert!(!readings.fault && readings.flame && readings.outlet > 64.0, "{readings:?}");
}

#[test]
fn burner_off_is_no_fault() {
    let mut boiler = Boiler::new(3);
    run(&mut boiler, Controls { burner: false, ..START }, 60);
    let readings = boiler.readings();
    assert!(!readings.fault && !readings.flame && readings.outlet < 30.0, "{readings:?}");
}

#[test]
fn counter_holds_the_power_over_time() {
    let mut boiler = Boiler::new(3);
    run(&mut boiler, START, 60);
    // 45 K × (0.4 + 1.6 × 0.8) kW/K for a minute.
    let expected = 45.0 * 1.68 / 60.0;
    assert!((boiler.readings().energy - expected).abs() < 0.001, "{}", boiler.readings().energy);
    let before = boiler.readings().energy;
    run(&mut boiler, Controls { burner: false, ..START }, 60);
    assert!((boiler.readings().energy - before).abs() < f64::EPSILON);
}

#[test]
fn one_long_step_is_many_short_ones() {
    let controls = Controls { setpoint: 80.0, pump_speed: 30.0, ..START };
    let mut long = Boiler::new(3);
    long.step(Duration::from_secs(30), &controls);
    let mut short = Boiler::new(3);
    run(&mut short, controls, 30);
    assert!((long.temperature - short.temperature).abs() < 1e-9);
    assert!((long.energy - short.energy).abs() < 1e-9);
}
