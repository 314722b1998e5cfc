// Tests the readers of data sets on real data, drawn data and wrong files.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <functional>
#include <numeric>

#include "core/error.hpp"
#include "core/files.hpp"
#include "data/dataset.hpp"
#include "tests/support/files.hpp"
#include "tests/support/process.hpp"
#include "tests/support/source_folder.hpp"

namespace convoy {
namespace {

using testing::HasSubstr;

std::array<int, 10> class_counts(const ImageSet& images) {
  std::array<int, 10> counts{};
  for (const std::uint16_t label : images.labels) ++counts.at(label);
  return counts;
}

TEST(RealData, Cifar10) {
  const std::string folder = real_data("cifar-10-batches-bin");
  if (folder.empty()) GTEST_SKIP() << "CIFAR-10 is not here; set CONVOY_TEST_DATA";
  const DataSet data = open_data(folder, 1);
  EXPECT_EQ(data.training.count() % 10000, 0);
  EXPECT_EQ(data.test.count(), 10000);
  EXPECT_EQ(data.training.shape, (FeatureShape{3, 32, 32}));
  for (const int count : class_counts(data.test)) EXPECT_EQ(count, 1000);
  // The means of the colours over CIFAR-10's training set are known to be about 0.49, 0.48 and 0.45.
  const std::array<double, 3> known{0.491, 0.482, 0.447};
  for (std::size_t c = 0; c < 3; ++c) {
    double sum = 0.0;
    for (std::size_t i = c * 1024; i < data.training.pixels.size(); i += 3072) {
      sum += std::accumulate(data.training.pixels.begin() + static_cast<std::ptrdiff_t>(i),
                             data.training.pixels.begin() + static_cast<std::ptrdiff_t>(i + 1024), 0.0);
    }
    EXPECT_NEAR(sum / 255.0 / 1024.0 / data.training.count(), known.at(c), 0.005);
  }
}

TEST(RealData, Mnist) {
  const std::string folder = real_data("mnist");
  if (folder.empty()) GTEST_SKIP() << "MNIST is not here; set CONVOY_TEST_DATA";
  const DataSet data = open_data(folder, 1);
  EXPECT_EQ(data.training.count(), 60000);
  EXPECT_EQ(data.test.count(), 10000);
  EXPECT_EQ(data.training.shape, (FeatureShape{1, 28, 28}));
  EXPECT_THAT(class_counts(data.test), testing::ElementsAre(980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009));
  EXPECT_EQ(data.training.labels[0], 5);
}

// ---- files made by the tests ---------------------------------------------------------------------------------------

Bytes record(std::uint8_t label, std::uint8_t pixel) {
  Bytes bytes(3073, pixel);
  bytes[0] = label;
  return bytes;
}

Bytes idx(std::uint8_t dimensions, const std::vector<std::uint32_t>& extents, std::size_t values, std::uint8_t value) {
  Bytes bytes{0, 0, 8, dimensions};
  for (const std::uint32_t extent : extents) {
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<std::uint8_t>(extent >> shift));
  }
  bytes.insert(bytes.end(), values, value);
  return bytes;
}

void write_cifar(const std::string& folder) {
  Bytes two = record(3, 7);
  const Bytes other = record(9, 200);
  two.insert(two.end(), other.begin(), other.end());
  write_file(folder + "/data_batch_1.bin", two);
  write_file(folder + "/data_batch_2.bin", record(0, 1));
  write_file(folder + "/test_batch.bin", record(1, 2));
}

void write_mnist(const std::string& folder) {
  write_file(folder + "/train-images-idx3-ubyte", idx(3, {2, 3, 4}, 24, 8));
  write_file(folder + "/train-labels-idx1-ubyte", idx(1, {2}, 2, 9));
  write_gzip(folder + "/t10k-images-idx3-ubyte.gz", idx(3, {1, 3, 4}, 12, 5));
  write_gzip(folder + "/t10k-labels-idx1-ubyte.gz", idx(1, {1}, 1, 4));
}

/// The error of opening the folder as data, which must be one.
std::string error_of(const std::string& folder) {
  try {
    open_data(folder, 1);
  } catch (const Error& error) {
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Data, Cifar10RecordsOfAllBatchFilesInOrder) {
  const TemporaryFolder folder;
  write_cifar(folder.path());
  const DataSet data = open_data(folder.path(), 1);
  EXPECT_THAT(data.training.labels, testing::ElementsAre(3, 9, 0));
  EXPECT_EQ(data.training.pixels[0], 7);
  EXPECT_EQ(data.training.pixels[3072], 200);
  EXPECT_THAT(data.test.labels, testing::ElementsAre(1));
}

TEST(Data, Cifar10HasTheNamesOfItsClasses) {
  const TemporaryFolder folder;
  write_cifar(folder.path());
  EXPECT_TRUE(open_data(folder.path(), 1).class_names.empty());
  write_text(folder.path() + "/batches.meta.txt",
             "airplane\nautomobile\nbird\r\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n");
  const DataSet named = open_data(folder.path(), 1);
  ASSERT_EQ(named.class_names.size(), 10U);
  EXPECT_EQ(named.class_names[2], "bird");
  EXPECT_EQ(named.class_names[9], "truck");
  write_text(folder.path() + "/batches.meta.txt", "airplane\n");
  const DataSet odd = open_data(folder.path(), 1);
  EXPECT_TRUE(odd.class_names.empty());
  EXPECT_THAT(odd.notices, testing::ElementsAre(HasSubstr("names 1 classes, expected 10")));
  // A name of any length would make a config.yaml that cannot be read.
  write_text(folder.path() + "/batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\n" + std::string(1000000, 'j') + "\n");
  const DataSet endless = open_data(folder.path(), 1);
  EXPECT_TRUE(endless.class_names.empty());
  EXPECT_THAT(endless.notices, testing::ElementsAre(HasSubstr("a line of more than 256 bytes")));
}

TEST(Data, MayLieInAFolderBeneathIfItIsTheOnlyOne) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() + "/numbers");
  write_mnist(folder.path() + "/numbers");
  EXPECT_EQ(open_data(folder.path(), 1).name, "MNIST");
  std::filesystem::create_directories(folder.path() + "/cifar-10-batches-bin");
  write_cifar(folder.path() + "/cifar-10-batches-bin");
  EXPECT_THAT(error_of(folder.path()),
              HasSubstr("it holds 2 data sets: cifar-10-batches-bin, numbers; give one of them"));
}

