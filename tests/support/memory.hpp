// A stream into memory, for tests of what programs write.
#pragma once

#include <cstdio>
#include <memory>
#include <string>

namespace convoy {

/// A stream whose text can be read back.
class Memory {
 public:
  std::FILE* stream() { return stream_.get(); }
  std::string text() {
    std::fflush(stream());
    std::string text(static_cast<std::size_t>(std::ftell(stream())), '\0');
    std::rewind(stream());
    text.resize(std::fread(text.data(), 1, text.size(), stream()));
    return text;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> stream_{std::tmpfile(), std::fclose};
};

}  // namespace convoy
