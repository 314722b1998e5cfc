#pragma once

#include <string>

namespace convoy {

/// The checkout that the tests were built from. Only one source has this path compiled in, so that all other sources
/// compile to the same objects in every checkout and share ccache's entries.
std::string source_folder();

}  // namespace convoy
