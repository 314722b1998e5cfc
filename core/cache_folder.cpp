#include "core/cache_folder.hpp"

#include <cstdlib>

namespace convoy {

std::filesystem::path cache_folder(const std::string& kind) {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache != nullptr && *cache != '\0') {
    return std::filesystem::path(cache) / "convoy" / kind;
  }
  if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    return std::filesystem::path(home) / ".cache/convoy" / kind;
  }
  return {};
}

}  // namespace convoy
