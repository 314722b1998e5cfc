#include "tests/support/source_folder.hpp"

namespace convoy {

std::string source_folder() { return CONVOY_SOURCE_DIR; }

}  // namespace convoy
