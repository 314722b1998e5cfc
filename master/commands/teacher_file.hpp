// The file in a run's folder that keeps what teachers say of all training images, so that a resumed run need not
// compute it again.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "data/dataset.hpp"

namespace convoy {

/// Returns a text that other images, another order of them or another shape change. Photographs are known by the bytes
/// of their files. Throws Error naming a file that cannot be read.
std::string identity_of(const ImageSet& images);

/// Probabilities (image, class) with the text of all that they depend on.
class TeacherFile {
 public:
  /// `identity` is kept as a hash.
  TeacherFile(std::string file, const std::string& identity, long images, int classes);

  struct Found {
    std::optional<std::vector<float>> probabilities;
    std::string why;  ///< if there is a file that cannot serve, why, for people; otherwise empty
  };
  /// Reads the file. A file that is damaged, or was written for other teachers or images, has no probabilities.
  Found read() const;
  /// Writes the file. Throws Error.
  void write(const std::vector<float>& probabilities) const;
  const std::string& name() const { return file_; }

 private:
  std::string file_;
  std::string identity_;
  std::vector<std::int64_t> dims_;
};

}  // namespace convoy
