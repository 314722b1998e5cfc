// Reads lists of jobs.

#include <string>

#include "master/jobs/job_file.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace convoy;
  return try_to([&] {
    const JobList list = parse_jobs(std::string(reinterpret_cast<const char*>(data), size), "fuzz.yaml");
    const std::string text = to_yaml(list);
    invariant(to_yaml(parse_jobs(text, "again.yaml")) == text, "a list that comes through");
  });
}
