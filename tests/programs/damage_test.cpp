// Damages the last checkpoint of a run in ways drawn from a seed. The program must not crash, must not take the damaged
// file, must say that it goes on from the checkpoint before it, and must come to the bits of the undisturbed run.
//
// CONVOY_DAMAGES is the number of damages (by default 18 that the program reads, and 500 that the reader of checkpoints
// reads in this process), and CONVOY_DAMAGE_SEED (default 1) the seed.

#include <gmock/gmock.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "core/random.hpp"
#include "model/checkpoint.hpp"
#include "tests/programs/programs.hpp"

namespace convoy {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
namespace fs = std::filesystem;

int number_from(const char* variable, int otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::atoi(text);
}

void write_bytes(const std::string& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

/// The parts of a file: its length field, its header and its values.
struct Parts {
  explicit Parts(const std::string& bytes) {
    std::uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    header = bytes.substr(sizeof length, length);
    values = bytes.substr(sizeof length + length);
  }
  std::string whole() const {
    const std::uint64_t length = header.size();
    std::string bytes(sizeof length, '\0');
    std::memcpy(bytes.data(), &length, sizeof length);
    return bytes + header + values;
  }
  std::string header;
  std::string values;
};

void replace(const std::string& from, const std::string& to, std::string& text) {
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
}

/// Damages the bytes of a checkpoint. Each kind of damage comes in turn; its place is drawn.
class Damage {
 public:
  Damage(std::string sound, std::string of_another_run, std::string weights, std::uint64_t seed)
      : sound_(std::move(sound)),
        other_run_(std::move(of_another_run)),
        weights_(std::move(weights)),
        header_end_(8 + Parts(sound_).header.size()),
        random_(seed, 1) {}

  struct Kind {
    const char* name;
    std::string (Damage::*make)();
  };
  static constexpr std::size_t kKinds = 18;
  static const std::array<Kind, kKinds>& kinds() {
    static const std::array<Kind, kKinds> table{{{"a bit of the length", &Damage::flip_in_length},
                                                 {"a bit of the header", &Damage::flip_in_header},
                                                 {"a bit of the values", &Damage::flip_in_values},
                                                 {"a zeroed block", &Damage::zero_block},
                                                 {"a block of noise", &Damage::noise},
                                                 {"cut off", &Damage::cut_off},
                                                 {"longer", &Damage::longer},
                                                 {"empty", &Damage::empty},
                                                 {"twice in one file", &Damage::twice},
                                                 {"a number of the metadata", &Damage::other_number},
                                                 {"a position beyond the run", &Damage::beyond},
                                                 {"another position in the run", &Damage::other_position},
                                                 {"a letter of the fingerprint", &Damage::other_fingerprint},
                                                 {"names of tensors swapped", &Damage::swap_names},
                                                 {"values of tensors swapped", &Damage::swap_values},
                                                 {"no checksums", &Damage::no_checksums},
                                                 {"of another run", &Damage::of_another_run},
                                                 {"weights in its place", &Damage::weights}}};
    return table;
  }

 private:
  std::size_t below(std::size_t count) { return random_.below(static_cast<std::uint32_t>(count)); }

  std::string flip(std::size_t first, std::size_t end) {
    std::string bytes = sound_;
    char& byte = bytes[first + below(end - first)];
    byte = static_cast<char>(static_cast<unsigned char>(byte) ^ (1U << below(8)));
    return bytes;
  }
  std::string flip_in_length() { return flip(0, 8); }
  std::string flip_in_header() { return flip(8, header_end_); }
  std::string flip_in_values() { return flip(header_end_, sound_.size()); }

  template <class Byte>
  std::string overwrite(const Byte& byte) {
    std::string bytes = sound_;
    while (bytes == sound_) {
      const std::size_t size = 1 + below(4096);
      const std::size_t first = below(bytes.size() - size);
      for (std::size_t i = 0; i < size; ++i) bytes[first + i] = byte();
    }
    return bytes;
  }
  std::string zero_block() {
    return overwrite([] { return '\0'; });
  }
  std::string noise() {
    return overwrite([this] { return static_cast<char>(below(256)); });
  }
  std::string cut_off() { return sound_.substr(0, below(sound_.size())); }
  std::string longer() { return sound_ + std::string(1 + below(100), static_cast<char>(below(256))); }
  std::string empty() { return ""; }
  std::string twice() { return sound_ + sound_; }

  /// With a header of another length, as if written so.
  std::string with_header(const std::string& from, const std::string& to) {
    Parts parts(sound_);
    replace(from, to, parts.header);
    return parts.whole();
  }
  std::string other_number() {
    static constexpr std::array kNumbers{"epoch",  "batch",   "epoch_loss", "epoch_correct",
                                         "epochs", "batches", "images"};
    const std::string key = std::string("\"") + kNumbers[below(kNumbers.size())] + "\":\"";
    Parts parts(sound_);
    const std::size_t at = parts.header.find(key) + key.size();
    parts.header[at] = static_cast<char>(parts.header[at] == '9' ? '0' : parts.header[at] + 1);
    return parts.whole();
  }
  std::string beyond() { return with_header("\"batch\":\"31\"", fmt::format("\"batch\":\"{}\"", 1110 + below(1000))); }
  std::string other_position() { return with_header("\"batch\":\"31\"", fmt::format("\"batch\":\"{}\"", below(31))); }
  std::string other_fingerprint() { return with_header("seed: 1", fmt::format("seed: {}", 2 + below(8))); }
  std::string swap_names() {
    Parts parts(sound_);
    replace("\"conv1.weight\"", "\"conv0.weight\"", parts.header);
    replace("\"conv2.weight\"", "\"conv1.weight\"", parts.header);
    replace("\"conv0.weight\"", "\"conv2.weight\"", parts.header);
    return parts.whole();
  }
  /// Exchanges two pieces of the values, as when a tensor is read from the place of another.
  std::string swap_values() {
    std::string bytes = sound_;
    while (bytes == sound_) {
      const std::size_t size = 4 * (1 + below(64));
      const std::size_t most = (bytes.size() - header_end_ - size) / 4;
      const std::size_t one = header_end_ + 4 * below(most);
      const std::size_t two = header_end_ + 4 * below(most);
      if (one + size > two) continue;
      std::swap_ranges(&bytes[one], &bytes[one] + size, &bytes[two]);
    }
    return bytes;
  }
  std::string no_checksums() {
    Parts parts(sound_);
    // They are the last entries of the metadata.
    for (std::size_t at = 0; (at = parts.header.find(",\"xxh3_64", at)) != std::string::npos;) {
      parts.header.erase(at, parts.header.find_first_of(",}", at + 1) - at);
    }
    return parts.whole();
  }
  std::string of_another_run() { return other_run_; }
  std::string weights() { return weights_; }

  std::string sound_;
  std::string other_run_;
  std::string weights_;
  std::size_t header_end_;
  Random random_;
};

class Damages : public Programs {
 protected:
  std::string checkpoint(const std::string& run) const { return folder(run) + "/checkpoint.safetensors"; }

  /// A run with a checkpoint after step 31, and the one before it after step 30.
  void make_run(const std::string& run, const std::string& seed) {
    Process train = master(training(folder(run), {"--steps", "30", "--seed", seed}));
    ASSERT_EQ(train.wait(100s), kSuccess) << train.output();
    Process rest = master({"train", "--resume", folder(run), "--steps", "31"});
    ASSERT_EQ(rest.wait(100s), kSuccess) << rest.output();
  }

  /// The run goes on from the checkpoint before the damaged one to the bits of the undisturbed run.
  void expect_the_one_before(const std::string& what) {
    const std::string aside = folder("damaged") + "/checkpoint-damaged-1.safetensors";
    Process train = master({"train", "--resume", folder("damaged"), "--steps", "31"});
    ASSERT_EQ(train.wait(100s), kSuccess) << what << ": " << train.output();
    EXPECT_THAT(train.output(), HasSubstr("checkpoint.safetensors")) << what;
    EXPECT_THAT(train.output(), HasSubstr("the run goes on from the checkpoint before it")) << what;
    EXPECT_THAT(train.output(), HasSubstr("after step 30")) << what;
    EXPECT_EQ(file_bytes(folder("damaged") + "/weights.safetensors"),
              file_bytes(folder("run") + "/weights.safetensors"))
        << what << ": " << train.output();
    EXPECT_TRUE(fs::exists(aside)) << what;
  }

  void begin_anew() {
    fs::remove_all(folder("damaged"));
    fs::copy(folder("run"), folder("damaged"), fs::copy_options::recursive);
  }
};

TEST_F(Damages, OfTheLastCheckpointAreFoundAndTheOneBeforeServes) {
  ASSERT_NO_FATAL_FAILURE(make_run("run", "1"));
  ASSERT_NO_FATAL_FAILURE(make_run("other", "2"));
  const std::string sound = file_bytes(checkpoint("run"));
  Damage damage(sound, file_bytes(checkpoint("other")), file_bytes(folder("run") + "/weights.safetensors"),
                static_cast<std::uint64_t>(number_from("CONVOY_DAMAGE_SEED", 1)));
  const int count = number_from("CONVOY_DAMAGES", 18);
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const Damage::Kind& kind = Damage::kinds().at(static_cast<std::size_t>(i) % Damage::kKinds);
    const std::string bytes = (damage.*kind.make)();
    ASSERT_NE(bytes, sound) << kind.name;
    begin_anew();
    write_bytes(checkpoint("damaged"), bytes);
    expect_the_one_before(fmt::format("damage {}, {}", i, kind.name));
    if (HasFailure()) write_bytes(testing::TempDir() + "/damaged-checkpoint.safetensors", bytes);
  }
  fmt::print("{} damages\n", count);
}

/// The same without a process for each damage, which takes a second, so that many can be tried.
TEST_F(Damages, AreFoundByTheReader) {
  ASSERT_NO_FATAL_FAILURE(make_run("run", "1"));
  ASSERT_NO_FATAL_FAILURE(make_run("other", "2"));
  const Cut cut = convoy::cut(read_net(folder("run") + "/config.yaml"));
  std::string notice;
  RunIdentity run;
  read_checkpoint(folder("run"), cut, notice, [&](const RunIdentity& of) { run = of; });
  ASSERT_EQ(notice, "");
  const std::string sound = file_bytes(checkpoint("run"));
  Damage damage(sound, file_bytes(checkpoint("other")), file_bytes(folder("run") + "/weights.safetensors"),
                static_cast<std::uint64_t>(number_from("CONVOY_DAMAGE_SEED", 1)));
  const int count = number_from("CONVOY_DAMAGES", 500);
  begin_anew();
  for (int i = 0; i < count && !HasFailure(); ++i) {
    const Damage::Kind& kind = Damage::kinds().at(static_cast<std::size_t>(i) % Damage::kKinds);
    write_bytes(checkpoint("damaged"), (damage.*kind.make)());
    const TrainingState read = read_checkpoint(folder("damaged"), cut, notice, [&](const RunIdentity& of) {
      if (of.fingerprint != run.fingerprint) fail("of another run");
    });
    EXPECT_EQ(steps_of(read.progress, run.length), 30) << "damage " << i << ", " << kind.name;
    EXPECT_THAT(notice, HasSubstr("/checkpoint.safetensors")) << kind.name;
    fs::remove(folder("damaged") + "/checkpoint-damaged-1.safetensors");
  }
  fmt::print("{} damages\n", count);
}

TEST_F(Damages, AFolderInThePlaceOfTheCheckpointIsPassedOver) {
  ASSERT_NO_FATAL_FAILURE(make_run("run", "1"));
  begin_anew();
  fs::remove(checkpoint("damaged"));
  fs::create_directories(checkpoint("damaged") + "/inside");
  expect_the_one_before("a folder");
}

TEST_F(Damages, OfBothCheckpointsAreAnErrorThatNamesBoth) {
  ASSERT_NO_FATAL_FAILURE(make_run("run", "1"));
  write_bytes(checkpoint("run"), "short");
  write_bytes(folder("run") + "/checkpoint-previous.safetensors", "short");
  Process train = master({"train", "--resume", folder("run"), "--steps", "31"});
  EXPECT_EQ(train.wait(60s), kFailure) << train.output();
  EXPECT_THAT(train.output(), HasSubstr("/checkpoint.safetensors: 5 bytes are too few"));
  EXPECT_THAT(train.output(), HasSubstr("/checkpoint-previous.safetensors: 5 bytes are too few"));
}

}  // namespace
}  // namespace convoy
