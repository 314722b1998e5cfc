// Tests the images that a slave keeps: what is found again, what is dropped, and files that are damaged.

#include "slave/image_store.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <optional>

#include "tests/support/process.hpp"

namespace convoy {
namespace {

namespace fs = std::filesystem;

using Image = std::vector<std::uint8_t>;

/// What an image of 1000 pixels takes in memory.
constexpr std::size_t kInMemory = 1256;
constexpr std::size_t kOfFile = 8 + 20 + 1000;

class ImageStores : public testing::Test {
 protected:
  static Image image(std::uint8_t value, std::size_t size = 1000) { return Image(size, value); }
  static wire::Content content(const Image& image) { return wire::content_of(std::span(image)); }
  static void keep(ImageStore& store, const Image& image) { store.keep(content(image), image); }
  static bool has(ImageStore& store, const Image& wanted) {
    Image found(wanted.size());
    if (!store.find(content(wanted), found)) return false;
    EXPECT_EQ(found, wanted);
    return true;
  }
  fs::path folder() const { return folder_.path(); }
  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& each : fs::directory_iterator(folder())) all.push_back(each.path());
    return all;
  }
  /// Writes the image to a file of its own, and changes a byte of the file.
  void damage(std::size_t at) const {
    {
      ImageStore store(folder(), kLarge);
      keep(store, image(1));
    }
    ASSERT_EQ(files().size(), 1U);
    std::fstream file(files()[0], std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int byte = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(byte ^ 0x40));
  }

  static constexpr ImageStore::Limits kLarge{.memory = 1U << 20, .disk = 1U << 20};

 private:
  TemporaryFolder folder_;
};

TEST_F(ImageStores, FindWhatTheyWereGiven) {
  ImageStore store("", kLarge);
  EXPECT_FALSE(has(store, image(1)));
  keep(store, image(1));
  keep(store, image(2, 7));
  keep(store, image(1));
  EXPECT_TRUE(has(store, image(1)));
  EXPECT_TRUE(has(store, image(2, 7)));
  Image other(999);
  EXPECT_FALSE(store.find(content(image(1)), other)) << "an image of another size is wanted under the same hash";
}

TEST_F(ImageStores, WithoutMemoryKeepNothing) {
  ImageStore store(folder(), {});
  EXPECT_FALSE(store.keeps_any());
  keep(store, image(1));
  store.save();
  EXPECT_FALSE(has(store, image(1)));
  EXPECT_TRUE(files().empty());
}

TEST_F(ImageStores, DropTheImageThatWasNotUsedForLongest) {
  ImageStore store("", {.memory = 2 * kInMemory});
  keep(store, image(1));
  keep(store, image(2));
  EXPECT_TRUE(has(store, image(1)));
  keep(store, image(3));
  EXPECT_TRUE(has(store, image(1)));
  EXPECT_FALSE(has(store, image(2)));
  EXPECT_TRUE(has(store, image(3)));
  keep(store, image(4, 3 * kInMemory));
  EXPECT_FALSE(has(store, image(4, 3 * kInMemory))) << "the image is larger than the limit";
}

TEST_F(ImageStores, FindOnDiskWhatAnEarlierProgramKept) {
  {
    ImageStore store(folder() / "new", kLarge);
    keep(store, image(1));
    keep(store, image(2, 7));
    store.save();
    keep(store, image(3));
  }
  ImageStore store(folder() / "new", kLarge);
  for (int i = 0; i < 2; ++i) {  // from the disk, then from memory
    EXPECT_TRUE(has(store, image(1)));
    EXPECT_TRUE(has(store, image(2, 7)));
    EXPECT_TRUE(has(store, image(3)));
  }
  EXPECT_FALSE(has(store, image(4)));
}

TEST_F(ImageStores, FindOnDiskWhatMemoryHasNoRoomFor) {
  ImageStore store(folder(), {.memory = kInMemory, .disk = 1U << 20});
  for (std::uint8_t i = 0; i < 5; ++i) keep(store, image(i));
  store.save();
  for (std::uint8_t i = 0; i < 5; ++i) EXPECT_TRUE(has(store, image(i))) << static_cast<int>(i);
}

