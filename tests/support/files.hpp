// Files for tests: the real data sets where they are, and files made up on the spot.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace convoy {

using Bytes = std::vector<std::uint8_t>;

/// The folder `name` in the one that CONVOY_TEST_DATA names, else in ../shared/data beside the checkout; empty where
/// there is none (a test then skips, and says so).
std::string real_data(const std::string& name);

Bytes read_file(const std::string& file);
void write_file(const std::string& file, const Bytes& bytes);
/// The same compressed by gzip.
void write_gzip(const std::string& file, const Bytes& bytes);

}  // namespace convoy
