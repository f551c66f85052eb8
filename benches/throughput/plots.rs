//! The figures as pictures, for those who see more in a line than in a table.

use std::error::Error;
use std::path::Path;

use plotters::prelude::*;

use super::report::Report;

const SIZE: (u32, u32) = (720, 360);

/// Bars of the figures whose measure is listed, in that order; those that were not measured are left out.
pub fn bars(report: &Report, title: &str, measures: &[&str], file: &Path) -> Result<(), Box<dyn Error>> {
    let bars: Vec<(&str, f64)> =
        measures.iter().filter_map(|measure| Some((*measure, report.value(measure)?))).collect();
    let most = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    if most <= 0.0 {
        return Ok(());
    }
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(28)
        .build_cartesian_2d(0.0..most * 1.05, 0.0..bars.len() as f64)?;
    chart.configure_mesh().disable_y_axis().disable_y_mesh().draw()?;
    for (index, (measure, value)) in bars.iter().enumerate() {
        let bottom = (bars.len() - 1 - index) as f64;
        chart.draw_series([Rectangle::new([(0.0, bottom + 0.1), (*value, bottom + 0.55)], BLUE.mix(0.5).filled())])?;
        let label = format!("{measure}: {value:.0}");
        chart.draw_series([Text::new(label, (0.0, bottom + 0.85), ("sans-serif", 14))])?;
    }
    area.present()?;
    Ok(())
}

/// The time of a claim over the backlog, the backlog in powers of ten.
pub fn claim_over_backlog(points: &[(u64, f64)], file: &Path) -> Result<(), Box<dyn Error>> {
    let Some((most_jobs, _)) = points.last() else {
        return Ok(());
    };
    let most = points.iter().map(|(_, us)| *us).fold(0.0, f64::max);
    let area = SVGBackend::new(file, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("Time of a claim over the backlog", ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((100_u64..most_jobs * 2).log_scale(), 0.0..most * 1.3)?;
    chart.configure_mesh().x_desc("ready jobs").y_desc("microseconds").draw()?;
    chart.draw_series(LineSeries::new(points.iter().copied(), &BLUE))?;
    chart.draw_series(points.iter().map(|point| Circle::new(*point, 4, BLUE.filled())))?;
    area.present()?;
    Ok(())
}
