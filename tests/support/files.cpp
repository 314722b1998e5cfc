#include "tests/support/files.hpp"

#include <zlib.h>

#include <fstream>
#include <iterator>
#include <sstream>

#include "core/error.hpp"

namespace convoy {

Bytes read_file(const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::string text_of(const std::string& file) {
  const Bytes bytes = read_file(file);
  return {bytes.begin(), bytes.end()};
}

std::vector<std::vector<std::string>> fields_of(const std::string& csv) {
  std::vector<std::vector<std::string>> table;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> fields{""};
    bool inside = false;
    for (const char letter : line) {
      if (letter == '"') inside = !inside;
      if (letter == ',' && !inside) {
        fields.emplace_back();
      } else {
        fields.back() += letter;
      }
    }
    table.push_back(fields);
  }
  return table;
}

void write_file(const std::string& file, const Bytes& bytes) {
  std::ofstream out(file, std::ios::binary);
  out.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  invariant(out.good(), "a test's file is written");
}

void write_gzip(const std::string& file, const Bytes& bytes) {
  gzFile out = gzopen(file.c_str(), "wb");
  const int written = gzwrite(out, bytes.data(), static_cast<unsigned>(bytes.size()));
  invariant(gzclose(out) == Z_OK && written == static_cast<int>(bytes.size()), "a test's file is written");
}

}  // namespace convoy