TEST(Data, MnistPlainAndGzipped) {
  const TemporaryFolder folder;
  write_mnist(folder.path());
  const DataSet data = open_data(folder.path(), 1);
  EXPECT_EQ(data.training.shape, (FeatureShape{1, 3, 4}));
  EXPECT_THAT(data.training.labels, testing::ElementsAre(9, 9));
  EXPECT_THAT(data.test.labels, testing::ElementsAre(4));
  EXPECT_EQ(data.test.pixels, Bytes(12, 5));
}

struct BadData {
  std::string name;
  void (*make)(const std::string& folder);  ///< damages a valid data set in the folder
  std::vector<std::string> says;
};

void PrintTo(const BadData& bad, std::ostream* out) { *out << bad.name; }

void cut(const std::string& file, std::size_t bytes) {
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - bytes);
}

void change(const std::string& file, std::size_t at, std::uint8_t value) {
  Bytes bytes = read_file(file);
  bytes.at(at) = value;
  write_file(file, bytes);
}

const std::vector<BadData>& bad_cifar() {
  static const std::vector<BadData> cases{
      {"CutOff",
       [](const std::string& f) { cut(f + "/data_batch_2.bin", 1); },
       {"data_batch_2.bin", "bytes are not a whole number of records"}},
      {"Empty", [](const std::string& f) { write_file(f + "/data_batch_1.bin", {}); }, {"data_batch_1.bin", "0 bytes"}},
      {"Label",
       [](const std::string& f) { change(f + "/data_batch_1.bin", 3073, 10); },
       {"data_batch_1.bin", "record 1 has label 10", "0 to 9"}},
      {"TestLabel",
       [](const std::string& f) { change(f + "/test_batch.bin", 0, 255); },
       {"test_batch.bin", "record 0 has label 255"}},
      {"NoTestBatch",
       [](const std::string& f) { std::filesystem::remove(f + "/test_batch.bin"); },
       {"test_batch.bin", "missing"}},
      {"AFolderInstead",
       [](const std::string& f) {
         std::filesystem::remove(f + "/test_batch.bin");
         std::filesystem::create_directory(f + "/test_batch.bin");
       },
       {"test_batch.bin", "missing"}},
  };
  return cases;
}

