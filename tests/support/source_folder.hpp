#pragma once

#include <string>

namespace convoy {

/// The checkout that the tests were built from. Its name is compiled into one source alone: what else is compiled is the
/// same in every checkout, and kept by ccache for all.
std::string source_folder();

}  // namespace convoy
