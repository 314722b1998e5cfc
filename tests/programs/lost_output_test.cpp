// Programs whose output nobody reads, and programs that may have little memory.

#include <gmock/gmock.h>

#include <filesystem>

#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class LostOutput : public Programs {
 protected:
  /// Runs a command of the shell, in which $MASTER, $SLAVE and $BENCH are the programs and $OUT a folder. The OpenCL
  /// driver would compile kernels for a minute.
  Process shell(const std::string& command) const {
    return Process({"/usr/bin/env", "CONVOY_OPENCL_LIBRARY=none", "MASTER=" + kMaster, "SLAVE=" + kSlave,
                    "BENCH=" + kBench, "NETS=" + kSource + "/nets", "OUT=" + scratch_.path(), "bash", "-c", command});
  }
  std::string errors() const { return file_bytes(folder("errors")); }
};

constexpr const char* kTrain =
    "$MASTER train $NETS/glyphs.yaml --set conv1.filters=6 --set conv2.filters=9 --batch 50 "
    "--threads 1 --steps 40 --out $OUT/run 2> $OUT/errors ";

TEST_F(LostOutput, DoesNotEndTraining) {
  for (const std::string format : {"json", "text"}) {
    for (const std::string reader : {"| head -1", "| true", "> /dev/full", ">&-"}) {
      Process train = shell(kTrain + ("--format " + format) + " " + reader + "; exit ${PIPESTATUS[0]}");
      ASSERT_EQ(train.wait(100s), kSuccess) << format << " " << reader << ": " << errors() << train.output();
      EXPECT_THAT(file_bytes(folder("run") + "/events.jsonl"), HasSubstr("\"how\":\"stopped\",\"step\":40"))
          << format << " " << reader;
      if (reader == "> /dev/full") {
        EXPECT_THAT(errors(), HasSubstr("training goes on")) << format;
      }
      std::filesystem::remove_all(folder("run"));
    }
  }
}

/// The reader of the errors may end as well.
TEST_F(LostOutput, AndLostErrorsDoNotEndTraining) {
  Process train = shell(
      "$MASTER train $NETS/glyphs.yaml --steps 40 --format json --out $OUT/run 2>&1 | head -1; exit "
      "${PIPESTATUS[0]}");
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_THAT(file_bytes(folder("run") + "/events.jsonl"), HasSubstr("\"how\":\"stopped\",\"step\":40"));
}

TEST_F(LostOutput, IsAnErrorWhereItIsTheResult) {
  for (const std::string command : {"$MASTER plan $NETS/glyphs.yaml", "$MASTER --help", "$MASTER train --help",
                                    "$MASTER key --make --keys $OUT/keys", "$SLAVE --version", "$SLAVE --list-devices",
                                    "$BENCH simulate --help", "$BENCH profile --net $NETS/glyphs.yaml --repeats 1"}) {
    Process full = shell(command + " > /dev/full 2> $OUT/errors");
    EXPECT_EQ(full.wait(100s), kFailure) << command << ": " << errors();
    EXPECT_THAT(errors(), HasSubstr("standard output could not be written to its end")) << command;
  }
  // The reader has ended before the first line comes.
  Process piped = shell("(sleep 0.5; $MASTER plan $NETS/glyphs.yaml 2> $OUT/errors) | true; exit ${PIPESTATUS[0]}");
  EXPECT_EQ(piped.wait(60s), kFailure) << errors();
  EXPECT_THAT(errors(), HasSubstr("standard output could not be written to its end"));
}

TEST_F(LostOutput, DoesNotEndASlave) {
  Process slave = shell("$SLAVE " + endpoint_ + " --insecure --once --name a --threads 1 2> $OUT/errors > /dev/full");
  Process train = master(training(folder("run"), {"--slaves", "1", "--steps", "5"}));
  ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
  EXPECT_EQ(slave.wait(30s), kSuccess) << errors();
  EXPECT_THAT(errors(), HasSubstr("convoy-slave goes on computing without it"));
}

/// The loader itself refuses a very low limit, with its own words and code 127. A little above that, constructors of
/// libraries fail before the program begins.
TEST_F(LostOutput, LittleMemoryIsAnErrorAndNoCrash) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the sanitizers need the address space themselves";
#endif
  for (const std::string command :
       {"$MASTER key --make --keys $OUT/keys", "$MASTER train $NETS/glyphs.yaml --steps 1 --out $OUT/run",
        "$SLAVE tcp://127.0.0.1:1 --insecure --once --name a", "$BENCH simulate"}) {
    for (const int kilobytes : {30000, 50000, 90000, 120000, 400000, 1000000}) {
      Process limited = shell(
          fmt::format("ulimit -c 0; ulimit -v {}; timeout 5 {} > $OUT/output 2> $OUT/errors", kilobytes, command));
      const int code = limited.wait(100s);
      EXPECT_THAT(code, testing::AnyOf(kFailure, 127))
          << command << " ended with " << code << " under " << kilobytes << " kB: " << errors();
      if (code == kFailure) {
        EXPECT_THAT(errors(), HasSubstr("raise the limit with `ulimit -v unlimited`"));
      }
    }
  }
}

}  // namespace
}  // namespace convoy