const std::vector<BadData>& bad_mnist() {
  static const std::vector<BadData> cases{
      {"Magic",
       [](const std::string& f) { change(f + "/train-images-idx3-ubyte", 3, 1); },
       {"train-images-idx3-ubyte", "0x00000801", "0x00000803"}},
      {"LabelMagic",
       [](const std::string& f) { change(f + "/train-labels-idx1-ubyte", 0, 1); },
       {"train-labels-idx1-ubyte", "magic number"}},
      {"NoBytes",
       [](const std::string& f) { write_file(f + "/train-labels-idx1-ubyte", {}); },
       {"train-labels-idx1-ubyte", "magic number"}},
      {"HeaderCutOff",
       [](const std::string& f) {
         write_file(f + "/train-images-idx3-ubyte", {0, 0, 8, 3, 0, 0});
       },
       {"train-images-idx3-ubyte", "cut off in its header"}},
      {"CutOff",
       [](const std::string& f) { cut(f + "/train-images-idx3-ubyte", 5); },
       {"train-images-idx3-ubyte", "announces 24 bytes, but 19 follow"}},
      {"TooLong",
       [](const std::string& f) { write_file(f + "/train-labels-idx1-ubyte", idx(1, {2}, 3, 0)); },
       {"train-labels-idx1-ubyte", "announces 2 bytes, but 3 follow"}},
      {"NoRows",
       [](const std::string& f) {
         write_file(f + "/train-images-idx3-ubyte", idx(3, {2, 0, 4}, 0, 0));
       },
       {"train-images-idx3-ubyte", "extent 1 is 0"}},
      {"HugeExtents",
       [](const std::string& f) {
         write_file(f + "/train-images-idx3-ubyte", idx(3, {1U << 30, 1U << 30, 1U << 30}, 9, 0));
       },
       {"train-images-idx3-ubyte", "cut off or damaged"}},
      {"OtherCount",
       [](const std::string& f) { write_file(f + "/train-labels-idx1-ubyte", idx(1, {3}, 3, 0)); },
       {"3 labels", "2 images", "do not belong together"}},
      {"Label",
       [](const std::string& f) { change(f + "/train-labels-idx1-ubyte", 9, 17); },
       {"train-labels-idx1-ubyte", "label 1 is 17"}},
      {"NoLabels",
       [](const std::string& f) { std::filesystem::remove(f + "/t10k-labels-idx1-ubyte.gz"); },
       {"t10k-labels-idx1-ubyte", "lacks"}},
      {"GzipCutOff",
       [](const std::string& f) { cut(f + "/t10k-images-idx3-ubyte.gz", 9); },
       {"t10k-images-idx3-ubyte.gz", "damaged or cut off"}},
      {"GzipDamaged",
       [](const std::string& f) { change(f + "/t10k-images-idx3-ubyte.gz", 12, 0xFF); },
       {"t10k-images-idx3-ubyte.gz"}},
      {"OtherSize",
       [](const std::string& f) {
         write_gzip(f + "/t10k-images-idx3-ubyte.gz", idx(3, {1, 4, 4}, 16, 0));
       },
       {"training and test images differ"}},
  };
  return cases;
}

class BadCifar : public testing::TestWithParam<BadData> {};
TEST_P(BadCifar, IsRefused) {
  const TemporaryFolder folder;
  write_cifar(folder.path());
  GetParam().make(folder.path());
  for (const std::string& text : GetParam().says) EXPECT_THAT(error_of(folder.path()), HasSubstr(text));
}
INSTANTIATE_TEST_SUITE_P(Table, BadCifar, testing::ValuesIn(bad_cifar()),
                         [](const auto& each) { return each.param.name; });

class BadMnist : public testing::TestWithParam<BadData> {};
TEST_P(BadMnist, IsRefused) {
  const TemporaryFolder folder;
  write_mnist(folder.path());
  GetParam().make(folder.path());
  for (const std::string& text : GetParam().says) EXPECT_THAT(error_of(folder.path()), HasSubstr(text));
}
INSTANTIATE_TEST_SUITE_P(Table, BadMnist, testing::ValuesIn(bad_mnist()),
                         [](const auto& each) { return each.param.name; });

TEST(Data, PlacesWithoutData) {
  const TemporaryFolder folder;
  EXPECT_THAT(error_of(folder.path()), HasSubstr("the folder has no data set"));
  EXPECT_THAT(error_of(folder.path() + "/nowhere"), HasSubstr("no such folder"));
  std::ofstream(folder.path() + "/file") << "images";
  EXPECT_THAT(error_of(folder.path() + "/file"), HasSubstr("it is a file"));
}

// ---- fitting a net -------------------------------------------------------------------------------------------------

TEST(Data, MustFitTheNet) {
  const DataSet glyphs = draw_glyphs(1, 10, 10);
  const auto net = [&](int rows, const std::string& units) {
    return parse_net("name: n\ninput: {channels: 1, height: " + std::to_string(rows) +
                         ", width: 28}\nlayers:\n  - {name: d, type: dense, units: " + units +
                         "}\n  - {name: loss, type: softmax_cross_entropy}\n",
                     "n.yaml");
  };
  EXPECT_NO_THROW(require_fits(glyphs, net(28, "10")));
  try {
    require_fits(glyphs, net(27, "10"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("1x27x28"));
  }
  const DataSet cats{
      .name = "pets", .classes = 1, .class_names = {"cats"}, .training = {{1, 28, 28}, {}, {}}, .test = {}};
  try {
    require_fits(cats, net(28, "2"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("pets: only its folder cats has JPEG, PNG or WebP files"));
  }
  for (const std::string outputs : {"9", "11"}) {
    try {
      require_fits(glyphs, net(28, outputs));
      FAIL();
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("n.yaml:4: layer d"), HasSubstr(outputs + " outputs"),
                                               HasSubstr("10 classes"), HasSubstr("--set d.units=10")));
    }
  }
}

}  // namespace
}  // namespace convoy
