// Runs the programs as processes, for tests of their behaviour towards users.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "core/error.hpp"
#include "core/exit_code.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {

inline const std::string kMaster = CONVOY_MASTER;
inline const std::string kSlave = CONVOY_SLAVE;
inline const std::string kBench = CONVOY_BENCH;
inline const std::string kSource = source_folder();

inline std::string file_bytes(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

class Programs : public testing::Test {
 protected:
  Process master(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kMaster);
    return Process(arguments);
  }

  /// The command `train` on glyphs, with a net small enough for a test and a run long enough to be disturbed.
  std::vector<std::string> training(const std::string& out, std::vector<std::string> more) const {
    std::vector<std::string> arguments{"train",     kSource + "/nets/glyphs.yaml",
                                       "--set",     "conv1.filters=6",
                                       "--set",     "conv2.filters=9",
                                       "--batch",   "50",
                                       "--threads", "1",
                                       "--out",     out};
    if (std::ranges::find(more, "--slaves") != more.end()) {
      // The star uses the slaves even if they do not make a step shorter.
      arguments.insert(arguments.end(), {"--exchange", "star", "--listen", endpoint_, "--insecure"});
    }
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }

  Process slave(const std::string& name, std::vector<std::string> more = {}) const {
    std::vector<std::string> command{kSlave, endpoint_, "--insecure", "--name", name, "--threads", "1"};
    command.insert(command.end(), more.begin(), more.end());
    return Process(command);
  }

  std::string folder(const std::string& name) const { return scratch_.path() + "/" + name; }

  TemporaryFolder scratch_;
  std::string endpoint_ = free_endpoint();
};

}  // namespace convoy
