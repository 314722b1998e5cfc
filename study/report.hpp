// The table, the CSV file and the plot of a study.
#pragma once

#include <string>
#include <vector>

#include "energy/meter.hpp"
#include "study/measure.hpp"

namespace convoy::study {

/// A device at a batch size, with a net of some numbers of filters, and what was measured.
struct Row {
  std::string device;
  int batch = 0;
  std::string filters;  ///< of the stages, as in "50:500"
  std::optional<energy::MeterInfo> meter;
  Result result;
};

/// Returns for each row whether it is on the Pareto front: no other row has at least as many images a second for at
/// most as many J an image, and is better in one of the two. Rows without a measured energy, or with an assumed one,
/// are not on it.
std::vector<bool> pareto_front(const std::vector<Row>& rows);

/// Return the head of the table, and a row with the lines that explain it, in at most 80 columns but for the reason why
/// no energy is measurable. `reason` is false where that reason is known from the row before.
std::string table_head();
std::string table_row(const Row& row, bool reason);

/// Returns a CSV file with a line for each row. What is not known is an empty field.
std::string csv_of(const std::vector<Row>& rows);
/// Returns a CSV file with a line for each trial.
std::string trials_csv_of(const std::vector<Row>& rows);

/// Returns a gnuplot script that draws J/image over images/s into `picture`; an empty text where no row has both.
std::string plot_of(const std::vector<Row>& rows, const std::string& picture);

}  // namespace convoy::study
