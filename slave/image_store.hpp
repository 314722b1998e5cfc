// Images that this machine has been sent, by the hash of their pixels. An image in the store need not travel again,
// whichever run needs it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "wire/contents.hpp"

namespace convoy {

/// Keeps images in memory and, if it has a folder, on disk. Beyond its limits it drops the images, and on disk the
/// files, that were not used for longest. A file holds some MiB of images: the word "CVI1" and their number, then the
/// hash and the size of each image, then their pixels, all numbers little-endian. Errors of the folder are ignored:
/// images that cannot be read are missing.
class ImageStore {
 public:
  struct Limits {
    std::size_t memory = 0;  ///< bytes; 0 for a store that keeps nothing
    std::size_t disk = 0;    ///< bytes of files
  };

  /// Reads the tables of the files in the folder. With an empty folder, images are kept in memory only.
  ImageStore(std::filesystem::path folder, const Limits& limits);
  /// Saves.
  ~ImageStore();
  ImageStore(const ImageStore&) = delete;
  ImageStore& operator=(const ImageStore&) = delete;

  bool keeps_any() const { return limits_.memory > 0; }
  /// Fills `pixels` with the image that has this hash. Returns false if the store has no such image of this size;
  /// `pixels` are then undefined. A file with an image that has another hash is damaged, and is removed.
  bool find(const wire::Content& content, std::span<std::uint8_t> pixels);
  /// Keeps an image, whose hash this is.
  void keep(const wire::Content& content, std::span<const std::uint8_t> pixels);
  /// Writes the images that came since the last call to the folder. keep() does so, too, when there are many.
  void save();

 private:
  using Pixels = std::shared_ptr<const std::vector<std::uint8_t>>;
  struct Kept {
    wire::Content content;
    Pixels pixels;
  };
  /// Where an image is on disk.
  struct Place {
    std::size_t file = 0;  ///< index into files_
    std::uint64_t at = 0;  ///< offset of the pixels in the file
    std::uint32_t size = 0;
  };
  struct File {
    std::filesystem::path path;
    bool used = false;  ///< whether its time of last use was set by this store
  };

  void remember(const wire::Content& content, Pixels pixels);
  void index(const std::filesystem::path& path);
  bool read(const wire::Content& content, std::span<std::uint8_t> pixels);
  void forget(std::size_t file);
  bool make_room(std::size_t bytes);

  std::filesystem::path folder_;
  Limits limits_;
  std::list<Kept> kept_;  ///< the most recently used first
  std::map<wire::Content, std::list<Kept>::iterator> by_content_;
  std::size_t bytes_ = 0;      ///< of kept_
  std::vector<Kept> unsaved_;  ///< images that are in no file yet
  std::size_t unsaved_bytes_ = 0;
  std::vector<File> files_;
  std::map<wire::Content, Place> on_disk_;
};

}  // namespace convoy
