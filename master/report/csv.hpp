// Fields of CSV files.
#pragma once

#include <string>

namespace convoy {

/// A field, in quotes if it needs them.
std::string csv_field(const std::string& text);
/// A number; an empty field where it is not finite.
std::string csv_number(double value);

}  // namespace convoy