TEST_F(ImageStores, MissAnImageWhosePixelsAreDamagedAndRemoveTheFile) {
  damage(kOfFile - 1);
  ImageStore store(folder(), kLarge);
  EXPECT_FALSE(has(store, image(1)));
  EXPECT_TRUE(files().empty());
  keep(store, image(1));  // as the master sends it again
  EXPECT_TRUE(has(store, image(1)));
  store.save();
  EXPECT_EQ(files().size(), 1U);
}

TEST_F(ImageStores, TakeNoFileWhoseTableIsDamaged) {
  for (const std::size_t at : {0U, 3U, 4U, 5U, 7U, 24U, 26U, 27U}) {
    damage(at);
    const ImageStore store(folder(), kLarge);
    EXPECT_TRUE(files().empty()) << "byte " << at;
  }
}

TEST_F(ImageStores, MissAnImageWhoseHashIsDamaged) {
  damage(8);
  ImageStore store(folder(), kLarge);
  EXPECT_FALSE(has(store, image(1)));
  Image pixels(1000);
  wire::Content other = content(image(1));
  other.high ^= 0x40U;
  EXPECT_FALSE(store.find(other, pixels));
  EXPECT_TRUE(files().empty());
}

TEST_F(ImageStores, TakeNoFileOfAnotherLength) {
  for (const std::uintmax_t size : {std::uintmax_t{0}, std::uintmax_t{7}, std::uintmax_t{20}, std::uintmax_t{500}}) {
    damage(100);
    fs::resize_file(files()[0], size);
    const ImageStore store(folder(), kLarge);
    EXPECT_TRUE(files().empty()) << size;
  }
}

TEST_F(ImageStores, MissImagesWhoseFileIsGone) {
  damage(100);
  ImageStore store(folder(), kLarge);
  fs::remove(files()[0]);
  EXPECT_FALSE(has(store, image(1)));
}

TEST_F(ImageStores, KeepTheFolderSmall) {
  ImageStore store(folder(), {.memory = kInMemory, .disk = 2 * kOfFile});
  const auto keep_in_file = [&](std::uint8_t value) {
    keep(store, image(value));
    store.save();
    for (const fs::path& each : files()) {
      fs::last_write_time(each, fs::last_write_time(each) - std::chrono::hours(1));
    }
  };
  keep_in_file(1);
  keep_in_file(2);
  EXPECT_EQ(files().size(), 2U);
  EXPECT_TRUE(has(store, image(1))) << "this is the latest use of the image";
  keep_in_file(3);
  EXPECT_EQ(files().size(), 2U);
  EXPECT_TRUE(has(store, image(1)));
  EXPECT_FALSE(has(store, image(2)));
  EXPECT_TRUE(has(store, image(3)));
  keep(store, image(4, 3 * kOfFile));
  store.save();
  EXPECT_EQ(files().size(), 2U) << "an image that is larger than the limit is in no file";
}

TEST_F(ImageStores, RemoveWhatAKilledProgramLeft) {
  std::ofstream(folder() / "0123.77") << "half of a file";
  std::ofstream(folder() / "4567.78") << "a file that another slave writes now";
  fs::last_write_time(folder() / "0123.77", fs::file_time_type::clock::now() - std::chrono::hours(2));
  const ImageStore store(folder(), kLarge);
  EXPECT_EQ(files(), std::vector<fs::path>{folder() / "4567.78"});
}

TEST_F(ImageStores, DoWithoutAFolderThatCannotBe) {
  const fs::path file = folder() / "file";
  std::ofstream(file) << "no folder";
  ImageStore store(file / "in-it", kLarge);
  keep(store, image(1));
  store.save();
  EXPECT_TRUE(has(store, image(1))) << "the image is still in memory";
}

}  // namespace
}  // namespace convoy
